"""The daily report: what became of every pipeline's batches on one day, as a page and as figures."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

from offset_ledger.config.model import Pipeline
from offset_ledger.errors import OffsetLedgerError, TransientError
from offset_ledger.ledger import staging
from offset_ledger.ledger.open import open_ledger
from offset_ledger.report.read_timeline import read_timeline
from offset_ledger.report.step import reports_folder
from offset_ledger.report.timeline_pages import CHARTED, PipelineDay, build_day, build_timeline

log = logging.getLogger(__name__)

A_DAY = 10_000  # batches of one pipeline


@dataclass(frozen=True, slots=True)
class DailyReport:
    """The page of a day, and its figures by pipeline."""

    day: date
    page: Path
    figures: dict[str, Any]


def daily_report(pipelines: Sequence[Pipeline], day: date) -> DailyReport:
    """Write ``<reports>/_daily/<day>.html`` and each pipeline's own page again. The day is in UTC.

    A pipeline whose ledger cannot be read is in the report with the reason, and the others are not kept from theirs.

    Raises:
        TransientError: no ledger could be read; worth another try.
    """
    found: list[PipelineDay] = []
    errors: list[OffsetLedgerError] = []
    for pipeline in pipelines:
        try:
            found.append(_day_of(pipeline, day))
        except OffsetLedgerError as error:
            log.warning("daily report of %s: %s", pipeline.name, error)
            errors.append(error)
            found.append(PipelineDay(pipeline.name, None, str(error)))
    if errors and len(errors) == len(found) and isinstance(errors[0], TransientError):
        raise errors[0]
    page = build_day(day, found, reports_folder())
    return DailyReport(day, page, {each.pipeline: _figures(each) for each in found})


def _day_of(pipeline: Pipeline, day: date) -> PipelineDay:
    since = datetime.combine(day, time(), UTC)
    with open_ledger(pipeline) as session:
        staging.drop_rejected(session, pipeline.name, pipeline.quality.keep_rejected_days)
        build_timeline(read_timeline(session, pipeline.name, CHARTED), reports_folder())
        return PipelineDay(
            pipeline.name, read_timeline(session, pipeline.name, A_DAY, since, since + timedelta(days=1))
        )


def _figures(each: PipelineDay) -> dict[str, Any]:
    return {"error": each.missing} if each.timeline is None else each.timeline.figures()

"""The daily report: the batches of every pipeline on one day, as a page and as metrics."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

from offset_ledger.config.model import Pipeline
from offset_ledger.errors import OffsetLedgerError, TransientError
from offset_ledger.ledger import staging
from offset_ledger.ledger.database import open_ledger
from offset_ledger.plan.topics import known_pipelines
from offset_ledger.report.step import reports_folder
from offset_ledger.report.timeline import CHARTED, PipelineDay, build_day, build_timeline, read_timeline

log = logging.getLogger(__name__)

MAX_BATCHES = 10_000  # of one pipeline on one day


@dataclass(frozen=True, slots=True)
class DailyReport:
    """The page of a day, and its metrics by pipeline."""

    day: date
    page: Path
    metrics: dict[str, Any]


def daily_report(pipelines: Sequence[Pipeline], day: date) -> DailyReport:
    """Write ``<reports>/_daily/<day>.html``, and rewrite the page of each pipeline. The day is in UTC.

    A pipeline whose ledger cannot be read is in the report with the reason, and does not affect the others.

    Raises:
        TransientError: no ledger could be read; worth another try.
    """
    days: list[PipelineDay] = []
    errors: list[OffsetLedgerError] = []
    for pipeline in pipelines:
        try:
            days += [_day_of(each, day) for each in known_pipelines(pipeline)]
        except OffsetLedgerError as error:
            log.warning("daily report of %s: %s", pipeline.name, error)
            errors.append(error)
            days.append(PipelineDay(pipeline.name, None, str(error)))
    if errors and len(errors) == len(days) and isinstance(errors[0], TransientError):
        raise errors[0]
    page = build_day(day, days, reports_folder())
    return DailyReport(
        day,
        page,
        {each.pipeline: {"error": each.missing} if each.timeline is None else each.timeline.metrics() for each in days},
    )


def _day_of(pipeline: Pipeline, day: date) -> PipelineDay:
    since = datetime.combine(day, time(), UTC)
    with open_ledger(pipeline) as session:
        staging.drop_rejected(session, pipeline.name, pipeline.quality.keep_rejected_days)
        build_timeline(read_timeline(session, pipeline.name, CHARTED), reports_folder())
        return PipelineDay(
            pipeline.name, read_timeline(session, pipeline.name, MAX_BATCHES, since, since + timedelta(days=1))
        )

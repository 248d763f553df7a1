"""Report: the pages that people read after the commit, and those of a day. Nothing here affects correctness.

Great Expectations' own pages load scripts, fonts and a logo from public hosts; the page of a batch loads nothing.
"""

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

from offset_ledger.base.failpoints import Failpoint, reach
from offset_ledger.errors import ConfigurationError, OffsetLedgerError, TransientError, one_line
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import batches, schema_boundaries, staging
from offset_ledger.postgres.ledger.database import Session, open_ledger, transaction
from offset_ledger.postgres.ledger.staging import StagingTables
from offset_ledger.steps.plan.topics import known_pipelines
from offset_ledger.steps.report import timeline
from offset_ledger.steps.report.render import pipeline_folder, render, write
from offset_ledger.steps.report.timeline import CHARTED, PipelineDay, read_timeline

log = logging.getLogger(__name__)


def reports_folder() -> Path:
    """Return the folder of the pages: ``$OFFSET_LEDGER_REPORTS``, or else ``reports`` in the state folder."""
    home = Path(os.environ.get("OFFSET_LEDGER_HOME", ".local"))
    return Path(os.environ.get("OFFSET_LEDGER_REPORTS", home / "reports")).resolve()


def report(pipeline: Pipeline, batch_id: int, session: Session | None = None) -> Path | None:
    """Write the page of the batch and that of its pipeline, and drop the staging of batches that have ended.

    Returns the page of the batch; None if it has no verdict, or if writing failed: that is logged, and does not fail
    the run, for the batch is already committed.

    Raises:
        DatabaseUnavailable: worth another try.
    """
    reach(Failpoint.BEFORE_REPORT)
    with open_ledger(pipeline, session) as session:
        with transaction(session) as cursor:
            batch = batches.read_batch(cursor, batch_id)
            refusals = staging.refused_by_code(cursor, StagingTables(batch.attempt))
            unread = staging.read_unread(cursor, batch.attempt)
            boundaries = schema_boundaries.read(cursor, batch.batch_id)
        values: dict[str, Any] | None = None
        if batch.verdict is not None:
            values = {
                "pipeline": batch.pipeline,
                "batch_id": batch.batch_id,
                "kind": batch.kind,
                "state": batch.state,
                "engine": batch.engine,
                "engine_reason": batch.engine_reason,
                "judged_at": (batch.validated_at or batch.planned_at).isoformat(timespec="seconds"),
                "ranges": [asdict(each) for each in batch.ranges],
                "refusals": refusals,
                "decisions": timeline.decisions(session, batch.batch_id),
                "unread": unread and unread.to_json(),
                "boundaries": list(map(str, boundaries)),
                "verdict": batch.verdict,
            }
        shown = read_timeline(session, pipeline.name, CHARTED)
        staging.drop_ended(session)
        staging.drop_rejected(session, pipeline.name, pipeline.quality.keep_rejected_days)
    try:
        page = build_data_docs(values, reports_folder()) if values else None
        timeline.build_timeline(shown, reports_folder())
    except Exception as error:
        log.warning(
            "batch %d is %s; only its page could not be written (%s: %s); pages go to %s (OFFSET_LEDGER_REPORTS)",
            *(batch_id, batch.state, type(error).__name__, error, reports_folder()),
            exc_info=None if isinstance(error, OSError) else error,  # a full disk is no mistake of the code
        )
        return None
    log.info("quality report of batch %d: %s", batch_id, page)
    return page


HISTORY = 200  # pages of a pipeline


def build_data_docs(values: Mapping[str, Any], folder: Path, history: int = HISTORY) -> Path:
    """The page of a batch with these values, written under ``<folder>/<pipeline>/`` next to them as JSON.

    The newest ``history`` batches keep their files; those of older ones are deleted (the ledger keeps the verdicts).
    """
    pages = pipeline_folder(folder, values["pipeline"])
    stored = write(pages / f"{values['batch_id']}.json", json.dumps(values, indent=1, allow_nan=False))
    of_batches = [path for path in pages.glob("*.json") if path.stem.isdecimal()]
    for old in sorted(of_batches, key=lambda path: int(path.stem), reverse=True)[history:]:
        old.with_suffix(".html").unlink(missing_ok=True)
        old.unlink(missing_ok=True)
    return write(stored.with_suffix(".html"), render("batch.html.jinja", **values))


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
        ConfigurationError: the folder of the pages cannot be written, or is full.
    """
    since = datetime.combine(day, time(), UTC)
    charted: list[timeline.Timeline] = []
    days: list[PipelineDay] = []
    errors: list[OffsetLedgerError] = []
    for pipeline in pipelines:
        try:
            of_file = []
            for each in known_pipelines(pipeline):
                with open_ledger(each) as session:
                    staging.drop_rejected(session, each.name, each.quality.keep_rejected_days)
                    charted.append(read_timeline(session, each.name, CHARTED))
                    of_day = read_timeline(session, each.name, MAX_BATCHES, since, since + timedelta(days=1))
                of_file.append(PipelineDay(each.name, of_day))
            days += of_file
        except OffsetLedgerError as error:
            log.warning("daily report of %s: %s", pipeline.name, error)
            errors.append(error)
            days.append(PipelineDay(pipeline.name, None, str(error)))
    if errors and len(errors) == len(days) and isinstance(errors[0], TransientError):
        raise errors[0]
    metrics = {
        each.pipeline: {"error": each.missing} if each.timeline is None else each.timeline.metrics() for each in days
    }
    try:
        for of_pipeline in charted:
            timeline.build_timeline(of_pipeline, reports_folder())
        return DailyReport(day, timeline.build_day(day, days, reports_folder()), metrics)
    except OSError as error:
        raise ConfigurationError(
            f"the report of {day} cannot be written ({one_line(error)}); pages go to {reports_folder()}: give this "
            "user the right to write there, make room, or set OFFSET_LEDGER_REPORTS to another folder"
        ) from error

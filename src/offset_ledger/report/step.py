"""Report: the pages that people read after the commit. Nothing here affects correctness."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from offset_ledger.config.model import Pipeline
from offset_ledger.failpoints import Failpoint, reach
from offset_ledger.ledger import batches, schema_boundaries, staging, unread_fields
from offset_ledger.ledger.database import Session, transaction
from offset_ledger.ledger.open import open_ledger
from offset_ledger.ledger.staging import StagingTables
from offset_ledger.model.batch import Batch
from offset_ledger.report import read_timeline
from offset_ledger.report.quality_page import BatchResults, build_data_docs
from offset_ledger.report.timeline_pages import CHARTED, build_timeline

log = logging.getLogger(__name__)


def reports_folder() -> Path:
    """Where the pages go: ``$OFFSET_LEDGER_REPORTS``, or else ``reports`` in the state folder."""
    home = Path(os.environ.get("OFFSET_LEDGER_HOME", ".local"))
    return Path(os.environ.get("OFFSET_LEDGER_REPORTS", home / "reports")).resolve()


def report(pipeline: Pipeline, batch_id: int) -> Path | None:
    """Write the page of the batch and that of its pipeline, and drop the staging of batches that have ended.

    Returns the page of the batch; None if it has no verdict, or if writing failed: that is logged, and does not fail
    the run, for the batch is already committed.

    Raises:
        DatabaseUnavailable: worth another try.
    """
    reach(Failpoint.BEFORE_REPORT)
    with open_ledger(pipeline) as session:
        with transaction(session) as cursor:
            batch = batches.read_batch(cursor, batch_id)
        results = _results(session, batch) if batch.verdict is not None else None
        timeline = read_timeline.read_timeline(session, pipeline.name, CHARTED)
        staging.drop_ended(session)
        staging.drop_rejected(session, pipeline.name, pipeline.quality.keep_rejected_days)
    try:
        page = build_data_docs(results, reports_folder()) if results is not None else None
        build_timeline(timeline, reports_folder())
    except Exception as error:
        log.warning(
            "batch %d is %s; only its page could not be written (%s: %s)",
            *(batch_id, batch.state, type(error).__name__, error),
            exc_info=error,
        )
        return None
    log.info("quality report of batch %d: %s", batch_id, page)
    return page


def _results(session: Session, batch: Batch) -> BatchResults:
    verdict = dict(batch.verdict or {})
    with transaction(session) as cursor:
        refusals = staging.refused_by_code(cursor, StagingTables(batch.attempt))
        unread = unread_fields.read(cursor, batch.attempt)
        boundaries = schema_boundaries.read(cursor, batch.batch_id)
    return BatchResults(
        pipeline=batch.pipeline,
        batch_id=batch.batch_id,
        kind=batch.kind,
        engine=batch.engine,
        engine_reason=batch.engine_reason,
        validated_at=batch.validated_at or batch.planned_at,
        verdict=verdict,
        ranges=batch.ranges,
        refusals=refusals,
        unread=unread,
        boundaries=tuple(map(str, boundaries)),
        decisions=read_timeline.decisions(session, batch.batch_id),
    )

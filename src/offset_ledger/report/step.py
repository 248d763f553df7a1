"""Report: the pages that people read after the commit. Nothing here affects correctness.

Great Expectations' own pages load scripts, fonts and a logo from public hosts; the page of a batch loads nothing.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from offset_ledger.config.model import Pipeline
from offset_ledger.failpoints import Failpoint, reach
from offset_ledger.ledger import batches, schema_boundaries, staging
from offset_ledger.ledger.database import Session, open_ledger, transaction
from offset_ledger.ledger.staging import StagingTables
from offset_ledger.model.batch import Batch
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.unread import UnreadCounts
from offset_ledger.report.render import pipeline_folder, render, write
from offset_ledger.report.timeline import CHARTED, build_timeline, decisions, read_timeline

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
        results = _results(session, batch) if batch.verdict is not None else None
        timeline = read_timeline(session, pipeline.name, CHARTED)
        staging.drop_ended(session)
        staging.drop_rejected(session, pipeline.name, pipeline.quality.keep_rejected_days)
    try:
        page = build_data_docs(results, reports_folder()) if results is not None else None
        build_timeline(timeline, reports_folder())
    except Exception as error:
        log.warning(
            "batch %d is %s; only its page could not be written (%s: %s); pages go to %s (OFFSET_LEDGER_REPORTS)",
            *(batch_id, batch.state, type(error).__name__, error, reports_folder()),
            exc_info=None if isinstance(error, OSError) else error,  # a full disk is no mistake of the code
        )
        return None
    log.info("quality report of batch %d: %s", batch_id, page)
    return page


def _results(session: Session, batch: Batch) -> BatchResults:
    verdict = dict(batch.verdict or {})
    with transaction(session) as cursor:
        refusals = staging.refused_by_code(cursor, StagingTables(batch.attempt))
        unread = staging.read_unread(cursor, batch.attempt)
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
        decisions=decisions(session, batch.batch_id),
    )


HISTORY = 200  # pages of a pipeline


@dataclass(frozen=True, slots=True)
class BatchResults:
    """The contents of the page of one batch.

    ``verdict`` is a GateVerdict as the ledger keeps it: JSON, with Great Expectations' own result. ``refusals`` counts
    the refused records by reason code, ``unread`` has the fields that nothing reads, ``boundaries`` the schemas that
    needed other columns, and ``decisions`` are what people decided about the batch, with who, at and why. ``engine``
    staged it for ``engine_reason``; both are None of a batch that an earlier release staged.
    """

    pipeline: str
    batch_id: int
    kind: str
    validated_at: datetime
    verdict: Mapping[str, Any]
    ranges: Sequence[OffsetRange] = ()
    refusals: Mapping[str, int] = field(default_factory=dict)
    decisions: Sequence[Mapping[str, str]] = ()
    unread: UnreadCounts | None = None
    boundaries: Sequence[str] = ()
    engine: str | None = None
    engine_reason: str | None = None

    def to_json(self) -> str:
        """The stored form; every page is rendered from it."""
        fields = {
            "pipeline": self.pipeline,
            "batch_id": self.batch_id,
            "kind": self.kind,
            "engine": self.engine,
            "engine_reason": self.engine_reason,
            "judged_at": self.validated_at.isoformat(timespec="seconds"),
            "ranges": [asdict(each) for each in self.ranges],
            "refusals": dict(self.refusals),
            "decisions": [dict(each) for each in self.decisions],
            "unread": self.unread and self.unread.to_json(),
            "boundaries": list(self.boundaries),
            "verdict": dict(self.verdict),
        }
        return json.dumps(fields, indent=1, allow_nan=False)


def build_data_docs(results: BatchResults, folder: Path, history: int = HISTORY) -> Path:
    """The page of this batch, written under ``<folder>/<pipeline>/`` next to its JSON.

    The newest ``history`` batches keep their files; those of older ones are deleted (the ledger keeps the verdicts).
    """
    pages = pipeline_folder(folder, results.pipeline)
    write(pages / f"{results.batch_id}.json", results.to_json())
    stored = [path for path in pages.glob("*.json") if path.stem.isdecimal()]
    for old in sorted(stored, key=lambda path: int(path.stem), reverse=True)[history:]:
        old.with_suffix(".html").unlink(missing_ok=True)
        old.unlink(missing_ok=True)
    return write(pages / f"{results.batch_id}.html", render("batch.html.jinja", **json.loads(results.to_json())))

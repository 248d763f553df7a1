"""What the ledger knows of a pipeline's quality over time."""

from __future__ import annotations

from datetime import datetime

from offset_ledger.ledger.batches import open_head
from offset_ledger.ledger.database import Cursor, Session, named_sql, rows, transaction
from offset_ledger.model.states import State
from offset_ledger.report.timeline import Freshness, JudgedBatch, Timeline


def read_timeline(
    session: Session, pipeline: str, limit: int, since: datetime | None = None, until: datetime | None = None
) -> Timeline:
    """The newest ``limit`` judged batches, of those that ended (or, still open, were judged) in ``[since, until)``."""
    with transaction(session) as cursor:
        wanted = {"pipeline": pipeline, "limit": limit, "since": since, "until": until}
        cursor.execute(named_sql("report/timeline"), wanted)
        batches = tuple(JudgedBatch(**row) for row in cursor.fetchall())
        return Timeline(pipeline, batches, _freshness(cursor, pipeline), _waiting(cursor, pipeline))


def _freshness(cursor: Cursor, pipeline: str) -> Freshness:
    cursor.execute(named_sql("report/freshness"), {"pipeline": pipeline})
    return Freshness(**cursor.one())


def _waiting(cursor: Cursor, pipeline: str) -> int | None:
    head = open_head(cursor, pipeline)
    return head.batch_id if head and head.state is State.REJECTED else None


def decisions(session: Session, batch_id: int) -> list[dict[str, str]]:
    """What people decided about the batch: what, who, when and why, oldest first."""
    found = rows(session, named_sql("report/decisions"), {"batch_id": batch_id})
    return [{**row, "at": row["at"].isoformat(timespec="seconds")} for row in found]

"""The quality of a pipeline over time, read from the ledger."""

from __future__ import annotations

from datetime import datetime

from offset_ledger.ledger.batches import open_head
from offset_ledger.ledger.database import Cursor, Session, named_sql, rows, transaction
from offset_ledger.model.states import State
from offset_ledger.report.timeline import Freshness, Timeline, ValidatedBatch


def read_timeline(
    session: Session, pipeline: str, limit: int, since: datetime | None = None, until: datetime | None = None
) -> Timeline:
    """The newest ``limit`` validated batches that ended (or, if open, were validated) in ``[since, until)``."""
    with transaction(session) as cursor:
        filters = {"pipeline": pipeline, "limit": limit, "since": since, "until": until}
        cursor.execute(named_sql("report/timeline"), filters)
        batches = tuple(ValidatedBatch(**row) for row in cursor.fetchall())
        return Timeline(pipeline, batches, _freshness(cursor, pipeline), _rejected_head(cursor, pipeline))


def _freshness(cursor: Cursor, pipeline: str) -> Freshness:
    cursor.execute(named_sql("report/freshness"), {"pipeline": pipeline})
    return Freshness(**cursor.one())


def _rejected_head(cursor: Cursor, pipeline: str) -> int | None:
    head = open_head(cursor, pipeline)
    return head.batch_id if head and head.state is State.REJECTED else None


def decisions(session: Session, batch_id: int) -> list[dict[str, str]]:
    """The decisions of people about the batch: what, who, when and why, oldest first."""
    decided = rows(session, named_sql("report/decisions"), {"batch_id": batch_id})
    return [{**row, "at": row["at"].isoformat(timespec="seconds")} for row in decided]

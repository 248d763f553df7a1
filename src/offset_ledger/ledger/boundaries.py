"""Up to where the ledger knows a log: the offsets that were stable, each with the leader epoch of that moment."""

from __future__ import annotations

from collections.abc import Sequence

from offset_ledger.core.cuts import Boundary
from offset_ledger.ledger.database import Cursor, named_sql


def planned_epochs(cursor: Cursor, batch_id: int) -> dict[int, int]:
    """Per partition the leader epoch under which the end of the planned range was stable."""
    cursor.execute("SELECT partition, leader_epoch FROM offset_ledger.batch_range WHERE batch_id = %s", [batch_id])
    return {row["partition"]: row["leader_epoch"] for row in cursor.fetchall()}


def read_boundaries(cursor: Cursor, pipeline: str, partitions: Sequence[int]) -> tuple[Boundary, ...]:
    """Every offset of these partitions up to which the ledger knows the present log: its beginning, committed ends."""
    cursor.execute(named_sql("boundaries"), {"pipeline": pipeline, "partitions": list(partitions)})
    return tuple(Boundary(*row) for row in cursor.fetchall())

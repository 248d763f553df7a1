"""What planning left in the ledger and later steps ask for: open batches to resume, and leader epochs."""

from __future__ import annotations

from collections.abc import Sequence

from offset_ledger.core.ranges import OffsetRange
from offset_ledger.core.states import Kind
from offset_ledger.ledger.batches import Batch, Origin, read_batch
from offset_ledger.ledger.database import Cursor


def open_twin(cursor: Cursor, pipeline: str, kind: Kind, ranges: Sequence[OffsetRange], origin: Origin) -> Batch | None:
    """The oldest open batch of this kind with exactly these ranges that this run, or a person without one, planned.

    The batch of another run may be at work: to take it over would fence that run.
    """
    cursor.execute(
        "SELECT batch_id FROM offset_ledger.batch WHERE pipeline = %s AND kind = %s"
        " AND dag_id IS NOT DISTINCT FROM %s AND run_id IS NOT DISTINCT FROM %s"
        " AND state NOT IN ('committed', 'abandoned') ORDER BY batch_id",
        [pipeline, kind, origin.dag_id, origin.run_id],
    )
    candidates = (read_batch(cursor, row["batch_id"]) for row in cursor.fetchall())
    return next((batch for batch in candidates if set(batch.ranges) == set(ranges)), None)


def planned_epochs(cursor: Cursor, batch_id: int) -> dict[int, int]:
    """Per partition the leader epoch under which the end of the planned range was stable."""
    cursor.execute("SELECT partition, leader_epoch FROM offset_ledger.batch_range WHERE batch_id = %s", [batch_id])
    return {row["partition"]: row["leader_epoch"] for row in cursor.fetchall()}

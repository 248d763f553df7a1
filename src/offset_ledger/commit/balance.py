"""The balance sheet of a batch and its cursors: what closes a commit, in its transaction."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from types import MappingProxyType

from offset_ledger.errors import LedgerViolation
from offset_ledger.ledger import batches, pipelines
from offset_ledger.ledger.database import Cursor, named_sql, transaction_id
from offset_ledger.ledger.staging import StagingTables
from offset_ledger.model.balance_sheet import Dispositions, MergeCounts, StagedCounts, close
from offset_ledger.model.batch import Batch, Origin
from offset_ledger.model.states import BatchKind, State


def close_sheet(
    batch: Batch, staged: Mapping[int, StagedCounts], merged: Mapping[int, MergeCounts]
) -> dict[int, Dispositions]:
    """The balance sheet of each range, of what was staged and what became of it."""
    return {
        r.partition: close(
            r, staged.get(r.partition, StagedCounts()), merged.get(r.partition, MergeCounts()), batch.gap_reason
        )
        for r in batch.ranges
    }


def commit_sheet(
    cursor: Cursor,
    batch: Batch,
    tables: StagingTables,
    sheet: Mapping[int, Dispositions],
    origin: Origin,
    added: Mapping[int, int] = MappingProxyType({}),
) -> None:
    """Close the balance sheet, move the cursors of a head batch, and mark the batch committed.

    ``added`` are the event ids that each range brought into the table.
    """
    head = batch.kind is BatchKind.HEAD
    cursors = lock_cursors(cursor, batch) if head else {}
    lines = {name: [getattr(line, name) for line in sheet.values()] for name in Dispositions.__slots__}
    # A range follows another one where its partition has a cursor.
    chain = {"follows": [p in cursors for p in sheet], "added": [added.get(p, 0) for p in sheet], "partition": [*sheet]}
    whole = {"head": head, "gap_reason": batch.gap_reason, **asdict(tables.attempt)}
    cursor.execute(named_sql("commit/close_ranges"), {**lines, **chain, **whole})
    if head:
        cursor.execute(named_sql("commit/move_cursor"), {"batch_id": batch.batch_id})
    batches.move(
        cursor,
        batch.attempt,
        State.VALIDATED,
        State.COMMITTED,
        origin,
        committed_xid=transaction_id(cursor),
        ended_at=datetime.now(UTC),
    )


def lock_cursors(cursor: Cursor, batch: Batch) -> dict[int, int]:
    """Lock the cursors and check that each range starts at its own; a partition without one is at its start offset.

    Raises:
        LedgerViolation: a range starts elsewhere.
    """
    cursors = pipelines.lock_cursors(cursor, batch.pipeline, batch.topic_id)
    for r in batch.ranges:
        if cursors.get(r.partition, r.from_offset) != r.from_offset:
            raise LedgerViolation(
                f"batch {batch.batch_id}: range {r} does not start at its cursor {cursors[r.partition]}; "
                "nothing was committed; abandon the batch"
            )
    return cursors

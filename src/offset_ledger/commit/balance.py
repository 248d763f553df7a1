"""The balance sheet of a batch and its cursors: what closes a commit, in its transaction."""

from __future__ import annotations

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
    for partition, line in sheet.items():
        chain = {"head": head, "follows": cursors.get(partition) is not None}
        _close_range(cursor, tables, partition, line, chain, batch.gap_reason, added.get(partition, 0))
    if head:
        cursor.execute(named_sql("commit/move_cursor"), {"batch_id": batch.batch_id})
    _mark(cursor, batch, origin)


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


def _close_range(
    cursor: Cursor,
    tables: StagingTables,
    partition: int,
    line: Dispositions,
    chain: Mapping[str, bool],
    gap_reason: str | None,
    added: int,
) -> None:
    place = {**asdict(tables.attempt), "partition": partition}
    counts = {**asdict(line), "added": added, "gap_reason": gap_reason if line.gap else None}
    cursor.execute(named_sql("commit/close_range"), {**counts, **place, **chain})


def _mark(cursor: Cursor, batch: Batch, origin: Origin) -> None:
    batches.move(
        cursor,
        batch.attempt,
        State.VALIDATED,
        State.COMMITTED,
        origin,
        committed_xid=transaction_id(cursor),
        ended_at=datetime.now(UTC),
    )

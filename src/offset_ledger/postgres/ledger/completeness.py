"""Checks that the staging of a batch is whole: each planned offset once in its manifest, as many rows as it says."""

from collections.abc import Mapping, Sequence

from offset_ledger.errors import IncompleteStaging, StateConflict, UnexplainedGap
from offset_ledger.model.balance_sheet import Slice, StagedCounts, by_partition, check_gap, flaws, redriven_flaws
from offset_ledger.model.batch import Batch
from offset_ledger.model.states import BatchKind
from offset_ledger.postgres.ledger import redrive, staging
from offset_ledger.postgres.ledger.database import Cursor
from offset_ledger.postgres.ledger.staging import StagingTables


def check_manifest(batch: Batch, slices: Sequence[Slice], expected: int | None, gap_reason: str | None) -> None:
    """Check that ``expected`` slices are there and are the planned offsets, each once, without an illegal gap.

    Raises:
        IncompleteStaging: slices are missing, or are other offsets than were planned.
        UnexplainedGap: offsets without a record where ``gap_reason`` is None.
    """
    if [each.number for each in slices] != list(range(expected or 0)):
        raise _incomplete(batch, f"{expected} slices were staged, the manifest has {len(slices)}")
    flaws_of = redriven_flaws if batch.kind is BatchKind.REDRIVE else flaws
    for flaw in flaws_of(batch.ranges, slices):
        raise _incomplete(batch, flaw)
    counts = by_partition(slices)
    for r in batch.ranges:
        gap = r.width - counts.get(r.partition, StagedCounts()).total
        if gap < 0:
            raise _incomplete(batch, f"{r.width - gap} records were staged for the {r.width} offsets of range {r}")
        check_gap(r, gap, gap_reason)


def sealed_counts(cursor: Cursor, batch: Batch) -> Mapping[int, StagedCounts]:
    """The counts of a sealed batch by partition, after the gate; the refusals are checked against them, not the rows.

    Raises:
        IncompleteStaging: the manifest is not complete, or the refusals are others.
        UnexplainedGap: offsets without a record on a topic without gaps.
    """
    tables = StagingTables(batch.attempt)
    slices = staging.manifest(cursor, tables)
    check_manifest(batch, slices, batch.slices_expected, batch.gap_reason)
    moved = {int(p): n for p, n in (batch.verdict or {}).get("moved", {}).items()}
    counts = {p: each.move(moved.get(p, 0)) for p, each in by_partition(slices).items()}
    if staging.count(cursor, tables, tables.refused) != {p: c.refused for p, c in counts.items() if c.refused}:
        raise _incomplete(batch, f"{tables.refused} holds other refusals than its slices say")
    if batch.kind is BatchKind.REDRIVE and (other := redrive.staged_others(cursor, tables)):
        raise _incomplete(batch, f"{other} was staged, which is none of the chosen records")
    return counts


def is_whole(cursor: Cursor, batch: Batch) -> bool:
    """Return whether all that was staged of a sealed batch still is there, as rows or as refusals."""
    tables = StagingTables(batch.attempt)
    if batch.slices_expected is None or not staging.are_there(cursor, tables):
        return False
    try:
        counts = sealed_counts(cursor, batch)
    except (IncompleteStaging, UnexplainedGap):
        return False
    return staging.count(cursor, tables, tables.rows) == {p: c.rows for p, c in counts.items() if c.rows}


def check_not_whole(cursor: Cursor, batch: Batch) -> None:
    """Refuse to give up a batch that needs no offset of the topic any more.

    Raises:
        StateConflict: all that was planned is staged.
    """
    if is_whole(cursor, batch):
        raise StateConflict(
            f"all offsets of {batch} are staged, so they are not lost; commit them with: offset-ledger ingest "
            "PIPELINE, or abandon the batch, and decide then"
        )


def _incomplete(batch: Batch, flaw: str) -> IncompleteStaging:
    return IncompleteStaging(f"{batch.attempt}: {flaw}; nothing was committed; stage the batch again")

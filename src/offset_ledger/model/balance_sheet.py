"""The manifest of an epoch, checked against the planned ranges; the balance sheet: where every offset went."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

from offset_ledger.errors import LedgerViolation, UnexplainedGap
from offset_ledger.model.ranges import OffsetRange


@dataclass(frozen=True, slots=True)
class Dispositions:
    """Offsets of one range by what became of them; each offset is counted once.

    inserted: the row of a new event id. updated: a newer state of a known one, or the same one that a replay with
    ``fill`` has written again. superseded: older than what won.
    duplicate: the same publish_at as what won, or the very record that already stood there. deleted: a delete marker.
    quarantined: refused. skipped: a tombstone that the pipeline ignores, or a loss a person approved. gap: no record.
    """

    inserted: int = 0
    updated: int = 0
    superseded: int = 0
    duplicate: int = 0
    deleted: int = 0
    quarantined: int = 0
    skipped: int = 0
    gap: int = 0

    @property
    def total(self) -> int:
        """Offsets accounted for."""
        return sum(getattr(self, f.name) for f in fields(self))

    def __add__(self, other: "Dispositions") -> "Dispositions":
        return Dispositions(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True, slots=True)
class MergeCounts:
    """The counts of the merge, and of the check of its outcome, for one partition, in rows."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    standing: int = 0  # rows of the batch that now stand in the table: merged just now, or already there
    same_state: int = 0  # lost to a row of the same publish_at
    older: int = 0  # lost to a row of a later publish_at
    added: int = 0  # event ids that were not in the table before, as rows or as markers

    @property
    def written(self) -> int:
        """Rows and markers that the merge wrote."""
        return self.inserted + self.updated + self.deleted


@dataclass(frozen=True, slots=True)
class StagedCounts:
    """The counts of staging for one range, in records."""

    rows: int = 0
    refused: int = 0
    skipped: int = 0

    @property
    def total(self) -> int:
        """Records that Kafka gave for the range."""
        return self.rows + self.refused + self.skipped

    def __add__(self, other: "StagedCounts") -> "StagedCounts":
        return StagedCounts(self.rows + other.rows, self.refused + other.refused, self.skipped + other.skipped)

    def move(self, quarantined: int) -> "StagedCounts":
        """Return the counts after the quality gate moved ``quarantined`` rows to the refusals."""
        return StagedCounts(self.rows - quarantined, self.refused + quarantined, self.skipped)


@dataclass(frozen=True, slots=True)
class Slice:
    """The records that one task staged: their records have strictly ascending offsets, from ``first`` to ``last``.

    Partition and offsets are None where it has no record.
    """

    number: int
    counts: StagedCounts
    partition: int | None = None
    first: int | None = None
    last: int | None = None

    @property
    def offsets(self) -> OffsetRange | None:
        """The range that it spans; None where it has no record."""
        if self.partition is None or self.first is None or self.last is None:
            return None
        return OffsetRange(self.partition, self.first, self.last + 1)

    def __str__(self) -> str:
        return f"slice {self.number} ({self.counts.total} records in {self.offsets})"


def by_partition(slices: Iterable[Slice]) -> dict[int, StagedCounts]:
    """The counts of all slices of each partition."""
    counts: dict[int, StagedCounts] = {}
    for each in slices:
        if each.partition is not None:
            counts[each.partition] = counts.get(each.partition, StagedCounts()) + each.counts
    return counts


def flaws(ranges: Sequence[OffsetRange], slices: Sequence[Slice]) -> Iterator[str]:
    """Yield why these slices are not records of the ranges, each at most once.

    Without a flaw, slices that have as many records as the ranges have offsets are every offset once.
    """
    planned = {r.partition: r for r in ranges}
    spans = sorted(((span, each) for each in slices if (span := each.offsets)), key=lambda pair: pair[0])
    for span, each in spans:
        r = planned.get(span.partition)
        if r is None or span.from_offset < r.from_offset or span.until_offset > r.until_offset:
            yield f"{each} lies outside of the planned range {r or 'of its partition: there is none'}"
        if each.counts.total > span.width:
            yield f"{each} has more records than offsets"
    for (before, one), (after, other) in pairwise(spans):
        if before.overlaps(after):
            yield f"{one} and {other} overlap"


def redriven_flaws(ranges: Sequence[OffsetRange], slices: Sequence[Slice]) -> Iterator[str]:
    """The flaws of a redrive, which has one slice for each range, from its first to its last offset.

    The slices after these count the offsets between the chosen records, and so lie over them.
    """
    chosen = slices[: len(ranges)]
    if [each.offsets for each in chosen] != list(ranges):
        yield f"{', '.join(map(str, chosen))} are not the chosen records of {', '.join(map(str, ranges))}"


def gap_reason(compacted: bool, transactional: bool) -> str | None:
    """Return why offsets of the topic may lack a record; None if they may not."""
    reasons = [name for name, holds in (("compaction", compacted), ("transaction", transactional)) if holds]
    return " or ".join(reasons) or None


def with_gaps(ranges: Sequence[OffsetRange], slices: Iterable[Slice]) -> list[OffsetRange]:
    """Return the ranges that have fewer records than offsets."""
    counts = by_partition(slices)
    return [r for r in ranges if counts.get(r.partition, StagedCounts()).total < r.width]


def close(offsets: OffsetRange, staged: StagedCounts, merged: MergeCounts, reason: str | None) -> Dispositions:
    """Close the balance sheet of one range.

    Raises:
        UnexplainedGap: offsets without a record where ``reason`` is None.
        LedgerViolation: the merge accounts for more or fewer rows than were staged.
    """
    if merged.standing + merged.same_state + merged.older != staged.rows:
        raise LedgerViolation(
            f"range {offsets}: {staged.rows} rows were staged, the merge accounts for "
            f"{merged.standing + merged.same_state + merged.older}; nothing was committed"
        )
    gap = offsets.width - staged.total
    if gap < 0:
        raise LedgerViolation(f"range {offsets}: {staged.total} records for {offsets.width} offsets; nothing committed")
    check_gap(offsets, gap, reason)
    return Dispositions(
        inserted=merged.inserted,
        updated=merged.updated,
        superseded=merged.older,
        duplicate=merged.same_state + merged.standing - merged.written,
        deleted=merged.deleted,
        quarantined=staged.refused,
        skipped=staged.skipped,
        gap=gap,
    )


def check_gap(offsets: OffsetRange, gap: int, reason: str | None) -> None:
    """Raise UnexplainedGap where offsets are missing and no reason makes that legal on this topic."""
    if gap and reason is None:
        raise UnexplainedGap(
            f"range {offsets}: {gap} of {offsets.width} offsets gave no record, and nothing explains it, no "
            "transaction and no compaction; set source.compacted: true if the topic was compacted earlier "
            "(cleanup.policy is without compact now); if it was not, records are lost"
        )

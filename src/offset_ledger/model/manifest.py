"""The manifest of an epoch: whether its slices are the records of the planned ranges, each offset at most once."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from offset_ledger.model.balance_sheet import StagedCounts
from offset_ledger.model.ranges import OffsetRange


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
    """Why these slices are not records of the ranges, each at most once.

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

"""Half-open offset ranges of partitions: why an offset has no record, what was committed, and how a limit cuts them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """``[from_offset, until_offset)`` of one partition; never empty.

    Raises:
        ValueError: a negative offset, or an end that is not above the start.
    """

    partition: int
    from_offset: int
    until_offset: int

    def __post_init__(self) -> None:
        if self.partition < 0 or not 0 <= self.from_offset < self.until_offset:
            raise ValueError(f"not an offset range: {self}")

    def __str__(self) -> str:
        return f"{self.partition}:[{self.from_offset}, {self.until_offset})"

    @property
    def in_words(self) -> str:
        """Return the range for people who answer a question: its first and its last offset."""
        last = self.until_offset - 1
        offsets = f"offset {last}" if self.from_offset == last else f"offsets {self.from_offset} to {last}"
        return f"partition {self.partition}, {offsets}"

    @property
    def width(self) -> int:
        """Number of offsets, which is not the number of records on a compacted or transactional topic."""
        return self.until_offset - self.from_offset

    def overlaps(self, other: "OffsetRange") -> bool:
        """Return whether the two have an offset in common."""
        return (
            self.partition == other.partition
            and self.from_offset < other.until_offset
            and other.from_offset < self.until_offset
        )


def total_width(ranges: Iterable[OffsetRange]) -> int:
    """Offsets in all ranges together."""
    return sum(r.width for r in ranges)


class GapCause(StrEnum):
    """The cause of a gap: why a reader of committed data gets no record for an offset."""

    ABORTED = "aborted transaction"
    CONTROL = "control record"
    COMPACTED = "control record or compacted away"


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets in a row that lack a record for one cause."""

    offsets: OffsetRange
    cause: GapCause

    def __str__(self) -> str:
        return f"{self.offsets}: {self.cause}"


def explain(
    offsets: OffsetRange, committed: Collection[int], uncommitted: Collection[int], compacted: bool
) -> tuple[Gap, ...]:
    """The gaps of a range, from the offsets for which readers of committed and of uncommitted data get records.

    A record that only the latter get was aborted. What neither gets is a control record, the end of a transaction; on a
    compacted topic it may also be a record that compaction removed, which cannot be told from outside.
    """
    nobody = GapCause.COMPACTED if compacted else GapCause.CONTROL
    missing = (offset for offset in range(offsets.from_offset, offsets.until_offset) if offset not in committed)
    runs: list[tuple[int, int, GapCause]] = []
    for offset in missing:
        cause = GapCause.ABORTED if offset in uncommitted else nobody
        if runs and runs[-1][1:] == (offset, cause):
            runs[-1] = (runs[-1][0], offset + 1, cause)
        else:
            runs.append((offset, offset + 1, cause))
    return tuple(Gap(OffsetRange(offsets.partition, start, end), cause) for start, end, cause in runs)


@dataclass(frozen=True, slots=True)
class Overlap:
    """A wanted range, the offsets of it that were committed before, and the batches that did."""

    wanted: OffsetRange
    committed: int
    batch_ids: tuple[int, ...]


def overlaps(wanted: Iterable[OffsetRange], committed: Sequence[tuple[int, OffsetRange]]) -> tuple[Overlap, ...]:
    """Return each wanted range with what was committed of it; an offset that several batches committed counts once."""
    parts = []
    for each in wanted:
        overlapping = [(batch_id, offsets) for batch_id, offsets in committed if offsets.overlaps(each)]
        reached, count = each.from_offset, 0
        for start, end in sorted((offsets.from_offset, offsets.until_offset) for _, offsets in overlapping):
            start, end = max(start, reached), min(end, each.until_offset)
            if end > start:
                count, reached = count + end - start, end
        parts.append(Overlap(each, count, tuple(sorted({batch_id for batch_id, _ in overlapping}))))
    return tuple(parts)


def in_parts(wanted: Sequence[OffsetRange], limit: int) -> tuple[tuple[OffsetRange, ...], ...]:
    """The ranges in parts of at most ``limit`` offsets, one after the other."""
    parts: list[tuple[OffsetRange, ...]] = []
    left = tuple(wanted)
    while left:
        parts.append(limited(left, limit))
        done = {r.partition: r.until_offset for r in parts[-1]}
        ends = [(r, done.get(r.partition, r.from_offset)) for r in left]
        left = tuple(OffsetRange(r.partition, end, r.until_offset) for r, end in ends if end < r.until_offset)
    return tuple(parts)


def within(wanted: Iterable[OffsetRange], bounds: Mapping[int, tuple[int, int]]) -> tuple[OffsetRange, ...]:
    """The part of the ranges that lies within the bounds of its partition."""
    cut = [
        (r.partition, max(r.from_offset, low), min(r.until_offset, high))
        for r in wanted
        for low, high in [bounds.get(r.partition, (0, 0))]
    ]
    return tuple(OffsetRange(*each) for each in cut if each[1] < each[2])


def limited(wanted: Sequence[OffsetRange], limit: int | None) -> tuple[OffsetRange, ...]:
    """The ranges cut to ``limit`` offsets together, each from its start and max-min fair; as they are without one."""
    if limit is None:
        return tuple(wanted)
    shares = fair_shares([r.width for r in wanted], limit)
    return tuple(
        OffsetRange(r.partition, r.from_offset, r.from_offset + share)
        for r, share in zip(wanted, shares, strict=True)
        if share
    )


def fair_shares(widths: Sequence[int], limit: int, turn: int = 0) -> tuple[int, ...]:
    """Divide ``limit`` over ``widths``, max-min fair: nobody gets more than it has, nobody small is starved.

    A remainder smaller than the number of those still wanting goes one each, beginning at place ``turn``, so that
    over several batches every partition has its turn even where the limit is below their number.
    """
    shares = [0] * len(widths)
    left = min(limit, sum(widths))
    hungry = [i for i, width in enumerate(widths) if width > 0]
    while left > 0:
        if left < len(hungry):
            first = turn % len(hungry)
            for i in (hungry[first:] + hungry[:first])[:left]:
                shares[i] += 1
            break
        each = left // len(hungry)
        for i in hungry:
            given = min(each, widths[i] - shares[i])
            shares[i] += given
            left -= given
        hungry = [i for i in hungry if shares[i] < widths[i]]
    return tuple(shares)

"""Half-open offset ranges of partitions, and why an offset of a committed range has no record."""

from collections.abc import Collection, Iterable
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

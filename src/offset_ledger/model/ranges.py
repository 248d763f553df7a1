"""Half-open offset ranges of partitions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


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
    def width(self) -> int:
        """Number of offsets, which is not the number of records on a compacted or transactional topic."""
        return self.until_offset - self.from_offset

    def overlaps(self, other: OffsetRange) -> bool:
        """Whether the two have an offset in common."""
        return (
            self.partition == other.partition
            and self.from_offset < other.until_offset
            and other.from_offset < self.until_offset
        )


def total_width(ranges: Iterable[OffsetRange]) -> int:
    """Offsets in all ranges together."""
    return sum(r.width for r in ranges)

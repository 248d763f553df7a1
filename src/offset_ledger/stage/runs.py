"""How the ranges of a batch are shared among those who stage it without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import ceil

from offset_ledger.model.ranges import OffsetRange, total_width

NumberedSlice = tuple[int, OffsetRange]
Run = tuple[NumberedSlice, ...]
"""Slices of one partition, each of which begins where the one before ends: one consumer reads on."""


def runs_of(ranges: Sequence[OffsetRange], workers: int, records_per_slice: int) -> list[Run]:
    """All slices of the ranges, with their numbers, in at least two runs for each worker if there are several."""
    longest = ceil(total_width(ranges) / (2 * workers)) if workers > 1 else total_width(ranges)
    runs: list[Run] = []
    first = 0
    for part in (part for each in ranges for part in _parts(each, longest)):
        run = tuple(enumerate(_parts(part, records_per_slice), start=first))
        first += len(run)
        runs.append(run)
    return runs


def _parts(whole: OffsetRange, width: int) -> Iterable[OffsetRange]:
    count = ceil(whole.width / width)
    ends = [whole.from_offset + whole.width * n // count for n in range(count + 1)]
    return [OffsetRange(whole.partition, *bounds) for bounds in pairwise(ends)]

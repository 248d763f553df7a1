"""The division of a batch's ranges among those who stage it. Pure, but for what threads share."""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from math import ceil
from threading import Event

from offset_ledger.model.ranges import OffsetRange, total_width

NumberedSlice = tuple[int, OffsetRange]
Run = tuple[NumberedSlice, ...]
"""Slices of one partition, each of which begins where the one before ends: one consumer reads on."""
_OFFSETS_OF_A_TASK = 250_000


class SharedSlices:
    """The slices that a worker takes, run by run, from those that it shares with others."""

    def __init__(self, runs: deque[Run], *over: Event) -> None:
        self._runs, self._over = runs, over
        self._own = deque[NumberedSlice]()

    def __iter__(self) -> Iterator[NumberedSlice]:
        """Yield each slice, until nobody has one left, or it is ``over`` for whichever reason."""
        while self.following() is not None and not any(each.is_set() for each in self._over):
            yield self._own.popleft()

    def following(self) -> OffsetRange | None:
        """Return the offsets of the next one, which is this worker's from now on; None if nothing is left."""
        if not self._own:
            with suppress(IndexError):
                self._own.extend(self._runs.popleft())
        return self._own[0][1] if self._own else None


def runs_of(ranges: Sequence[OffsetRange], workers: int, records_per_slice: int) -> list[Run]:
    """Return all slices of the ranges, with their numbers, in at least two runs a worker if there are several."""
    longest = ceil(total_width(ranges) / (2 * workers)) if workers > 1 else total_width(ranges)
    runs: list[Run] = []
    first = 0
    for part in (part for each in ranges for part in _parts(each, longest)):
        run = tuple(enumerate(_parts(part, records_per_slice), start=first))
        first += len(run)
        runs.append(run)
    return runs


def shares_of(runs: Sequence[Run], slots: int) -> list[Run]:
    """The slices of all runs in shares of about the same width, one for each task.

    There are at most four for each slot, so that a slow one holds up little, and no more than are worth a consumer and
    a session of their own. A run stays together.
    """
    offsets = sum(_width(run) for run in runs)
    count = min(len(runs), max(slots, min(4 * slots, ceil(offsets / _OFFSETS_OF_A_TASK))))
    shares: list[list[NumberedSlice]] = [[] for _ in range(count)]
    filled = [(0, number) for number in range(count)]
    for run in sorted(runs, key=_width, reverse=True):
        width, number = heapq.heappop(filled)
        shares[number].extend(run)
        heapq.heappush(filled, (width + _width(run), number))
    return [tuple(share) for share in shares]


def _width(run: Run) -> int:
    return total_width([offsets for _, offsets in run])


def _parts(whole: OffsetRange, width: int) -> Iterable[OffsetRange]:
    count = ceil(whole.width / width)
    ends = [whole.from_offset + whole.width * n // count for n in range(count + 1)]
    return [OffsetRange(whole.partition, *bounds) for bounds in pairwise(ends)]

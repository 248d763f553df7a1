"""An even sample of a stream whose length nobody knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")
Places = npt.NDArray[np.int64]

_TURN = np.uint64(0x9E3779B97F4A7C15)  # the golden ratio of 2^64: no pattern of the records has its period
_WHOLE = 1 << 64


class EvenSample(Generic[T]):
    """Keeps at most so many items, one of every n with n doubled when there are too many.

    The places of a full turn lie evenly on a circle, and those in a part of it are kept: which ones depends on the
    lengths of the parts alone.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._every, self._seen = 1, 0
        self._kept: dict[int, T] = {}

    def add(self, count: int, look: Callable[[Places], Iterable[T]]) -> None:
        """Take some of the next so many items: ``look`` gives those at these places among them."""
        places = self._chosen(np.arange(self._seen, self._seen + count))
        while len(self._kept) + len(places) > self._most:
            self._every *= 2
            kept = self._chosen(np.fromiter(self._kept, np.int64, len(self._kept)))
            self._kept = {place: self._kept[place] for place in kept.tolist()}
            places = self._chosen(places)
        self._kept |= zip(places.tolist(), look(places - self._seen), strict=True)
        self._seen += count

    @property
    def items(self) -> list[T]:
        """What is kept, in the order of the stream."""
        return list(self._kept.values())

    def _chosen(self, places: Places) -> Places:
        return places[places.astype(np.uint64) * _TURN <= np.uint64(_WHOLE // self._every - 1)]

"""Binary records read in lockstep: one cursor a record, and numpy takes each step for all of them.

A record that a step does not fit (it ends too early, a length is negative, a varint has more bytes than it needs) is
no longer ``good``: it stays where it is, and another way of reading has to say what is in it.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from offset_ledger.decoding.kinds import content
from offset_ledger.decoding.outcome import Flags, Places
from offset_ledger.decoding.texts import utf8

Rows = slice | Places
Words = npt.NDArray[np.uint64]

_PAD = 16
_ALL = slice(None)
_STOPS, _PAYLOADS = np.uint64(0x8080808080808080), np.uint64(0x7F7F7F7F7F7F7F7F)
_ONE = np.uint64(1)
_MERGES = (  # neighbours that become one: the bits that keep their place, and the shift of the others
    (np.uint64(0x007F007F007F007F), np.uint64(1)),
    (np.uint64(0x00003FFF00003FFF), np.uint64(2)),
    (np.uint64(0x000000000FFFFFFF), np.uint64(4)),
)


class Cursors:
    """A cursor in each of the values, at its beginning.

    Every step takes ``where``, the records that take it; the others give zeros or null and are not moved.
    """

    good: Flags
    """False: beyond what this way of reading proves; what was read of the record means nothing."""

    def __init__(self, values: pa.BinaryArray, candidates: Flags) -> None:
        whole = content(values)
        self._bytes = np.zeros(len(whole) + _PAD, np.uint8)
        self._bytes[: len(whole)] = whole
        self._words: Words = np.ndarray((len(whole) + _PAD - 7,), np.dtype("<u8"), self._bytes.data, 0, (1,))
        bounds = np.zeros(1, np.int64)
        if len(values):
            offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
            bounds = offsets.astype(np.int64) - int(offsets[0])
        self._at, self._end = bounds[:-1].copy(), bounds[1:]
        self.good = candidates & values.is_valid().to_numpy(zero_copy_only=False)

    def check(self, flags: Flags, where: Flags | None) -> None:
        """Mark records that take the step without a flag as not good."""
        self.good &= flags if where is None else flags | ~where

    def at_end(self) -> Flags:
        """Return which good records are read to their last byte."""
        read: Flags = self._at == self._end
        return self.good & read

    def has_more(self) -> Flags:
        """Return which good records have a byte left."""
        unread: Flags = self._at < self._end
        return self.good & unread

    def varints(self, where: Flags | None = None) -> Words:
        """Read numbers of at most 64 bits, seven bits a byte, the lowest first; longer forms are not good."""
        rows = self._rows(where)
        at = self._at[rows]
        values = self._bytes[at].astype(np.uint64)
        sizes = np.ones(len(values), np.int64)
        wrong = at >= self._end[rows]
        more = np.flatnonzero(values > 0x7F)
        if len(more):
            values[more], sizes[more], over_long = self._long_varints(at[more])
            wrong |= at + sizes > self._end[rows]
            wrong[more] |= over_long
        return self._step(rows, sizes, wrong, values)

    def zigzags(self, where: Flags | None = None) -> npt.NDArray[np.int64]:
        """Read signed numbers of at most 64 bits, as varints whose lowest bit is the sign."""
        coded = self.varints(where)
        return (coded >> _ONE).view(np.int64) ^ -(coded & _ONE).view(np.int64)

    def booleans(self, where: Flags | None = None) -> Flags:
        """Read a byte each, 0 or 1."""
        rows = self._rows(where)
        at = self._at[rows]
        values = self._bytes[at]
        wrong = (at >= self._end[rows]) | (values > 1)
        return self._step(rows, np.ones(len(at), np.int64), wrong, values > 0)

    def fixed(self, size: int, where: Flags | None = None) -> npt.NDArray[np.uint8]:
        """Read the next ``size`` bytes of each record, a row each."""
        result = np.zeros((len(self.good), size), np.uint8)
        rows, at = self._pass(np.full(len(self.good), size), where)
        if len(at) and size == 8:
            result[rows] = self._words[at].view(np.uint8).reshape(-1, 8)
        elif len(at):
            result[rows] = np.lib.stride_tricks.sliding_window_view(self._bytes, size)[at]
        return result

    def spans(self, lengths: npt.NDArray[Any], where: Flags | None = None) -> pa.BinaryArray:
        """Read the next ``lengths`` bytes of each record; null where it takes no such step."""
        bounds = np.repeat(self._at.astype(np.int32), 2)
        rows, _ = self._pass(lengths, where)
        bounds[1::2] = self._at
        absent = np.ones(len(self.good), np.bool_)
        absent[rows] = False
        return _every_second(bounds, self._bytes, absent)

    def texts(self, spans: pa.BinaryArray) -> pa.StringArray:
        """Read the bytes of each record as text; one that is not UTF-8 is not good."""
        column, flags = utf8(spans)
        if flags is not None:
            self.good &= flags
        return column

    def skip(self, lengths: npt.NDArray[Any], where: Flags | None = None) -> None:
        """Skip the next ``lengths`` bytes of each record."""
        self._pass(lengths, where)

    def places(self) -> Places:
        """Return where each cursor is."""
        return self._at.copy()

    def since(self, places: Places, where: Flags | None = None) -> pa.BinaryArray:
        """The bytes from such places to the cursors; null where a record is not good, or takes no such step."""
        return self.between(places, self._at, where)

    def between(self, starts: Places, ends: Places, where: Flags | None = None) -> pa.BinaryArray:
        """Return the bytes between such places, likewise; the places of a record that is not good may be another's."""
        absent: Flags = ~(self.good if where is None else self.good & where)
        own = [np.where(absent, self._at, places) if absent.any() else places for places in (starts, ends)]
        bounds = np.stack(own, axis=1).astype(np.int32).reshape(-1)
        return _every_second(bounds, self._bytes, absent)

    def _rows(self, where: Flags | None) -> Rows:
        """The good records among those, all of them written as a slice, which numpy has no need to gather."""
        takes = self.good if where is None else self.good & where
        return _ALL if takes.all() else np.flatnonzero(takes)

    def _pass(self, lengths: npt.NDArray[Any], where: Flags | None) -> tuple[Rows, Places]:
        """Move over ``lengths`` bytes; return the records that have them, and where these bytes start."""
        lengths = lengths.astype(np.int64, copy=False)  # lengths too large for int64 become negative
        rows = self._rows(where)
        wrong = (lengths[rows] < 0) | (lengths[rows] > self._end[rows] - self._at[rows])
        if wrong.any():
            self.good[rows] &= ~wrong
            rows = self._rows(where)
        at = self._at[rows].copy()
        self._at[rows] += lengths[rows]
        return rows, at

    def _step(self, rows: Rows, sizes: Places, wrong: Flags, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Move over values that were read, unless they are wrong; return a value for every record."""
        if wrong.any():
            self.good[rows] &= ~wrong
            sizes = np.where(wrong, 0, sizes)
        self._at[rows] += sizes
        if isinstance(rows, slice):
            return values
        result = np.zeros(len(self.good), values.dtype)
        result[rows] = values
        return result

    def _long_varints(self, at: Places) -> tuple[Words, Places, Flags]:
        """Varints of more than one byte: their values, their sizes, and which are over-long."""
        words = self._words[at]
        stops = ~words & _STOPS
        used = stops ^ (stops - _ONE)
        values = words & used & _PAYLOADS
        for kept, shift in _MERGES:  # eight groups of seven bits, each in a byte, become one number
            values = (values & kept) | ((values & ~kept) >> shift)
        sizes = (np.bitwise_count(used) >> 3).astype(np.int64)
        beyond = np.flatnonzero(stops == 0)
        over_long = np.zeros(len(at), np.bool_)
        if len(beyond):
            ninth, tenth = (self._bytes[at[beyond] + place].astype(np.uint64) for place in (8, 9))
            two = ninth > 0x7F
            values[beyond] |= (ninth << np.uint64(57) >> _ONE) | (np.where(two, tenth, 0) << np.uint64(63))
            sizes[beyond] = 9 + two
            over_long[beyond] = two & (tenth > 1)
        return values, sizes, over_long | (values >> (7 * (sizes - 1)).astype(np.uint64) == 0)


def _every_second(bounds: npt.NDArray[np.int32], data: npt.NDArray[np.uint8], absent: Flags) -> pa.BinaryArray:
    """The bytes from the first bound to the second, from the third to the fourth, and so on."""
    if not len(absent):
        return pa.array([], pa.binary())
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    pieces = pa.BinaryArray.from_buffers(pa.binary(), len(bounds) - 1, buffers)
    places = np.arange(0, len(bounds), 2)
    return pieces.take(pa.array(places, mask=absent) if absent.any() else pa.array(places))


def masked(values: npt.NDArray[Any], valid: Flags | None) -> pa.Array:
    """Return the values as a column, null where they are not valid; all are without flags."""
    return pa.array(values) if valid is None or valid.all() else pa.array(values, mask=~valid)

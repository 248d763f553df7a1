"""The fast path for documents with values at their aliases: those with the same tree of paths are proven together."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import pyarrow as pa

from offset_ledger.config.model import RecordShape
from offset_ledger.decoding.json.trees import Choice, Trees
from offset_ledger.decoding.json.wire import Wire
from offset_ledger.decoding.proven import Places, Proven, joined

MAX_TREES = 16
"""Trees of one slice that are proven; the records of further ones are read one by one."""
_FAILURES = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class AliasedWires:
    """The wires of the trees of one record shape."""

    def __init__(self, record: RecordShape, trees: Trees) -> None:
        self._record, self._trees = record, trees
        self._wires: dict[Choice, Wire | None] = {}

    def prove(self, values: pa.BinaryArray, value_bytes: int, proven: Proven) -> Proven:
        """What is proven already, and those of the other values that certainly decode at other paths."""
        left = np.ones(len(values), np.bool_)
        left[proven.places] = False
        left[proven.skipped] = False
        return joined([proven, *self._groups(values, np.flatnonzero(left), value_bytes)])

    def _groups(self, values: pa.BinaryArray, places: Places, value_bytes: int) -> Iterator[Proven]:
        groups: dict[Choice, list[int]] = {}
        for place, text in zip(places.tolist(), values.take(pa.array(places)).to_pylist(), strict=True):
            if text is not None and len(text) <= value_bytes and (choice := self._choice(text)):
                groups.setdefault(choice, []).append(place)
        for choice, group in groups.items():
            if wire := self._wire(choice):
                yield wire.prove(values.take(pa.array(group)), value_bytes).at(np.array(group))

    def _choice(self, text: bytes) -> Choice | None:
        try:
            return self._trees.choice(text.strip())
        except _FAILURES:
            return None

    def _wire(self, choice: Choice) -> Wire | None:
        if choice not in self._wires and len(self._wires) < MAX_TREES:
            self._wires[choice] = Wire.of(self._trees.of(choice), self._record)
        return self._wires.get(choice)

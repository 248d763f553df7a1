"""The state of reading one message type in many records at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from offset_ledger.decoding.lockstep import Cursors
from offset_ledger.decoding.protobuf.lockstep_leaves import Slots
from offset_ledger.decoding.protobuf.schema import Field
from offset_ledger.decoding.proven import Places
from offset_ledger.decoding.staged import Flags

MAX_DEPTH = 8
"""Messages within messages; of a record with more nothing is proven."""


class Walk:
    """A message in each record that ``exists`` names; the tag of the next field of each is read ahead, 0 at the end."""

    def __init__(self, cursors: Cursors, exists: Flags, slots: Slots, depth: int) -> None:
        self.cursors, self.exists, self.slots, self.depth = cursors, exists, slots, depth
        self._tags = np.zeros(len(exists), np.uint64)
        self._taken: dict[int, Flags] = {}
        self._read_tags(exists)

    def at(self, tag: int) -> Flags:
        """Where this tag is the next one."""
        next_one: Flags = self._tags == tag
        return self.cursors.good & next_one

    def take(self, field: Field, here: Flags) -> None:
        """Read on, after the value of the field was read where it is; it can be nowhere else."""
        good = self.cursors.good
        if field.required:
            good &= here | ~self.exists
        if field.peers:
            oneof = min(field.number, *field.peers)
            taken = self._taken.get(oneof)
            if taken is not None:
                good &= ~(taken & here)
            self._taken[oneof] = here if taken is None else taken | here
        self.read_on(here)

    def read_on(self, here: Flags) -> None:
        """Read the next tags of these records."""
        if here.any():
            self._read_tags(here)

    def tag_starts(self) -> Places:
        """Where the next tag of each record begins, or its message ends."""
        starts = self.cursors.places()
        for bits in range(0, 32, 7):
            starts -= self._tags >> np.uint64(bits) != 0
        return starts

    def done(self) -> Flags:
        """Which records are read to their end."""
        ended: Flags = self._tags == 0
        return self.cursors.at_end() & ended

    def inner(self, spans: pa.BinaryArray, here: Flags, slots: Slots, steps: Sequence[Step]) -> None:
        """Read a message in each of these spans, which has to end where they do."""
        self.cursors.good &= walk(Cursors(spans, here), here, slots, steps, self.depth + 1) | ~here

    def _read_tags(self, here: Flags) -> None:
        more = self.cursors.has_more() & here
        tags = self.cursors.varints(more)
        self.cursors.good &= (tags != 0) | ~more
        self._tags = tags if here.all() else np.where(here, tags, self._tags)


Step = Callable[[Walk], None]


def walk(cursors: Cursors, exists: Flags, slots: Slots, steps: Sequence[Step], depth: int = 0) -> Flags:
    """Take the steps, a field each; gives the records that are certainly read to their end."""
    if depth > MAX_DEPTH:
        return np.zeros(len(exists), np.bool_)
    state = Walk(cursors, exists, slots, depth)
    for step in steps:
        step(state)
    return state.done()

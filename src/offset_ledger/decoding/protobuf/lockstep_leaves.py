"""What becomes of a column that was read from many messages: the staged columns of the leaves that it leads to."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from offset_ledger.decoding.lockstep import Cursors
from offset_ledger.decoding.shape import Leaf
from offset_ledger.decoding.staged import Flags, staged_type
from offset_ledger.decoding.typed.columns import column_builder
from offset_ledger.decoding.typed.types import ValueType

Slots = dict[int, pa.Array]
Sink = Callable[[pa.Array, Cursors, Flags, Slots], None]
"""Takes a column of the records that the third argument names; what fits no leaf is no longer good."""


class Unprovable(Exception):
    """There is a leaf that no column as a whole can become."""


def sinks_of(type_: ValueType, leaves: list[Leaf]) -> tuple[Sink, ...]:
    """What fills the slots of the leaves.

    Raises:
        Unprovable: the values of a leaf have to be asked one by one.
    """
    return tuple(_sink(type_, leaf) for leaf in leaves)


def _sink(type_: ValueType, leaf: Leaf) -> Sink:
    build = column_builder(type_, leaf.kind)
    if build is None:
        raise Unprovable

    def sink(column: pa.Array, cursors: Cursors, exists: Flags, slots: Slots) -> None:
        slots[leaf.slot], flags = build(column)
        if flags is not None:
            cursors.good &= flags | ~exists
        if not leaf.nullable and column.null_count:
            cursors.good &= column.is_valid().to_numpy(zero_copy_only=False)

    return sink


def add_absent(leaves: Iterable[Leaf], rows: int, slots: Slots) -> None:
    """Fill the slots of leaves that the schema has no field for."""
    slots.update((leaf.slot, pa.nulls(rows, staged_type(leaf.kind))) for leaf in leaves)

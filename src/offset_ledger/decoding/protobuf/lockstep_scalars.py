"""Scalars of many messages read at the same time, as Arrow columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding.lockstep import Cursors
from offset_ledger.decoding.protobuf.schema import Field
from offset_ledger.decoding.shape import Leaf
from offset_ledger.decoding.staged import Flags, staged_type
from offset_ledger.decoding.text_columns import utf8
from offset_ledger.decoding.typed.columns import column_builder
from offset_ledger.decoding.typed.types import ValueType

ReadColumn = Callable[[Cursors, Flags, Flags], pa.Array]
"""Reads a value where the second argument says so; where only the third does, there is the zero of the type, and null
elsewhere. What the type cannot hold is no longer good."""


def column_reader(field: Field) -> ReadColumn:
    """How the values of a scalar field are read; enums as numbers."""
    assert field.scalar
    return _ENUM if field.symbols else _READERS[field.scalar.type.shown]


def symbols_of(field: Field, numbers: pa.Int64Array, good: Flags) -> pa.StringArray:
    """The symbols of an enum; a number that it does not have is not good."""
    assert field.symbols
    known = np.array(sorted(field.symbols.names), np.int64)
    values = pc.fill_null(numbers, int(known[0])).to_numpy()
    places = np.minimum(np.searchsorted(known, values), len(known) - 1)
    good &= known[places] == values
    names = pa.array([field.symbols.names[number] for number in known.tolist()], pa.string())
    return names.take(pa.array(places, mask=~numbers.is_valid().to_numpy(zero_copy_only=False)))


def good_texts(column: pa.BinaryArray, good: Flags) -> pa.StringArray:
    """The column as text; what is not UTF-8 is not good."""
    texts, flags = utf8(column)
    if flags is not None:
        good &= flags
    return texts


def masked(values: npt.NDArray[np.generic], valid: Flags) -> pa.Array:
    """The values as a column, null where they are not valid."""
    return pa.array(values) if valid.all() else pa.array(values, mask=~valid)


def _varints(low: int, high: int, signed: bool = True) -> ReadColumn:
    def read(cursors: Cursors, here: Flags, valid: Flags) -> pa.Array:
        raw = cursors.varints(here)
        values = raw.view(np.int64) if signed else raw
        cursors.good &= (values >= low) & (values <= high)
        return masked(values if signed or high >> 32 else values.view(np.int64), valid)

    return read


def _zigzags(bits: int) -> ReadColumn:
    bound = 1 << (bits - 1)

    def read(cursors: Cursors, here: Flags, valid: Flags) -> pa.Array:
        values = cursors.zigzags(here)
        cursors.good &= (values >= -bound) & (values <= bound - 1)
        return masked(values, valid)

    return read


def _fixed(form: str, as_type: str) -> ReadColumn:
    layout = np.dtype(form)

    def read(cursors: Cursors, here: Flags, valid: Flags) -> pa.Array:
        values = cursors.fixed(layout.itemsize, here).view(layout).ravel()
        return masked(values.astype(as_type, copy=False), valid)

    return read


def _booleans(cursors: Cursors, here: Flags, valid: Flags) -> pa.Array:
    return masked(cursors.booleans(here), valid)


def _bytes(cursors: Cursors, here: Flags, valid: Flags) -> pa.Array:
    column = cursors.spans(cursors.varints(here), here)
    if column.null_count == 0:
        return column
    zeros = valid & column.is_null().to_numpy(zero_copy_only=False)
    return pc.if_else(pa.array(zeros), pa.scalar(b"", pa.binary()), column) if zeros.any() else column


def _strings(cursors: Cursors, here: Flags, valid: Flags) -> pa.Array:
    return good_texts(_bytes(cursors, here, valid), cursors.good)


_ENUM = _varints(-(1 << 31), (1 << 31) - 1)
_READERS: Mapping[str, ReadColumn] = {
    "double": _fixed("<f8", "f8"),
    "float": _fixed("<f4", "f4"),
    "bool": _booleans,
    "string": _strings,
    "bytes": _bytes,
    "int32": _ENUM,
    "int64": _varints(-(1 << 63), (1 << 63) - 1),
    "uint32": _varints(0, (1 << 32) - 1, signed=False),
    "uint64": _varints(0, (1 << 64) - 1, signed=False),
    "sint32": _zigzags(32),
    "sint64": _zigzags(64),
    "fixed32": _fixed("<u4", "i8"),
    "fixed64": _fixed("<u8", "u8"),
    "sfixed32": _fixed("<i4", "i8"),
    "sfixed64": _fixed("<i8", "i8"),
}


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

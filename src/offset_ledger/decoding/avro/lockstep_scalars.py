"""Values without parts, of many records at the same time: as an Arrow column, or stepped over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding.avro.nodes import Scalar
from offset_ledger.decoding.lockstep import Cursors
from offset_ledger.decoding.staged import Flags, content
from offset_ledger.decoding.text_columns import utf8
from offset_ledger.decoding.typed.types import TypeName

Where = Flags | None
"""The records that take a step; None for all."""
ReadColumn = Callable[[Cursors, Where], pa.Array]
SkipColumn = Callable[[Cursors, Where], object]


def read_column(scalar: Scalar) -> ReadColumn:
    """Reads a column of the value's ``arrow_type``; null where a record takes no such step."""
    if scalar.value.name is TypeName.DECIMAL:
        read = _spans(scalar)
        return lambda cursors, where: _unscaled(cursors, where, read(cursors, where))
    if scalar.wire == "enum":
        return _symbols(scalar)
    if scalar.wire in ("bytes", "fixed"):
        return _spans(scalar)
    return _READ[scalar.wire]


def skip_column(scalar: Scalar) -> SkipColumn:
    """Steps over the values."""
    if scalar.wire == "null":
        return lambda _cursors, _where: None
    if scalar.wire == "boolean":
        return Cursors.booleans
    if scalar.wire in ("string", "bytes"):
        return lambda cursors, where: cursors.skip(cursors.zigzags(where), where)
    if scalar.wire == "enum":
        return lambda cursors, where: indexes(cursors, len(scalar.symbols), where)
    if scalar.wire in ("int", "long"):
        return integers_32 if scalar.wire == "int" else Cursors.zigzags
    size = {"float": 4, "double": 8}.get(scalar.wire, scalar.size)
    return lambda cursors, where: cursors.skip(np.full(len(cursors.good), size), where)


def indexes(cursors: Cursors, count: int, where: Where) -> npt.NDArray[np.int64]:
    """The indexes of symbols or of branches, of so many."""
    index = integers_32(cursors, where)
    cursors.good &= (index >= 0) & (index < count)
    return index


def integers_32(cursors: Cursors, where: Where) -> npt.NDArray[np.int64]:
    """Integers of 32 bits."""
    values = cursors.zigzags(where)
    cursors.good &= values == values.astype(np.int32)
    return values


def check(cursors: Cursors, flags: Flags, where: Where) -> None:
    """Of the records that take the step, those without their flag are not good."""
    cursors.good &= flags if where is None else flags | ~where


def masked(values: npt.NDArray[Any], where: Where) -> pa.Array:
    """The values as a column, null where a record takes no such step."""
    return pa.array(values) if where is None else pa.array(values, mask=~where)


def _texts(cursors: Cursors, where: Where) -> pa.StringArray:
    texts, flags = utf8(cursors.spans(cursors.zigzags(where), where))
    if flags is not None:
        check(cursors, flags, where)
    return texts


def _symbols(scalar: Scalar) -> ReadColumn:
    symbols = pa.array(scalar.symbols, pa.string())

    def read(cursors: Cursors, where: Where) -> pa.Array:
        index = indexes(cursors, len(symbols), where)
        return symbols.take(pa.array(index, mask=~(cursors.good if where is None else cursors.good & where)))

    return read


def _spans(scalar: Scalar) -> ReadColumn:
    if scalar.wire == "bytes":
        return lambda cursors, where: cursors.spans(cursors.zigzags(where), where)
    size = scalar.size
    return lambda cursors, where: cursors.spans(np.full(len(cursors.good), size), where)


def _unscaled(cursors: Cursors, where: Where, spans: pa.BinaryArray) -> pa.Int64Array:
    """Two's complement of 1 to 8 bytes, the highest first."""
    sizes = pc.fill_null(pc.binary_length(spans), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    fits = (sizes >= 1) & (sizes <= 8)
    check(cursors, fits, where)
    data = np.concatenate([np.zeros(8, np.uint8), content(spans)])
    words = np.ndarray((len(data) - 7,), np.dtype(">i8"), data.data, 0, (1,))
    shift = 64 - 8 * np.where(fits, sizes, 8)
    values = words[np.cumsum(sizes)].astype(np.int64) << shift >> shift
    return pa.array(values, mask=~fits)


_READ: dict[str, ReadColumn] = {
    "boolean": lambda cursors, where: masked(cursors.booleans(where), where),
    "int": lambda cursors, where: masked(integers_32(cursors, where), where),
    "long": lambda cursors, where: masked(cursors.zigzags(where), where),
    "float": lambda cursors, where: masked(cursors.fixed(4, where).view("<f4").reshape(-1), where),
    "double": lambda cursors, where: masked(cursors.fixed(8, where).view("<f8").reshape(-1), where),
    "string": _texts,
}

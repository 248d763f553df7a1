"""Whole columns of typed values -> staged columns, with a flag for each value that certainly becomes what it should.

False only means that the converter is asked about the value by itself.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding import text_columns
from offset_ledger.decoding.kinds import EPOCH_UNITS, FIRST_MOMENT, INTEGER_BITS, LAST_MOMENT, ColumnKind
from offset_ledger.decoding.staged import INTEGERS, MOMENT, TIME, Flags, as_flags, content, event_ids
from offset_ledger.decoding.text_columns import kept
from offset_ledger.decoding.typed.types import TypeName, ValueType

Built = tuple[pa.Array, Flags | None]
Build = Callable[[pa.Array], Built]
_Make = Callable[[ValueType, ColumnKind], Build | None]

_DECIMAL_DIGITS = 38  # of Arrow's decimals
_DAYS = -719_162, 2_932_896  # years 1 to 9999
_LAST_MICROSECOND = 86_399_999_999
_SPECIAL_IN_JSON = r'["\\\x00-\x1f]'
_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint8).reshape(256, 2)
_UUID_DIGITS = [place for place in range(36) if place not in (8, 13, 18, 23)]
_ARROW = {
    TypeName.BOOLEAN: pa.bool_(),
    TypeName.TEXT: pa.string(),
    TypeName.BYTES: pa.binary(),
    TypeName.UUID: pa.binary(),
    TypeName.DURATION: pa.binary(),
    TypeName.NULL: pa.null(),
}


def arrow_type(source: ValueType) -> pa.DataType:
    """The type of a column of such values: decimals are their unscaled values; none for arrays and objects."""
    if source.name is TypeName.FLOAT:
        return pa.float32() if source.bits == 32 else pa.float64()
    if source.name is TypeName.INTEGER and source.bits == 64 and not source.signed:
        return pa.uint64()
    return _ARROW.get(source.name, pa.int64())


def column_builder(source: ValueType, kind: ColumnKind) -> Build | None:
    """How a column of ``arrow_type(source)`` becomes the staged column of that kind; nulls stay nulls.

    None where the values have to be asked one by one.
    """
    if kind.encoding in EPOCH_UNITS and source.name is TypeName.INTEGER:
        return _counted(EPOCH_UNITS[kind.encoding] * 1000, (FIRST_MOMENT, LAST_MOMENT), MOMENT)
    if kind.encoding in EPOCH_UNITS and source.name is TypeName.TEXT:
        return None
    make = _BUILDERS.get((kind.name, source.name))
    return make(source, kind) if make else None


def _between(column: pa.Array, low: int, high: int) -> pa.Array:
    bounds = np.iinfo(column.type.to_pandas_dtype())
    least, most = (pa.scalar(min(max(bound, bounds.min), bounds.max), column.type) for bound in (low, high))
    return pc.and_(pc.greater_equal(column, least), pc.less_equal(column, most))


def _integers(_: ValueType, kind: ColumnKind) -> Build:
    bound = 1 << (INTEGER_BITS[kind.name] - 1)

    def build(column: pa.Array) -> Built:
        fitting, flags = kept(column, _between(column, -bound, bound - 1))
        return fitting.cast(INTEGERS[kind.name]), flags

    return build


def _floats(source: ValueType, kind: ColumnKind) -> Build:
    single = kind.name == "real"
    if source.name is TypeName.INTEGER:
        bound = 1 << (24 if single else 53)
        return lambda column: _written(*kept(column, _between(column, -bound, bound)))
    if not single or source.bits == 32:
        return lambda column: (column.cast(pa.float32() if single else pa.float64()).cast(pa.string()), None)
    return _rounded


def _rounded(column: pa.DoubleArray) -> Built:
    """Floats of 8 bytes, as those of 4 that are the same numbers."""
    singles = column.cast(pa.float32(), safe=False)
    same = pc.or_(pc.equal(singles.cast(pa.float64()), column), pc.is_nan(column))
    return singles.cast(pa.string()), as_flags(same)


def _numerics(source: ValueType, kind: ColumnKind) -> Build | None:
    scale = source.scale if source.name is TypeName.DECIMAL else 0
    if not 0 <= scale <= _DECIMAL_DIGITS:
        return None

    def build(column: pa.Array) -> Built:
        fitting, flags = kept(column, _fits(column, scale, kind.args))
        return (_decimals(fitting, scale) if scale else fitting).cast(pa.string()), flags

    return build


def _fits(column: pa.Array, scale: int, args: tuple[int, ...]) -> pa.Array:
    """Which unscaled values are numbers of that numeric."""
    precision, places = args or (1000, scale)
    whole = _between(column, 1 - 10 ** (precision - places + scale), 10 ** (precision - places + scale) - 1)
    if scale <= places:
        return whole
    return pc.and_(whole, _divides(10 ** (scale - places), column))


def _divides(divisor: int, column: pa.Array) -> pa.Array:
    """Which numbers are multiples of the divisor."""
    if divisor >= 1 << 63:
        return pc.equal(column, pa.scalar(0, column.type))
    scalar = pa.scalar(divisor, column.type)
    return pc.equal(pc.multiply(pc.divide(column, scalar), scalar), column)


def _decimals(column: pa.Int64Array, scale: int) -> pa.Array:
    low = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    words = np.stack([low, low >> 63], axis=1)
    type_ = pa.decimal128(_DECIMAL_DIGITS, scale)
    return pa.Array.from_buffers(type_, len(column), [_validity(column), pa.py_buffer(words)])


def _validity(column: pa.Array) -> pa.Buffer | None:
    return pc.is_valid(column).buffers()[1] if column.null_count else None


def _counted(nanoseconds: int, bounds: tuple[int, int], type_: pa.DataType) -> Build | None:
    """Counts of a unit, as microseconds within the bounds."""
    factor, divisor = max(nanoseconds // 1000, 1), max(1000 // nanoseconds, 1)
    if factor * 1000 != nanoseconds * divisor:
        return None
    low, high = -(-bounds[0] * divisor // factor), bounds[1] * divisor // factor

    def build(column: pa.Array) -> Built:
        fits = _between(column, low, high)
        fitting, flags = kept(column, fits if divisor == 1 else pc.and_(fits, _divides(divisor, column)))
        return pc.multiply(pc.divide(fitting.cast(pa.int64()), divisor), factor).cast(type_), flags

    return build


def _days(column: pa.Int64Array) -> Built:
    fitting, flags = kept(column, _between(column, *_DAYS))
    return fitting.cast(pa.int32()).cast(pa.date32()), flags


def _texts(_: ValueType, kind: ColumnKind) -> Build:
    def build(column: pa.StringArray) -> Built:
        if not kind.args:
            return text_columns.texts(column)
        fitting, flags = kept(column, pc.less_equal(pc.utf8_length(column), kind.args[0]))
        clean, free = text_columns.texts(fitting)
        return clean, free if flags is None else flags if free is None else flags & free

    return build


def _uuids(column: pa.BinaryArray) -> Built:
    """UUIDs of 16 bytes, as their 36 characters."""
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    written = np.full((int(valid.sum()), 36), ord("-"), np.uint8)
    written[:, _UUID_DIGITS] = _HEX[content(column.drop_null())].reshape(-1, 32)
    offsets = np.zeros(len(column) + 1, np.int32)
    np.cumsum(valid * 36, out=offsets[1:])
    buffers = [_validity(column), pa.py_buffer(offsets), pa.py_buffer(written)]
    return pa.Array.from_buffers(pa.string(), len(column), buffers), None


def _quoted(column: pa.StringArray) -> Built:
    """Texts as JSON, where it writes them as they are."""
    plain = pc.invert(pc.match_substring_regex(column, _SPECIAL_IN_JSON))
    return pc.binary_join_element_wise('"', column, '"', ""), as_flags(plain)


def _written(column: pa.Array, flags: Flags | None = None) -> Built:
    return column.cast(pa.string()), flags


def _always(build: Build) -> _Make:
    def make(_source: ValueType, _kind: ColumnKind) -> Build:
        return build

    return make


_BUILDERS: dict[tuple[str, TypeName], _Make] = {
    **{(name, TypeName.INTEGER): _integers for name in INTEGER_BITS},
    **{(name, each): _floats for name in ("real", "double precision") for each in (TypeName.FLOAT, TypeName.INTEGER)},
    **{("numeric", each): _numerics for each in (TypeName.DECIMAL, TypeName.INTEGER)},
    ("boolean", TypeName.BOOLEAN): _always(lambda column: (column, None)),
    ("text", TypeName.TEXT): _texts,
    ("varchar", TypeName.TEXT): _texts,
    ("date", TypeName.DATE): _always(_days),
    ("date", TypeName.TEXT): _always(text_columns.days),
    ("time", TypeName.TIME): lambda source, _: _counted(source.nanoseconds, (0, _LAST_MICROSECOND), TIME),
    ("time", TypeName.TEXT): _always(text_columns.times),
    ("timestamptz", TypeName.TIMESTAMP): lambda source, _: _counted(
        source.nanoseconds, (FIRST_MOMENT, LAST_MOMENT), MOMENT
    ),
    ("timestamptz", TypeName.TEXT): _always(text_columns.moments),
    ("uuid", TypeName.UUID): _always(_uuids),
    ("uuid", TypeName.TEXT): _always(text_columns.uuids),
    ("bytea", TypeName.BYTES): _always(lambda column: (column, None)),
    ("event_id", TypeName.TEXT): _always(lambda column: (column, event_ids(column))),
    ("event_id", TypeName.INTEGER): _always(_written),
    ("event_id", TypeName.UUID): _always(_uuids),
    ("jsonb", TypeName.BOOLEAN): _always(_written),
    ("jsonb", TypeName.INTEGER): _always(_written),
    ("jsonb", TypeName.TEXT): _always(_quoted),
}

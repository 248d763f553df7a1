"""Conversions of typed values, of one or of a column, for each pair of a schema's type and a kind; exact, or none."""

import math
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding import counts, jsonb, kinds
from offset_ledger.decoding.decimals import numeric, scaled, single, single_text
from offset_ledger.decoding.json.conversions import conversion as in_json_text
from offset_ledger.decoding.json.conversions import from_text, parsed
from offset_ledger.decoding.kinds import INTEGER_BITS, Built, ColumnKind, as_flags, kept, staged_type
from offset_ledger.decoding.outcome import Code, Mismatch, printable
from offset_ledger.decoding.texts import text_form, uuid_texts
from offset_ledger.decoding.typed.types import TypeName, ValueType

Convert = Callable[[Any], object]
Build = Callable[[pa.Array], Built]

_NANOSECONDS_PER_SECOND = 1_000_000_000
_ZONELESS_EPOCH = kinds.EPOCH.replace(tzinfo=None)
_SPECIAL_IN_JSON = r'["\\\x00-\x1f]'
_encode = msgspec.json.Encoder(decimal_format="number").encode
_WANTED = {
    **dict.fromkeys(INTEGER_BITS, "integer"),
    **dict.fromkeys(("real", "double precision"), "a float or an integer"),
    "numeric": "a decimal or an integer",
    "varchar": "text",
    "timestamptz": "timestamp",
    "bytea": "bytes",
    "event_id": "text, an integer or a uuid",
}
_REASONS = {
    TypeName.LOCAL_TIMESTAMP: ": a local timestamp has no time zone",
    TypeName.DURATION: ": no column takes a duration",
}
_NUMBERS = (TypeName.INTEGER, TypeName.FLOAT, TypeName.DECIMAL)
_NO_TEXT = (TypeName.NULL, TypeName.BYTES, TypeName.DURATION, TypeName.ARRAY, TypeName.OBJECT)
_ARROW = {
    TypeName.BOOLEAN: pa.bool_(),
    TypeName.TEXT: pa.string(),
    TypeName.BYTES: pa.binary(),
    TypeName.UUID: pa.binary(),
    TypeName.DURATION: pa.binary(),
    TypeName.NULL: pa.null(),
}


def arrow_type(source: ValueType) -> pa.DataType:
    """Return the type of a column of such values: decimals are their unscaled values; none for arrays and objects."""
    if source.name is TypeName.FLOAT:
        return pa.float32() if source.bits == 32 else pa.float64()
    if source.name is TypeName.INTEGER and source.bits == 64 and not source.signed:
        return pa.uint64()
    return _ARROW.get(source.name, pa.int64())


@dataclass(frozen=True, slots=True)
class Conversion:
    """The conversion of a type's values to a kind's: ``convert`` defines it, and raises :class:`Mismatch`.

    ``build`` makes a staged column of a column of ``arrow_type(source)``, nulls staying nulls; None where the values
    have to be converted one by one.
    """

    convert: Convert
    build: Build | None = None


@dataclass(frozen=True, slots=True)
class _Refuse:
    """The conversion that refuses every value."""

    detail: str

    def __call__(self, _: object) -> object:
        raise Mismatch(Code.TYPE, self.detail)


def conversion(source: ValueType, kind: ColumnKind) -> Conversion:
    """Return how a value of that type becomes a value of that kind; a pair that never fits refuses every value."""
    if kind.item and kind.split is None:
        return _of_lists(source, kind.item)
    if kind != kind.plain:
        if source.name is TypeName.TEXT:
            read = from_text(kind)
            return Conversion(read, lambda column: kinds.read_each(column.to_pylist(), read, kind))
        if kind.item or not kind.coerce:
            return Conversion(_refuse(source, "text"))
        kind = kind.plain
    if kind.name == "numeric" and kind.encoding and source.name in (TypeName.INTEGER, TypeName.OBJECT):
        of_bits = in_json_text(kind).read
        return Conversion(lambda value: of_bits(_encode(value)))
    if kind.name == "jsonb" and kind.encoding and source.name is TypeName.TEXT:
        return Conversion(partial(parsed, kind=kind))
    if kind.name == "jsonb":
        in_json = json_value(source)
        if isinstance(in_json, _Refuse):
            return Conversion(in_json)
        build = {TypeName.BOOLEAN: _as_text, TypeName.INTEGER: _as_text, TypeName.TEXT: _quoted}.get(source.name)
        return Conversion(lambda value: json_text(in_json(value)), build)
    if kind.encoding == kinds.EPOCH_DAYS and source.name is TypeName.INTEGER:
        return Conversion(counts.reader(kind), _days)
    if kind.unit and source.name is TypeName.INTEGER:
        return _counts(kind.unit, kind)
    if source.name is TypeName.TEXT and (form := text_form(kind)):
        return Conversion(form.read, form.build)
    if make := _TABLE.get((kind.name, source.name)):
        return make(source, kind)
    is_bare = source.name in _NUMBERS and not kind.encoding
    if kind.judged and not kind.unit and not is_bare and source.name not in _NO_TEXT:
        in_json = json_value(source)
        return Conversion(lambda value: _text_of(in_json(value)))
    if kind.judged and is_bare:
        return Conversion(_Refuse(kinds.unitless(kind, source.shown)))
    return Conversion(_refuse(source, "integer" if kind.unit else _WANTED.get(kind.name, kind.name)))


def _days(column: pa.Array) -> Built:
    fitting, flags = kept(column, _between(column, kinds.FIRST_DAY, kinds.LAST_DAY))
    return fitting.cast(pa.int32()).cast(pa.date32()), flags


def _of_lists(source: ValueType, kind: ColumnKind) -> Conversion:
    if source.name is not TypeName.ARRAY or source.item is None:
        return Conversion(_refuse(source, "array of single values"))
    convert = conversion(source.item, kind).convert
    if isinstance(convert, _Refuse):
        return Conversion(_Refuse(f"elements: {convert.detail}"))
    return Conversion(lambda values: kinds.list_of(values, convert))


def refusal(source: ValueType, kind: ColumnKind) -> str | None:
    """Return why no value of that type can become a value of that kind; None where some can."""
    convert = conversion(source, kind).convert
    return convert.detail if isinstance(convert, _Refuse) else None


def _refuse(source: ValueType, wanted: str) -> _Refuse:
    return _Refuse(f"expected {wanted}, got {source.shown}{_REASONS.get(source.name, '')}")


def _same(value: object) -> object:
    return value


def _unchanged(column: pa.Array) -> Built:
    return column, None


def _as_text(column: pa.Array) -> Built:
    return column.cast(pa.string()), None


def _integer(_: ValueType, kind: ColumnKind) -> Conversion:
    bits = INTEGER_BITS[kind.name]
    bound = 1 << (bits - 1)

    def convert(value: int) -> int:
        if not -bound <= value < bound:
            raise Mismatch(Code.RANGE, f"expected integer of {bits} bits, got {value}")
        return value

    def build(column: pa.Array) -> Built:
        fitting, flags = kept(column, _between(column, -bound, bound - 1))
        return fitting.cast(kinds.INTEGERS[kind.name]), flags

    return Conversion(convert, build)


def _float(source: ValueType, kind: ColumnKind) -> Conversion:
    type_, is_single = staged_type(kind), kind.name == "real"
    nearest = single if is_single else float

    def convert(value: float) -> float:
        held = nearest(value)
        if held == value or value != value:
            return held
        code = Code.RANGE if not held or math.isinf(held) else Code.PRECISION
        raise Mismatch(code, f"expected {kind.name}, got {value}, which it cannot hold")

    def build_of_integers(column: pa.Array) -> Built:
        bound = 1 << (24 if is_single else 53)
        fitting, flags = kept(column, _between(column, -bound, bound))
        return fitting.cast(type_), flags

    def build_of_doubles(column: pa.DoubleArray) -> Built:
        singles = column.cast(type_, safe=False)
        same = pc.or_(pc.equal(singles.cast(pa.float64()), column), pc.is_nan(column))
        return singles, as_flags(same)

    if source.name is TypeName.INTEGER:
        return Conversion(convert, build_of_integers)
    if is_single and source.bits == 64:
        return Conversion(convert, build_of_doubles)
    return Conversion(_same, lambda column: (column.cast(type_), None))


def _numeric(source: ValueType, kind: ColumnKind) -> Conversion:
    scale = source.scale if source.name is TypeName.DECIMAL else 0
    precision, places = kind.args or (1000, scale)
    bound = 10 ** max(precision - places + scale, 0)

    def convert(value: int) -> Decimal:
        decimal = scaled(value, scale)
        return numeric(decimal, lambda: printable(str(decimal)), *kind.args)

    def build(column: pa.Array) -> Built:
        fits = _between(column, 1 - bound, bound - 1)
        if scale > places:
            fits = pc.and_(fits, _divides(10 ** (scale - places), column))
        fitting, flags = kept(column, fits)
        return _decimals(fitting, scale).cast(staged_type(kind)), flags

    return Conversion(convert, build if 0 <= scale <= kinds.DECIMAL_DIGITS else None)


def _decimals(column: pa.Array, scale: int) -> pa.Array:
    """Unscaled values as decimals."""
    values = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    high = values >> 63 if pa.types.is_signed_integer(column.type) else np.zeros(len(values), np.int64)
    words = np.stack([values.view(np.int64), high], axis=1)
    validity = column.is_valid().buffers()[1] if column.null_count else None
    return pa.Array.from_buffers(
        pa.decimal128(kinds.DECIMAL_DIGITS, scale), len(column), [validity, pa.py_buffer(words)]
    )


def _counts(nanoseconds: int, kind: ColumnKind) -> Conversion:
    read = counts.reader(kind, nanoseconds)
    match kind.name:
        case "interval":
            return Conversion(read)
        case "time":
            return Conversion(read, _counted(nanoseconds, (0, counts.LAST_MICROSECOND), kinds.TIME))
        case _:
            return Conversion(read, _counted(nanoseconds, (kinds.FIRST_MOMENT, kinds.LAST_MOMENT), kinds.MOMENT))


_TABLE: dict[tuple[str, TypeName], Callable[[ValueType, ColumnKind], Conversion]] = {
    **{(name, TypeName.INTEGER): _integer for name in INTEGER_BITS},
    **{(name, each): _float for name in ("real", "double precision") for each in (TypeName.FLOAT, TypeName.INTEGER)},
    **{("numeric", each): _numeric for each in (TypeName.DECIMAL, TypeName.INTEGER)},
    ("boolean", TypeName.BOOLEAN): lambda _source, _kind: Conversion(_same, _unchanged),
    ("date", TypeName.DATE): lambda _source, kind: Conversion(counts.reader(kind), _days),
    ("time", TypeName.TIME): lambda source, kind: _counts(source.nanoseconds, kind),
    ("timestamptz", TypeName.TIMESTAMP): lambda source, kind: _counts(source.nanoseconds, kind),
    ("uuid", TypeName.UUID): lambda _source, _kind: Conversion(
        lambda value: UUID(bytes=value), lambda column: (column.cast(kinds.UUID_TYPE), None)
    ),
    ("bytea", TypeName.BYTES): lambda _source, _kind: Conversion(bytes, _unchanged),
    ("event_id", TypeName.INTEGER): lambda _source, _kind: Conversion(str, _as_text),
    ("event_id", TypeName.UUID): lambda _source, _kind: Conversion(
        lambda value: str(UUID(bytes=value)), lambda column: (uuid_texts(column), None)
    ),
}
"""By kind and type; what is written as text is in :mod:`~offset_ledger.decoding.texts`."""


def _between(column: pa.Array, low: int, high: int) -> pa.Array:
    bounds = np.iinfo(column.type.to_pandas_dtype())
    least, most = (pa.scalar(min(max(bound, bounds.min), bounds.max), column.type) for bound in (low, high))
    return pc.and_(pc.greater_equal(column, least), pc.less_equal(column, most))


def _divides(divisor: int, column: pa.Array) -> pa.Array:
    """Return which numbers are multiples of the divisor."""
    if divisor >= 1 << 63:
        return pc.equal(column, pa.scalar(0, column.type))
    scalar = pa.scalar(divisor, column.type)
    return pc.equal(pc.multiply(pc.divide(column, scalar), scalar), column)


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


def _quoted(column: pa.StringArray) -> Built:
    """Texts as JSON, where it writes them as they are."""
    plain = pc.invert(pc.match_substring_regex(column, _SPECIAL_IN_JSON))
    return pc.binary_join_element_wise('"', column, '"', ""), as_flags(plain)


def json_value(source: ValueType) -> Convert:
    """Return how a value of that type stands inside a jsonb; the converter raises :class:`Mismatch`."""
    unit = source.nanoseconds
    match source.name:
        case TypeName.FLOAT:
            return _json_float if source.bits == 64 else lambda value: float(single_text(_json_float(value)))
        case TypeName.BYTES:
            return lambda value: b64encode(value).decode()
        case TypeName.DECIMAL:
            return lambda value: scaled(value, source.scale)
        case TypeName.DATE:
            return lambda value: str(counts.day(value))
        case TypeName.TIME:
            return lambda value: time_text(value, unit)
        case TypeName.TIMESTAMP:
            return lambda value: moment_text(value, unit) + "Z"
        case TypeName.LOCAL_TIMESTAMP:
            return lambda value: moment_text(value, unit)
        case TypeName.UUID:
            return lambda value: str(UUID(bytes=value))
        case TypeName.DURATION:
            return _refuse(source, "jsonb")
        case TypeName.ARRAY if source.item is not None:
            of_item = json_value(source.item)
            return lambda values: [None if value is None else of_item(value) for value in values]
        case _:
            return _same


def _json_float(value: float) -> float:
    if not math.isfinite(value):
        raise Mismatch(Code.RANGE, f"expected a number of JSON, got {value}")
    return value


def _text_of(value: object) -> str:
    """A value that JSON writes as a text, a number or a boolean, for Postgres to read."""
    return f"{value:f}" if isinstance(value, Decimal) else str(value).lower() if isinstance(value, bool) else str(value)


def json_text(value: object) -> str:
    """Return the JSON text of such values, and of lists and dicts of them, as Postgres takes it.

    Raises:
        Mismatch: Postgres would not take it.
    """
    try:
        written = _encode(value)
    except RecursionError:
        raise Mismatch(Code.DEPTH, jsonb.TOO_DEEP) from None
    jsonb.check_depth(written)
    return jsonb.document(written)


def time_text(count: int, nanoseconds: int) -> str:
    """Return the time as HH:MM:SS, with every digit of its fraction."""
    if not 0 <= (total := count * nanoseconds) < counts.NANOSECONDS_PER_DAY:
        raise counts.late(total)
    seconds, rest = divmod(total, _NANOSECONDS_PER_SECOND)
    return (datetime.min + timedelta(seconds=seconds)).time().isoformat() + _fraction(rest)


def moment_text(count: int, nanoseconds: int) -> str:
    """Return the moment in RFC 3339, with every digit of its fraction, in UTC, without the ``Z`` at its end."""
    seconds, rest = divmod(count * nanoseconds, _NANOSECONDS_PER_SECOND)
    try:
        return (_ZONELESS_EPOCH + timedelta(seconds=seconds)).isoformat() + _fraction(rest)
    except OverflowError:
        got = f"{count * nanoseconds} ns since 1970"
        raise Mismatch(Code.RANGE, f"expected a moment in the years 1 to 9999, got {got}") from None


def _fraction(nanoseconds: int) -> str:
    """Return the fraction in as many digits as needed, in threes; nothing if it is zero."""
    digits = f"{nanoseconds:09}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return digits and "." + digits

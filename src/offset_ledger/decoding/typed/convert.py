"""Typed values -> the values of a column, exactly or not at all; days, times and moments as schemas count them."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from offset_ledger.decoding import jsonb, texts
from offset_ledger.decoding.decimals import SINGLE, numeric, scaled, single_text
from offset_ledger.decoding.kinds import EPOCH, EPOCH_UNITS, INTEGER_BITS, ColumnKind, check_event_id
from offset_ledger.decoding.outcome import Code, Mismatch, printable
from offset_ledger.decoding.typed.types import TypeName, ValueType

NANOSECONDS_PER_DAY = 86_400_000_000_000
_NANOSECONDS_PER_SECOND = 1_000_000_000
_DAY_ZERO = date(1970, 1, 1).toordinal()
_ZONELESS_EPOCH = EPOCH.replace(tzinfo=None)


def day(days: int) -> date:
    """The day so many days after 1970-01-01."""
    try:
        return date.fromordinal(_DAY_ZERO + days)
    except (ValueError, OverflowError):
        raise Mismatch(Code.RANGE, f"expected a day in the years 1 to 9999, got day {days} since 1970-01-01") from None


def time_of_day(count: int, nanoseconds: int) -> time:
    """The time so many units of ``nanoseconds`` after midnight."""
    microseconds = _microseconds(_within_a_day(count, nanoseconds))
    return (datetime.min + timedelta(microseconds=microseconds)).time()


def moment(count: int, nanoseconds: int) -> datetime:
    """The moment so many units of ``nanoseconds`` after 1970."""
    microseconds = _microseconds(count * nanoseconds)
    try:
        return EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        raise _far(count * nanoseconds) from None


def time_text(count: int, nanoseconds: int) -> str:
    """The time as HH:MM:SS, with every digit of its fraction."""
    seconds, rest = divmod(_within_a_day(count, nanoseconds), _NANOSECONDS_PER_SECOND)
    return (datetime.min + timedelta(seconds=seconds)).time().isoformat() + _fraction(rest)


def moment_text(count: int, nanoseconds: int) -> str:
    """The moment in RFC 3339, with every digit of its fraction, in UTC but for the ``Z`` at its end."""
    seconds, rest = divmod(count * nanoseconds, _NANOSECONDS_PER_SECOND)
    try:
        return (_ZONELESS_EPOCH + timedelta(seconds=seconds)).isoformat() + _fraction(rest)
    except OverflowError:
        raise _far(count * nanoseconds) from None


def _within_a_day(count: int, nanoseconds: int) -> int:
    total = count * nanoseconds
    if not 0 <= total < NANOSECONDS_PER_DAY:
        raise Mismatch(Code.RANGE, f"expected a time before 24:00:00, got {total} ns since midnight")
    return total


def _microseconds(nanoseconds: int) -> int:
    microseconds, rest = divmod(nanoseconds, 1000)
    if rest:
        raise Mismatch(Code.PRECISION, f"expected at most microseconds, got {nanoseconds} ns")
    return microseconds


def _fraction(nanoseconds: int) -> str:
    """Nothing, or as many digits as are needed, in threes."""
    digits = f"{nanoseconds:09}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return digits and "." + digits


def _far(nanoseconds: int) -> Mismatch:
    return Mismatch(Code.RANGE, f"expected a moment in the years 1 to 9999, got {nanoseconds} ns since 1970")


Convert = Callable[[Any], object]
_Make = Callable[[ValueType, ColumnKind], Convert]

_encode = msgspec.json.Encoder(decimal_format="number").encode
_FLOAT_OR_INTEGER = "a float or an integer"
_WANTED = {
    **dict.fromkeys(INTEGER_BITS, "integer"),
    "numeric": "a decimal or an integer",
    "real": _FLOAT_OR_INTEGER,
    "double precision": _FLOAT_OR_INTEGER,
    "varchar": "text",
    "timestamptz": "timestamp",
    "bytea": "bytes",
    "event_id": "text, an integer or a uuid",
}
_REASONS = {
    TypeName.LOCAL_TIMESTAMP: ": a local timestamp has no time zone",
    TypeName.DURATION: ": no column takes a duration",
}


def converter(source: ValueType, kind: ColumnKind) -> Convert:
    """How a value of that type becomes a value of that kind; the converter raises :class:`Mismatch`.

    A pair that never fits gives a converter that refuses every value.
    """
    if kind.name == "jsonb":
        in_json = json_value(source)
        return in_json if isinstance(in_json, _Never) else lambda value: json_text(in_json(value))
    if kind.encoding in EPOCH_UNITS and source.name in (TypeName.INTEGER, TypeName.TEXT):
        return _epochs(source, kind)
    make = _CONVERTERS.get((kind.name, source.name))
    return make(source, kind) if make else _never(source, _WANTED.get(kind.name, kind.name))


def refusal(source: ValueType, kind: ColumnKind) -> str | None:
    """Why no value of that type can become a value of that kind; None where some can."""
    convert = converter(source, kind)
    return convert.detail if isinstance(convert, _Never) else None


def json_value(source: ValueType) -> Convert:
    """How a value of that type stands inside a jsonb; the converter raises :class:`Mismatch`."""
    unit = source.nanoseconds
    match source.name:
        case TypeName.FLOAT:
            return _json_float if source.bits == 64 else lambda value: float(single_text(_json_float(value)))
        case TypeName.BYTES:
            return lambda value: b64encode(value).decode()
        case TypeName.DECIMAL:
            return lambda value: scaled(value, source.scale)
        case TypeName.DATE:
            return lambda value: day(value).isoformat()
        case TypeName.TIME:
            return lambda value: time_text(value, unit)
        case TypeName.TIMESTAMP:
            return lambda value: moment_text(value, unit) + "Z"
        case TypeName.LOCAL_TIMESTAMP:
            return lambda value: moment_text(value, unit)
        case TypeName.UUID:
            return lambda value: str(UUID(bytes=value))
        case TypeName.DURATION:
            return _never(source, "jsonb")
        case _:
            return _same


def json_text(value: object) -> str:
    """The JSON text of such values, and of lists and dicts of them, as Postgres takes it.

    Raises:
        Mismatch: Postgres would not take it.
    """
    try:
        written = _encode(value)
    except RecursionError:
        raise Mismatch(Code.DEPTH, jsonb.TOO_DEEP) from None
    jsonb.check_depth(written)
    return jsonb.document(written)


@dataclass(frozen=True, slots=True)
class _Never:
    """Refuses every value."""

    detail: str

    def __call__(self, _: object) -> object:
        raise Mismatch(Code.TYPE, self.detail)


def _never(source: ValueType, wanted: str) -> Convert:
    return _Never(f"expected {wanted}, got {source.shown}{_REASONS.get(source.name, '')}")


def _same(value: object) -> object:
    return value


def _integer(_: ValueType, kind: ColumnKind) -> Convert:
    bits = INTEGER_BITS[kind.name]
    bound = 1 << (bits - 1)

    def convert(value: int) -> int:
        if not -bound <= value < bound:
            raise Mismatch(Code.RANGE, f"expected integer of {bits} bits, got {value}")
        return value

    return convert


def _real(source: ValueType, _: ColumnKind) -> Convert:
    return _same if source.bits == 32 and source.name is TypeName.FLOAT else _held("real", _single)


def _double(source: ValueType, _: ColumnKind) -> Convert:
    return _same if source.name is TypeName.FLOAT else _held("double precision", float)


def _held(name: str, nearest: Callable[[float], float]) -> Convert:
    """Converts what a float of that type holds without a change; NaN is itself."""

    def convert(value: float) -> float:
        held = nearest(value)
        if held == value or value != value:
            return held
        code = Code.RANGE if not held or math.isinf(held) else Code.PRECISION
        raise Mismatch(code, f"expected {name}, got {value}, which it cannot hold")

    return convert


def _single(value: float) -> float:
    """The nearest float of 4 bytes."""
    try:
        return float(SINGLE.unpack(SINGLE.pack(value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _decimal(source: ValueType, kind: ColumnKind) -> Convert:
    scale = source.scale if source.name is TypeName.DECIMAL else 0

    def convert(value: int) -> Decimal:
        decimal = scaled(value, scale)
        return numeric(decimal, lambda: printable(str(decimal)), *kind.args)

    return convert


def _text(_: ValueType, kind: ColumnKind) -> Convert:
    return lambda value: texts.text(value, *kind.args)


def _bytes(_: ValueType, kind: ColumnKind) -> Convert:
    return {"base64": texts.base64, "hex": texts.hexadecimal}[kind.encoding]


def _epochs(source: ValueType, kind: ColumnKind) -> Convert:
    if source.name is TypeName.TEXT:
        return _never(source, "integer")
    nanoseconds = EPOCH_UNITS[kind.encoding] * 1000
    return lambda value: moment(value, nanoseconds)


def _json_float(value: float) -> float:
    if not math.isfinite(value):
        raise Mismatch(Code.RANGE, f"expected a number of JSON, got {value}")
    return value


def _always(convert: Convert) -> _Make:
    def make(_source: ValueType, _kind: ColumnKind) -> Convert:
        return convert

    return make


_CONVERTERS: dict[tuple[str, TypeName], _Make] = {
    **{(name, TypeName.INTEGER): _integer for name in INTEGER_BITS},
    **{("real", each): _real for each in (TypeName.FLOAT, TypeName.INTEGER)},
    **{("double precision", each): _double for each in (TypeName.FLOAT, TypeName.INTEGER)},
    **{("numeric", each): _decimal for each in (TypeName.DECIMAL, TypeName.INTEGER)},
    ("boolean", TypeName.BOOLEAN): _always(_same),
    ("text", TypeName.TEXT): _text,
    ("varchar", TypeName.TEXT): _text,
    ("date", TypeName.DATE): _always(day),
    ("date", TypeName.TEXT): _always(texts.day),
    ("time", TypeName.TIME): lambda source, _: lambda value: time_of_day(value, source.nanoseconds),
    ("time", TypeName.TEXT): _always(texts.time_of_day),
    ("timestamptz", TypeName.TIMESTAMP): lambda source, _: lambda value: moment(value, source.nanoseconds),
    ("timestamptz", TypeName.TEXT): _always(texts.moment),
    ("uuid", TypeName.UUID): _always(lambda value: UUID(bytes=value)),
    ("uuid", TypeName.TEXT): _always(texts.uuid),
    ("bytea", TypeName.BYTES): _always(bytes),
    ("bytea", TypeName.TEXT): _bytes,
    ("event_id", TypeName.TEXT): _always(lambda value: check_event_id(texts.text(value))),
    ("event_id", TypeName.INTEGER): _always(str),
    ("event_id", TypeName.UUID): _always(lambda value: str(UUID(bytes=value))),
}

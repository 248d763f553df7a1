"""Google's well-known types: messages that stand for a single value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from offset_ledger.decoding.outcome import Code, Mismatch, printable
from offset_ledger.decoding.protobuf.parse import Parsed
from offset_ledger.decoding.protobuf.scalars import SCALARS
from offset_ledger.decoding.typed.convert import json_value
from offset_ledger.decoding.typed.types import TypeName, ValueType

Value = Callable[[Any], Any]
"""What a parsed message or scalar stands for; raises Mismatch."""

_PACKAGE = "google.protobuf"
TIMESTAMP = f"{_PACKAGE}.Timestamp"
FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799
BILLION = 1_000_000_000
WRAPPERS = frozenset(
    f"{_PACKAGE}.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_finite = json_value(SCALARS["double"].type)


def _nanoseconds(parsed: Parsed) -> int:
    seconds, nanos = parsed.get(1, 0), parsed.get(2, 0)
    if not FIRST_SECOND <= seconds <= LAST_SECOND:
        raise Mismatch(Code.RANGE, f"expected a timestamp in the years 1 to 9999, got {seconds} seconds since 1970")
    if not 0 <= nanos < BILLION:
        raise Mismatch(Code.RANGE, f"expected 0 to 999999999 nanos in a timestamp, got {nanos}")
    return int(seconds * BILLION + nanos)


def _any(_: Parsed) -> object:
    raise Mismatch(Code.TYPE, "expected a value, got google.protobuf.Any, whose type the schema does not say")


def _duration(_: Parsed) -> bytes:
    return b""  # no column takes one


def _json(parsed: Parsed) -> Any:
    match next(iter(parsed.items()), None):
        case (1, 0):
            return None
        case (2, number):
            return _finite(number)
        case (3 | 4, value):
            return value
        case (5, struct):
            return _struct(struct)
        case (6, values):
            return _list(values)
    raise Mismatch(Code.SYNTAX, "expected a kind of google.protobuf.Value, got none")


def _struct(parsed: Parsed) -> dict[str, Any]:
    return unique_members((entry.get(1, ""), _json(entry.get(2, {}))) for entry in parsed.get(1, ()))


def _list(parsed: Parsed) -> list[Any]:
    return [_json(value) for value in parsed.get(1, ())]


WELL_KNOWN: Mapping[str, tuple[ValueType, Value]] = {
    type_.shown: (type_, value)
    for type_, value in (
        (ValueType(TypeName.TIMESTAMP, TIMESTAMP, nanoseconds=1), _nanoseconds),
        (ValueType(TypeName.DURATION, f"{_PACKAGE}.Duration"), _duration),
        (ValueType(TypeName.OBJECT, f"{_PACKAGE}.Any"), _any),
        (ValueType(TypeName.OBJECT, f"{_PACKAGE}.Struct"), _struct),
        (ValueType(TypeName.OBJECT, f"{_PACKAGE}.Value"), _json),
        (ValueType(TypeName.ARRAY, f"{_PACKAGE}.ListValue"), _list),
    )
}
"""By full name; the wrappers beside them have the values of their only field."""


def unique_members(members: Any) -> dict[str, Any]:
    """The object of these members.

    Raises:
        Mismatch: a name comes twice, and only one of its values could be kept.
    """
    by_name: dict[str, Any] = {}
    for name, value in members:
        if name in by_name:
            raise Mismatch(Code.DUPLICATE_KEY, f"expected each key once, got '{printable(name)}' again")
        by_name[name] = value
    return by_name

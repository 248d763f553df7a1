"""Parsed fields -> typed values, including Google's well-known types, and messages as they stand in a jsonb."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from offset_ledger.decoding.jsonb import MAX_BYTES
from offset_ledger.decoding.outcome import Code, Mismatch, printable
from offset_ledger.decoding.protobuf.parse import Parsed
from offset_ledger.decoding.protobuf.schema import Field, ProtobufSchema
from offset_ledger.decoding.protobuf.wire import SCALARS
from offset_ledger.decoding.typed.conversions import json_value
from offset_ledger.decoding.typed.types import TypeName, ValueType

FILLED_PER_BYTE, SPARE_FILLED = 256, 1 << 16
Get = Callable[[Parsed], Any]
"""The value of a field in a parsed message, None where it has none; raises Mismatch."""
Value = Callable[[Any], Any]
"""The value of a parsed message or scalar; raises Mismatch."""


def is_plain_message(field: Field) -> bool:
    """Return whether paths go on by the fields of its message: it is single, and no well-known type."""
    return not (field.scalar or field.repeated or field.well_known in WELL_KNOWN or field.well_known in WRAPPERS)


class Values:
    """The typed values of the fields of one schema.

    In a jsonb a message is the object of the fields that are set, and of those without presence. The JSON of the latter
    takes no bytes in a message, so ``room`` limits how much of it may follow.
    """

    room = 0

    def __init__(self, schema: ProtobufSchema) -> None:
        self._schema = schema
        self._members: dict[str, tuple[list[tuple[Field, Get]], int]] = {}

    def begin(self, size: int) -> None:
        """Give room for a message of ``size`` bytes."""
        self.room = min(SPARE_FILLED + FILLED_PER_BYTE * size, MAX_BYTES)

    def type_of(self, field: Field) -> ValueType:
        """The type of the field's values; of all together where it is repeated."""
        if field.map:
            key, value = self._schema.message(str(field.message)).fields
            return ValueType(TypeName.OBJECT, f"map<{key.shown}, {value.shown}>")
        if field.repeated:
            return ValueType(TypeName.ARRAY, f"repeated {field.shown}", item=self._single(field)[0])
        return self._single(field)[0]

    def getter(self, field: Field) -> Get:
        """Return how the field's value is taken from a parsed message.

        A field of explicit presence that is not set has no value, whatever default a proto2 file declares; one of
        implicit presence has the zero of its type, and a repeated one is empty.
        """
        value, number = self._single(field)[1], field.number
        if field.repeated and not field.map:
            return lambda parsed: [value(item) for item in parsed.get(number, ())]
        return self._repeated(field) if field.map else _of_single(field, value)

    def _single(self, field: Field) -> tuple[ValueType, Value]:
        if field.scalar:
            return field.scalar.type, _symbol_of(field) if field.symbols else _same
        name = str(field.message)
        if field.well_known in WRAPPERS:
            (inner,) = self._schema.message(name).fields
            return replace(self.type_of(inner), shown=name), self.getter(inner)
        if field.well_known in WELL_KNOWN:
            return WELL_KNOWN[name]
        return ValueType(TypeName.OBJECT, name), lambda parsed: self._object(name, parsed)

    def _in_json(self, field: Field) -> Value:
        type_, value = self._single(field)
        convert = json_value(type_)

        def in_json(parsed: Any) -> Any:
            unconverted = value(parsed)
            return None if unconverted is None else convert(unconverted)

        return in_json

    def _repeated(self, field: Field) -> Get:
        number = field.number
        if not field.map:
            in_json = self._in_json(field)
            return lambda parsed: [in_json(item) for item in parsed.get(number, ())]
        key_field, value = self._schema.message(str(field.message)).fields
        key, item = _with_zero(key_field, _same), _with_zero(value, self._in_json(value))
        is_bool = key_field.shown == "bool"

        def name(entry: Parsed) -> str:
            return str(key(entry)).lower() if is_bool else str(key(entry))

        return lambda parsed: unique_members((name(entry), item(entry)) for entry in parsed.get(number, ()))

    def _object(self, name: str, parsed: Parsed) -> dict[str, Any]:
        if name not in self._members:
            fields = self._schema.message(name).fields
            filled = sum(len(field.name) + len('"":0,') for field in fields if not field.presence)
            self._members[name] = [(field, self.member(field)) for field in fields], filled
        members, filled = self._members[name]
        self.room -= filled
        if self.room < 0:
            raise Mismatch(Code.TOO_LARGE, "expected a message that is mostly of fields that are set, got few of many")
        return {field.name: get(parsed) for field, get in members if field.number in parsed or not field.presence}

    def member(self, field: Field) -> Get:
        """Return how the field's value becomes what stands in a jsonb."""
        return self._repeated(field) if field.repeated else _of_single(field, self._in_json(field))


def _of_single(field: Field, value: Value) -> Get:
    number = field.number
    if not field.presence:
        return _with_zero(field, value)
    return lambda parsed: value(parsed[number]) if number in parsed else None


def _with_zero(field: Field, value: Value) -> Get:
    number, zero = field.number, field.scalar.zero if field.scalar else {}
    return lambda parsed: value(parsed.get(number, zero))


def _symbol_of(field: Field) -> Value:
    assert field.symbols
    names, shown = field.symbols.names, field.shown

    def symbol(number: int) -> str:
        if number not in names:
            raise Mismatch(Code.RANGE, f"expected a symbol of {shown}, got {number}")
        return names[number]

    return symbol


def _same(value: Any) -> Any:
    return value


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
        (ValueType(TypeName.DURATION, f"{_PACKAGE}.Duration"), lambda _: b""),
        (ValueType(TypeName.OBJECT, f"{_PACKAGE}.Any"), _any),
        (ValueType(TypeName.OBJECT, f"{_PACKAGE}.Struct"), _struct),
        (ValueType(TypeName.OBJECT, f"{_PACKAGE}.Value"), _json),
        (ValueType(TypeName.ARRAY, f"{_PACKAGE}.ListValue"), _list),
    )
}
"""By full name; the wrappers beside them have the values of their only field."""


def unique_members(members: Any) -> dict[str, Any]:
    """Return the object of these members.

    Raises:
        Mismatch: a name comes twice, and only one of its values could be kept.
    """
    by_name: dict[str, Any] = {}
    for name, value in members:
        if name in by_name:
            raise Mismatch(Code.DUPLICATE_KEY, f"expected each key once, got '{printable(name)}' again")
        by_name[name] = value
    return by_name

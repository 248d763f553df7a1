"""What a message of Google's runtime must become: the row of some columns, or where it is refused."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from random import Random
from typing import Any

import numpy as np
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from offset_ledger.decoding.outcome import DecodedRow
from offset_ledger.pipeline_file.json_path import format_path
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, RecordShape
from tests.unit.decoding.protobuf.random_schemas import all_fields

F = FieldDescriptor
_TYPES = {
    **dict.fromkeys((F.TYPE_INT32, F.TYPE_SINT32, F.TYPE_SFIXED32), ("integer",)),
    **dict.fromkeys((F.TYPE_INT64, F.TYPE_SINT64, F.TYPE_SFIXED64, F.TYPE_UINT32, F.TYPE_FIXED32), ("bigint",)),
    **dict.fromkeys((F.TYPE_UINT64, F.TYPE_FIXED64), ("numeric", 20, 0)),
    F.TYPE_FLOAT: ("real",),
    F.TYPE_DOUBLE: ("double precision",),
    F.TYPE_BOOL: ("boolean",),
    F.TYPE_STRING: ("text",),
    F.TYPE_BYTES: ("bytea",),
    F.TYPE_ENUM: ("text",),
}
_PACKAGE = "google.protobuf."
_SIMPLE = ("number_value", "string_value", "bool_value")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Refused(Exception):
    """There is no row."""


@lru_cache(maxsize=4096)
def shape_of(descriptor: Descriptor, seed: int, documents: bool = True) -> tuple[RecordShape, tuple[Any, ...]]:
    """A record shape with columns for random fields of the message, and the fields beside them."""
    random, columns, fields = Random(seed), [], []
    for path, field in all_fields(descriptor):
        type_ = _column_type(field, random.random() < 0.2 and documents)
        if random.random() < 0.8 and (documents or type_.name != "jsonb"):
            columns.append(Column(f"c{len(columns)}", type_, path, random.random() < 0.9))
            fields.append(field)
    return RecordShape(None, None, tuple(columns)), tuple(fields)


def _column_type(field: FieldDescriptor, document: bool) -> ColumnType:
    inner = field.message_type
    if field.is_repeated or document:
        return ColumnType("jsonb")
    if inner and inner.full_name == f"{_PACKAGE}Timestamp":
        return ColumnType("timestamptz")
    if inner and inner.full_name.startswith(_PACKAGE) and inner.full_name.endswith("Value"):
        field = inner.fields[0] if inner.name not in ("Value", "ListValue") else field
    if field.message_type:
        return ColumnType("jsonb")
    name, *args = _TYPES[field.type]
    return ColumnType(name, tuple(args))


def expected_row(message: Any, shape: RecordShape, fields: tuple[Any, ...]) -> list[Any] | set[str]:
    """The values of the row, jsonb as Python has it; or the paths that are refused."""
    values, refused = [], set()
    for column, field in zip(shape.columns, fields, strict=True):
        try:
            values.append(_at(message, column, field))
        except Refused as at:
            refused.add(str(at) or format_path(column.path))
    return refused or values


def row_values(row: DecodedRow, shape: RecordShape) -> list[Any]:
    """The decoded values, jsonb as Python has it."""
    types = [column.type.name for column in shape.columns]
    return [
        json.loads(value) if name == "jsonb" and isinstance(value, str) else value
        for name, value in zip(types, row.values, strict=True)
    ]


def _at(message: Any, column: Column, field: FieldDescriptor) -> Any:
    for depth, step in enumerate(column.path[:-1], start=1):
        if not message.HasField(step):
            if column.nullable:
                return None
            raise Refused(format_path(column.path[:depth]))
        message = getattr(message, step)
    value = _value(message, field, column)
    if value is None and not column.nullable:
        raise Refused
    return value


def _value(message: Any, field: FieldDescriptor, column: Column) -> Any:
    if field.has_presence and not message.HasField(field.name):
        return None
    value = getattr(message, field.name)
    if column.type.name == "jsonb":
        return _json_field(value, field)
    inner = field.message_type
    if inner and inner.name == "Timestamp":
        return _EPOCH + timedelta(microseconds=_nanoseconds(value, 1000) // 1000)
    if inner:
        field, value = inner.fields[0], value.value
    if field.enum_type:
        return _symbol(field, value)
    return Decimal(value) if column.type.name == "numeric" else value


def _symbol(field: Any, number: int) -> str:
    names = [value.name for value in field.enum_type.values if value.number == number]
    if not names:
        raise Refused
    return str(names[0])


def _nanoseconds(value: Any, unit: int) -> int:
    if not (-62_135_596_800 <= value.seconds <= 253_402_300_799 and 0 <= value.nanos < 10**9) or value.nanos % unit:
        raise Refused
    return int(value.seconds * 10**9 + value.nanos)


def _json_field(value: Any, field: Any) -> Any:
    if field.message_type and field.message_type.GetOptions().map_entry:
        _, item = field.message_type.fields
        return {str(key).lower() if isinstance(key, bool) else str(key): _json(value[key], item) for key in value}
    return [_json(item, field) for item in value] if field.is_repeated else _json(value, field)


def _json(value: Any, field: Any) -> Any:
    if field.message_type:
        return _json_message(value)
    if field.enum_type:
        return _symbol(field, value)
    if field.type == field.TYPE_BYTES:
        return b64encode(value).decode()
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Refused
        return float(str(np.float32(value))) if field.type == field.TYPE_FLOAT else value
    return value


def _json_message(message: Any) -> Any:
    name = message.DESCRIPTOR.full_name.removeprefix(_PACKAGE)
    if name in ("Duration", "Any"):
        raise Refused
    if name == "Timestamp":
        nanoseconds = _nanoseconds(message, 1)
        return ("moment", nanoseconds)
    if name == "Struct":
        return {key: _json_message(message.fields[key]) for key in message.fields}
    if name == "ListValue":
        return [_json_message(value) for value in message.values]
    if name == "Value":
        kind = message.WhichOneof("kind")
        if kind is None or (kind == "null_value" and message.null_value):
            raise Refused
        value = getattr(message, kind)
        if kind == "number_value" and not math.isfinite(value):
            raise Refused
        return None if kind == "null_value" else value if kind in _SIMPLE else _json_message(value)
    if message.DESCRIPTOR.full_name.startswith(_PACKAGE) and name.endswith("Value"):
        return _json(message.value, message.DESCRIPTOR.fields[0])
    return {
        field.name: _json_field(getattr(message, field.name), field)
        for field in message.DESCRIPTOR.fields
        if not field.has_presence or message.HasField(field.name)
    }


def same(expected: Any, found: Any) -> bool:
    """Whether both are the same value of the same type: NaN is itself, -0.0 is not 0.0."""
    if isinstance(expected, tuple) and expected and expected[0] == "moment":
        return isinstance(found, str) and _read_moment(found) == expected[1]
    if type(expected) is not type(found):
        return False
    if isinstance(expected, list):
        return len(expected) == len(found) and all(map(same, expected, found))
    if isinstance(expected, dict):
        return expected.keys() == found.keys() and all(same(each, found[key]) for key, each in expected.items())
    return repr(expected) == repr(found)


def _read_moment(text: str) -> int:
    whole, _, fraction = text.removesuffix("Z").partition(".")
    assert text.endswith("Z")
    seconds = (datetime.fromisoformat(whole).replace(tzinfo=UTC) - _EPOCH) // timedelta(seconds=1)
    return seconds * 10**9 + int(fraction.ljust(9, "0"))

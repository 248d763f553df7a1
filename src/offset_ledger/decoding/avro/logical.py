"""Logical types: what a primitive, or a fixed, means; one that is unknown or not valid is ignored, as Avro says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from offset_ledger.decoding.typed.types import TypeName, ValueType

PRIMITIVES = {
    "null": ValueType(TypeName.NULL, "null"),
    "boolean": ValueType(TypeName.BOOLEAN, "boolean"),
    "int": ValueType(TypeName.INTEGER, "int", bits=32),
    "long": ValueType(TypeName.INTEGER, "long", bits=64),
    "float": ValueType(TypeName.FLOAT, "float", bits=32),
    "double": ValueType(TypeName.FLOAT, "double", bits=64),
    "bytes": ValueType(TypeName.BYTES, "bytes"),
    "string": ValueType(TypeName.TEXT, "string"),
}
_MILLIS, _MICROS, _NANOS = 1_000_000, 1_000, 1
_ON_INTEGERS = {
    ("int", "date"): (TypeName.DATE, 0),
    ("int", "time-millis"): (TypeName.TIME, _MILLIS),
    ("long", "time-micros"): (TypeName.TIME, _MICROS),
    ("long", "timestamp-millis"): (TypeName.TIMESTAMP, _MILLIS),
    ("long", "timestamp-micros"): (TypeName.TIMESTAMP, _MICROS),
    ("long", "timestamp-nanos"): (TypeName.TIMESTAMP, _NANOS),
    ("long", "local-timestamp-millis"): (TypeName.LOCAL_TIMESTAMP, _MILLIS),
    ("long", "local-timestamp-micros"): (TypeName.LOCAL_TIMESTAMP, _MICROS),
    ("long", "local-timestamp-nanos"): (TypeName.LOCAL_TIMESTAMP, _NANOS),
}
_ON_FIXED = {("uuid", 16): TypeName.UUID, ("duration", 12): TypeName.DURATION}


def meaning(wire: str, size: int, plain: ValueType, attributes: Mapping[str, Any]) -> ValueType:
    """The type that the attributes of a schema give to what is written as ``wire``; ``plain`` where they give none."""
    name = attributes.get("logicalType")
    if not isinstance(name, str):
        return plain
    if name == "decimal" and wire in ("bytes", "fixed"):
        return _decimal(attributes, _digits(size) if wire == "fixed" else None) or plain
    if wire == "fixed" and (name, size) in _ON_FIXED:
        return ValueType(_ON_FIXED[name, size], name)
    if (wire, name) in _ON_INTEGERS:
        type_name, nanoseconds = _ON_INTEGERS[wire, name]
        return ValueType(type_name, name, nanoseconds=nanoseconds)
    return plain


def _decimal(attributes: Mapping[str, Any], digits: int | None) -> ValueType | None:
    precision, scale = attributes.get("precision"), attributes.get("scale", 0)
    if type(precision) is not int or type(scale) is not int:
        return None
    if not 0 <= scale <= precision or precision < 1 or (digits is not None and precision > digits):
        return None
    return ValueType(TypeName.DECIMAL, f"decimal({precision},{scale})", scale=scale)


def _digits(size: int) -> int:
    """How many decimal digits so many bytes of two's complement certainly hold."""
    return int((8 * size - 1) * 0.30102999566398120) if size else 0

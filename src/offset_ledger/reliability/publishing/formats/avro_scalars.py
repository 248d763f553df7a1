"""Single values as Avro writes them, by their type and logical type."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from offset_ledger.reliability.publishing.formats import exact
from offset_ledger.reliability.publishing.formats.misfit import refuse

Write = Callable[[Any], bytes]
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_BITS = {"int": 32, "long": 64}
_FLOATS = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}
_UNITS = {"millis": 1_000_000, "micros": 1_000, "nanos": 1}


def long(value: int) -> bytes:
    """A number as zigzag and base 128."""
    left = (value << 1) ^ (value >> 63)
    written = bytearray()
    while left > 0x7F:
        written.append(left & 0x7F | 0x80)
        left >>= 7
    written.append(left)
    return bytes(written)


def scalar_writer(said: Mapping[str, Any], default: bool) -> Write:
    """What writes a value of the type.

    A ``default`` of a schema is of the type alone, whatever its logical type, and bytes are a text of as many
    characters.
    """
    kind = said["type"]
    logical = None if default else said.get("logicalType")
    if kind == "null":
        return lambda value: b"" if value is None else refuse("null", value)
    if kind == "boolean":
        return lambda value: b"\1" if exact.boolean(value) else b"\0"
    if kind in _BITS:
        read = _whole(kind, logical)
        return lambda value: long(read(value))
    if kind in _FLOATS:
        return _float(kind, default)
    if kind == "enum":
        return _symbol(said)
    if kind == "string":
        return _text(logical)
    return _bytes(said, logical, default)


def _whole(kind: str, logical: str | None) -> Callable[[Any], int]:
    name, _, unit = (logical or "").rpartition("-")
    if (kind, logical) == ("int", "date"):
        return exact.day
    if (kind, logical) in (("int", "time-millis"), ("long", "time-micros")):
        return lambda value: exact.clock(value, _UNITS[unit])
    if kind == "long" and name in ("timestamp", "local-timestamp") and unit in _UNITS:
        return lambda value: exact.moment(value, _UNITS[unit], name != "timestamp")
    bound = 2 ** (_BITS[kind] - 1)
    return lambda value: exact.integer(value, kind, -bound, bound - 1)


def _float(kind: str, default: bool) -> Write:
    pack, single = _FLOATS[kind].pack, kind == "float"
    if default:
        return lambda value: pack(value) if type(value) in (int, float) else refuse(kind, value)
    return lambda value: pack(exact.floating(value, kind, single))


def _symbol(said: Mapping[str, Any]) -> Write:
    written = {symbol: long(index) for index, symbol in enumerate(said["symbols"])}
    name = f"a symbol of enum {said['name']}"

    def symbol(value: Any) -> bytes:
        encoded = written.get(value) if isinstance(value, str) else None
        return refuse(name, value) if encoded is None else encoded

    return symbol


def _text(logical: str | None) -> Write:
    if logical == "uuid":
        return lambda value: _sized(str(exact.uuid(value)).encode())
    return lambda value: _sized(exact.text(value, "string"))


def _bytes(said: Mapping[str, Any], logical: str | None, default: bool) -> Write:
    size = said.get("size") if said["type"] == "fixed" else None
    name = "bytes" if size is None else f"fixed {said['name']} of {size} bytes"
    read = _latin if default else lambda value: exact.binary(value, name)
    if logical == "decimal" and type(said.get("precision")) is int:  # else it is none, and ignored as Avro says
        return _decimal(int(said["precision"]), int(said.get("scale", 0)), size)
    if (logical, size) == ("uuid", 16):
        return lambda value: exact.uuid(value).bytes

    def written(value: Any) -> bytes:
        data = read(value)
        if size is None:
            return _sized(data)
        return data if len(data) == size else refuse(name, value)

    return written


def _decimal(precision: int, scale: int, size: int | None) -> Write:
    def decimal(value: Any) -> bytes:
        number = exact.unscaled(value, precision, scale)
        if size is not None:
            return number.to_bytes(size, signed=True)
        return _sized(number.to_bytes(((number + (number < 0)).bit_length() + 8) // 8, signed=True))

    return decimal


def _latin(value: Any) -> bytes:
    try:
        return str(value).encode("latin-1") if isinstance(value, str) else refuse("a text of bytes", value)
    except UnicodeEncodeError:
        return refuse("a text of bytes", value)


def _sized(data: bytes) -> bytes:
    return long(len(data)) + data

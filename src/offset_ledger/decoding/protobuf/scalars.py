"""Protobuf's scalar types: how each stands on the wire, and what it means."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from offset_ledger.decoding.outcome import Code
from offset_ledger.decoding.protobuf.wire import TRUNCATED, Malformed, Wire, fixed, span, varint
from offset_ledger.decoding.typed.types import TypeName, ValueType

Read = Callable[[bytes, int, int], tuple[object, int]]
"""The value that begins at a place, and where the rest begins; the data end at the third argument."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar type; ``zero`` is what an absent field of implicit presence has."""

    type: ValueType
    wire: Wire
    zero: object
    read: Read

    @property
    def packable(self) -> bool:
        """Whether a repeated field of it can stand in one length."""
        return self.wire is not Wire.LEN


def _signed(name: str, bits: int) -> Read:
    """A plain varint: negative numbers are extended to 64 bits, also those of 32."""
    limit = 1 << (bits - 1)

    def read(data: bytes, at: int, end: int) -> tuple[object, int]:
        value, at = varint(data, at, end)
        value -= (value >> 63) << 64
        if not -limit <= value < limit:
            raise Malformed(f"expected {name}, got {value}", Code.RANGE)
        return value, at

    return read


def _unsigned(name: str, bits: int) -> Read:
    def read(data: bytes, at: int, end: int) -> tuple[object, int]:
        value, at = varint(data, at, end)
        if value >> bits:
            raise Malformed(f"expected {name}, got {value}", Code.RANGE)
        return value, at

    return read


def _zigzag(name: str, bits: int) -> Read:
    unsigned = _unsigned(f"a varint of {name}", bits)

    def read(data: bytes, at: int, end: int) -> tuple[object, int]:
        value, at = unsigned(data, at, end)
        assert isinstance(value, int)
        return (value >> 1) ^ -(value & 1), at

    return read


def _boolean(data: bytes, at: int, end: int) -> tuple[object, int]:
    value, at = varint(data, at, end)
    if value > 1:
        raise Malformed(f"expected bool, 0 or 1, got {value}", Code.RANGE)
    return value == 1, at


def _fixed(form: str) -> Read:
    layout = struct.Struct(form)

    def read(data: bytes, at: int, end: int) -> tuple[object, int]:
        if end - at < layout.size:
            raise Malformed(TRUNCATED)
        return layout.unpack_from(data, at)[0], fixed(layout.size, at, end)

    return read


def _string(data: bytes, at: int, end: int) -> tuple[object, int]:
    first, last = span(data, at, end)
    try:
        return data[first:last].decode(), last
    except UnicodeDecodeError as error:
        detail = f"expected UTF-8, got byte {data[first + error.start]:#04x} at {error.start}"
        raise Malformed(detail, Code.ENCODING) from None


def _bytes(data: bytes, at: int, end: int) -> tuple[object, int]:
    first, last = span(data, at, end)
    return data[first:last], last


def _integer(name: str, wire: Wire, read: Read, bits: int, signed: bool = True) -> Scalar:
    return Scalar(ValueType(TypeName.INTEGER, name, bits, signed), wire, 0, read)


ENUM_READ = _signed("the number of an enum", 32)
SCALARS: Mapping[str, Scalar] = {
    scalar.type.shown: scalar
    for scalar in (
        Scalar(ValueType(TypeName.FLOAT, "double", 64), Wire.I64, 0.0, _fixed("<d")),
        Scalar(ValueType(TypeName.FLOAT, "float", 32), Wire.I32, 0.0, _fixed("<f")),
        Scalar(ValueType(TypeName.BOOLEAN, "bool"), Wire.VARINT, False, _boolean),
        Scalar(ValueType(TypeName.TEXT, "string"), Wire.LEN, "", _string),
        Scalar(ValueType(TypeName.BYTES, "bytes"), Wire.LEN, b"", _bytes),
        _integer("int32", Wire.VARINT, _signed("int32", 32), 32),
        _integer("int64", Wire.VARINT, _signed("int64", 64), 64),
        _integer("uint32", Wire.VARINT, _unsigned("uint32", 32), 32, signed=False),
        _integer("uint64", Wire.VARINT, _unsigned("uint64", 64), 64, signed=False),
        _integer("sint32", Wire.VARINT, _zigzag("sint32", 32), 32),
        _integer("sint64", Wire.VARINT, _zigzag("sint64", 64), 64),
        _integer("fixed32", Wire.I32, _fixed("<I"), 32, signed=False),
        _integer("fixed64", Wire.I64, _fixed("<Q"), 64, signed=False),
        _integer("sfixed32", Wire.I32, _fixed("<i"), 32),
        _integer("sfixed64", Wire.I64, _fixed("<q"), 64),
    )
}
"""By Protobuf's own names."""

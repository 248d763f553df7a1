"""Protobuf's wire format, read strictly: tags, varints, lengths, the scalar types, and unknown fields."""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from offset_ledger.decoding.outcome import Code
from offset_ledger.decoding.typed.decoder import Malformed
from offset_ledger.decoding.typed.types import TypeName, ValueType

MAX_DEPTH = 100
"""Messages and groups within the outermost message, as in Google's own parsers."""
TOO_DEEP = f"expected at most {MAX_DEPTH} nested messages, got more"
TRUNCATED = "expected the rest of the message, got its end"


class Wire(IntEnum):
    """The wire types, by the names of the specification."""

    VARINT = 0
    I64 = 1
    LEN = 2
    SGROUP = 3
    EGROUP = 4
    I32 = 5


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return a varint of at most 64 bits in at most ten bytes, and where the rest begins."""
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                break
            return value, at
        shift += 7
        if shift == 70:
            break
    else:
        raise Malformed(TRUNCATED)
    raise Malformed("expected a varint of at most 64 bits, got a longer one")


def _varint32(data: bytes, at: int, end: int, what: str) -> tuple[int, int]:
    value, after = varint(data, at, min(end, at + 5)) if end - at < 6 else varint(data, at, end)
    if after - at > 5 or value >> 32:
        raise Malformed(f"expected {what} of at most 32 bits, got a longer one")
    return value, after


def tag(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A field's tag, its number times eight with the wire type, and where its value begins."""
    value, after = _varint32(data, at, end, "a tag")
    if value < 8:
        raise Malformed("expected a field, got the number 0")
    return value, after


def span(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return where a value that begins with its length begins and ends."""
    length, at = _varint32(data, at, end, "a length")
    if length > end - at:
        raise Malformed(f"expected {length} bytes, got {end - at}")
    return at, at + length


def fixed(size: int, at: int, end: int) -> int:
    """Return where the rest begins after a value of a fixed size."""
    if end - at < size:
        raise Malformed(TRUNCATED)
    return at + size


def skip(field_tag: int, data: bytes, at: int, end: int, depth: int) -> int:
    """Return where the rest begins after the value of an unknown field; groups are read to their end."""
    wire = field_tag & 7
    if wire == Wire.VARINT:
        return varint(data, at, end)[1]
    if wire == Wire.LEN:
        return span(data, at, end)[1]
    if wire == Wire.I64:
        return fixed(8, at, end)
    if wire == Wire.I32:
        return fixed(4, at, end)
    if wire == Wire.SGROUP:
        if depth >= MAX_DEPTH:
            raise Malformed(TOO_DEEP, Code.DEPTH)
        while at < end:
            inner, at = tag(data, at, end)
            if inner == field_tag + 1:
                return at
            at = skip(inner, data, at, end, depth + 1)
        raise Malformed(TRUNCATED)
    if wire == Wire.EGROUP:
        raise Malformed(f"expected a field, got the end of group {field_tag >> 3}, which has not begun")
    raise Malformed(f"expected a wire type from 0 to 5, got {wire}")


Read = Callable[[bytes, int, int], tuple[object, int]]
"""The value that begins at a place, and where the rest begins; the data end at the third argument."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar type; ``zero`` is the value of an absent field of implicit presence."""

    type: ValueType
    wire: Wire
    zero: object
    read: Read

    @property
    def packable(self) -> bool:
        """Return whether a repeated field of it can stand in one length."""
        return self.wire is not Wire.LEN


@dataclass(frozen=True, slots=True)
class Varint:
    """The reader of integers of ``bits`` bits from varints: negative ones have 64 bits, or are zigzag encoded."""

    name: str
    bits: int
    signed: bool = True
    zigzag: bool = False

    def __call__(self, data: bytes, at: int, end: int) -> tuple[int, int]:
        """Return the integer at ``at`` and the position after it; raises Malformed if the type cannot hold it."""
        value, at = varint(data, at, end)
        if self.zigzag or not self.signed:
            if value >> self.bits:
                raise Malformed(f"expected {self.name}, got {value}", Code.RANGE)
            return (value >> 1) ^ -(value & 1) if self.zigzag else value, at
        value -= (value >> 63) << 64
        if not -1 << (self.bits - 1) <= value < 1 << (self.bits - 1):
            raise Malformed(f"expected {self.name}, got {value}", Code.RANGE)
        return value, at


class Fixed:
    """The reader of numbers of a fixed size."""

    def __init__(self, form: str) -> None:
        self._layout = struct.Struct(form)

    def __call__(self, data: bytes, at: int, end: int) -> tuple[object, int]:
        """Return the number at ``at`` and the position after it."""
        after = fixed(self._layout.size, at, end)
        return self._layout.unpack_from(data, at)[0], after


def _boolean(data: bytes, at: int, end: int) -> tuple[object, int]:
    value, at = varint(data, at, end)
    if value > 1:
        raise Malformed(f"expected bool, 0 or 1, got {value}", Code.RANGE)
    return value == 1, at


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


def _integer(name: str, wire: Wire, form: str = "", zigzag: bool = False) -> Scalar:
    """Return an integer scalar; its name has its bits, and a ``u`` or a plain ``fixed`` if it has no sign."""
    bits, signed = int(name[-2:]), not name.startswith(("u", "fixed"))
    read = Fixed(form) if form else Varint(f"a varint of {name}" if zigzag else name, bits, signed, zigzag)
    return Scalar(ValueType(TypeName.INTEGER, name, bits, signed), wire, 0, read)


ENUM_READ = Varint("the number of an enum", 32)
SCALARS: Mapping[str, Scalar] = {
    scalar.type.shown: scalar
    for scalar in (
        Scalar(ValueType(TypeName.FLOAT, "double", 64), Wire.I64, 0.0, Fixed("<d")),
        Scalar(ValueType(TypeName.FLOAT, "float", 32), Wire.I32, 0.0, Fixed("<f")),
        Scalar(ValueType(TypeName.BOOLEAN, "bool"), Wire.VARINT, False, _boolean),
        Scalar(ValueType(TypeName.TEXT, "string"), Wire.LEN, "", _string),
        Scalar(ValueType(TypeName.BYTES, "bytes"), Wire.LEN, b"", _bytes),
        *(_integer(name, Wire.VARINT) for name in ("int32", "int64", "uint32", "uint64")),
        *(_integer(name, Wire.VARINT, zigzag=True) for name in ("sint32", "sint64")),
        _integer("fixed32", Wire.I32, "<I"),
        _integer("fixed64", Wire.I64, "<Q"),
        _integer("sfixed32", Wire.I32, "<i"),
        _integer("sfixed64", Wire.I64, "<q"),
    )
}
"""By Protobuf's own names."""

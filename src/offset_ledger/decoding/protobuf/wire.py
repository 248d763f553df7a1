"""Protobuf's wire format, read strictly: tags, varints, lengths, and what a reader does not know."""

from __future__ import annotations

from enum import IntEnum

from offset_ledger.config.json_path import format_path
from offset_ledger.decoding.outcome import Code
from offset_ledger.decoding.typed.decoder import Unreadable

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


class Malformed(Exception):
    """Bytes that are not a message of the schema; the steps of its place are collected on the way out."""

    def __init__(self, detail: str, code: Code = Code.SYNTAX) -> None:
        super().__init__(detail, code)
        self.detail, self.code = detail, code
        self.steps: list[str] = []

    def unreadable(self) -> Unreadable:
        """The same with its path."""
        return Unreadable(format_path(tuple(reversed(self.steps))), self.code, self.detail)


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A varint of at most 64 bits in at most ten bytes, and where the rest begins."""
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
    """Where a value that begins with its length begins and ends."""
    length, at = _varint32(data, at, end, "a length")
    if length > end - at:
        raise Malformed(f"expected {length} bytes, got {end - at}")
    return at, at + length


def fixed(size: int, at: int, end: int) -> int:
    """Where the rest begins after a value of a fixed size."""
    if end - at < size:
        raise Malformed(TRUNCATED)
    return at + size


def skip(field_tag: int, data: bytes, at: int, end: int, depth: int) -> int:
    """Where the rest begins after the value of an unknown field; groups are read to their end."""
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
        return _skip_group(field_tag, data, at, end, depth + 1)
    if wire == Wire.EGROUP:
        raise Malformed(f"expected a field, got the end of group {field_tag >> 3}, which has not begun")
    raise Malformed(f"expected a wire type from 0 to 5, got {wire}")


def _skip_group(start: int, data: bytes, at: int, end: int, depth: int) -> int:
    if depth > MAX_DEPTH:
        raise Malformed(TOO_DEEP, Code.DEPTH)
    while at < end:
        inner, at = tag(data, at, end)
        if inner == start + 1:
            return at
        at = skip(inner, data, at, end, depth)
    raise Malformed(TRUNCATED)

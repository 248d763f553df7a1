"""Fields of Protobuf messages, written by hand."""

from __future__ import annotations


def varint(number: int) -> bytes:
    """The varint of a number of 64 bits."""
    number &= 2**64 - 1
    content = bytearray()
    while number > 0x7F:
        content.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*content, number])


def number(field: int, content: int) -> bytes:
    """A field with a varint."""
    return varint(field << 3) + varint(content)


def chunk(field: int, content: bytes) -> bytes:
    """A field with a length."""
    return varint(field << 3 | 2) + varint(len(content)) + content

"""Random messages as Google's own runtime makes them, and damaged bytes."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor


def fill(random: Random, message: Any, depth: int = 0) -> Any:
    """Set some fields of the message, and all that are required."""
    for field in message.DESCRIPTOR.fields:
        if field.is_required or random.random() < (0.8 if depth < 2 else 0.3):
            _set(random, message, field, depth)
    return message


def _set(random: Random, message: Any, field: FieldDescriptor, depth: int) -> None:
    target = getattr(message, field.name)
    if field.message_type and field.message_type.GetOptions().map_entry:
        key, value = field.message_type.fields
        for _ in range(random.choice((0, 1, 1, 3))):
            if value.message_type:
                _fill_known(random, target[scalar(random, key)], depth + 1)
            else:
                target[scalar(random, key)] = scalar(random, value)
    elif field.is_repeated:
        for _ in range(random.choice((0, 1, 1, 2, 4))):
            if field.message_type:
                _fill_known(random, target.add(), depth + 1)
            else:
                target.append(scalar(random, field))
    elif field.message_type:
        target.SetInParent()
        if depth < 4 or any(each.is_required for each in field.message_type.fields):
            _fill_known(random, target, depth + 1)
    else:
        setattr(message, field.name, scalar(random, field))


def _fill_known(random: Random, message: Any, depth: int) -> None:
    name = message.DESCRIPTOR.full_name
    if name == "google.protobuf.Timestamp":
        message.seconds = random.choice((0, 1, -1, 1_700_000_000, -62_135_596_800, 253_402_300_799, 9_300_000_000))
        message.nanos = random.choice((0, 0, 1000, 999_999_000, 123_456_000, 1))
        if random.random() < 0.05:
            message.seconds, message.nanos = random.choice(((253_402_300_800, 0), (0, 10**9), (0, -1)))
    elif name == "google.protobuf.Value":
        _fill_value(random, message, depth)
    elif name == "google.protobuf.ListValue":
        for _ in range(random.choice((0, 1, 2)) if depth < 5 else 0):
            _fill_value(random, message.values.add(), depth + 1)
    elif name == "google.protobuf.Struct":
        for _ in range(random.choice((0, 1, 2)) if depth < 5 else 0):
            _fill_value(random, message.fields[_text(random)], depth + 1)
    else:
        fill(random, message, depth)


def _fill_value(random: Random, message: Any, depth: int) -> None:
    match random.choice(("null", "number", "string", "bool", "struct", "list")):
        case "null":
            message.null_value = 0
        case "number":
            message.number_value = random.choice((0.0, -1.5, 1e300, 3.0, math.pi))
        case "string":
            message.string_value = _text(random)
        case "bool":
            message.bool_value = random.random() < 0.5
        case "struct":
            message.struct_value.SetInParent()
            _fill_known(random, message.struct_value, depth + 1)
        case "list":
            message.list_value.SetInParent()
            _fill_known(random, message.list_value, depth + 1)


def scalar(random: Random, field: FieldDescriptor) -> Any:
    """A random value of the field's scalar type, often at an edge of it."""
    kind = field.type
    if field.enum_type:
        return random.choice([value.number for value in field.enum_type.values])
    if kind == field.TYPE_STRING:
        return _text(random)
    if kind == field.TYPE_BYTES:
        return random.randbytes(random.choice((0, 1, 3, 200)))
    if kind == field.TYPE_BOOL:
        return random.random() < 0.5
    if kind == field.TYPE_DOUBLE:
        return random.choice((0.0, -0.0, 1.5, math.pi, 5e-324, 1.7976931348623157e308, math.inf, math.nan, 3.0))
    if kind == field.TYPE_FLOAT:
        return random.choice((0.0, -0.0, 1.5, 0.1, 1e-45, 3.4028234e38, -math.inf, math.nan, 16_777_216.0))
    bits = 64 if field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64) else 32
    unsigned = field.cpp_type in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64)
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    edges = [low, high, 0, 1, 127, 128, 16_384, *([] if unsigned else [-1, -65])]
    return random.choice(edges) if random.random() < 0.6 else random.randint(low, high)


def _text(random: Random) -> str:
    return random.choice(
        ("", "a", "Zürich", "𝄞", "x" * 130, "true", "\\u0000", "1", f"k{random.randint(0, 9)}", '\n\t"')
    )


def damaged(random: Random, value: bytes) -> bytes:
    """The value with some bytes changed, removed or inserted."""
    content = bytearray(value)
    for _ in range(random.choice((1, 1, 2, 5))):
        at = random.randint(0, len(content))
        match random.choice(("cut", "flip", "insert", "remove", "append")):
            case "cut":
                del content[at:]
            case "flip" if at < len(content):
                content[at] ^= 1 << random.randint(0, 7)
            case "insert":
                content[at:at] = random.randbytes(random.choice((1, 2, 10)))
            case "remove":
                del content[at : at + random.choice((1, 2, 10))]
            case _:
                content += random.randbytes(random.choice((1, 2, 3)))
    return bytes(content)

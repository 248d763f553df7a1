"""Confluent's message indexes: which message of the schema a payload is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from google.protobuf.descriptor import Descriptor

from offset_ledger.decoding.outcome import Code, Mismatch
from offset_ledger.decoding.protobuf.schema import Message, ProtobufSchema, is_entry
from offset_ledger.decoding.protobuf.wire import Malformed, varint

MAX_INDEXES = 100
FIRST = (0,)
_MAX_INDEX = 2**31 - 1


def message_indexes(payload: bytes) -> tuple[tuple[int, ...], int]:
    """The indexes at the beginning of a payload, the outermost message first, and where the message begins.

    Raises:
        Mismatch: the payload does not begin with message indexes.
    """
    try:
        count, at = _zigzag(payload, 0)
        if not 0 <= count <= MAX_INDEXES:
            raise Mismatch(Code.SYNTAX, f"expected 0 to {MAX_INDEXES} message indexes, got {count}")
        indexes = []
        for _ in range(count):
            index, at = _zigzag(payload, at)
            indexes.append(index)
    except Malformed as malformed:
        raise Mismatch(Code.SYNTAX, f"expected message indexes: {malformed.detail}") from None
    if any(not 0 <= index <= _MAX_INDEX for index in indexes):
        raise Mismatch(Code.SYNTAX, f"expected message indexes of 31 bits, got {indexes}")
    return tuple(indexes) or FIRST, at


def message_at(schema: ProtobufSchema, indexes: Sequence[int]) -> Message:
    """The message that Confluent's message indexes name.

    Some serializers count the entry of a map as a nested message, others do not; where both ways lead to a message,
    nothing says which one was meant.

    Raises:
        Mismatch: there is no such message, or there are two.
    """
    first, *rest = indexes
    top = [*schema.file.message_types_by_name.values()]
    full_names = {at.full_name for entries in (True, False) if (at := _nested(top[first : first + 1], rest, entries))}
    if len(full_names) != 1:
        names = " and ".join(sorted(full_names)) or "none"
        raise Mismatch(Code.SYNTAX, f"expected the indexes of one message, got {[*indexes]}, which fit {names}")
    return schema.message(full_names.pop())


def message_reader(schema: ProtobufSchema) -> Callable[[bytes], tuple[str, int]]:
    """What gives the full name of the message that a payload is, and where it begins; it raises Mismatch."""

    def read(payload: bytes) -> tuple[str, int]:
        indexes, at = message_indexes(payload)
        return message_at(schema, indexes).full_name, at

    return read


def _nested(types: Sequence[Descriptor], indexes: Sequence[int], with_entries: bool) -> Descriptor | None:
    for index in indexes:
        inner = [each for at in types for each in at.nested_types if with_entries or not is_entry(each)]
        types = inner[index : index + 1]
    return types[0] if types and not is_entry(types[0]) else None


def _zigzag(payload: bytes, at: int) -> tuple[int, int]:
    value, at = varint(payload, at, len(payload))
    return (value >> 1) ^ -(value & 1), at

"""What is left of a message where its columns have taken theirs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from offset_ledger.config.json_path import format_path
from offset_ledger.decoding.outcome import Mismatch
from offset_ledger.decoding.protobuf.parse import Parsed
from offset_ledger.decoding.protobuf.schema import Field, Message, ProtobufSchema
from offset_ledger.decoding.protobuf.values import Get, Values, is_plain_message
from offset_ledger.decoding.rest import RestRefused
from offset_ledger.decoding.shape import Node


@dataclass(frozen=True, slots=True)
class Left:
    """The fields of a message that no path leads to, and the messages in it that paths lead through."""

    path: str
    fields: tuple[tuple[Field, Get], ...]
    inner: tuple[tuple[Field, Left], ...]

    @property
    def ever(self) -> bool:
        """Whether there can be anything."""
        return bool(self.fields) or any(left.ever for _, left in self.inner)

    def of(self, parsed: Parsed) -> dict[str, Any]:
        """What is left of a parsed message, as it stands in a jsonb; raises RestRefused."""
        rest = {
            field.name: self._value(field, get, parsed)
            for field, get in self.fields
            if field.number in parsed or not field.presence
        }
        for field, left in self.inner:
            if field.number in parsed and (members := left.of(parsed[field.number])):
                rest[field.name] = members
        return rest

    def _value(self, field: Field, get: Get, parsed: Parsed) -> Any:
        try:
            return get(parsed)
        except Mismatch as mismatch:
            raise RestRefused.by(self.path + format_path((field.name,))[1:], mismatch) from None


def left_of(schema: ProtobufSchema, values: Values, message: Message, node: Node) -> Left:
    """What is left of messages of this type, where the tree has taken its leaves."""
    unread = [field for field in message.fields if field.name not in node.members]
    through = [(field, node.members[field.name]) for field in message.fields if field.name in node.members]
    inner = [
        (field, left_of(schema, values, schema.message(str(field.message)), member))
        for field, member in through
        if not member.leaves and is_plain_message(field)
    ]
    return Left(node.path, tuple((field, values.member(field)) for field in unread), tuple(inner))

"""The exact reader of Protobuf messages: each is parsed whole, then its values are taken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from offset_ledger.config.json_path import format_path
from offset_ledger.decoding.kinds import Flags
from offset_ledger.decoding.outcome import Code, Mismatch, Proven, Reason, RestRefused
from offset_ledger.decoding.protobuf.lockstep import LockstepReader, Unprovable
from offset_ledger.decoding.protobuf.parse import Parsed, Parser
from offset_ledger.decoding.protobuf.schema import Field, Message, ProtobufSchema
from offset_ledger.decoding.protobuf.values import Get, Values, is_plain_message
from offset_ledger.decoding.protobuf.wire import Malformed
from offset_ledger.decoding.shape import Leaf, Node
from offset_ledger.decoding.typed.conversions import Convert, conversion
from offset_ledger.decoding.typed.decoder import Found

_NOT_SET = "expected a value, the field is not set"
NO_FIELD = "expected a value, the schema has no such field"


@dataclass(frozen=True, slots=True)
class _Place:
    """A field that paths lead to or through; ``inner`` are the places in its message."""

    field: Field
    node: Node
    get: Get
    converts: tuple[tuple[Leaf, Convert], ...]
    inner: _Places | None


@dataclass(frozen=True, slots=True)
class _Places:
    """The places in one message, and the reasons against paths that its type does not have."""

    places: tuple[_Place, ...]
    missing: tuple[tuple[int, Reason], ...]


class MessageReader:
    """Reads one message type of a schema for the leaves of one tree.

    See :class:`~offset_ledger.decoding.typed.decoder.Reader`.
    """

    def __init__(self, schema: ProtobufSchema, message: Message, root: Node) -> None:
        self._schema, self._message, self._root = schema, message, root
        self._parser = Parser(schema)
        self._values = Values(schema)
        self._places = self._compile(message, root)

    def read(self, payload: bytes, reading: Found) -> None:
        """Fill the slots; raises Unreadable."""
        try:
            parsed = self._parser.parse(payload, self._message)
        except Malformed as malformed:
            raise malformed.unreadable() from None
        self._values.begin(len(payload))
        _fill(self._places, parsed, reading)

    def rest(self, payload: bytes) -> dict[str, Any]:
        """Return what is left of a message that was read; raises RestRefused."""
        self._values.begin(len(payload))
        return self._left.of(self._parser.parse(payload, self._message)) if self._left else {}

    @cached_property
    def _left(self) -> Left | None:
        left = left_of(self._schema, self._values, self._message, self._root)
        return left if left.ever else None

    def prove(self, values: pa.BinaryArray, candidates: Flags) -> Proven | None:
        """The messages that are certainly read without a reason, as columns; None where they cannot walk together."""
        return self._lockstep.prove(values, candidates) if self._lockstep else None

    @cached_property
    def _lockstep(self) -> LockstepReader | None:
        try:
            return LockstepReader(self._schema, self._message, self._root)
        except Unprovable:
            return None

    def _compile(self, message: Message, node: Node) -> _Places:
        places: list[_Place] = []
        missing: list[tuple[int, Reason]] = []
        for name, member in node.members.items():
            if field := message.by_name.get(name):
                places.append(self._place(field, member))
            else:
                missing += _against(member, Code.MISSING, NO_FIELD)
        return _Places(tuple(places), tuple(missing))

    def _place(self, field: Field, node: Node) -> _Place:
        type_ = self._values.type_of(field)
        converts = tuple((leaf, conversion(type_, leaf.kind).convert) for leaf in node.leaves)
        inner = None
        if node.members and is_plain_message(field):
            inner = self._compile(self._schema.message(str(field.message)), node)
        return _Place(field, node, self._values.getter(field), converts, inner)


def _fill(places: _Places, parsed: Parsed, reading: Found) -> None:
    reading.reasons += places.missing
    for place in places.places:
        for leaf, convert in place.converts:
            try:
                value = place.get(parsed)
                if value is not None:
                    reading.slots[leaf.slot] = convert(value)
                elif not leaf.nullable:
                    reading.reasons.append((leaf.slot, Reason(place.node.path, Code.NULL, _NOT_SET)))
            except Mismatch as mismatch:
                reading.reasons.append((leaf.slot, Reason(place.node.path, mismatch.code, mismatch.detail)))
        if place.node.members:
            _fill_members(place, parsed, reading)


def _fill_members(place: _Place, parsed: Parsed, reading: Found) -> None:
    inner = parsed.get(place.field.number)
    if inner is None and place.field.presence:
        for member in place.node.members.values():
            reading.reasons += _against(member, Code.NULL, _NOT_SET, place.node.path)
    elif place.inner and inner is not None:
        _fill(place.inner, inner, reading)
    else:
        detail = f"expected a message, got {place.field.shown}"
        for member in place.node.members.values():
            reason = Reason(place.node.path, Code.TYPE, detail)
            reading.reasons += [(leaf.slot, reason) for leaf in member.descendants()]


def _against(node: Node, code: Code, detail: str, path: str | None = None) -> Iterator[tuple[int, Reason]]:
    """A reason against each value at or below the node that the row cannot do without."""
    reason = Reason(path or node.path, code, detail)
    return ((leaf.slot, reason) for leaf in node.descendants() if not leaf.nullable)


@dataclass(frozen=True, slots=True)
class Left:
    """The fields of a message that no path leads to, and the messages in it that paths lead through."""

    path: str
    fields: tuple[tuple[Field, Get], ...]
    inner: tuple[tuple[Field, Left], ...]

    @property
    def ever(self) -> bool:
        """Return whether there can be anything."""
        return bool(self.fields) or any(left.ever for _, left in self.inner)

    def of(self, parsed: Parsed) -> dict[str, Any]:
        """Return what is left of a parsed message, as it stands in a jsonb; raises RestRefused."""
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
    """Return what is left of messages of this type, where the tree has taken its leaves."""
    unread = [field for field in message.fields if field.name not in node.members]
    through = [(field, node.members[field.name]) for field in message.fields if field.name in node.members]
    inner = [
        (field, left_of(schema, values, schema.message(str(field.message)), member))
        for field, member in through
        if not member.leaves and is_plain_message(field)
    ]
    return Left(node.path, tuple((field, values.member(field)) for field in unread), tuple(inner))

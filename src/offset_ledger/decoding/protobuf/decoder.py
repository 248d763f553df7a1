"""The decoder of Protobuf records, the reader of Protobuf keys, and the fields of a message.

The exact reader parses each message whole, then takes its values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

import pyarrow as pa

from offset_ledger.decoding.by_schema import HeadedDecoder, OtherKind
from offset_ledger.decoding.decoder import Decoder
from offset_ledger.decoding.kinds import EVENT_ID_KIND
from offset_ledger.decoding.outcome import Code, Flags, Mismatch, Proven, Reason, RecordRefused, SchemaProblem
from offset_ledger.decoding.paths import Leaf, Node
from offset_ledger.decoding.protobuf.lockstep import LockstepReader, Unprovable
from offset_ledger.decoding.protobuf.parse import Parsed, Parser
from offset_ledger.decoding.protobuf.schema import (
    Field,
    Message,
    ProtobufSchema,
    compile_schema,
    message_at,
    message_indexes,
    message_named,
)
from offset_ledger.decoding.protobuf.values import Get, Values, is_plain_message
from offset_ledger.decoding.typed.conversions import Convert, conversion
from offset_ledger.decoding.typed.decoder import Found, Malformed, TypedDecoder
from offset_ledger.decoding.typed.types import MAX_NESTED, SchemaField, TypeName, at_most
from offset_ledger.model.writer_schema import WriterSchema
from offset_ledger.pipeline_file.pipeline import JsonPath, Limits, RecordShape


def protobuf_decoder(schema: WriterSchema, record: RecordShape, limits: Limits, message: str | None = None) -> Decoder:
    """The decoder of the records of one writer's schema.

    A payload is the ``message`` of this full name; without it, it begins with Confluent's message indexes, which say
    what message follows: a message that is none of ``record.schemas`` is skipped.

    Raises:
        SchemaProblem: protoc refuses the schema, or it has no such message.
    """
    compiled = compile_schema(schema)

    @cache
    def decoder_of(full_name: str) -> Decoder:
        if record.schemas and full_name not in record.schemas:
            return OtherKind(record)
        of = compiled.message(full_name)
        return TypedDecoder(
            record, limits, lambda root_of: MessageReader(compiled, of, root_of(partial(has_path, compiled, of)))
        )

    @cache
    def decoder_at(indexes: tuple[int, ...]) -> Decoder:
        return decoder_of(message_at(compiled, indexes).full_name)

    def head(payload: bytes) -> tuple[Decoder, int]:
        indexes, at = message_indexes(payload)
        return decoder_at(indexes), at

    if message is None:
        return HeadedDecoder(record, limits, head)
    return decoder_of(message_named(compiled, message).full_name)


def key_text(schema: WriterSchema, message: str | None = None) -> Callable[[bytes], str]:
    """Return the reader of event ids: a key's only field, a text or an integer; it raises :class:`Mismatch`.

    ``message`` is as in :func:`protobuf_decoder`.

    Raises:
        SchemaProblem: protoc refuses the schema, or ``message`` is not of this form.
    """
    compiled = compile_schema(schema)
    if message is not None:
        return _key_reader(compiled, message_named(compiled, message))
    readers: dict[str, Callable[[bytes], str]] = {}

    def read(key: bytes) -> str:
        indexes, at = message_indexes(key)
        message_type = message_at(compiled, indexes)
        try:
            if message_type.full_name not in readers:
                readers[message_type.full_name] = _key_reader(compiled, message_type)
        except SchemaProblem as problem:
            raise Mismatch(Code.TYPE, str(problem)) from None
        return readers[message_type.full_name](key[at:])

    return read


def _key_reader(schema: ProtobufSchema, message: Message) -> Callable[[bytes], str]:
    values, parser = Values(schema), Parser(schema)
    types = [values.type_of(field) for field in message.fields]
    if len(types) != 1 or types[0].name not in (TypeName.TEXT, TypeName.INTEGER):
        raise SchemaProblem(
            f"expected a key of one text or integer, message {message.full_name} is not; take event_id from the value"
        )
    get, convert = values.getter(message.fields[0]), conversion(types[0], EVENT_ID_KIND).convert

    def read(key: bytes) -> str:
        try:
            value = get(parser.parse(key, message))
        except Malformed as malformed:
            raise Mismatch(malformed.code, f"expected message {message.full_name}: {malformed.detail}") from None
        if value is None:
            raise Mismatch(Code.NULL, f"expected a key to name the event, {message.fields[0].name} is not set")
        return str(convert(value))

    return read


def schema_fields(schema: WriterSchema, message: str | None = None) -> tuple[SchemaField, ...]:
    """The fields of the message of this full name, or of the schema's first one, in the order of their numbers.

    A message that contains itself, or has no fields, is one field.

    Raises:
        SchemaProblem: protoc refuses the schema, or it has no such message, or too many fields.
    """
    compiled = compile_schema(schema)
    if not message and not compiled.file.message_types_by_name:
        raise SchemaProblem("expected a message in the schema, which has none")
    message_type = message_named(compiled, message) if message else message_at(compiled, (0,))
    values = Values(compiled)

    def fields(of: Message, path: JsonPath, nullable: bool, within: tuple[str, ...]) -> Iterator[SchemaField]:
        """Return the fields of a message at this path, which is inside others."""
        for field in of.fields:
            at, absent = (*path, field.name), nullable or (field.presence and not field.required)
            goes_on = is_plain_message(field) and field.message not in within and len(at) < MAX_NESTED
            inner = compiled.message(str(field.message)) if goes_on else None
            if inner and inner.fields:
                yield from fields(inner, at, absent, (*within, inner.full_name))
            else:
                type_ = values.type_of(field)
                whole = type_.name in (TypeName.ARRAY, TypeName.OBJECT)
                array = type_ if type_.item else None
                yield SchemaField(at, None if whole else type_, type_.shown, absent, array=array)

    return at_most(fields(message_type, (), False, (message_type.full_name,)))


def has_path(schema: ProtobufSchema, message: Message, path: JsonPath) -> bool:
    """Return whether a path leads to a field of the message, or of those in it."""
    field = message.by_name.get(path[0])
    if field is None or len(path) == 1:
        return field is not None
    return is_plain_message(field) and has_path(schema, schema.message(str(field.message)), path[1:])


_NOT_SET = "expected a value, the field is not set"


@dataclass(frozen=True, slots=True)
class _Place:
    """A field that paths lead to or through; ``inner`` are the places in its message."""

    field: Field
    node: Node
    get: Get
    converts: tuple[tuple[Leaf, Convert], ...]
    inner: _Places | None


_Places = tuple[list[_Place], list[tuple[int, Reason]]]
"""The places in one message, and the reasons against paths that its type does not have."""


class MessageReader:
    """The reader of one message type of a schema for the leaves of one tree.

    See :class:`~offset_ledger.decoding.typed.decoder.Reader`.
    """

    def __init__(self, schema: ProtobufSchema, message: Message, root: Node) -> None:
        self._schema, self._message, self._root = schema, message, root
        self._parser = Parser(schema)
        self._values = Values(schema)
        self._places = self._compile(message, root)

    def read(self, payload: bytes, reading: Found) -> None:
        """Fill the slots; raises RecordRefused."""
        try:
            parsed = self._parser.parse(payload, self._message)
        except Malformed as malformed:
            raise malformed.refused() from None
        self._values.begin(len(payload))
        _fill(*self._places, parsed, reading)

    def rest(self, payload: bytes) -> dict[str, Any]:
        """Return the extra fields of a message that was read; raises RecordRefused."""
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
            field = message.by_name.get(name)
            if field is None:
                missing += _against(member, Code.MISSING, "expected a value, the schema has no such field")
                continue
            type_, inner = self._values.type_of(field), None
            if member.members and is_plain_message(field):
                inner = self._compile(self._schema.message(str(field.message)), member)
            converts = tuple((leaf, conversion(type_, leaf.kind).convert) for leaf in member.leaves)
            places.append(_Place(field, member, self._values.getter(field), converts, inner))
        return places, missing


def _fill(places: list[_Place], missing: list[tuple[int, Reason]], parsed: Parsed, reading: Found) -> None:
    reading.reasons += missing
    for place in places:
        for leaf, convert in place.converts:
            try:
                value = place.get(parsed)
                if value is not None:
                    reading.slots[leaf.slot] = convert(value)
                elif not leaf.nullable:
                    reading.reasons.append((leaf.slot, Reason(place.node.path, Code.NULL, _NOT_SET)))
            except Mismatch as mismatch:
                reading.reasons.append((leaf.slot, mismatch.at(place.node.path)))
        if not place.node.members:
            continue
        inner = parsed.get(place.field.number)
        if inner is None and place.field.presence:
            for member in place.node.members.values():
                reading.reasons += _against(member, Code.NULL, _NOT_SET, place.node.path)
        elif place.inner and inner is not None:
            _fill(*place.inner, inner, reading)
        else:
            reason = Reason(place.node.path, Code.TYPE, f"expected a message, got {place.field.shown}")
            for member in place.node.members.values():
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
        """Return the extra fields of a parsed message, as they stand in a jsonb; raises RecordRefused."""
        rest: dict[str, Any] = {}
        for field, get in self.fields:
            try:
                if field.number in parsed or not field.presence:
                    rest[field.name] = get(parsed)
            except Mismatch as mismatch:
                raise RecordRefused(mismatch.at(f"{self.path}.{field.name}")) from None
        for field, left in self.inner:
            if field.number in parsed and (members := left.of(parsed[field.number])):
                rest[field.name] = members
        return rest


def left_of(schema: ProtobufSchema, values: Values, message: Message, node: Node) -> Left:
    """Return the reader of the extra fields of messages of this type, those that the tree has not taken."""
    unread = [field for field in message.fields if field.name not in node.members]
    through = [(field, node.members[field.name]) for field in message.fields if field.name in node.members]
    inner = [
        (field, left_of(schema, values, schema.message(str(field.message)), member))
        for field, member in through
        if not member.leaves and is_plain_message(field)
    ]
    return Left(node.path, tuple((field, values.member(field)) for field in unread), tuple(inner))

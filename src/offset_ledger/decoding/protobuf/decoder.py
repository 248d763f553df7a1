"""The decoder of Protobuf records, the reader of Protobuf keys, and the fields of a message."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial

from offset_ledger.config.model import JsonPath, Limits, RecordShape
from offset_ledger.decoding.framed import HeadedDecoder, OtherKind
from offset_ledger.decoding.kinds import EVENT_ID
from offset_ledger.decoding.outcome import Code, Decoder, Mismatch
from offset_ledger.decoding.protobuf.parse import Parser
from offset_ledger.decoding.protobuf.reader import MessageReader
from offset_ledger.decoding.protobuf.schema import (
    Field,
    Message,
    ProtobufSchema,
    compile_schema,
    message_at,
    message_indexes,
    message_named,
)
from offset_ledger.decoding.protobuf.values import Values, is_plain_message
from offset_ledger.decoding.protobuf.wire import Malformed
from offset_ledger.decoding.typed.conversions import conversion
from offset_ledger.decoding.typed.decoder import TypedDecoder
from offset_ledger.decoding.typed.types import MAX_NESTED, SchemaField, SchemaProblem, TypeName, at_most
from offset_ledger.model.writer_schema import WriterSchema


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
    """How a key names its event: by the only field of its message, a text or an integer; raises :class:`Mismatch`.

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
    get, convert = values.getter(message.fields[0]), conversion(types[0], EVENT_ID).convert

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
    return at_most(_Fields(compiled).members(message_type, (), False, (message_type.full_name,)))


def has_path(schema: ProtobufSchema, message: Message, path: JsonPath) -> bool:
    """Return whether a path leads to a field of the message, or of those in it."""
    field = message.by_name.get(path[0])
    if field is None or len(path) == 1:
        return field is not None
    return is_plain_message(field) and has_path(schema, schema.message(str(field.message)), path[1:])


class _Fields:
    def __init__(self, schema: ProtobufSchema) -> None:
        self._schema, self._values = schema, Values(schema)

    def members(
        self, message: Message, path: JsonPath, nullable: bool, within: tuple[str, ...]
    ) -> Iterator[SchemaField]:
        """The fields of a message at this path, which stands within others."""
        for field in message.fields:
            yield from self._field(field, (*path, field.name), nullable, within)

    def _field(self, field: Field, path: JsonPath, nullable: bool, within: tuple[str, ...]) -> Iterator[SchemaField]:
        nullable = nullable or (field.presence and not field.required)
        if is_plain_message(field) and field.message not in within and len(path) < MAX_NESTED:
            name = str(field.message)
            message = self._schema.message(name)
            if message.fields:
                yield from self.members(message, path, nullable, (*within, name))
                return
        type_ = self._values.type_of(field)
        whole = type_.name in (TypeName.ARRAY, TypeName.OBJECT)
        yield SchemaField(path, None if whole else type_, type_.shown, nullable)

"""The fields of a message of a .proto schema, with those of the messages in it."""

from __future__ import annotations

from collections.abc import Iterator

from offset_ledger.config.model import JsonPath
from offset_ledger.decoding.protobuf.indexes import message_at
from offset_ledger.decoding.protobuf.schema import Field, Message, ProtobufSchema, compile_schema, message_named
from offset_ledger.decoding.protobuf.values import Values, is_plain_message
from offset_ledger.decoding.typed.types import MAX_NESTED, SchemaField, SchemaProblem, TypeName, at_most
from offset_ledger.model.writer_schema import WriterSchema


def schema_fields(schema: WriterSchema, message: str | None = None) -> tuple[SchemaField, ...]:
    """The fields of the message of this full name, or of the schema's first one, in the order of their numbers.

    A message that contains itself, or has no fields, is one field.

    Raises:
        SchemaProblem: protoc refuses the schema, or it has no such message, or too many fields.
    """
    compiled = compile_schema(schema)
    message_type = message_named(compiled, message) if message else _first(compiled)
    return at_most(_Fields(compiled).members(message_type, (), False, (message_type.full_name,)))


def has_path(schema: ProtobufSchema, message: Message, path: JsonPath) -> bool:
    """Whether a path leads to a field of the message, or of those in it."""
    field = message.by_name.get(path[0])
    if field is None or len(path) == 1:
        return field is not None
    return is_plain_message(field) and has_path(schema, schema.message(str(field.message)), path[1:])


def _first(schema: ProtobufSchema) -> Message:
    if not schema.file.message_types_by_name:
        raise SchemaProblem("expected a message in the schema, which has none")
    return message_at(schema, (0,))


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

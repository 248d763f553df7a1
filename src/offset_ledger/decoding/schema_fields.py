"""The fields of a writer's schema, whatever its language."""

from __future__ import annotations

from offset_ledger.config.model import Format, Source
from offset_ledger.decoding.typed.schema_field import SchemaField
from offset_ledger.model.writer_schema import WriterSchema


def schema_fields(source: Source, schema: WriterSchema, message: str | None = None) -> tuple[SchemaField, ...]:
    """The fields that records of the source have by this schema, or by the message of that full name in it.

    Raises:
        SchemaProblem: it is no schema, or describes no record.
    """
    # A format's library is imported where a pipeline has that format.
    if source.format is Format.AVRO:
        from offset_ledger.decoding.avro.fields import schema_fields as avro_fields

        return avro_fields(schema)
    if source.format is Format.PROTOBUF:
        from offset_ledger.decoding.protobuf.fields import schema_fields as protobuf_fields

        return protobuf_fields(schema, message or source.message)
    from offset_ledger.decoding.json_schema.fields import schema_fields as json_schema_fields

    return json_schema_fields(schema)


def message_name(schema: WriterSchema, payload: bytes) -> str:
    """The full name of the message that a record of this .proto schema is; only the first bytes are needed.

    Raises:
        Mismatch: they name none.
        SchemaProblem: protoc refuses the schema.
    """
    from offset_ledger.decoding.protobuf.indexes import message_at, message_indexes
    from offset_ledger.decoding.protobuf.schema import compile_schema

    indexes, _ = message_indexes(payload)
    return message_at(compile_schema(schema), indexes).full_name

"""The kinds of records that a writer's schema has: their full names, their fields, and of which one a payload is."""

from __future__ import annotations

from collections.abc import Callable

from offset_ledger.decoding.subjects import json_schema_names
from offset_ledger.decoding.typed.types import SchemaField, SchemaProblem
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema

ReadKind = Callable[[bytes], tuple[str, int]]
"""The name of a payload's kind, and how many of its bytes say so; raises Mismatch."""


def kind_names(schema: WriterSchema) -> tuple[str, ...]:
    """The names by which record.where.schema can choose records of the schema.

    Raises:
        SchemaProblem: it cannot be read, or has no name.
    """
    match schema.language:
        case SchemaLanguage.AVRO:
            from offset_ledger.decoding.avro.fields import record_names as of_avro

            return of_avro(schema)
        case SchemaLanguage.PROTOBUF:
            from offset_ledger.decoding.protobuf.schema import compile_schema

            return compile_schema(schema).message_names
    return json_schema_names(schema)


def kind_reader(schema: WriterSchema) -> ReadKind:
    """What reads the kind of a payload: a JSON Schema's title before its $id.

    Raises:
        SchemaProblem: as :func:`kind_names`.
    """
    match schema.language:
        case SchemaLanguage.AVRO:
            from offset_ledger.decoding.avro.reader import branch_reader

            return branch_reader(schema)
        case SchemaLanguage.PROTOBUF:
            from offset_ledger.decoding.protobuf.indexes import message_reader
            from offset_ledger.decoding.protobuf.schema import compile_schema

            return message_reader(compile_schema(schema))
    (name, *_) = json_schema_names(schema)
    return lambda _: (name, 0)


def fields_of(schema: WriterSchema, name: str | None = None) -> tuple[SchemaField, ...]:
    """The fields of the kind of this name; of the schema's first one without a name.

    Raises:
        SchemaProblem: it cannot be read, has no such kind, or too many fields.
    """
    match schema.language:
        case SchemaLanguage.AVRO:
            from offset_ledger.decoding.avro.fields import schema_fields as of_avro

            return of_avro(schema, name)
        case SchemaLanguage.PROTOBUF:
            from offset_ledger.decoding.protobuf.fields import schema_fields as of_protobuf

            return of_protobuf(schema, name)
    from offset_ledger.decoding.json_schema.fields import schema_fields as of_json

    if name is not None and name not in json_schema_names(schema):
        raise SchemaProblem(f"expected the title or $id {name}, it is {' or '.join(json_schema_names(schema))}")
    return of_json(schema)

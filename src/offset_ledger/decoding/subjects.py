"""The schemas of a topic: whether one can be its schema, and the kinds of records that a schema has."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from offset_ledger.decoding.outcome import SchemaProblem
from offset_ledger.decoding.typed.types import SchemaField
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.pipeline_file.source import Format, Source, SubjectStrategy

LANGUAGES: Mapping[str, SchemaLanguage] = {
    Format.AVRO: SchemaLanguage.AVRO,
    Format.PROTOBUF: SchemaLanguage.PROTOBUF,
    Format.JSON_SCHEMA: SchemaLanguage.JSON,
}


_CONTEXT = re.compile(r"^:\.[^:]*:")
"""Before a subject: the context of the registry that it is in, as in ``:.eu:orders-value``."""


def check_value_schema(source: Source, schema: WriterSchema) -> None:
    """Check that records of the source can name the schema.

    Raises:
        SchemaProblem: it is in another language, or of other subjects.
    """
    _check(source, LANGUAGES[source.format], schema, "value")


def check_key_schema(source: Source, schema: WriterSchema) -> None:
    """Check that keys of the source's records can name the schema; raises SchemaProblem likewise."""
    _check(source, LANGUAGES[source.key_format], schema, "key")


def can_be_of(source: Source, schema: WriterSchema) -> bool:
    """Return whether records of the source can name the schema, in their key or in their value."""
    has_schemas_of_keys = source.key_format in LANGUAGES
    return is_value_schema(source, schema) or (has_schemas_of_keys and _passes(check_key_schema, source, schema))


def is_value_schema(source: Source, schema: WriterSchema) -> bool:
    """Return whether records of the source can name the schema in their value."""
    return _passes(check_value_schema, source, schema)


def _passes(check: Callable[[Source, WriterSchema], None], source: Source, schema: WriterSchema) -> bool:
    try:
        check(source, schema)
    except SchemaProblem:
        return False
    return True


def _check(source: Source, expected: SchemaLanguage, schema: WriterSchema, side: str) -> None:
    if schema.language is not expected:
        raise SchemaProblem(f"expected {expected}, it is {schema.language}")
    subjects = {_CONTEXT.sub("", subject) for subject, _ in schema.subjects}
    if source.subject is SubjectStrategy.ANY or not subjects:  # not every registry says the subjects of a schema
        return
    if source.subject is SubjectStrategy.TOPIC:
        wanted = {f"{source.topic}-{side}"}
    else:
        prefix = f"{source.topic}-" if source.subject is SubjectStrategy.TOPIC_RECORD else ""
        wanted = {prefix + name for name in record_names(schema)}
    if not wanted & subjects:
        raise SchemaProblem(
            f"expected it under the subject {' or '.join(sorted(wanted))}, it is registered under "
            f"{', '.join(sorted(subjects)[:5])}"
        )


def record_names(schema: WriterSchema) -> set[str]:
    """The full names of the records a schema describes: an Avro record, a JSON Schema's title, each Protobuf message.

    Raises:
        SchemaProblem: it has no name.
    """
    if schema.language is SchemaLanguage.PROTOBUF:
        from offset_ledger.decoding.protobuf.schema import compile_schema

        return {message.full_name for message in compile_schema(schema).file.message_types_by_name.values()}
    text = _document(schema)
    key = "title" if schema.language is SchemaLanguage.JSON else "name"
    name = text.get(key) if isinstance(text, dict) else None
    if not isinstance(name, str):
        raise SchemaProblem(f"expected a {key}, which names its subject, found none")
    return {_in_namespace(text, name) if schema.language is SchemaLanguage.AVRO else name}


def is_of_others(schema: WriterSchema, names: Sequence[str]) -> bool:
    """Return whether the schema shows that none of its records is of a kind with one of these names.

    Records of an Avro union or of a .proto file show it one by one.

    Raises:
        SchemaProblem: it is a JSON Schema without a name.
    """
    if not names or schema.language is SchemaLanguage.PROTOBUF:
        return False
    if schema.language is SchemaLanguage.AVRO:
        text = _document(schema)
        full_name = text.get("type") if isinstance(text, dict) else text
        if isinstance(text, dict) and isinstance(name := text.get("name"), str):
            full_name = _in_namespace(text, name)
        return isinstance(full_name, str) and full_name not in names  # a union has none
    return not set(names).intersection(json_schema_names(schema))


def json_schema_names(schema: WriterSchema) -> tuple[str, ...]:
    """The title and the $id of a JSON Schema.

    Raises:
        SchemaProblem: it has neither.
    """
    text = _document(schema)
    names = [text.get("title"), text.get("$id")] if isinstance(text, dict) else []
    if not (own_names := tuple(each for each in names if isinstance(each, str))):
        raise SchemaProblem("expected a title or an $id, by which record.where.schema knows it, found none")
    return own_names


def _document(schema: WriterSchema) -> Any:
    try:
        return msgspec.json.decode(schema.text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        raise SchemaProblem("it is no JSON text") from None


def _in_namespace(text: Mapping[str, Any], name: str) -> str:
    namespace = text.get("namespace")
    return f"{namespace}.{name}" if isinstance(namespace, str) and namespace and "." not in name else name


ReadKind = Callable[[bytes], tuple[str, int]]
"""The name of a payload's kind, and how many of its bytes say so; raises Mismatch."""


def kind_names(schema: WriterSchema) -> tuple[str, ...]:
    """The names by which record.where.schema can choose records of the schema.

    Raises:
        SchemaProblem: it cannot be read, or has no name.
    """
    match schema.language:
        case SchemaLanguage.AVRO:
            from offset_ledger.decoding.avro.schema import record_names as of_avro

            return of_avro(schema)
        case SchemaLanguage.PROTOBUF:
            from offset_ledger.decoding.protobuf.schema import compile_schema

            return compile_schema(schema).message_names
    return json_schema_names(schema)


def kind_reader(schema: WriterSchema) -> ReadKind:
    """Return the reader of a payload's kind: a JSON Schema's title before its $id.

    Raises:
        SchemaProblem: as :func:`kind_names`.
    """
    match schema.language:
        case SchemaLanguage.AVRO:
            from offset_ledger.decoding.avro.decoder import branch_reader

            return branch_reader(schema)
        case SchemaLanguage.PROTOBUF:
            from offset_ledger.decoding.protobuf.schema import compile_schema, message_reader

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
            from offset_ledger.decoding.avro.schema import schema_fields as of_avro

            return of_avro(schema, name)
        case SchemaLanguage.PROTOBUF:
            from offset_ledger.decoding.protobuf.decoder import schema_fields as of_protobuf

            return of_protobuf(schema, name)
    from offset_ledger.decoding.json_schema.fields import schema_fields as of_json

    if name is not None and name not in json_schema_names(schema):
        raise SchemaProblem(f"expected the title or $id {name}, it is {' or '.join(json_schema_names(schema))}")
    return of_json(schema)

"""Whether a schema can be one of a topic's: by its language, and by the subjects that it is registered under."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from offset_ledger.config.model import Format, KeyFormat, Source, SubjectStrategy
from offset_ledger.decoding.schema_problem import SchemaProblem
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema

LANGUAGES: Mapping[str, SchemaLanguage] = {
    Format.AVRO: SchemaLanguage.AVRO,
    Format.PROTOBUF: SchemaLanguage.PROTOBUF,
    Format.JSON_SCHEMA: SchemaLanguage.JSON,
}


def check_value_schema(source: Source, schema: WriterSchema) -> None:
    """Check that records of the source can name the schema.

    Raises:
        SchemaProblem: it is in another language, or of other subjects.
    """
    _check_language(LANGUAGES[source.format], schema)
    _check_subject(source, schema, "value")


def check_key_schema(source: Source, schema: WriterSchema) -> None:
    """The same for the keys of the source's records."""
    _check_language(LANGUAGES[source.key_format], schema)
    _check_subject(source, schema, "key")


def can_be_of(source: Source, schema: WriterSchema) -> bool:
    """Whether records of the source can name the schema, in their key or in their value."""
    has_schemas_of_keys = source.key_format is not KeyFormat.TEXT
    return is_value_schema(source, schema) or (has_schemas_of_keys and _passes(check_key_schema, source, schema))


def is_value_schema(source: Source, schema: WriterSchema) -> bool:
    """Whether records of the source can name the schema in their value."""
    return _passes(check_value_schema, source, schema)


def _passes(check: Callable[[Source, WriterSchema], None], source: Source, schema: WriterSchema) -> bool:
    try:
        check(source, schema)
    except SchemaProblem:
        return False
    return True


def _check_language(expected: SchemaLanguage, schema: WriterSchema) -> None:
    if schema.language is not expected:
        raise SchemaProblem(f"expected {expected}, it is {schema.language}")


def _check_subject(source: Source, schema: WriterSchema, side: str) -> None:
    """A registry that does not say which subjects a schema is registered under leaves nothing to check."""
    subjects = {subject for subject, _ in schema.subjects}
    if source.subject is SubjectStrategy.ANY or not subjects:
        return
    wanted = _subjects(source, schema, side)
    if not wanted & subjects:
        raise SchemaProblem(
            f"expected it under the subject {' or '.join(sorted(wanted))}, it is registered under "
            f"{', '.join(sorted(subjects)[:5])}"
        )


def _subjects(source: Source, schema: WriterSchema, side: str) -> set[str]:
    if source.subject is SubjectStrategy.TOPIC:
        return {f"{source.topic}-{side}"}
    prefix = f"{source.topic}-" if source.subject is SubjectStrategy.TOPIC_RECORD else ""
    return {prefix + name for name in record_names(schema)}


def record_names(schema: WriterSchema) -> set[str]:
    """The full names of the records that a schema describes: of an Avro record, a JSON Schema's title, or each message
    of a Protobuf file.

    Raises:
        SchemaProblem: it has no name.
    """
    if schema.language is SchemaLanguage.PROTOBUF:
        return _message_names(schema)
    try:
        text = msgspec.json.decode(schema.text)
    except msgspec.DecodeError:
        raise SchemaProblem("it is no JSON text") from None
    key = "title" if schema.language is SchemaLanguage.JSON else "name"
    name = text.get(key) if isinstance(text, dict) else None
    if not isinstance(name, str):
        raise SchemaProblem(f"expected a {key}, which names its subject, found none")
    namespace = text.get("namespace")
    inside = schema.language is SchemaLanguage.AVRO and isinstance(namespace, str) and "." not in name
    return {f"{namespace}.{name}" if inside and namespace else name}


def _message_names(schema: WriterSchema) -> set[str]:
    from offset_ledger.decoding.protobuf.schema import compile_schema

    return {message.full_name for message in compile_schema(schema).file.message_types_by_name.values()}

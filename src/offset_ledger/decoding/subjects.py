"""Whether a schema can be one of a topic's: by its language, and by the subjects that it is registered under."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from offset_ledger.config.source import Format, KeyFormat, Source, SubjectStrategy
from offset_ledger.decoding.typed.types import SchemaProblem
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
    text = _document(schema)
    key = "title" if schema.language is SchemaLanguage.JSON else "name"
    name = text.get(key) if isinstance(text, dict) else None
    if not isinstance(name, str):
        raise SchemaProblem(f"expected a {key}, which names its subject, found none")
    return {_in_namespace(text, name) if schema.language is SchemaLanguage.AVRO else name}


def is_of_others(schema: WriterSchema, names: Sequence[str]) -> bool:
    """Whether the schema says by itself that none of its records is of a kind with one of these names.

    The records of an Avro union or of a .proto file say it one by one.

    Raises:
        SchemaProblem: it is a JSON Schema without a name.
    """
    if not names or schema.language is SchemaLanguage.PROTOBUF:
        return False
    if schema.language is SchemaLanguage.AVRO:
        full_name = _avro_name(_document(schema))
        return full_name is not None and full_name not in names
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


def _avro_name(text: Any) -> str | None:
    """The full name of what an Avro schema is, or of its type where that has none; None of a union."""
    if isinstance(text, dict) and isinstance(name := text.get("name"), str):
        return _in_namespace(text, name)
    type_ = text.get("type") if isinstance(text, dict) else text
    return type_ if isinstance(type_, str) else None


def _in_namespace(text: Mapping[str, Any], name: str) -> str:
    namespace = text.get("namespace")
    return f"{namespace}.{name}" if isinstance(namespace, str) and namespace and "." not in name else name


def _message_names(schema: WriterSchema) -> set[str]:
    from offset_ledger.decoding.protobuf.schema import compile_schema

    return {message.full_name for message in compile_schema(schema).file.message_types_by_name.values()}

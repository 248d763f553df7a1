"""The schemas that records are written with by now: the latest of the registry, and those that the ledger keeps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from offset_ledger.config.model import Pipeline
from offset_ledger.config.source import Format, SubjectStrategy
from offset_ledger.connections import get_connection
from offset_ledger.decoding.subjects import (
    LANGUAGES,
    check_value_schema,
    fields_of,
    is_of_others,
    is_value_schema,
    kind_names,
    record_names,
)
from offset_ledger.decoding.typed.types import SchemaField, SchemaProblem
from offset_ledger.errors import UnusableSchema
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.schema_registry.client import Registry, connect_registry


@dataclass(frozen=True, slots=True)
class KnownSchema:
    """A schema with its fields; ``name`` says where it is from."""

    name: str
    fields: tuple[SchemaField, ...]


def known_schemas(pipeline: Pipeline, kept: Iterable[WriterSchema]) -> tuple[tuple[KnownSchema, ...], tuple[str, ...]]:
    """The schemas to compare with, and notes on those that are not there.

    Raises:
        RegistryUnavailable: the registry does not answer.
        UnusableSchema: one of them cannot be read.
    """
    source = pipeline.source
    if source.format is Format.JSON:
        return (), ("records in JSON without a registry have no schema: the file is compared with the table alone",)
    if source.schema is not None:
        schema = WriterSchema(0, LANGUAGES[source.format], source.schema.text)
        return tuple(_known(pipeline, source.schema.name, schema)), ()
    assert source.registry is not None
    of_values = [schema for schema in kept if is_value_schema(source, schema)]
    registry = connect_registry(get_connection(source.registry))
    known, notes = list[KnownSchema](), list[str]()
    for subject in _subjects(pipeline, registry, of_values):
        latest = registry.latest(subject)
        if latest is None:
            notes.append(f"the registry has no subject {subject}")
        else:
            known += _known(pipeline, _name(subject, latest), latest)
        for each in _newer(of_values, subject, latest):
            known += _known(pipeline, f"{_name(subject, each)}, kept", each)
    if not known and not notes and pipeline.record.schemas:
        notes.append(f"no known schema has records of {' or '.join(pipeline.record.schemas)} (record.where.schema)")
    elif not known and not notes:
        notes.append(f"no subject is known by source.subject: {source.subject}, because no record was read yet")
    return tuple(known), tuple(notes)


def _subjects(pipeline: Pipeline, registry: Registry, kept: list[WriterSchema]) -> list[str]:
    source = pipeline.source
    if source.subject is SubjectStrategy.TOPIC:
        return [f"{source.topic}-value"]
    if source.subject is SubjectStrategy.ANY:
        return sorted({subject for schema in kept for subject, _ in schema.subjects})
    names = {name for schema in kept for name in record_names(schema)}
    if wanted := set(pipeline.record.schemas) if source.format is not Format.JSON_SCHEMA else set():
        return sorted(wanted if source.subject is SubjectStrategy.RECORD else {f"{source.topic}-{n}" for n in wanted})
    if source.subject is SubjectStrategy.RECORD:
        return sorted(names)
    own = {f"{source.topic}-value", f"{source.topic}-key"}
    listed = {each for each in registry.subjects() if each.startswith(f"{source.topic}-")} - own
    return sorted(listed | {f"{source.topic}-{name}" for name in names})


def _version(subject: str, schema: WriterSchema | None) -> int:
    versions = [version for name, version in schema.subjects if name == subject] if schema else []
    return max(versions, default=0)


def _name(subject: str, schema: WriterSchema) -> str:
    version = _version(subject, schema)
    return f"{subject} version {version}" if version else f"{subject} schema id {schema.schema_id}"


def _newer(kept: list[WriterSchema], subject: str, latest: WriterSchema | None) -> list[WriterSchema]:
    """Those of a later version; a registry that does not say the version of its latest leaves nothing to compare."""
    version = _version(subject, latest)
    return [] if latest and not version else [each for each in kept if _version(subject, each) > version]


def _known(pipeline: Pipeline, name: str, schema: WriterSchema) -> list[KnownSchema]:
    """The schema, once for each kind of records that the pipeline takes of it."""
    try:
        check_value_schema(pipeline.source, schema)
        if is_of_others(schema, pipeline.record.schemas):
            return []
        kinds = _kinds(pipeline, schema)
        shown = [f"{name} ({kind})" if len(kinds) > 1 else name for kind in kinds]
        return [KnownSchema(each, fields_of(schema, kind)) for each, kind in zip(shown, kinds, strict=True)]
    except SchemaProblem as problem:
        raise UnusableSchema(f"{name}: {problem}; register another version, or correct the pipeline file") from None


def _kinds(pipeline: Pipeline, schema: WriterSchema) -> list[str | None]:
    wanted = pipeline.record.schemas
    if wanted or schema.language is SchemaLanguage.AVRO:
        return [each for each in kind_names(schema) if not wanted or each in wanted]
    return [pipeline.source.message]

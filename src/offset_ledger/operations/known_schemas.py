"""The schemas that records are written with by now: the latest of the registry, and those that the ledger keeps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from offset_ledger.config.model import Format, Pipeline, Source, SubjectStrategy
from offset_ledger.connections import get_connection
from offset_ledger.decoding.schema_fields import schema_fields
from offset_ledger.decoding.schema_problem import SchemaProblem
from offset_ledger.decoding.subjects import LANGUAGES, check_value_schema, is_value_schema, record_names
from offset_ledger.decoding.typed.schema_field import SchemaField
from offset_ledger.errors import UnusableSchema
from offset_ledger.model.writer_schema import WriterSchema
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
        return (_known(source, source.schema.name, schema),), ()
    assert source.registry is not None
    of_values = [schema for schema in kept if is_value_schema(source, schema)]
    registry = connect_registry(get_connection(source.registry))
    found, notes = list[KnownSchema](), list[str]()
    for subject in _subjects(source, registry, of_values):
        latest = registry.latest(subject)
        if latest is None:
            notes.append(f"the registry has no subject {subject}")
        else:
            found.append(_known(source, _name(subject, latest), latest))
        found += [_known(source, f"{_name(subject, each)}, kept", each) for each in _newer(of_values, subject, latest)]
    if not found and not notes:
        notes.append(f"no subject is known by source.subject: {source.subject}, because no record was read yet")
    return tuple(found), tuple(notes)


def _subjects(source: Source, registry: Registry, kept: list[WriterSchema]) -> list[str]:
    if source.subject is SubjectStrategy.TOPIC:
        return [f"{source.topic}-value"]
    if source.subject is SubjectStrategy.ANY:
        return sorted({subject for schema in kept for subject, _ in schema.subjects})
    names = {name for schema in kept for name in record_names(schema)}
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


def _known(source: Source, name: str, schema: WriterSchema) -> KnownSchema:
    try:
        check_value_schema(source, schema)
        return KnownSchema(name, schema_fields(source, schema))
    except SchemaProblem as problem:
        raise UnusableSchema(f"{name}: {problem}; register another version, or correct the pipeline file") from None

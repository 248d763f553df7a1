"""The columns of a sample: from the documents of JSON, from the schemas of the other formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from offset_ledger.config.model import Limits, RecordShape
from offset_ledger.config.source import Format, Source
from offset_ledger.decoding import frame
from offset_ledger.decoding.formats import compile_decoder
from offset_ledger.decoding.inferred import Inferred
from offset_ledger.decoding.json.decoder import JsonDecoder
from offset_ledger.decoding.kinds import EPOCH
from offset_ledger.decoding.outcome import Refusal
from offset_ledger.decoding.record_kinds import fields_of, kind_names
from offset_ledger.decoding.schema_columns import schema_columns
from offset_ledger.decoding.schema_problem import SchemaProblem
from offset_ledger.decoding.typed.schema_field import SchemaField
from offset_ledger.errors import ConfigurationError, UnusableSchema
from offset_ledger.model.writer_schema import WriterSchema
from offset_ledger.operations.init.json_columns import json_columns
from offset_ledger.operations.init.refined import refined
from offset_ledger.operations.init.sample import Sample
from offset_ledger.operations.init.sampled_kinds import SampledKinds


def json_inferred(sample: Sample) -> tuple[Inferred, ...]:
    """The columns of records in JSON.

    Raises:
        ConfigurationError: none of the records is.
    """
    values = sample.values
    if documents := _documents(values):
        return json_columns(documents)
    if not values:
        wrong = f"all {len(sample.records)} sampled records are tombstones" if sample.records else "it has no records"
        raise ConfigurationError(f"nothing can be inferred from topic {sample.topic}: {wrong}; publish some first")
    right = "give --registry" if any(value[:1] == b"\0" for value in values) else "write the pipeline file by hand"
    raise ConfigurationError(f"none of {len(values)} sampled records of {sample.topic} is a JSON object; {right}")


@dataclass(frozen=True, slots=True)
class FromSchemas:
    """The columns of some schemas, and a line for each schema that cannot be read."""

    columns: tuple[Inferred, ...]
    unreadable: tuple[str, ...] = ()


def schema_inferred(source: Source, kinds: SampledKinds, schemas: Sequence[WriterSchema]) -> FromSchemas:
    """The columns of records that name these schemas, of the kinds that were sampled.

    Raises:
        UnusableSchema: none of them can be read.
        ConfigurationError: the format's library is not installed.
    """
    compile_decoder(source, RecordShape(None, None, ()), Limits())
    fields, unreadable = list[tuple[SchemaField, ...]](), list[str]()
    for schema in schemas:
        try:
            fields += _fields(kinds, schema)
        except SchemaProblem as problem:
            unreadable.append(f"schema id {schema.schema_id} cannot be read, its records are quarantined: {problem}")
    if unreadable and not fields:
        raise UnusableSchema(f"topic {source.topic}: {unreadable[0]}; register a valid one")
    by_schema = schema_columns(fields)
    if source.format is Format.JSON_SCHEMA:
        known = {schema.schema_id for schema in schemas}
        documents = _documents([payload for id_ in known for payload in _of(kinds.sample, id_)])
        by_schema = refined(by_schema, json_columns(documents))
    return FromSchemas(by_schema, tuple(unreadable))


def _fields(kinds: SampledKinds, schema: WriterSchema) -> Iterator[tuple[SchemaField, ...]]:
    """The fields of the schema, of each kind of records that were sampled; of its first one where none was."""
    names = sorted(kinds.names.get(schema.schema_id, ()))
    if not names and kinds.taken:
        kind_names(schema)  # it may be one that cannot be read
        return
    for name in names or (None,):
        yield fields_of(schema, name)


def _documents(values: Sequence[bytes]) -> list[bytes]:
    """Those that are JSON objects which could become a row."""
    decode = JsonDecoder(RecordShape(None, None, ()), Limits()).decode
    return [value for value in values if not isinstance(decode(value, b"key", EPOCH), Refusal)]


def _of(sample: Sample, schema_id: int) -> Iterator[bytes]:
    """The payloads of the records that name this schema."""
    begin = b"\0" + schema_id.to_bytes(frame.SIZE - 1, "big")
    return (value[frame.SIZE :] for value in sample.values if value.startswith(begin))

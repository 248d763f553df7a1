"""The columns of a sample: from the documents of JSON, from the schemas of the other formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from offset_ledger.config.model import Format, Limits, RecordShape, Source
from offset_ledger.decoding import frame
from offset_ledger.decoding.formats import compile_decoder
from offset_ledger.decoding.inferred import Inferred
from offset_ledger.decoding.json.decoder import JsonDecoder
from offset_ledger.decoding.kinds import EPOCH
from offset_ledger.decoding.outcome import Mismatch, Refusal
from offset_ledger.decoding.schema_columns import schema_columns
from offset_ledger.decoding.schema_fields import message_name, schema_fields
from offset_ledger.decoding.schema_problem import SchemaProblem
from offset_ledger.decoding.typed.schema_field import SchemaField
from offset_ledger.errors import ConfigurationError, UnusableSchema
from offset_ledger.model.writer_schema import WriterSchema
from offset_ledger.operations.init.json_columns import json_columns
from offset_ledger.operations.init.refined import refined
from offset_ledger.operations.init.sample import Sample


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


def schema_inferred(source: Source, sample: Sample, schemas: Sequence[WriterSchema]) -> tuple[Inferred, ...]:
    """The columns of records that name these schemas.

    Raises:
        UnusableSchema: one of them cannot be read.
        ConfigurationError: the format's library is not installed.
    """
    compile_decoder(source, RecordShape(None, None, ()), Limits())
    try:
        by_schema = schema_columns([fields for schema in schemas for fields in _fields(source, sample, schema)])
    except SchemaProblem as problem:
        raise UnusableSchema(f"a schema of {sample.topic} cannot be read: {problem}; register a valid one") from None
    if source.format is not Format.JSON_SCHEMA:
        return by_schema
    known = {schema.schema_id for schema in schemas}
    return refined(by_schema, json_columns(_documents([payload for id_ in known for payload in _of(sample, id_)])))


def _documents(values: Sequence[bytes]) -> list[bytes]:
    """Those that are JSON objects which could become a row."""
    decode = JsonDecoder(RecordShape(None, None, ()), Limits()).decode
    return [value for value in values if not isinstance(decode(value, b"key", EPOCH), Refusal)]


def _fields(source: Source, sample: Sample, schema: WriterSchema) -> Iterator[tuple[SchemaField, ...]]:
    """The fields of the schema; of a .proto file those of each message that was sampled."""
    found: list[str | None] = [*sorted(_messages(sample, schema))] if source.format is Format.PROTOBUF else []
    for message in found or [None]:
        yield schema_fields(source, schema, message)


def _messages(sample: Sample, schema: WriterSchema) -> set[str]:
    """The full names of the messages that the records of this schema are."""
    names = set[str]()
    for payload in _of(sample, schema.schema_id):
        with suppress(Mismatch):
            names.add(message_name(schema, payload))
    return names


def _of(sample: Sample, schema_id: int) -> Iterator[bytes]:
    """The payloads of the records that name this schema."""
    begin = b"\0" + schema_id.to_bytes(frame.SIZE - 1, "big")
    return (value[frame.SIZE :] for value in sample.values if value.startswith(begin))

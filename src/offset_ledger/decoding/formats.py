"""The decoder of a pipeline's records, by the format and the schema that its file names."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from offset_ledger.base.extras import require
from offset_ledger.decoding.by_schema import FramedDecoder, FramedKeys, OtherKind, ReadKey
from offset_ledger.decoding.column_groups import given_by
from offset_ledger.decoding.decoder import Decoder
from offset_ledger.decoding.json.decoder import JsonDecoder
from offset_ledger.decoding.key_and_headers import check_defaults
from offset_ledger.decoding.outcome import SchemaProblem
from offset_ledger.decoding.schemas import HeaderFrames, Lookup, NamedByHeader, ReadIndexes, Remembered, Schema
from offset_ledger.decoding.subjects import LANGUAGES, check_key_schema, check_value_schema, is_of_others
from offset_ledger.decoding.wire_format import KEY_HEADER, VALUE_HEADER
from offset_ledger.errors import ConfigurationError
from offset_ledger.model.writer_schema import SchemaRef, WriterSchema
from offset_ledger.pipeline_file.pipeline import Limits, RecordShape, Tombstone
from offset_ledger.pipeline_file.source import Format, KeyFormat, Source


def no_schemas(_: frozenset[SchemaRef]) -> Mapping[SchemaRef, Schema]:
    """The lookup of a pipeline without a registry."""
    return {}


def compile_decoder(source: Source, record: RecordShape, limits: Limits, lookup: Lookup = no_schemas) -> Decoder:
    """The decoder for one pipeline's records, which asks ``lookup`` for the schemas that they name.

    Raises:
        ConfigurationError: the schema file is no schema, the format's library is not installed, or a column's default
            is none of its values.
    """
    check_defaults(record)
    lookup = lookup if isinstance(lookup, Remembered) else Remembered(lookup)
    decoder = _of_values(source, record, limits, lookup)
    in_keys = [
        replace(each, path=each.key, key=None, default=None, nullable=each.optional)
        for each in record.all_columns
        if each.key
    ]
    if record.groups:
        decoder.given = given_by(source, record)
    if in_keys:
        shape = RecordShape(None, None, (), tombstone=Tombstone.SKIP, key=tuple(in_keys))
        decoder.key_columns = _of_keys(source, shape, limits, lookup)
    return decoder


def _of_keys(source: Source, record: RecordShape, limits: Limits, lookup: Lookup) -> Decoder:
    if source.key_format is KeyFormat.JSON:
        return JsonDecoder(record, limits, unwraps=source.envelope is not None)

    def registered(schema: WriterSchema) -> Decoder:
        check_key_schema(source, schema)
        return _decoder(replace(source, format=Format(source.key_format), message=None), schema, record, limits)

    return FramedDecoder(record, limits, registered, lookup)


_EXTRAS: Mapping[str, str] = {Format.PROTOBUF: "protobuf", Format.JSON_SCHEMA: "json-schema"}


def _of_values(source: Source, record: RecordShape, limits: Limits, lookup: Lookup) -> Decoder:
    if source.format is Format.JSON:
        return JsonDecoder(record, limits, unwraps=record.envelope, null_is_tombstone=not record.envelope)
    for name in {source.format, source.key_format} & _EXTRAS.keys():
        require(_EXTRAS[name], f"a record in {name}", ", also where Spark's executors run")
    if source.schema is None:

        def registered(schema: WriterSchema) -> Decoder:
            """The decoder of a schema of the registry, where other topics can have schemas under other subjects."""
            check_value_schema(source, schema)
            others = is_of_others(schema, record.schemas)
            return OtherKind(record) if others else _decoder(source, schema, record, limits)

        has_keys = source.key_format in LANGUAGES
        keys = FramedKeys(partial(_key_reader, source), lookup) if has_keys else None
        return FramedDecoder(record, limits, registered, lookup, keys, _header_frames(source, record, lookup))
    try:
        return _decoder(source, WriterSchema(0, LANGUAGES[source.format], source.schema.text), record, limits)
    except SchemaProblem as problem:
        raise ConfigurationError(f"source.schema: {problem}; correct the schema file") from None


def _header_frames(source: Source, record: RecordShape, lookup: Lookup) -> HeaderFrames:
    """Return how headers become frames: in keys only if they are read and not JSON."""
    values = NamedByHeader(VALUE_HEADER, lookup, _read_indexes(source.format))
    are_read = any(column.key is not None for column in record.all_columns)
    if not are_read or source.key_format is KeyFormat.JSON:
        return HeaderFrames(values, None)
    of_schemas = lookup if source.key_format in LANGUAGES else None
    return HeaderFrames(values, NamedByHeader(KEY_HEADER, of_schemas, _read_indexes(source.key_format)))


def _read_indexes(format_: str) -> ReadIndexes | None:
    if format_ != Format.PROTOBUF:
        return None
    from offset_ledger.decoding.protobuf.schema import message_indexes

    return message_indexes


# A format's library is imported where a pipeline has that format.
def _decoder(source: Source, schema: WriterSchema, record: RecordShape, limits: Limits) -> Decoder:
    match source.format:
        case Format.AVRO:
            from offset_ledger.decoding.avro.decoder import avro_decoder

            return avro_decoder(schema, record, limits)
        case Format.PROTOBUF:
            from offset_ledger.decoding.protobuf.decoder import protobuf_decoder

            return protobuf_decoder(schema, record, limits, source.message)
        case Format.JSON_SCHEMA:
            from offset_ledger.decoding.json_schema.decoder import JsonSchemaDecoder

            return JsonSchemaDecoder(schema, record, limits)
    raise AssertionError(f"expected a format with a schema, got {source.format}")


def _key_reader(source: Source, schema: WriterSchema) -> ReadKey:
    check_key_schema(source, schema)
    match source.key_format:
        case KeyFormat.AVRO:
            from offset_ledger.decoding.avro.decoder import key_text as of_avro

            return of_avro(schema)
        case KeyFormat.PROTOBUF:
            from offset_ledger.decoding.protobuf.decoder import key_text as of_protobuf

            return of_protobuf(schema)
        case KeyFormat.JSON_SCHEMA:
            from offset_ledger.decoding.json_schema.decoder import key_text as of_json

            return of_json(schema)
    raise AssertionError(f"expected a format of keys with a schema, got {source.key_format}")

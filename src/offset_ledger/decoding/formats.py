"""The decoder of a pipeline's records, by the format and the schema that its file names."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from offset_ledger.config.model import Limits, RecordShape
from offset_ledger.config.source import Format, KeyFormat, Source
from offset_ledger.decoding.framed import FramedDecoder, FramedKeys, Lookup, ReadKey
from offset_ledger.decoding.heads import OtherKind
from offset_ledger.decoding.json.decoder import JsonDecoder
from offset_ledger.decoding.outcome import Decoder
from offset_ledger.decoding.subjects import LANGUAGES, check_key_schema, check_value_schema, is_of_others
from offset_ledger.decoding.typed.types import SchemaProblem
from offset_ledger.errors import ConfigurationError
from offset_ledger.extras import require
from offset_ledger.model.writer_schema import WriterSchema


def no_schemas(_: frozenset[int]) -> Mapping[int, WriterSchema | SchemaProblem]:
    """The lookup of a pipeline without a registry."""
    return {}


def compile_decoder(source: Source, record: RecordShape, limits: Limits, lookup: Lookup = no_schemas) -> Decoder:
    """The decoder for one pipeline's records, which asks ``lookup`` for the schemas that they name.

    Raises:
        ConfigurationError: the schema file is no schema, or the format's library is not installed.
    """
    if source.format is Format.JSON:
        return JsonDecoder(record, limits)
    for name in {source.format, source.key_format} & _EXTRAS.keys():
        require(_EXTRAS[name], f"a record in {name}", ", also where Spark's executors run")
    compile_ = _DECODERS[source.format]
    if source.schema is None:
        return FramedDecoder(record, limits, _checked(source, record, limits), lookup, _keys(source, lookup))
    try:
        return compile_(source, WriterSchema(0, LANGUAGES[source.format], source.schema.text), record, limits)
    except SchemaProblem as problem:
        raise ConfigurationError(f"source.schema: {problem}; correct the schema file") from None


def _checked(source: Source, record: RecordShape, limits: Limits) -> Callable[[WriterSchema], Decoder]:
    compile_ = _DECODERS[source.format]

    def checked(schema: WriterSchema) -> Decoder:
        check_value_schema(source, schema)
        if is_of_others(schema, record.schemas):
            return OtherKind(record)
        return compile_(source, schema, record, limits)

    return checked


def _keys(source: Source, lookup: Lookup) -> FramedKeys | None:
    if source.key_format is KeyFormat.TEXT:
        return None
    reader = _KEY_READERS[source.key_format]

    def checked(schema: WriterSchema) -> ReadKey:
        check_key_schema(source, schema)
        return reader(schema)

    return FramedKeys(checked, lookup)


_EXTRAS: Mapping[str, str] = {Format.PROTOBUF: "protobuf", Format.JSON_SCHEMA: "json-schema"}


# A format's library is imported where a pipeline has that format.
def _avro(_: Source, schema: WriterSchema, record: RecordShape, limits: Limits) -> Decoder:
    from offset_ledger.decoding.avro.decoder import avro_decoder

    return avro_decoder(schema, record, limits)


def _protobuf(source: Source, schema: WriterSchema, record: RecordShape, limits: Limits) -> Decoder:
    from offset_ledger.decoding.protobuf.decoder import protobuf_decoder

    return protobuf_decoder(schema, record, limits, source.message)


def _json_schema(_: Source, schema: WriterSchema, record: RecordShape, limits: Limits) -> Decoder:
    from offset_ledger.decoding.json_schema.decoder import JsonSchemaDecoder

    return JsonSchemaDecoder(schema, record, limits)


def _avro_key(schema: WriterSchema) -> ReadKey:
    from offset_ledger.decoding.avro.decoder import key_text

    return key_text(schema)


def _protobuf_key(schema: WriterSchema) -> ReadKey:
    from offset_ledger.decoding.protobuf.decoder import key_text

    return key_text(schema)


def _json_schema_key(schema: WriterSchema) -> ReadKey:
    from offset_ledger.decoding.json_schema.decoder import key_text

    return key_text(schema)


_DECODERS: Mapping[str, Callable[[Source, WriterSchema, RecordShape, Limits], Decoder]] = {
    Format.AVRO: _avro,
    Format.PROTOBUF: _protobuf,
    Format.JSON_SCHEMA: _json_schema,
}
_KEY_READERS: Mapping[str, Callable[[WriterSchema], ReadKey]] = {
    KeyFormat.AVRO: _avro_key,
    KeyFormat.PROTOBUF: _protobuf_key,
    KeyFormat.JSON_SCHEMA: _json_schema_key,
}

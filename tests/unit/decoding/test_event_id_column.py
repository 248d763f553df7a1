"""The event id may be a declared column too, with a type of its own, in every format, alone and in a batch."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime

import fastavro
import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass

from offset_ledger.decoding.arrow import decode_batch
from offset_ledger.decoding.decoder import Decoder
from offset_ledger.decoding.formats import compile_decoder
from offset_ledger.decoding.outcome import DecodedRow
from offset_ledger.decoding.protobuf.schema import compile_schema
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, Limits, RecordShape
from offset_ledger.pipeline_file.source import Format, Source, SubjectStrategy
from tests.unit.decoding.batches import batch_of

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FRAME = b"\0\0\0\0\1"
NUMBERS = [5, -7, 2**40]
AVRO = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
PROTO = WriterSchema(1, SchemaLanguage.PROTOBUF, 'syntax = "proto3"; message Order { optional int64 id = 1; }')


def shape(kind: str, encoding: str = "") -> RecordShape:
    return RecordShape(("id",), None, (Column("order_id", ColumnType(kind), ("id",), encoding=encoding),))


def written(form: Format, number: int) -> bytes:
    if form is Format.AVRO:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(dict(AVRO)), {"id": number})
        return FRAME + out.getvalue()
    if form is Format.PROTOBUF:
        message = GetMessageClass(compile_schema(PROTO).file.message_types_by_name["Order"])
        return FRAME + b"\0" + bytes(ParseDict({"id": number}, message()).SerializeToString())
    return (FRAME if form is Format.JSON_SCHEMA else b"") + json.dumps({"id": number}).encode()


def decoder_of(form: Format, record: RecordShape) -> Decoder:
    schemas = {
        Format.AVRO: WriterSchema(1, SchemaLanguage.AVRO, json.dumps(AVRO)),
        Format.PROTOBUF: PROTO,
        Format.JSON_SCHEMA: WriterSchema(1, SchemaLanguage.JSON, '{"properties": {"id": {"type": "integer"}}}'),
    }
    registry = None if form is Format.JSON else "r"
    source = Source("k", "t", format=form, registry=registry, subject=SubjectStrategy.ANY)
    return compile_decoder(source, record, Limits(), lookup=lambda _: {1: schemas[form]})


@pytest.mark.parametrize("form", [Format.JSON, Format.AVRO, Format.PROTOBUF, Format.JSON_SCHEMA])
def test_a_number_is_the_event_id_as_text_and_a_column_as_a_number(form: Format) -> None:
    decoder, values = decoder_of(form, shape("bigint")), [written(form, number) for number in NUMBERS]
    alone = [decoder.decode(value, None, NOON) for value in values]
    assert [(e.key[0], e.values) for e in alone if isinstance(e, DecodedRow)] == [(str(n), (n,)) for n in NUMBERS]
    rows = decode_batch(decoder, batch_of(list(values))).rows.to_pylist()
    assert [(row["event_id"], row["order_id"]) for row in rows] == [(str(n), n) for n in NUMBERS]


@pytest.mark.parametrize(
    ("record", "right", "wrong"),
    [
        (shape("bigint"), b'{"id": -0}', b'{"id": "5"}'),
        (shape("smallint"), b'{"id": 32767}', b'{"id": 32768}'),
        (shape("text"), b'{"id": "5"}', b'{"id": 5}'),
        (shape("uuid"), b'{"id": "8f14e45f-ceea-467f-a5e6-3f8ad7a1b2c3"}', b'{"id": "8f14e45f"}'),
        (shape("timestamptz", "epoch_ms"), b'{"id": 1767268800000}', b'{"id": null}'),
    ],
)
def test_json_is_proven_where_id_and_column_take_it(record: RecordShape, right: bytes, wrong: bytes) -> None:
    decoder = decoder_of(Format.JSON, record)
    proven = decoder.prove(batch_of([wrong, right]).column("value"))
    assert proven is not None
    assert proven.places.tolist() == [1]
    one = decoder.decode(right, None, NOON)
    assert isinstance(one, DecodedRow)
    batch = decode_batch(decoder, batch_of([wrong, right]))
    assert [row["event_id"] for row in batch.rows.to_pylist()] == [one.key[0]]
    assert [row["_offset"] for row in batch.refusals.to_pylist()] == [100]


@pytest.mark.parametrize(("kind", "text"), [("numeric", "5"), ("double precision", "5"), ("jsonb", '"5"')])
def test_json_that_is_read_one_by_one(kind: str, text: str) -> None:
    batch = decode_batch(decoder_of(Format.JSON, shape(kind)), batch_of([b'{"id": %b}' % text.encode()]))
    assert [row["event_id"] for row in batch.rows.to_pylist()] == ["5"]

"""A header may name the schema of a record: it is read as the same record with a frame, or refused with a reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import header_schema_id_serializer, prefix_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.schema_registry.schema_registry_client import SchemaRegistryClient
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.decoding.arrow import DecodedColumns, decode_batch
from offset_ledger.decoding.decoder import Decoder
from offset_ledger.decoding.formats import compile_decoder
from offset_ledger.decoding.schemas import Lookup, Remembered
from offset_ledger.model.unread import UnreadCounts
from offset_ledger.model.writer_schema import SchemaLanguage, SchemaRef, WriterSchema
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, Limits, RecordShape
from offset_ledger.pipeline_file.source import Format, KeyFormat, Source
from offset_ledger.steps.stage.unread_fields import UnreadFields
from tests.examples import examples
from tests.unit.decoding.batches import batch_of

TOPIC = "t"
VALUE, KEY = "__value_schema_id", "__key_schema_id"
AVRO = """{"type": "record", "name": "Order", "namespace": "shop", "fields": [
    {"name": "id", "type": "string"},
    {"name": "amount", "type": ["null", "long"]},
    {"name": "more", "type": "bytes"}]}"""
FIELDS = "string id = 1; int64 amount = 2; bytes more = 3;"
PROTOBUF = f"""syntax = "proto3"; package shop;
message Order {{ {FIELDS} }}
message Outer {{ message Order {{ {FIELDS} }} }}"""
JSON = json.dumps({"title": "Order", "type": "object", "properties": {"id": {"type": "string"}}})
SHAPE = RecordShape(("id",), None, (Column("amount", ColumnType("bigint"), ("amount",), True),), schema_ids=True)
SERIALIZERS = {True: header_schema_id_serializer, False: prefix_schema_id_serializer}


@cache
def messages() -> dict[str, Any]:
    """Two messages of one file, the second within another: their indexes are 0 and 1, 0."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    nested = file.message_type.add(name="Order"), file.message_type.add(name="Outer").nested_type.add(name="Order")
    for message in nested:
        for number, (name, kind) in enumerate({"id": 9, "amount": 3, "more": 12}.items(), start=1):
            message.field.add(name=name, number=number, type=kind, label=1)  # type: ignore[arg-type]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
        for name in ("shop.Order", "shop.Outer.Order")
    }


@dataclass(frozen=True)
class Confluent:
    """Confluent's own serializers of one format, with the registry of their tests in memory."""

    form: Format
    client: Any

    def serialize(self, document: Mapping[str, Any], header: bool) -> tuple[bytes, list[tuple[str, bytes]]]:
        """The value, and the headers that its serializer adds."""
        headers: list[tuple[str, bytes]] = []
        context = SerializationContext(TOPIC, MessageField.VALUE, headers)
        how = {"schema.id.serializer": SERIALIZERS[header]}
        serializer: Any
        if self.form is Format.PROTOBUF:
            kind = messages()["shop.Outer.Order" if document["nested"] else "shop.Order"]
            serializer = ProtobufSerializer(kind, self.client, {"use.deprecated.format": False, **how})
            value = kind(id=document["id"], amount=document["amount"] or 0, more=document["more"])
        elif self.form is Format.AVRO:
            serializer, value = AvroSerializer(self.client, AVRO, conf=how), dict(document)
        else:
            serializer, value = JSONSerializer(JSON, self.client, conf=how), document | {"more": document["more"].hex()}
        return serializer(value, context), headers

    def lookup(self, refs: frozenset[SchemaRef]) -> Mapping[SchemaRef, WriterSchema]:
        """What the registry has under these ids and GUIDs."""
        found: dict[SchemaRef, WriterSchema] = {}
        for subject in self.client.get_subjects():
            each = self.client.get_latest_version(subject)
            language = SchemaLanguage(each.schema.schema_type)
            # Confluent's client registers the descriptor, of which a registry gives the text.
            text = PROTOBUF if self.form is Format.PROTOBUF else each.schema.schema_str
            schema = WriterSchema(each.schema_id, language, text, (), ((subject, 1),))
            found |= {each.schema_id: schema, UUID(each.guid): schema}
        return {ref: found[ref] for ref in refs if ref in found}


def confluent(form: Format) -> Confluent:
    return Confluent(form, SchemaRegistryClient.new_client({"url": f"mock://{form}", "ssl.ca.location": False}))


def source(form: Format, key_format: KeyFormat = KeyFormat.TEXT) -> Source:
    return Source("k", TOPIC, format=form, key_format=key_format, registry="r")


def headed(*headers: tuple[str, bytes | None]) -> list[dict[str, Any]] | None:
    return [{"key": name.encode(), "value": value} for name, value in headers] or None


def decode(decoder: Decoder, batch: pa.RecordBatch) -> DecodedColumns:
    """The batch, which is the same where each record is read by itself."""
    decoded, alone = decode_batch(decoder, batch), decode_batch(decoder, batch, proves=False)
    assert (alone.rows, alone.refusals, alone.skipped) == (decoded.rows, decoded.refusals, decoded.skipped)
    assert decoded.rows.column("_value").to_pylist() == [
        batch.column("value")[offset - 100].as_py() for offset in decoded.rows.column("_offset").to_pylist()
    ]
    return decoded


def without_bytes(decoded: DecodedColumns) -> tuple[Any, Any]:
    """Rows and reasons, but for the bytes that frames and headers change."""
    reasons = decoded.refusals.select(["_offset", "_schema_id", "reasons"]).to_pylist()
    return decoded.rows.drop_columns(["_value", "_key", "_headers"]).to_pylist(), reasons


def counted(form: Format, lookup: Lookup, batch: pa.RecordBatch) -> UnreadCounts:
    remembered = Remembered(lookup)
    decoded = decode_batch(compile_decoder(source(form), SHAPE, Limits(), remembered), batch)
    unread = UnreadFields(source(form), SHAPE, remembered.schemas)
    unread.add(decoded.rows, decoded.framed)
    return unread.result()


DOCUMENTS = st.fixed_dictionaries(
    {
        "id": st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4),
        "amount": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        "more": st.binary(max_size=4),
        "nested": st.booleans(),
    }
)


@pytest.mark.parametrize("form", [Format.AVRO, Format.PROTOBUF, Format.JSON_SCHEMA])
@examples(60)
@given(records=st.lists(st.tuples(DOCUMENTS, st.booleans()), min_size=1, max_size=8))
def test_frames_and_headers_in_any_mix_are_read_alike(form: Format, records: list[tuple[dict[str, Any], bool]]) -> None:
    producer = confluent(form)
    mixed = [producer.serialize(document, header) for document, header in records]
    framed = [producer.serialize(document, False) for document, _ in records]
    assert [bool(headers) for _, headers in mixed] == [header for _, header in records]
    batches = [
        batch_of([value for value, _ in written], headers=[headed(*headers) for _, headers in written])
        for written in (mixed, framed)
    ]
    found, expected = (
        decode(compile_decoder(source(form), SHAPE, Limits(), producer.lookup), batch) for batch in batches
    )
    assert without_bytes(found) == without_bytes(expected)
    assert found.rows.num_rows == sum(bool(document["id"]) for document, _ in records)
    assert counted(form, producer.lookup, batches[0]) == counted(form, producer.lookup, batches[1])


GUID, OTHER = uuid4(), uuid4()
SCHEMAS: dict[SchemaRef, WriterSchema] = {
    GUID: (order := WriterSchema(7, SchemaLanguage.JSON, JSON, (), ((f"{TOPIC}-value", 1),))),
    7: order,
    OTHER: (elsewhere := WriterSchema(8, SchemaLanguage.JSON, '{"type": "string"}', (), ((f"{TOPIC}-key", 1),))),
    8: elsewhere,
}


def known(refs: frozenset[SchemaRef]) -> Mapping[SchemaRef, WriterSchema]:
    return {ref: SCHEMAS[ref] for ref in refs if ref in SCHEMAS}


def by_guid(guid: UUID, more: bytes = b"") -> bytes:
    return b"\1" + guid.bytes + more


FRAME = b"\0\0\0\0\7"
PLAIN = b'{"id": "a"}'
HEADED = {
    "a GUID": (PLAIN, [(VALUE, by_guid(GUID))], 7),
    "an id": (PLAIN, [(VALUE, FRAME)], 7),
    "the last header": (PLAIN, [(VALUE, b"nonsense"), ("x", b"y"), (VALUE, by_guid(GUID))], 7),
    "a header without a value": (FRAME + PLAIN, [(VALUE, None)], 7),
    "the header of a key that nobody reads": (FRAME + PLAIN, [(KEY, b"nonsense")], 7),
    "no value": (None, [(VALUE, b"nonsense")], [("$", "tombstone")]),
    "nothing in the header": (PLAIN, [(VALUE, b"")], [(f"_headers.{VALUE}", "frame")]),
    "a GUID that is too short": (PLAIN, [(VALUE, by_guid(GUID)[:-1])], [(f"_headers.{VALUE}", "frame")]),
    "a GUID that is too long": (PLAIN, [(VALUE, by_guid(GUID, b"\0"))], [(f"_headers.{VALUE}", "frame")]),
    "an id that is too short": (PLAIN, [(VALUE, FRAME[:-1])], [(f"_headers.{VALUE}", "frame")]),
    "another magic byte": (PLAIN, [(VALUE, b"\2" + GUID.bytes)], [(f"_headers.{VALUE}", "frame")]),
    "an unknown GUID": (PLAIN, [(VALUE, by_guid(UUID(int=5)))], [(f"_headers.{VALUE}", "unknown_schema")]),
    "an unknown GUID before a frame": (FRAME + PLAIN, [(VALUE, by_guid(UUID(int=5)))],
        [(f"_headers.{VALUE}", "unknown_schema")]),
    "an unknown id": (PLAIN, [(VALUE, b"\0\0\0\0\x63")], [("$", "unknown_schema")]),
    "a schema of another subject": (PLAIN, [(VALUE, by_guid(OTHER))], [("$", "schema")]),
    "a frame besides": (FRAME + PLAIN, [(VALUE, by_guid(GUID))], [("$", "syntax"), ("$", "frame")]),
    "another frame besides": (b"\0\0\0\0\x08" + PLAIN, [(VALUE, by_guid(GUID))], [("$", "syntax"), ("$", "frame")]),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADED)
def test_each_header_names_a_schema_or_is_a_reason(name: str) -> None:
    value, headers, expected = HEADED[name]
    decoder = compile_decoder(source(Format.JSON_SCHEMA), SHAPE, Limits(), known)
    decoded = decode(decoder, batch_of([FRAME + PLAIN, value, FRAME + b"{"], headers=[None, headed(*headers), None]))
    rows = {row["_offset"]: row["_schema_id"] for row in decoded.rows.to_pylist()}
    reasons = {row["_offset"]: json.loads(row["reasons"]) for row in decoded.refusals.to_pylist()}
    assert (rows.pop(100), [each["code"] for each in reasons.pop(102)]) == (7, ["syntax"])
    if isinstance(expected, int):
        assert (rows, reasons) == ({101: expected}, {})
    else:
        assert (rows, [(each["path"], each["code"]) for each in reasons[101]]) == ({}, expected)


def test_the_reasons_say_what_was_expected_and_found() -> None:
    headers = [[(VALUE, by_guid(GUID)[:5])], [(VALUE, by_guid(GUID, b"abc"))], [(VALUE, by_guid(GUID))]]
    batch = batch_of([PLAIN, PLAIN, FRAME + PLAIN], headers=[headed(*each) for each in headers])
    decoded = decode(compile_decoder(source(Format.JSON_SCHEMA), SHAPE, Limits(), known), batch)
    found = [json.loads(row["reasons"])[-1]["detail"] for row in decoded.refusals.to_pylist()]
    short, long = by_guid(GUID)[:5].hex(" "), by_guid(GUID, b"abc").hex(" ")
    assert found == [
        f"expected a magic byte of 1 and a GUID in 17 bytes, or of 0 and an id in 5, got 5 bytes: {short}",
        f"expected a header of 17 bytes, got 20: {long}",
        "expected no frame, for a header names the schema, got what begins like that of schema id 7",
    ]


@pytest.mark.parametrize(
    ("indexes", "code"),
    [(b"", "syntax"), (b"\4\2", "syntax"), (b"\0\0", "frame"), (b"\2\0", None), (b"\2\4", "syntax")],
)
def test_the_message_indexes_of_a_header_are_whole(indexes: bytes, code: str | None) -> None:
    text = 'syntax = "proto3"; message A { string id = 1; optional int64 amount = 2; }'
    schema = WriterSchema(7, SchemaLanguage.PROTOBUF, text)
    decoder = compile_decoder(source(Format.PROTOBUF), SHAPE, Limits(), lambda refs: dict.fromkeys(refs, schema))
    decoded = decode(decoder, batch_of([b"\x0a\x01a"], headers=[headed((VALUE, by_guid(GUID, indexes)))]))
    assert decoded.rows.column("event_id").to_pylist() == ([] if code else ["a"])
    reasons = [json.loads(row["reasons"]) for row in decoded.refusals.to_pylist()]
    assert [[each["code"] for each in each_of] for each_of in reasons] == ([[code]] if code else [])


KEYS: dict[str, tuple[KeyFormat, bytes, list[tuple[str, bytes | None]], str | list[str]]] = {
    "a GUID": (KeyFormat.JSON_SCHEMA, b'"k"', [(KEY, by_guid(OTHER))], "k"),
    "a frame": (KeyFormat.JSON_SCHEMA, b'\0\0\0\0\x08"k"', [], "k"),
    "the value's header": (KeyFormat.JSON_SCHEMA, b'\0\0\0\0\x08"k"', [(VALUE, by_guid(GUID))], "k"),
    "an unknown GUID": (KeyFormat.JSON_SCHEMA, b'"k"', [(KEY, by_guid(UUID(int=5)))], ["unknown_schema"]),
    "a schema of values": (KeyFormat.JSON_SCHEMA, b'"k"', [(KEY, by_guid(GUID))], ["schema"]),
    "too short": (KeyFormat.JSON_SCHEMA, b'"k"', [(KEY, b"\1")], ["frame"]),
    "text": (KeyFormat.TEXT, b"k", [], "k"),
    "text whose schema a header names": (KeyFormat.TEXT, b'"k"', [(KEY, by_guid(OTHER))], ["frame"]),
    "JSON whose schema a header names": (KeyFormat.JSON, b"k", [(KEY, by_guid(OTHER))], "k"),
}


@pytest.mark.parametrize("name", KEYS)
def test_keys_are_read_by_their_header(name: str) -> None:
    key_format, key, headers, expected = KEYS[name]
    record = replace(SHAPE, event_id=None)
    decoder = compile_decoder(source(Format.JSON_SCHEMA, key_format), record, Limits(), known)
    value = PLAIN if headers and headers[-1][0] == VALUE else FRAME + PLAIN
    decoded = decode(decoder, batch_of([value], [key], [headed(*headers)]))
    reasons = [each for row in decoded.refusals.to_pylist() for each in json.loads(row["reasons"])]
    if isinstance(expected, str):
        assert (decoded.rows.column("event_id").to_pylist(), reasons) == ([expected], [])
        assert decoded.rows.column("_key").to_pylist() == [key]
    else:
        assert (decoded.rows.num_rows, [each["code"] for each in reasons]) == (0, expected)


def test_columns_of_keys_are_read_by_their_header() -> None:
    of_keys = WriterSchema(8, SchemaLanguage.JSON, '{"type": "object"}', (), ((f"{TOPIC}-key", 1),))
    tenant = Column("tenant", ColumnType("text"), (), key=("tenant",))
    record = replace(SHAPE, columns=(*SHAPE.columns, tenant))
    framed = source(Format.JSON_SCHEMA, KeyFormat.JSON_SCHEMA)
    schemas = {GUID: SCHEMAS[GUID], OTHER: of_keys}
    decoder = compile_decoder(framed, record, Limits(), lambda refs: {ref: schemas[ref] for ref in refs})  # type: ignore[index]
    named = [[(VALUE, by_guid(GUID)), (KEY, by_guid(OTHER))], [(VALUE, by_guid(GUID)), (KEY, b"\1")]]
    batch = batch_of([PLAIN, PLAIN], [b'{"tenant": "x"}'] * 2, [headed(*each) for each in named])
    decoded = decode(decoder, batch)
    assert decoded.rows.column("tenant").to_pylist() == ["x"]
    (refused,) = decoded.refusals.to_pylist()
    assert [(r["path"], r["code"]) for r in json.loads(refused["reasons"])] == [(f"_headers.{KEY}", "frame")]


def test_a_schema_that_records_name_in_both_ways_is_asked_for_once() -> None:
    asked: list[frozenset[SchemaRef]] = []

    def lookup(refs: frozenset[SchemaRef]) -> Mapping[SchemaRef, WriterSchema]:
        asked.append(refs)
        return known(refs)

    decoder = compile_decoder(source(Format.JSON_SCHEMA), SHAPE, Limits(), lookup)
    unknown = UUID(int=5)
    names = [by_guid(GUID), by_guid(unknown), None, by_guid(GUID)]
    values = [PLAIN, PLAIN, FRAME + PLAIN, PLAIN]
    batch = batch_of(list(values), headers=[name and headed((VALUE, name)) for name in names])
    for _ in range(2):
        assert decode_batch(decoder, batch).rows.num_rows == 3
    assert asked == [frozenset({GUID, unknown})]

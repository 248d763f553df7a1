"""Kinds of records, moved values and what nothing reads, together: in every format, alone and in a batch."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass

from offset_ledger.decoding.arrow import decode_batch
from offset_ledger.decoding.decoder import Decoder
from offset_ledger.decoding.formats import compile_decoder
from offset_ledger.decoding.outcome import DecodedRow, Refusal, Skip
from offset_ledger.decoding.protobuf.schema import compile_schema
from offset_ledger.decoding.subjects import LANGUAGES
from offset_ledger.model.unread import UnreadCounts
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.pipeline_file.pipeline import REST, Column, ColumnType, FieldCondition, Limits, RecordShape
from offset_ledger.pipeline_file.source import Format, Source, SubjectStrategy
from offset_ledger.steps.stage.unread_fields import UnreadFields
from tests.unit.decoding.batches import batch_of

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
AMOUNT = Column("amount", ColumnType("bigint"), ("amount",), aliases=(("total",),))
FIELDS = {"Order": ("total", "note"), "Payment": ("amount", "by")}
RECORDS = [
    ("Order", {"id": "e0", "total": 1, "note": "a"}),
    ("Payment", {"id": "e1", "amount": 2, "by": "x"}),
    ("Order", {"id": "e2", "total": 3, "note": "b"}),
    ("Payment", {"id": "e3", "amount": 4, "by": "no\0text"}),
    ("Order", {"id": "e4", "total": 5, "note": "a"}),
]
ROWS = [("e0", 1, {"note": "a"}), ("e1", 2, {"by": "x"}), ("e2", 3, {"note": "b"}), None, ("e4", 5, {"note": "a"})]
"""The rows of the records above: no jsonb holds what is left of the fourth."""
Record = tuple[str, dict[str, Any]]


def json_value(record: Record) -> bytes:
    return json.dumps(record[1]).encode()


def avro_schema() -> list[dict[str, Any]]:
    return [
        {"type": "record", "name": f"shop.{name}", "fields": [{"name": "id", "type": "string"},
            {"name": amount, "type": "long"}, {"name": text, "type": "string"}]}
        for name, (amount, text) in FIELDS.items()
    ]  # fmt: skip


def avro_value(record: Record) -> bytes:
    out = io.BytesIO()
    named: Any = fastavro.parse_schema(json.loads(json.dumps(avro_schema())))
    fastavro.schemaless_writer(out, named, (f"shop.{record[0]}", record[1]))
    return out.getvalue()


PROTO = 'syntax = "proto3"; package shop; ' + " ".join(
    f"message {name} {{ string id = 1; int64 {amount} = 2; string {text} = 3; }}"
    for name, (amount, text) in FIELDS.items()
)
INDEXES = {"Order": b"\0", "Payment": b"\2\2"}


def protobuf_value(record: Record) -> bytes:
    compiled = compile_schema(WriterSchema(1, SchemaLanguage.PROTOBUF, PROTO))
    message = GetMessageClass(compiled.file.message_types_by_name[record[0]])
    return INDEXES[record[0]] + bytes(ParseDict(record[1], message()).SerializeToString())


Form = tuple[Format, str, Callable[[Record], bytes]]
JSON: Form = (Format.JSON, "", json_value)
JSON_SCHEMA: Form = (Format.JSON_SCHEMA, '{"type": "object"}', json_value)
AVRO: Form = (Format.AVRO, json.dumps(avro_schema()), avro_value)
PROTOBUF: Form = (Format.PROTOBUF, PROTO, protobuf_value)
FORMS = pytest.mark.parametrize("form", [JSON, JSON_SCHEMA, AVRO, PROTOBUF], ids=lambda form: str(form[0]))
WITH_KINDS = pytest.mark.parametrize("form", [AVRO, PROTOBUF], ids=lambda form: str(form[0]))


def source(format_: Format) -> Source:
    return Source("k", "t", format=format_, registry="r", subject=SubjectStrategy.ANY)


def made(form: Form, **more: Any) -> tuple[Decoder, list[bytes]]:
    """A decoder of such records, and the values of those above."""
    format_, text, write = form
    record = RecordShape(("id",), None, (AMOUNT, REST), **more)
    if format_ is Format.JSON:
        return compile_decoder(Source("k", "t"), record, Limits()), [write(each) for each in RECORDS]
    schema = WriterSchema(1, LANGUAGES[format_], text)
    decoder = compile_decoder(source(format_), record, Limits(), lambda _: {1: schema})
    return decoder, [b"\0\0\0\0\1" + write(each) for each in RECORDS]


def row(event_id: str, values: Sequence[Any], deleted: bool) -> Any:
    amount, rest = values
    found = (event_id, amount, rest and json.loads(rest))
    return (*found, "deleted") if deleted else found


def outcomes(decoder: Decoder, values: list[bytes]) -> list[Any]:
    """The row of each record, its reasons or Skip: what it is alone, which has to be what it is in the batch."""
    alone = [decoder.decode(value, None, NOON) for value in values]
    rows = {n: row(e.key[0], e.values, e.deleted) for n, e in enumerate(alone) if isinstance(e, DecodedRow)}
    refused = {n: [reason.path for reason in e.reasons] for n, e in enumerate(alone) if isinstance(e, Refusal)}
    batch = decode_batch(decoder, batch_of(list(values)))
    assert {
        each["_offset"] - 100: row(each["event_id"], (each["amount"], each["_rest"]), each["_deleted"])
        for each in batch.rows.to_pylist()
    } == rows
    assert {
        each["_offset"] - 100: [reason["path"] for reason in json.loads(each["reasons"])]
        for each in batch.refusals.to_pylist()
    } == refused
    assert batch.skipped == len(values) - len(rows) - len(refused)
    return [rows.get(number) or refused.get(number) or Skip for number in range(len(values))]


def proven(decoder: Decoder, values: list[bytes]) -> tuple[list[int], list[int]]:
    """The places that are proven, and those that certainly are skipped."""
    found = decoder.prove(pa.array(values, pa.binary()))
    assert found is not None
    return found.places.tolist(), found.skipped.tolist()


@FORMS
def test_each_kind_has_its_own_place_of_a_moved_value_and_its_own_rest(form: Form) -> None:
    decoder, values = made(form)
    assert outcomes(decoder, values) == [each or ["$.by"] for each in ROWS]
    assert proven(decoder, values) == ([0, 1, 2, 4], [])


@FORMS
@pytest.mark.parametrize(("note", "taken"), [("a", [0, 4]), ("none of them", [])])
def test_of_a_skipped_record_nothing_is_left_and_nothing_is_refused(form: Form, note: str, taken: list[int]) -> None:
    decoder, values = made(form, where=(FieldCondition(("note",), note),))
    assert outcomes(decoder, values) == [each if place in taken else Skip for place, each in enumerate(ROWS)]
    assert proven(decoder, values) == (taken, [place for place in range(5) if place not in taken])


@WITH_KINDS
@pytest.mark.parametrize("taken", FIELDS)
def test_records_of_the_named_schema_alone_have_a_rest(form: Form, taken: str) -> None:
    decoder, values = made(form, schemas=(f"shop.{taken}",))
    kinds = [name for name, _ in RECORDS]
    wanted = [(each or ["$.by"]) if name == taken else Skip for name, each in zip(kinds, ROWS, strict=True)]
    assert outcomes(decoder, values) == wanted
    others = [place for place, each in enumerate(wanted) if each is Skip]
    assert proven(decoder, values) == ([place for place in (0, 1, 2, 4) if place not in others], others)


@FORMS
def test_what_conditions_alone_compare_is_left(form: Form) -> None:
    conditions = {"where": (FieldCondition(("note",), "a"),), "delete_when": FieldCondition(("total",), 5)}
    decoder, values = made(form, **conditions)
    assert outcomes(decoder, values) == [ROWS[0], Skip, Skip, Skip, ("e4", None, None, "deleted")]
    decoder, values = made(form, delete_when=FieldCondition(("note",), "b"))
    assert outcomes(decoder, values) == [ROWS[0], ROWS[1], ("e2", None, None, "deleted"), ["$.by"], ROWS[4]]
    assert proven(decoder, values) == ([0, 1, 4], [])


@WITH_KINDS
def test_the_fields_of_skipped_records_are_not_counted_as_unread(form: Form) -> None:
    decoder, values = made(form, schemas=("shop.Order",))
    unread = UnreadFields(source(form[0]), decoder.record, {1: WriterSchema(1, LANGUAGES[form[0]], form[1])})
    unread.add(decode_batch(decoder, batch_of(list(values))).rows)
    assert unread.result() == UnreadCounts(3, 3, {"$.note": 3})

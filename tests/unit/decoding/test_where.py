"""A pipeline takes the records of its kind; the others are skipped, and what cannot be told is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from offset_ledger.decoding.arrow import decode_batch
from offset_ledger.decoding.decoder import Decoder
from offset_ledger.decoding.formats import compile_decoder
from offset_ledger.decoding.outcome import DecodedRow, Refusal, Skip
from offset_ledger.model.writer_schema import WriterSchema
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, FieldCondition, Limits, RecordShape
from offset_ledger.pipeline_file.source import Format, Source, SubjectStrategy
from tests.fixtures.formats import AVRO, JSON_SCHEMA, PROTOBUF, TestFormat
from tests.unit.decoding.batches import batch_of

KAFKA_TIME = datetime(2020, 1, 1, tzinfo=UTC)
AMOUNT = Column("amount", ColumnType("bigint"), ("amount",), True)
JSON = TestFormat("json", JSON_SCHEMA.language, JSON_SCHEMA.schema, JSON_SCHEMA.encode, b"", "", "")
FORMATS = pytest.mark.parametrize("form", [JSON, JSON_SCHEMA, AVRO, PROTOBUF], ids=lambda form: str(form.name))
DOCUMENTS = [{"id": f"e{n % 3}", "amount": n} for n in range(12)] + [{"id": "e0", "amount": None}, {"id": "e1"}]


def made(form: TestFormat, **conditions: Any) -> tuple[Decoder, list[bytes]]:
    """A decoder with these conditions, and the documents as it reads them."""
    record = replace(RecordShape(("id",), None, (AMOUNT,)), **conditions)
    registry = None if form is JSON else "r"
    source = Source("k", "t", format=Format(form.name), registry=registry, subject=SubjectStrategy.ANY)
    schema = WriterSchema(1, form.language, form.schema(2))
    decoder = compile_decoder(source, record, Limits(), lambda _: {1: schema})
    head = b"" if form is JSON else b"\0\0\0\0\1"
    known = [{"amount": None, "note": None, **document} for document in DOCUMENTS]
    return decoder, [head + form.encode(2, each if form.language == "AVRO" else _given(each)) for each in known]


def read(form: TestFormat, **conditions: Any) -> list[Any]:
    """What becomes of each document by itself, which is what becomes of it in a batch of all."""
    decoder, values = made(form, **conditions)
    alone = [decoder.decode(value, None, KAFKA_TIME) for value in values]
    check(alone, decode_batch(decoder, batch_of(list(values))))
    return alone


def _given(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if value is not None}


def check(alone: list[Any], batch: Any) -> None:
    """The batch is what its records are one by one."""
    rows = [
        (n, each.key[0], each.values[0], each.deleted) for n, each in enumerate(alone) if isinstance(each, DecodedRow)
    ]
    found = [(row["_offset"] - 100, row["event_id"], row["amount"], row["_deleted"]) for row in batch.rows.to_pylist()]
    assert found == rows
    refused = {n: [r.code for r in each.reasons] for n, each in enumerate(alone) if isinstance(each, Refusal)}
    kept = {row["_offset"] - 100: json.loads(row["reasons"]) for row in batch.refusals.to_pylist()}
    assert {n: [reason["code"] for reason in reasons] for n, reasons in kept.items()} == refused
    assert batch.skipped == sum(isinstance(each, Skip) for each in alone)


@FORMATS
@pytest.mark.parametrize("equals", ["e1", "none of them"])
def test_records_of_another_kind_are_skipped(form: TestFormat, equals: str) -> None:
    alone = read(form, where=(FieldCondition(("id",), equals),))
    assert [isinstance(each, DecodedRow) for each in alone] == [document["id"] == equals for document in DOCUMENTS]
    assert not any(isinstance(each, Refusal) for each in alone)


@FORMATS
@pytest.mark.parametrize(
    "where", [FieldCondition(("id",), "e1"), FieldCondition(("kind",), "order"), FieldCondition(("amount",), 3)]
)
def test_whole_columns_of_other_kinds_are_skipped_the_quick_way(form: TestFormat, where: FieldCondition) -> None:
    decoder, values = made(form, where=(where,))
    proven = decoder.prove(pa.array(values, pa.binary()))
    assert proven is not None
    taken = [n for n, document in enumerate(DOCUMENTS) if document.get(where.path[0]) == where.equals]
    assert proven.places.tolist() == taken
    assert proven.skipped.tolist() == [n for n in range(len(DOCUMENTS)) if n not in taken]


@FORMATS
def test_what_else_is_in_a_record_of_another_kind_is_not_looked_at(form: TestFormat) -> None:
    required = (Column("missing", ColumnType("uuid"), ("missing",)), Column("note", ColumnType("date"), ("note",)))
    conditions = {"where": (FieldCondition(("id",), "e1"),), "columns": (AMOUNT, *required)}
    expected = [Refusal if document["id"] == "e1" else Skip for document in DOCUMENTS]
    assert [type(each) for each in read(form, **conditions)] == expected
    decoder, values = made(form, **conditions)
    proven = decoder.prove(pa.array(values, pa.binary()))
    quick = proven is not None and proven.skipped.tolist()
    assert quick == [n for n, each in enumerate(expected) if each is Skip]


@FORMATS
def test_a_record_without_the_value_is_of_another_kind(form: TestFormat) -> None:
    alone = read(form, where=(FieldCondition(("amount",), 3),))
    assert [isinstance(each, DecodedRow) for each in alone] == [document.get("amount") == 3 for document in DOCUMENTS]
    alone = read(form, where=(FieldCondition(("kind",), "order"),))
    assert all(isinstance(each, Skip) for each in alone)


@FORMATS
def test_a_value_of_another_type_is_refused_because_the_kind_cannot_be_told(form: TestFormat) -> None:
    alone = read(form, where=(FieldCondition(("amount",), "x"),))
    expected = [Skip if document.get("amount") is None else Refusal for document in DOCUMENTS]
    assert [type(each) for each in alone] == expected


@FORMATS
def test_a_record_of_the_kind_can_delete_and_no_other(form: TestFormat) -> None:
    alone = read(form, where=(FieldCondition(("id",), "e1"),), delete_when=FieldCondition(("amount",), 4))
    deleted = [isinstance(each, DecodedRow) and each.deleted for each in alone]
    assert deleted == [document.get("amount") == 4 for document in DOCUMENTS]


@FORMATS
def test_several_conditions_all_hold_and_what_is_absent_is_not_a_value(form: TestFormat) -> None:
    marks = tuple(FieldCondition(("id",), each, negated=True) for each in ("e0", "e2"))
    alone = read(form, where=marks)
    expected = [document["id"] == "e1" for document in DOCUMENTS]
    assert [isinstance(each, DecodedRow) for each in alone] == expected
    decoder, values = made(form, where=marks)
    proven = decoder.prove(pa.array(values, pa.binary()))
    assert proven is not None
    assert proven.places.tolist() == [n for n, wanted in enumerate(expected) if wanted]
    assert proven.skipped.tolist() == [n for n, wanted in enumerate(expected) if not wanted]
    not_three = FieldCondition(("amount",), 3, negated=True)
    alone = read(form, where=(not_three, FieldCondition(("id",), "e0")))
    taken = [document["id"] == "e0" and document.get("amount") != 3 for document in DOCUMENTS]
    assert [isinstance(each, DecodedRow) for each in alone] == taken


@FORMATS
def test_a_record_that_is_certainly_of_another_kind_is_skipped_whatever_else_is_in_doubt(form: TestFormat) -> None:
    doubtful, other = FieldCondition(("amount",), "x", negated=True), FieldCondition(("id",), "e1")
    for where in ((doubtful, other), (other, doubtful)):
        alone = read(form, where=where)
        kinds = {n: Skip if each["id"] != "e1" else DecodedRow for n, each in enumerate(DOCUMENTS)}
        kinds |= {n: Refusal for n, each in enumerate(DOCUMENTS) if kinds[n] is DecodedRow and "amount" in each}
        assert [type(each) for each in alone] == list(kinds.values())

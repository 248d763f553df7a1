"""A topic with several kinds of records: a pipeline takes those whose schema it names, and looks into no other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from offset_ledger.decoding.arrow import decode_batch
from offset_ledger.decoding.decoder import Decoder
from offset_ledger.decoding.formats import compile_decoder
from offset_ledger.decoding.outcome import Code, DecodedRow, Refusal, Skip
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, FieldCondition, Limits, RecordShape, Tombstone
from offset_ledger.pipeline_file.source import Format, Source, SubjectStrategy
from tests.unit.decoding.avro.avro_records import Written
from tests.unit.decoding.batches import batch_of
from tests.unit.decoding.protobuf.random_schemas import official

KAFKA_TIME = datetime(2020, 1, 1, tzinfo=UTC)
SHAPE = RecordShape(("id",), None, (Column("amount", ColumnType("bigint"), ("amount",)),), schema_ids=True)
SOURCE = Source("k", "t", registry="r", subject=SubjectStrategy.ANY)
JSON, AVRO, PROTOBUF = SchemaLanguage.JSON, SchemaLanguage.AVRO, SchemaLanguage.PROTOBUF
FORMATS = {JSON: Format.JSON_SCHEMA, AVRO: Format.AVRO, PROTOBUF: Format.PROTOBUF}


def avro(name: str, *more: dict[str, Any], **said: Any) -> dict[str, Any]:
    fields = [{"name": "id", "type": "string"}, {"name": "amount", "type": "long"}, *more]
    return {"type": "record", "name": name, "fields": fields, **said}


NOTE = {"name": "note", "type": "string"}
PROTO = """syntax = "proto3"; package shop;
message Order { string id = 1; int64 amount = 2; message Line { string id = 1; int64 amount = 2; } }
message Refund { string id = 1; int64 amount = 2; string note = 3; }"""
TYPED = {"type": "object", "properties": {"amount": {"type": "integer"}}}
SCHEMAS = {
    1: (AVRO, avro("shop.Order")),
    2: (AVRO, avro("Order", NOTE, namespace="shop")),
    3: (AVRO, avro("shop.Refund", NOTE)),
    4: (AVRO, [avro("shop.Refund", NOTE), avro("shop.Order")]),
    5: (AVRO, "string"),
    6: (AVRO, avro("shop.Broken", {"name": "x", "type": "none.such"})),
    7: (AVRO, avro("Order")),
    11: (PROTOBUF, PROTO),
    21: (JSON, {"title": "shop.Order", **TYPED}),
    22: (JSON, {"$id": "https://shop.example/order", "title": "Order of a shop", **TYPED}),
    23: (JSON, {"title": "shop.Refund", **TYPED}),
    24: (JSON, TYPED),
    25: (JSON, True),
}
KNOWN = {
    id_: WriterSchema(id_, language, said if isinstance(said, str) and language is PROTOBUF else json.dumps(said))
    for id_, (language, said) in SCHEMAS.items()
}
HEADS = {"shop.Order": b"\x00", "shop.Refund": b"\x02\x02", "shop.Order.Line": b"\x04\x00\x00"}


def framed(id_: int, payload: bytes) -> bytes:
    return b"\0" + id_.to_bytes(4, "big") + payload


def record(id_: int, number: int, name: str = "") -> bytes:
    """A record of that schema as the format's own library writes it."""
    language, said = SCHEMAS[id_]
    value = {"id": f"e{number}", "amount": number}
    if language is JSON:
        return framed(id_, json.dumps(value).encode())
    if language is PROTOBUF:
        return framed(id_, HEADS[name] + official(PROTO)(name)(**value).SerializeToString())
    value["note"] = "n"
    return framed(id_, Written(json.loads(json.dumps(said))).write((name, value) if name else value))


def lookup(ids: frozenset[int]) -> Mapping[int, WriterSchema]:
    return {id_: KNOWN[id_] for id_ in ids if id_ in KNOWN}


def decoder_of(form: Format, *schemas: str, limits: Limits = Limits(), **more: Any) -> Decoder:  # noqa: B008
    shape = replace(SHAPE, schemas=schemas, **more)
    return compile_decoder(replace(SOURCE, format=form), shape, limits, lookup)


def said(outcome: DecodedRow | Refusal | Skip) -> Any:
    """The amount of a row, the code of a refusal, None of what is skipped."""
    if isinstance(outcome, DecodedRow):
        return outcome.values[0]
    return outcome.reasons[0].code if isinstance(outcome, Refusal) else None


def read_and_skipped(decoder: Decoder, values: list[bytes]) -> list[Any]:
    """What becomes of each record of a column that is proven, which says itself what is skipped."""
    alone, proven = read(decoder, *values), decoder.prove(pa.array(values, pa.binary()))
    assert proven is not None
    assert proven.skipped.tolist() == [n for n, each in enumerate(alone) if each is None]
    return alone


def read(decoder: Decoder, *values: bytes | None) -> list[Any]:
    """What becomes of each; a batch of all says the same, and proves what is skipped."""
    alone = [said(decoder.decode(value, b"k", KAFKA_TIME)) for value in values]
    staged = decode_batch(decoder, batch_of(list(values)))
    rows = {row["_offset"] - 100: row["amount"] for row in staged.rows.to_pylist()}
    refused = {row["_offset"] - 100: json.loads(row["reasons"])[0]["code"] for row in staged.refusals.to_pylist()}
    assert [rows.get(n, refused.get(n)) for n in range(len(values))] == alone
    assert staged.skipped == alone.count(None)
    return alone


@pytest.mark.parametrize(
    ("schemas", "expected"),
    [
        ((), [1, 2, 3, 4, 5, Code.SCHEMA, Code.SCHEMA, 8]),
        (("shop.Order",), [1, 2, None, 4, None, None, None, None]),
        (("shop.Refund",), [None, None, 3, None, 5, None, None, None]),
        (("shop.Refund", "shop.Order"), [1, 2, 3, 4, 5, None, None, None]),
        (("Order",), [None] * 7 + [8]),
        (("shop.Broken", "string"), [None] * 5 + [Code.SCHEMA, Code.SCHEMA, None]),
    ],
)
def test_avro_records_are_known_by_their_full_name(schemas: tuple[str, ...], expected: list[Any]) -> None:
    values = [
        *(record(1, 1), record(2, 2), record(3, 3), record(4, 4, "shop.Order"), record(4, 5, "shop.Refund")),
        *(framed(5, b"\x02a"), framed(6, b"\x02a\x02"), record(7, 8)),
    ]
    assert read_and_skipped(decoder_of(Format.AVRO, *schemas), values) == expected


@pytest.mark.parametrize(
    ("schemas", "expected"),
    [
        ((), [1, 2, 3]),
        (("shop.Order",), [1, None, None]),
        (("shop.Order.Line", "shop.Refund"), [None, 2, 3]),
        (("Order",), [None] * 3),
    ],
)
def test_protobuf_records_are_known_by_their_message(schemas: tuple[str, ...], expected: list[Any]) -> None:
    values = [record(11, 1, "shop.Order"), record(11, 2, "shop.Refund"), record(11, 3, "shop.Order.Line")]
    assert read_and_skipped(decoder_of(Format.PROTOBUF, *schemas), values) == expected


@pytest.mark.parametrize(
    ("schemas", "expected"),
    [
        ((), [1, 2, 3, 4, 5]),
        (("shop.Order",), [1, None, None, Code.SCHEMA, Code.SCHEMA]),
        (("https://shop.example/order",), [None, 2, None, Code.SCHEMA, Code.SCHEMA]),
        (("Order of a shop", "shop.Refund"), [None, 2, 3, Code.SCHEMA, Code.SCHEMA]),
    ],
)
def test_json_schemas_are_known_by_title_or_id(schemas: tuple[str, ...], expected: list[Any]) -> None:
    assert read(decoder_of(Format.JSON_SCHEMA, *schemas), *(record(20 + n, n) for n in range(1, 6))) == expected


def test_a_schema_without_a_name_says_what_it_lacks() -> None:
    outcome = decoder_of(Format.JSON_SCHEMA, "shop.Order").decode(record(24, 1), b"k", KAFKA_TIME)
    assert isinstance(outcome, Refusal)
    assert outcome.reasons[0].detail == (
        "schema id 24: expected a title or an $id, by which record.where.schema knows it, found none"
    )


OTHERS = {Format.AVRO: [framed(3, b""), framed(4, b"\x00")], Format.PROTOBUF: [framed(11, b"\x02\x02")]}
OTHERS[Format.JSON_SCHEMA] = [framed(23, b"")]
OURS = {Format.AVRO: record(1, 7), Format.PROTOBUF: record(11, 7, "shop.Order"), Format.JSON_SCHEMA: record(21, 7)}


@pytest.mark.parametrize("form", OTHERS)
def test_nothing_is_looked_at_in_a_record_of_another_kind(form: Format) -> None:
    others = [other + more for other in OTHERS[form] for more in (b"", b"\xff" * 20, b"\xff" * 500)]
    decoder = decoder_of(form, "shop.Order", limits=Limits(value_bytes=100))
    ours, too_large, unknown = OURS[form], OURS[form] + b" " * 100, framed(99, b"{}")
    expected = [7, *[None] * len(others), Code.TOO_LARGE, Code.UNKNOWN_SCHEMA, Code.TOO_LARGE, Code.FRAME]
    assert read(decoder, ours, *others, too_large, unknown, unknown + bytes(100), b"x") == expected


@pytest.mark.parametrize("form", OTHERS)
def test_a_tombstone_has_no_kind(form: Format) -> None:
    for tombstone, expected in ((Tombstone.SKIP, None), (Tombstone.QUARANTINE, Code.TOMBSTONE)):
        decoder = decoder_of(form, "shop.Other", tombstone=tombstone)
        assert read(decoder, None, OURS[form]) == [expected, None]


@pytest.mark.parametrize("form", OTHERS)
def test_a_schema_and_a_value_have_to_hold_both(form: Format) -> None:
    decoder = decoder_of(form, "shop.Order", where=(FieldCondition(("amount",), 7),))
    eight = {Format.AVRO: record(2, 8), Format.PROTOBUF: record(11, 8, "shop.Order"), Format.JSON_SCHEMA: record(21, 8)}
    others = {Format.AVRO: record(3, 7), Format.PROTOBUF: record(11, 7, "shop.Refund")}
    assert read(decoder, OURS[form], eight[form], others.get(form, record(23, 7)), OURS[form]) == [7, None, None, 7]


@pytest.mark.parametrize("strategy", [SubjectStrategy.RECORD, SubjectStrategy.TOPIC_RECORD])
def test_each_kind_has_a_subject_of_its_own(strategy: SubjectStrategy) -> None:
    prefix = "t-" if strategy is SubjectStrategy.TOPIC_RECORD else ""
    subjects = {1: "shop.Order", 2: "shop.Refund", 3: "shop.Refund"}
    known = {id_: replace(KNOWN[id_], subjects=((prefix + name, 1),)) for id_, name in subjects.items()}
    source = replace(SOURCE, format=Format.AVRO, subject=strategy)
    decoder = compile_decoder(source, replace(SHAPE, schemas=("shop.Order",)), Limits(), lambda _: {**known})
    assert read(decoder, record(1, 1), record(2, 2), record(3, 3)) == [1, Code.SCHEMA, None]

"""Each framed record is read with the schema that it names, and refused with a reason where that cannot be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.decoding import wire_format
from offset_ledger.decoding.arrow import decode_batch, refusal_schema, staging_schema
from offset_ledger.decoding.formats import compile_decoder
from offset_ledger.decoding.outcome import DecodedRow, Refusal, Skip
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, Limits, RecordShape, Tombstone
from offset_ledger.pipeline_file.source import Format, KeyFormat, Source, SubjectStrategy
from tests.unit.decoding.batches import batch_of

KAFKA_TIME = datetime(2020, 1, 1, tzinfo=UTC)
SOURCE = Source("k", "t", format=Format.JSON_SCHEMA, registry="r")
SHAPE = RecordShape(("id",), None, (Column("n", ColumnType("integer"), ("n",), nullable=True),), schema_ids=True)
ANY_OBJECT = '{"type": "object"}'
POSITIVE = '{"type": "object", "properties": {"n": {"exclusiveMinimum": 0}}}'


def schema(schema_id: int, text: str = ANY_OBJECT, subject: str = "t-value", **other: Any) -> WriterSchema:
    return WriterSchema(schema_id, other.pop("language", SchemaLanguage.JSON), text, subjects=((subject, 1),), **other)


SCHEMAS = {
    each.schema_id: each
    for each in (
        schema(1), schema(2, POSITIVE), schema(3, subject="other-value"), schema(4, '{"type": 5}'),
        schema(5, '"x"', language=SchemaLanguage.AVRO), schema(300_000, POSITIVE), schema(2**31 - 1),
        schema(7, '{"type": "string"}', subject="t-key"),
    )
}  # fmt: skip


class Asked:
    """A lookup that knows these schemas and notes for which it was asked."""

    def __init__(self, schemas: Mapping[int, WriterSchema]) -> None:
        self.schemas = dict(schemas)
        self.ids: list[frozenset[int]] = []

    def __call__(self, ids: frozenset[int]) -> Mapping[int, WriterSchema]:
        self.ids.append(ids)
        return {id_: self.schemas[id_] for id_ in ids if id_ in self.schemas}


def framed(schema_id: int, document: Any) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + json.dumps(document).encode()


def decoder_of(lookup: Any, source: Source = SOURCE, record: RecordShape = SHAPE, limits: Limits = Limits()) -> Any:  # noqa: B008
    return compile_decoder(source, record, limits, lookup)


RECORDS = {
    "read with the first schema": (framed(1, {"id": "a", "n": -1}), None),
    "read with the second": (framed(2, {"id": "b", "n": 1}), None),
    "a large id": (framed(300_000, {"id": "c", "n": 2}), None),
    "the largest id": (framed(2**31 - 1, {"id": "d"}), None),
    "not valid by its schema": (framed(2, {"id": "b", "n": -1}), ("$.n", "schema")),
    "of another subject": (framed(3, {"id": "e"}), ("$", "schema")),
    "a schema that is none": (framed(4, {"id": "e"}), ("$", "schema")),
    "another language": (framed(5, {"id": "e"}), ("$", "schema")),
    "an unknown id": (framed(99, {"id": "e"}), ("$", "unknown_schema")),
    "no frame": (b'{"id": "f"}', ("$", "frame")),
    "magic 1": (b"\1" + bytes(16) + b"{}", ("$", "frame")),
    "nothing at all": (b"", ("$", "frame")),
    "four bytes": (b"\0\0\0\0", ("$", "frame")),
    "a frame around nothing": (b"\0\0\0\0\1", ("$", "syntax")),
    "no JSON inside": (b"\0\0\0\0\1{", ("$", "syntax")),
}


@pytest.mark.parametrize("name", RECORDS)
def test_each_record_is_read_with_its_schema(name: str) -> None:
    value, reason = RECORDS[name]
    outcome = decoder_of(Asked(SCHEMAS)).decode(value, None, KAFKA_TIME)
    if reason is None:
        document = json.loads(value[5:])
        assert outcome == DecodedRow((document["id"],), KAFKA_TIME, (document.get("n"),))
    else:
        assert [(each.path, each.code) for each in outcome.reasons] == [reason]


def test_a_batch_is_what_its_records_are_one_by_one() -> None:
    values = [value for value, _ in RECORDS.values()] * 3
    values[7] = None  # type: ignore[call-overload]
    decoder = decoder_of(Asked(SCHEMAS))
    staged = decode_batch(decoder, batch_of(list(values)))
    alone = [decoder_of(Asked(SCHEMAS)).decode(value, None, KAFKA_TIME) for value in values]
    rows = [(n, row.key[0], row.values[0]) for n, row in enumerate(alone) if isinstance(row, DecodedRow)]
    assert [(row["_offset"] - 100, row["event_id"], row["n"]) for row in staged.rows.to_pylist()] == rows
    refused = [(n, [r.code for r in each.reasons]) for n, each in enumerate(alone) if isinstance(each, Refusal)]
    kept = [(row["_offset"] - 100, json.loads(row["reasons"])) for row in staged.refusals.to_pylist()]
    assert [(place, [reason["code"] for reason in reasons]) for place, reasons in kept] == refused
    assert not any(isinstance(outcome, Skip) for outcome in alone)
    assert staged.rows.schema == staging_schema(SHAPE)
    assert staged.refusals.schema == refusal_schema(SHAPE)


def test_rows_and_refusals_have_the_id_that_the_record_names() -> None:
    values = [framed(2, {"id": "a", "n": 1}), framed(99, {}), b"{}", framed(1, {"id": "b"})]
    staged = decode_batch(decoder_of(Asked(SCHEMAS)), batch_of(list(values)))
    assert staged.rows.column("_schema_id").to_pylist() == [2, 1]
    assert staged.refusals.column("_schema_id").to_pylist() == [99, None]


def test_what_only_a_framed_value_makes_too_long_is_too_long_for_both_ways() -> None:
    values = [framed(1, {"id": "x" * n}) for n in range(40)]
    limits = Limits(value_bytes=40)
    staged = decode_batch(decoder_of(Asked(SCHEMAS), limits=limits), batch_of(list(values)))
    fit = [json.loads(value[5:])["id"] for value in values if 15 < len(value) <= 40]
    assert [row["event_id"] for row in staged.rows.to_pylist()] == fit


def test_an_unknown_id_is_asked_for_once() -> None:
    asked = Asked({1: schema(1)})
    decoder = decoder_of(asked)
    batch = batch_of([framed(1, {"id": "a"}), *[framed(99, {"id": "b"})] * 50])
    for _ in range(2):
        assert decode_batch(decoder, batch).rows.num_rows == 1
    assert asked.ids == [frozenset({1, 99})]


def test_the_ids_of_all_keys_are_asked_for_at_once() -> None:
    asked = Asked(SCHEMAS)
    decoder = decoder_of(asked, KEY_SOURCE, KEYED)
    keys = [framed(7, "k1"), *[framed(100 + n % 50, "k1") for n in range(200)], b"plain", None]
    for _ in range(2):
        staged = decode_batch(decoder, batch_of([framed(1, {"n": 1})] * len(keys), list(keys)))
        assert (staged.rows.num_rows, staged.refusals.num_rows) == (1, len(keys) - 1)
    assert asked.ids == [frozenset({7, *range(100, 150)}), frozenset({1})]


def test_an_id_that_no_registry_gives_is_unknown_unasked() -> None:
    asked = Asked(SCHEMAS)
    value = b"\0\xff\xff\xff\xff{}"
    (refused,) = decode_batch(decoder_of(asked), batch_of([value])).refusals.to_pylist()
    assert [each["code"] for each in json.loads(refused["reasons"])] == ["unknown_schema"]
    assert asked.ids == []


def test_a_lookup_that_cannot_be_asked_refuses_nothing() -> None:
    def away(_: frozenset[int]) -> Mapping[int, WriterSchema]:
        raise ConnectionError("away")

    with pytest.raises(ConnectionError):
        decode_batch(decoder_of(away), batch_of([framed(1, {"id": "a"})]))
    with pytest.raises(ConnectionError):
        decoder_of(away).decode(framed(1, {"id": "a"}), None, KAFKA_TIME)


STRATEGIES = {
    (SubjectStrategy.TOPIC, "t-value"): True, (SubjectStrategy.TOPIC, "t-key"): False,
    (SubjectStrategy.TOPIC, "Order"): False, (SubjectStrategy.RECORD, "Order"): True,
    (SubjectStrategy.RECORD, "t-Order"): False, (SubjectStrategy.TOPIC_RECORD, "t-Order"): True,
    (SubjectStrategy.TOPIC_RECORD, "Order"): False, (SubjectStrategy.ANY, "whatever"): True,
    (SubjectStrategy.TOPIC, ":.eu:t-value"): True, (SubjectStrategy.TOPIC, ":.eu:t-key"): False,
    (SubjectStrategy.TOPIC, ":eu:t-value"): False, (SubjectStrategy.RECORD, ":.:Order"): True,
    (SubjectStrategy.TOPIC_RECORD, ":.eu.west:t-Order"): True,
}  # fmt: skip


@pytest.mark.parametrize(("strategy", "subject"), STRATEGIES)
def test_the_subject_is_that_of_the_strategy(strategy: SubjectStrategy, subject: str) -> None:
    lookup = Asked({1: schema(1, '{"title": "Order", "type": "object"}', subject)})
    outcome = decoder_of(lookup, replace(SOURCE, subject=strategy)).decode(framed(1, {"id": "a"}), None, KAFKA_TIME)
    assert isinstance(outcome, DecodedRow) is STRATEGIES[strategy, subject]


def test_a_registry_that_names_no_subjects_leaves_nothing_to_check() -> None:
    lookup = Asked({1: WriterSchema(1, SchemaLanguage.JSON, ANY_OBJECT)})
    assert isinstance(decoder_of(lookup).decode(framed(1, {"id": "a"}), None, KAFKA_TIME), DecodedRow)


KEYED = replace(SHAPE, event_id=None, tombstone=Tombstone.DELETE)
KEY_SOURCE = replace(SOURCE, key_format=KeyFormat.JSON_SCHEMA)
KEYS = {
    framed(7, "k1"): "k1", framed(7, 5): "schema", framed(7, {"a": 1}): "type", framed(7, ""): "length",
    framed(7, "a\0b"): "nul", framed(1, "k1"): "schema", framed(98, "k1"): "unknown_schema", b"plain": "frame",
    b"\0\0\0\0\7nonsense": "syntax", None: "missing",
}  # fmt: skip


@pytest.mark.parametrize("tombstone", [False, True])
def test_keys_in_the_wire_format_name_events(tombstone: bool) -> None:
    values = [None if tombstone else framed(1, {"n": n}) for n in range(len(KEYS))]
    staged = decode_batch(decoder_of(Asked(SCHEMAS), KEY_SOURCE, KEYED), batch_of(list(values), list(KEYS)))
    assert [(r["event_id"], r["_key"], r["_deleted"]) for r in staged.rows.to_pylist()] == [
        ("k1", framed(7, "k1"), tombstone)
    ]
    found = {
        row["_key"]: [(each["path"], each["code"]) for each in json.loads(row["reasons"])]
        for row in staged.refusals.to_pylist()
    }
    assert found == {key: [("_key", code)] for key, code in KEYS.items() if code != "k1"}


@given(
    st.lists(st.one_of(st.none(), st.binary(max_size=12), st.binary(max_size=8).map(lambda b: b"\0" + b))),
    st.integers(0, 3),
)
def test_ids_of_a_column_are_those_of_its_values(values: list[bytes | None], skip: int) -> None:
    column = pa.array(values, pa.binary())[skip:]
    expected = [
        int.from_bytes(value[1:5], "big") if value and len(value) >= 5 and not value[0] else wire_format.NO_SCHEMA
        for value in values[skip:]
    ]
    assert wire_format.schema_ids(column).tolist() == expected
    assert wire_format.without_head(column).to_pylist() == [
        None if value is None else value[5:] for value in values[skip:]
    ]

"""What is proposed for records with schemas: types by literal tables, and for random Avro a file that decodes them."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.decoding.formats import compile_decoder
from offset_ledger.decoding.outcome import Code, DecodedRow, Refusal, Skip
from offset_ledger.decoding.subjects import LANGUAGES
from offset_ledger.errors import UnusableSchema
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.operations.init.propose import Proposal, Wanted, propose
from offset_ledger.operations.init.run import SampledSchemas, check_proposal, subject_of
from offset_ledger.pipeline_file.pipeline import Limits
from offset_ledger.pipeline_file.source import Format, KeyFormat, Source, SubjectStrategy
from offset_ledger.postgres.table.infer import Sample, SampledRecord, sampled_kinds, schema_inferred
from tests.examples import examples
from tests.fixtures.formats import PROTOBUF
from tests.unit.decoding.avro.avro_records import Draw, Written, schemas

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SOURCE = Source("kafka_default", "shop.orders", registry="registry_default")


def sample(*values: bytes) -> Sample:
    return Sample("shop.orders", tuple(SampledRecord(f"k{n}".encode(), value, NOON) for n, value in enumerate(values)))


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + payload


def proposal(source: Source, sampled: Sample, *found: WriterSchema) -> Proposal:
    known, kinds = SampledSchemas(source, found), sampled_kinds(sampled, found)
    columns, unreadable = schema_inferred(source, kinds, found)
    doubts = *kinds.doubts, *unreadable
    wanted = Wanted("orders", "public.orders", True)
    return propose(wanted, source, kinds.sample, columns, known.lookup, kinds.taken, doubts)


def avro(*fields: tuple[str, Any], id_: int = 1) -> WriterSchema:
    said = [{"name": name, "type": type_} for name, type_ in fields]
    return WriterSchema(id_, SchemaLanguage.AVRO, json.dumps({"type": "record", "name": "R", "fields": said}))


def shown(made: Proposal) -> dict[str, tuple[str, bool]]:
    return {column.name: (column.type.sql, column.nullable) for column in made.record.columns}


AVRO = replace(SOURCE, format=Format.AVRO)


@pytest.mark.parametrize(
    ("type_", "column"),
    [
        ("int", ("bigint", False)),
        (["null", "long"], ("bigint", True)),
        ("float", ("real", False)),
        ("double", ("double precision", False)),
        ("bytes", ("bytea", False)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, ("numeric(9,2)", False)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 1001, "scale": 2}, ("numeric", False)),
        ({"type": "int", "logicalType": "date"}, ("date", False)),
        ({"type": "long", "logicalType": "time-micros"}, ("time without time zone", False)),
        ({"type": "long", "logicalType": "timestamp-millis"}, ("timestamp with time zone", False)),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, ("jsonb", False)),
        ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, ("uuid", False)),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, ("text", False)),
        ({"type": "array", "items": "int"}, ("jsonb", False)),
        ({"type": "map", "values": "int"}, ("jsonb", False)),
        (["int", "string", "null"], ("jsonb", True)),
    ],
)
def test_an_avro_field_has_the_column_of_its_type(type_: Any, column: tuple[str, bool]) -> None:
    made = proposal(AVRO, sample(), avro(("f", type_)))
    assert shown(made) == {"f": column}
    check_proposal(made)


def test_what_no_column_takes_is_left_out_by_name() -> None:
    duration = {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}
    made = proposal(AVRO, sample(), avro(("span", duration), ("n", "int")))
    assert shown(made) == {"n": ("bigint", False)}
    assert "$.span is left out: no column takes a duration" in made.doubts


def test_versions_of_a_schema_are_read_together() -> None:
    old = avro(("id", "string"), ("a", "int"), ("b", "int"), ("c", "string"))
    inner = {"type": "record", "name": "C", "fields": [{"name": "x", "type": "int"}]}
    new = avro(("id", "string"), ("a", "long"), ("b", "string"), ("c", inner), ("d", "boolean"), id_=2)
    made = proposal(AVRO, sample(), old, new)
    expected = {"a": ("bigint", False), "b": ("jsonb", False), "c": ("jsonb", True), "d": ("boolean", True)}
    assert (made.record.event_id, shown(made)) == (("id",), expected)
    assert "column b: int and string, by the version of the schema" in made.doubts


def test_a_proto_message_has_the_columns_of_the_messages_that_were_sampled() -> None:
    text = """syntax = "proto3"; package shop;
    message Other { string name = 1; }
    message Order { string id = 1; optional int64 amount = 2; uint64 total = 3; repeated string tags = 4; }"""
    schema = WriterSchema(7, SchemaLanguage.PROTOBUF, text)
    source = replace(SOURCE, format=Format.PROTOBUF)
    made = proposal(source, sample(framed(7, b"\x02\x02" + b"\x0a\x01a\x18\x05")), schema)
    assert made.record.event_id == ("id",)
    assert shown(made) == {"amount": ("bigint", True), "total": ("numeric(20,0)", False), "tags": ("jsonb", False)}
    decoded = compile_decoder(made.source, made.record, Limits(), SampledSchemas(source, (schema,)).lookup)
    outcome = decoded.decode(framed(7, b"\x02\x02" + b"\x0a\x01a\x18\x05"), None, NOON)
    assert isinstance(outcome, DecodedRow)
    assert (outcome.key[0], *outcome.values) == ("a", None, 5, "[]")
    assert proposal(source, sample(), WriterSchema(8, SchemaLanguage.PROTOBUF, PROTOBUF.schema(1))).record.event_id == (
        "id",
    )


def test_a_json_schema_is_refined_by_the_sampled_documents() -> None:
    properties = {
        "id": {"type": "string"},
        "at": {"type": "string", "format": "date-time"},
        "amount": {"type": "number"},
        "tags": {"type": "array"},
    }
    said = {"type": "object", "properties": properties, "required": ["id", "at", "amount"]}
    schema = WriterSchema(3, SchemaLanguage.JSON, json.dumps(said))
    values = [{"id": f"o{n}", "at": "2026-01-01T00:00:00Z", "amount": n, "more": {"x": n}} for n in range(5)]
    source = replace(SOURCE, format=Format.JSON_SCHEMA)
    made = proposal(source, sample(*(framed(3, json.dumps(each).encode()) for each in values)), schema)
    assert (made.record.event_id, made.record.publish_at) == (("id",), ("at",))
    assert shown(made) == {"amount": ("numeric", False), "tags": ("jsonb", True), "more_x": ("bigint", True)}
    check_proposal(made)


def record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": each, "type": type_} for each, type_ in fields]}


PROTO = """syntax = "proto3"; package shop;
message Order { string id = 1; int64 amount = 2; } message Refund { string id = 1; string why = 2; }"""
ORDER, REFUND = (
    record("shop.Order", ("id", "string"), ("amount", "int")),
    record("shop.Refund", ("id", "string"), ("why", "string")),
)
TITLED = {"properties": {"id": {"type": "string"}}, "required": ["id"]}
JSON_ORDER = TITLED | {"title": "shop.Order"}
JSON_REFUND = {**TITLED, "title": "shop.Refund", "properties": {**TITLED["properties"], "why": {"type": "string"}}}
KINDS = {
    "avro": (Format.AVRO, [json.dumps(ORDER), json.dumps(REFUND)], b"\x02a\x04", b"\x02a\x02b", 1),
    "avro union": (Format.AVRO, [json.dumps([ORDER, REFUND])], b"\x00\x02a\x04", b"\x02\x02a\x02b", 0),
    "protobuf": (Format.PROTOBUF, [PROTO], b"\x00\x0a\x01a\x10\x04", b"\x02\x02\x0a\x01a\x12\x01b", 0),
    "json_schema": (
        *(Format.JSON_SCHEMA, [json.dumps(JSON_ORDER), json.dumps(JSON_REFUND)]),
        *(b'{"id": "a"}', b'{"id": "a", "why": "b"}', 1),
    ),
}


@pytest.mark.parametrize("form", KINDS)
def test_of_several_kinds_the_most_frequent_is_taken(form: str) -> None:
    format_, texts, order, refund, other = KINDS[form]
    found = [WriterSchema(n, LANGUAGES[format_], text) for n, text in enumerate(texts, start=1)]
    orders, refunds = [framed(1, order)] * 2, [framed(1 + other, refund)] * 3
    made = proposal(replace(SOURCE, format=format_), sample(*orders, *refunds, framed(99, b"")), *found)
    columns = {"id": ("text", False), "why": ("text", format_ is Format.JSON_SCHEMA)}
    assert (made.record.schemas, shown(made)) == (("shop.Refund",), columns)
    said = "the records are of 2 kinds: shop.Refund (3), shop.Order (2); record.where takes shop.Refund, the others are"
    assert [doubt for doubt in made.doubts if doubt.startswith(said)] == [f"{said} skipped"]
    unknown = "1 of 4 sampled records would be quarantined: $: expected a schema of the registry, got id 99, which it"
    assert [doubt for doubt in made.doubts if doubt.startswith(unknown)]
    check_proposal(made)
    decoder = compile_decoder(made.source, made.record, Limits(), SampledSchemas(AVRO, tuple(found)).lookup)
    assert [type(decoder.decode(value, b"k", NOON)) for value in (orders[0], refunds[0])] == [Skip, DecodedRow]


def test_kinds_without_a_name_are_all_taken() -> None:
    texts = [JSON_ORDER, JSON_REFUND, TITLED]
    found = [WriterSchema(n, SchemaLanguage.JSON, json.dumps(text)) for n, text in enumerate(texts)]
    sampled = sample(*(framed(n, b'{"id": "a%d"}' % n) for n in range(3)))
    made = proposal(replace(SOURCE, format=Format.JSON_SCHEMA), sampled, *found)
    assert (made.record.schemas, made.record.event_id) == ((), ("id",))
    said = "the records are of 2 kinds: shop.Order (1), shop.Refund (1), and others whose schema has no title: the file"
    assert [doubt for doubt in made.doubts if doubt.startswith(said)] == [f"{said} takes all"]


def test_a_schema_that_cannot_be_read_is_named_and_the_others_are_used() -> None:
    broken = WriterSchema(2, SchemaLanguage.AVRO, '{"type": "record", "name": "R", "fields": [{"name": "x"}]}')
    good = avro(("id", "string"), ("n", "int"))
    values = [framed(1, b"\x02%c\x04" % (97 + n)) for n in range(3)] + [framed(2, b"")]
    made = proposal(AVRO, sample(*values), good, broken)
    assert (made.record.event_id, shown(made)) == (("id",), {"n": ("bigint", False)})
    problem = "R.x: expected 'type' in the Avro schema, got none"
    assert f"schema id 2 cannot be read, its records are quarantined: {problem}" in made.doubts
    check_proposal(made)
    with pytest.raises(
        UnusableSchema, match=r"^topic shop\.orders: schema id 2 cannot be read, .*; register a valid one$"
    ):
        proposal(AVRO, sample(*values), broken)
    other = WriterSchema(3, SchemaLanguage.AVRO, json.dumps(ORDER))
    more = sample(*values, framed(3, b"\x02a\x04"))
    assert (
        f"schema id 2 cannot be read, its records are quarantined: {problem}"
        in proposal(AVRO, more, good, broken, other).doubts
    )


def test_a_key_in_avro_is_read_before_it_names_events() -> None:
    value, key = avro(("n", "int")), WriterSchema(9, SchemaLanguage.AVRO, '"string"')
    source = replace(AVRO, key_format=KeyFormat.AVRO)
    records = tuple(SampledRecord(framed(9, bytes([2, 97 + n])), framed(1, b"\x02"), NOON) for n in range(3))
    sampled = Sample("shop.orders", records)
    known = SampledSchemas(source, (value,), (key,))
    columns, _ = schema_inferred(source, sampled_kinds(sampled, known.values), known.values)
    made = propose(Wanted("orders", "public.orders", False), source, sampled, columns, known.lookup)
    assert (made.record.event_id, made.source.key_format) == (None, KeyFormat.AVRO)
    assert made.doubts[0] == "event_id: unique in 3 records; there is no other candidate"
    check_proposal(made)


@pytest.mark.parametrize(
    ("subjects", "strategy"),
    [
        (["shop.orders-value", "R"], SubjectStrategy.TOPIC),
        (["R"], SubjectStrategy.RECORD),
        (["shop.orders-R"], SubjectStrategy.TOPIC_RECORD),
        (["elsewhere"], SubjectStrategy.ANY),
    ],
)
def test_the_subject_strategy_is_the_one_that_the_schemas_are_registered_by(
    subjects: list[str], strategy: SubjectStrategy
) -> None:
    schema = replace(avro(("n", "int")), subjects=tuple((subject, 1) for subject in subjects))
    assert subject_of(AVRO, [schema]) is strategy
    source = replace(AVRO, subject=strategy)
    check_proposal(proposal(source, sample(framed(1, b"\x02")), schema))


OF_THE_VALUE = {Code.RANGE, Code.PRECISION, Code.NUL}


@st.composite
def records(draw: Draw) -> tuple[dict[str, Any], list[bytes]]:
    """A schema with at least one field that a column takes, and records of it."""
    schema = draw(schemas())
    schema["fields"].append({"name": "last", "type": "long"})
    written = Written(copy.deepcopy(schema))
    return schema, [written.write(written.value(draw, written.parsed)) for _ in range(draw(st.integers(1, 3)))]


@examples(60)
@given(records())
def test_the_proposed_file_decodes_every_sampled_record(drawn: tuple[dict[str, Any], list[bytes]]) -> None:
    text, payloads = drawn
    schema = WriterSchema(1, SchemaLanguage.AVRO, json.dumps(text))
    sampled = sample(*(framed(1, payload) for payload in payloads))
    made = proposal(AVRO, sampled, schema)
    check_proposal(made)
    decoder = compile_decoder(made.source, made.record, Limits(), SampledSchemas(AVRO, (schema,)).lookup)
    outcomes = [decoder.decode(each.value, each.key, each.timestamp) for each in sampled.records]
    refused = [outcome.reasons for outcome in outcomes if isinstance(outcome, Refusal)]
    # What no column holds, such as a date of the year 5000000 or a duration in a union, is refused, and said to be.
    against = [reason for reasons in refused for reason in reasons if "no column takes a duration" not in reason.detail]
    assert {reason.code for reason in against} <= OF_THE_VALUE, refused
    assert bool(refused) == any("would be quarantined" in doubt for doubt in made.doubts)


def renamed(id_: int, *fields: tuple[str, list[str]]) -> WriterSchema:
    said = [{"name": name, "aliases": aliases, "type": "long"} for name, aliases in fields]
    return WriterSchema(id_, SchemaLanguage.AVRO, json.dumps({"type": "record", "name": "R", "fields": said}))


def test_a_renamed_field_is_one_column_with_its_earlier_names() -> None:
    first, second = renamed(1, ("total", []), ("n", [])), renamed(2, ("sum", ["total"]), ("n", []))
    third = renamed(3, ("amount", ["sum"]), ("n", ["other"]))

    made = proposal(AVRO, sample(), first, second, third)

    found = {column.name: (column.path, column.aliases, column.nullable) for column in made.record.columns}
    assert found == {"amount": (("amount",), (("sum",), ("total",)), False), "n": (("n",), (("other",),), False)}
    assert "amount: {type: bigint, aliases: [$.sum, $.total]}" in made.text
    check_proposal(made)


def test_a_name_that_is_in_use_again_is_no_alias() -> None:
    first, second = renamed(1, ("total", [])), renamed(2, ("amount", ["total"]), ("total", []))

    made = proposal(AVRO, sample(), first, second)

    found = {column.name: (column.aliases, column.nullable) for column in made.record.columns}
    assert found == {"amount": ((), True), "total": ((), False)}


def test_a_renamed_event_id_keeps_its_earlier_name() -> None:
    def schema(id_: int, name: str, aliases: list[str]) -> WriterSchema:
        said = [{"name": name, "type": "string", "aliases": aliases}, {"name": "n", "type": "long"}]
        return WriterSchema(id_, SchemaLanguage.AVRO, json.dumps({"type": "record", "name": "R", "fields": said}))

    old, new = schema(1, "order", []), schema(2, "event_id", ["order"])
    made = proposal(AVRO, sample(framed(1, b"\x02a\x02"), framed(2, b"\x02b\x04")), old, new)

    assert (made.record.event_id, made.record.event_id_aliases) == (("event_id",), (("order",),))
    assert "event_id: {path: $.event_id, aliases: [$.order]}" in made.text
    check_proposal(made)

"""A record is a row if it is valid by its schema, and what the decoder of JSON makes of it then."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.decoding.json.decoder import JsonDecoder
from offset_ledger.decoding.json_schema.decoder import JsonSchemaDecoder, key_text
from offset_ledger.decoding.outcome import DecodedRow, Mismatch, Refusal, SchemaProblem
from offset_ledger.model.writer_schema import SchemaLanguage, SchemaReference, WriterSchema
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, Limits, RecordShape

KAFKA_TIME = datetime(2020, 1, 1, tzinfo=UTC)
SHAPE = RecordShape(("id",), None,
    (Column("n", ColumnType("numeric"), ("n",), nullable=True),
        Column("rest", ColumnType("jsonb"), ("rest",), nullable=True)))  # fmt: skip


def decoder_of(schema: Any, *references: SchemaReference) -> JsonSchemaDecoder:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return JsonSchemaDecoder(WriterSchema(1, SchemaLanguage.JSON, text, references), SHAPE, Limits())


CONSTRAINTS = st.one_of(
    st.sampled_from(["integer", "number", "string", "boolean", "null", "array", "object"]).map(lambda t: {"type": t}),
    st.fixed_dictionaries({"minimum": st.integers(-5, 5)}),
    st.fixed_dictionaries({"maxLength": st.integers(0, 5)}),
    st.fixed_dictionaries(
        {"enum": st.lists(st.sampled_from([2, "a", None, True, 0.5]), min_size=1, max_size=3, unique=True)}
    ),
    st.fixed_dictionaries({"maxItems": st.integers(0, 2)}),
    st.fixed_dictionaries({"required": st.lists(st.sampled_from(["a", "b"]), max_size=2, unique=True)}),
    st.just({}),
)
SCHEMAS = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.fixed_dictionaries({"n": CONSTRAINTS, "rest": CONSTRAINTS})}
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.sampled_from([0.5, -2.25]), st.text("ab", max_size=7)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=4,
)
DOCUMENTS = st.fixed_dictionaries({"id": st.text("xyz", min_size=1)}, optional={"n": VALUES, "rest": VALUES})


@given(SCHEMAS, st.lists(DOCUMENTS, max_size=5))
def test_rows_are_the_rows_of_json_that_are_valid(schema: dict[str, Any], documents: list[dict[str, Any]]) -> None:
    validator = jsonschema.Draft202012Validator(schema)
    values = [json.dumps(document).encode() for document in documents]
    decoder, plain = decoder_of(schema), JsonDecoder(SHAPE, Limits())
    for document, value in zip(documents, values, strict=True):
        outcome, unchecked = decoder.decode(value, None, KAFKA_TIME), plain.decode(value, None, KAFKA_TIME)
        if validator.is_valid(document):
            assert outcome == unchecked
        else:
            assert isinstance(outcome, Refusal)
            paths = {each.path for each in outcome.reasons if each.code == "schema"}
            assert {path.split(".")[1] for path in paths} == {
                str(error.absolute_path[0]) for error in validator.iter_errors(document)
            }
    proven = decoder.prove(pa.array(values, pa.binary()))
    assert proven is not None
    places = proven.places.tolist()
    rows = [decoder.decode(values[place], None, KAFKA_TIME) for place in places]
    assert all(isinstance(row, DecodedRow) for row in rows)
    assert [row.key[0] for row in rows if isinstance(row, DecodedRow)] == proven.columns[0].to_pylist()


def test_a_referenced_schema_is_validated_too() -> None:
    reference = SchemaReference("amount.json", "amount", 1, '{"type": "number", "maximum": 10}')
    decoder = decoder_of({"type": "object", "properties": {"n": {"$ref": "amount.json"}}}, reference)
    assert isinstance(decoder.decode(b'{"id": "a", "n": 10}', None, KAFKA_TIME), DecodedRow)
    outcome = decoder.decode(b'{"id": "a", "n": 10.5}', None, KAFKA_TIME)
    assert isinstance(outcome, Refusal)
    assert [(each.path, each.code) for each in outcome.reasons] == [("$.n", "schema")]


def test_decimals_are_validated_as_they_are_written() -> None:
    decoder = decoder_of({"type": "object", "properties": {"n": {"maximum": 0.1}}})
    assert isinstance(decoder.decode(b'{"id": "a", "n": 0.1}', None, KAFKA_TIME), DecodedRow)
    beyond = b'{"id": "a", "n": 0.10000000000000000000001}'
    assert isinstance(decoder.decode(beyond, None, KAFKA_TIME), Refusal)
    proven = decoder.prove(pa.array([beyond], pa.binary()))
    assert proven is not None
    assert not len(proven.places)


@pytest.mark.parametrize(
    ("schema", "says"),
    {
        "{": "it is no JSON Schema: ",
        '{"type": 5}': "it is no JSON Schema: ",
        '{"$ref": "http://127.0.0.1:1/x.json"}': "Retrieval is disabled",
        '{"a":' * 2000 + "{}" + "}" * 2000: "recursion limit",
        '{"properties": {"a": {"pattern": "("}}}': "it is no JSON Schema: ",
    }.items(),
    ids=["no JSON", "no schema", "elsewhere", "too deep", "no pattern"],
)
def test_what_is_no_schema_says_why(schema: str, says: str) -> None:
    with pytest.raises(SchemaProblem, match=says) as problem:
        decoder_of(schema)
    assert "\n" not in str(problem.value)


def test_at_most_ten_reasons_of_a_schema_are_kept() -> None:
    decoder = decoder_of({"type": "object", "properties": {"rest": {"items": {"type": "string"}}}})
    outcome = decoder.decode(json.dumps({"id": "a", "rest": list(range(500))}).encode(), None, KAFKA_TIME)
    assert isinstance(outcome, Refusal)
    assert [each.path for each in outcome.reasons] == [f"$.rest.{n}" for n in range(10)]


INTEGERS = RecordShape(
    ("id",),
    ("at",),
    (
        Column("small", ColumnType("smallint"), ("small",)),
        Column("many", ColumnType("bigint[]"), ("many",)),
        Column("day", ColumnType("date"), ("day",), encoding="epoch_days"),
    ),
    publish_at_encoding="epoch_ms",
)
OF_INTEGERS: dict[str, Any] = {
    "type": "object",
    "properties": {"small": {"type": "integer"}, "many": {"items": {"type": "integer"}}, "day": {"type": "integer"},
        "at": {"type": "integer"}},
}  # fmt: skip


def test_an_integer_is_what_json_schema_calls_one_to_the_last_digit() -> None:
    decoder = JsonSchemaDecoder(WriterSchema(1, SchemaLanguage.JSON, json.dumps(OF_INTEGERS)), INTEGERS, Limits())
    values = [
        b'{"id": 7.0, "at": 1.5778368e12, "small": -1e2, "many": [9007199254740993.0, 0.1e1], "day": 1.0e0}',
        b'{"id": 1e2, "at": 1577836800000.000, "small": -0.0, "many": [9223372036854775807.00, -0], "day": 0e9}',
    ]
    rows = [decoder.decode(value, None, KAFKA_TIME) for value in values]
    assert [row for row in rows if isinstance(row, DecodedRow)] == rows
    assert [(row.key, row.values) for row in rows if isinstance(row, DecodedRow)] == [
        (("7",), (-100, [9007199254740993, 1], date(1970, 1, 2))),
        (("100",), (0, [2**63 - 1, 0], date(1970, 1, 1))),
    ]
    assert {row.publish_at for row in rows if isinstance(row, DecodedRow)} == {datetime(2020, 1, 1, tzinfo=UTC)}


@pytest.mark.parametrize(
    ("small", "many", "expected"),
    [
        ("1.5", "[1]", {("$.small", "type"), ("$.small", "schema")}),
        ("32768.0", "[1]", {("$.small", "range")}),
        ("1e5", "[1e19]", {("$.small", "range"), ("$.many", "range")}),
        ("1", "[1e999999, 1]", {("$.many", "type")}),
        ("1", "[1e9999999, 1]", {("$.many", "range")}),
        ("1", "[1.00000000000000000000000000000000001]", {("$.many", "type"), ("$.many.0", "schema")}),
    ],
)
def test_a_number_that_is_no_integer_or_does_not_fit_is_refused(
    small: str, many: str, expected: set[tuple[str, str]]
) -> None:
    decoder = JsonSchemaDecoder(WriterSchema(1, SchemaLanguage.JSON, json.dumps(OF_INTEGERS)), INTEGERS, Limits())
    value = f'{{"id": "a", "at": 0, "small": {small}, "many": {many}, "day": 0}}'.encode()
    outcome = decoder.decode(value, None, KAFKA_TIME)
    assert isinstance(outcome, Refusal)
    assert {(each.path, str(each.code)) for each in outcome.reasons} == expected


def test_a_key_that_is_an_integer_by_its_schema_names_the_event_by_its_digits() -> None:
    read = key_text(WriterSchema(1, SchemaLanguage.JSON, '{"type": "integer"}'))
    assert [read(key) for key in (b"7", b"7.0", b"1.2e1", b"9007199254740993.0", b"-0.0")] == [
        *("7", "7", "12", "9007199254740993", "0")
    ]
    for key, code in ((b"7.5", "type"), (b"1e999999999", "type"), (b"[", "syntax")):
        with pytest.raises(Mismatch) as refused:
            read(key)
        assert str(refused.value.code) == code

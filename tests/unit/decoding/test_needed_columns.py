"""What a new schema needs: columns, wider types, or a question; for random Avro, columns that decode its records."""

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
from offset_ledger.decoding.needed_columns import Difference, Follower, Needed
from offset_ledger.decoding.outcome import Code, Reason, Refusal
from offset_ledger.decoding.subjects import fields_of
from offset_ledger.model.followed_columns import effective
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.pipeline_file.column_types import parse_type
from offset_ledger.pipeline_file.pipeline import Column, Evolve, FieldCondition, Limits, RecordShape
from offset_ledger.pipeline_file.source import Format, Source
from tests.examples import examples
from tests.unit.decoding.avro.avro_records import Draw, Written, schemas

SOURCE = Source("kafka_default", "orders", format=Format.AVRO, registry="registry_default")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WIDEN = Follower(Format.AVRO, Evolve.WIDEN, declared={"f", "other", "first_name"})
ADD = replace(WIDEN, evolve=Evolve.ADD_COLUMNS)
ID = {"name": "id", "type": "string"}


def column(text: str, nullable: bool = True, name: str = "f", path: str | None = None) -> Column:
    return Column(name, parse_type(text), tuple((path or name).split(".")), nullable)


def record(*columns: Column) -> RecordShape:
    return RecordShape(("id",), None, columns, schema_ids=True)


def avro(*fields: tuple[str, Any], id_: int = 1) -> WriterSchema:
    said = [ID, *({"name": name, "type": type_} for name, type_ in fields)]
    return WriterSchema(id_, SchemaLanguage.AVRO, json.dumps({"type": "record", "name": "R", "fields": said}))


def needed(follower: Follower, shape: RecordShape, *fields: tuple[str, Any]) -> Needed:
    return follower.needed(shape, fields_of(avro(*fields)))


def nested(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Inner", "fields": [{"name": name, "type": type_} for name, type_ in fields]}


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        ("int", [column("bigint")]),
        (["null", "float"], [column("real")]),
        ("string", [column("text")]),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, [column("numeric(9,2)")]),
        ({"type": "long", "logicalType": "timestamp-micros"}, [replace(column("timestamptz"), encoding="rfc3339")]),
        ({"type": "array", "items": "int"}, [column("jsonb")]),
        (
            nested(("firstName", "string"), ("n", "long")),
            [column("text", name="f_first_name", path="f.firstName"), column("bigint", name="f_n", path="f.n")],
        ),
    ],
)
def test_a_new_field_has_a_nullable_column_as_init_would_name_it(type_: Any, expected: list[Column]) -> None:
    assert needed(ADD, record(), ("f", type_)) == Needed(tuple(expected))


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 4}


@pytest.mark.parametrize(
    ("declared", "type_", "wider"),
    [
        ("smallint", "int", "bigint"), ("integer", "long", "bigint"), ("real", "double", "double precision"),
        ("varchar(3)", "string", "text"), ("numeric(7,2)", DECIMAL, "numeric(9,4)"),
        ("numeric(9,2)", DECIMAL, "numeric(11,4)"),
    ],
)  # fmt: skip
def test_a_wider_field_has_a_wider_column(declared: str, type_: Any, wider: str) -> None:
    assert needed(WIDEN, record(column(declared)), ("f", type_)) == Needed((column(wider),))
    assert not needed(WIDEN, record(column(wider)), ("f", type_))


def test_without_leave_to_widen_it_is_a_question() -> None:
    text = (
        "long in the schema, integer in the table: values from 2^31 on are quarantined; write bigint, or evolve: "
        "widen, which makes it bigint"
    )
    assert needed(ADD, record(column("integer")), ("f", "long")) == Needed((), (Difference("$.f", text),))
    assert not needed(ADD, record(column("varchar(3)")), ("f", "string"))  # a length is the file's alone


@pytest.mark.parametrize(
    ("declared", "fields", "text"),
    [
        (column("bigint"), [("f", "string")], "string in the schema, bigint in the table: records are quarantined"),
        (column("bigint"), [("f", nested(("x", "int")))], "a record in the schema, bigint in the file"),
        (column("bigint", path="f.x"), [("f", "string")], "a path into string, which has no fields"),
        (column("bigint"), [("f", ["long", "string"])], "union of long, string in the schema, bigint in the table"),
        (column("bigint", nullable=False), [], "not in the schema, and not nullable: records are quarantined"),
        (column("real"), [("f", "long")], "long in the schema, real in the table: values above 2^24"),
    ],
)
def test_what_no_change_of_ours_mends_is_a_question(declared: Column, fields: list[Any], text: str) -> None:
    found = needed(WIDEN, record(declared), *fields)
    (question,) = found.questions
    assert (found.columns, question.path) == ((), "$.f.x" if len(declared.path) > 1 else "$.f")
    assert question.text.startswith(text)
    assert not needed(replace(WIDEN, accepted={question}), record(declared), *fields)


@pytest.mark.parametrize(
    ("declared", "fields"),
    [
        (column("bigint"), []),  # a field that is gone is NULL
        (column("jsonb"), [("f", nested(("x", "int")))]),
        (column("bigint", nullable=False), [("f", ["null", "long"])]),  # the file says that records have a value
        (column("text", name="other", path="f.x"), [("f", nested(("x", "string")))]),
        (replace(column("timestamptz")), [("f", {"type": "long", "logicalType": "timestamp-nanos"})]),
    ],
)
def test_what_the_columns_take_needs_nothing(declared: Column, fields: list[Any]) -> None:
    assert not needed(WIDEN, record(declared), *fields)


def test_a_name_that_is_taken_is_a_question_and_the_other_fields_have_their_columns() -> None:
    shape = record(column("text", name="first_name", path="name"))
    fields = [("name", "string"), ("firstName", "string"), ("note", "string"), ("theirs", "int"), ("ctid", "int")]
    found = needed(replace(ADD, foreign={"theirs"}), shape, *fields)
    assert found.columns == (column("text", name="note"),)
    assert [str(each) for each in found.questions] == [
        f"$.{path}: a new field, and {name} is another column; declare it by another name in the file"
        for path, name in [("firstName", "first_name"), ("theirs", "theirs"), ("ctid", "ctid")]
    ]


def test_texts_are_parsed_where_the_file_says_so_and_not_where_a_schema_had_another_type() -> None:
    day = column("date")
    assert not needed(WIDEN, record(day), ("f", "string"))
    (question,) = needed(replace(WIDEN, declared=()), record(day), ("f", "string")).questions
    assert question.text == "string in the schema, date in the table: texts that are no date are quarantined"


def test_what_conditions_read_is_no_new_field() -> None:
    shape = replace(record(), where=(FieldCondition(("kind",), "order"),), delete_when=FieldCondition(("op",), "d"))
    assert not needed(ADD, shape, ("kind", "string"), ("op", "string"))


def test_what_no_column_takes_is_a_question() -> None:
    duration = {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}
    assert needed(ADD, record(), ("f", duration)).questions == (
        Difference("$.f", "a new field: no column takes a duration"),
    )


def test_the_event_id_has_to_be_there() -> None:
    shape = replace(record(), event_id=("key",))
    assert needed(ADD, shape).questions == (
        Difference("$.key", "not in the schema, and not nullable: records are quarantined"),
    )


@pytest.mark.parametrize(
    ("file", "followed", "columns"),
    [
        ([], [column("bigint")], [column("bigint")]),
        ([column("text")], [column("bigint", path="g")], [column("text")]),  # the file's by name
        ([column("text", name="g", path="f")], [column("text")], [column("text", name="g", path="f")]),  # by path
        ([column("text")], [column("text", name="f_x", path="f.x")], [column("text")]),
        ([column("jsonb")], [column("text", name="x", path="f.x")], [column("jsonb"), column("text", "f.x", "x")]),
        ([column("integer")], [column("bigint")], [column("bigint")]),
        ([column("integer", nullable=False)], [column("bigint")], [column("bigint", nullable=False)]),
        ([column("bigint")], [column("integer")], [column("bigint")]),  # the file is wider by now
        ([], [column("integer"), column("bigint")], [column("bigint")]),
        ([], [column("text", name="id")], []),  # what names events
    ],
)
def test_the_file_wins(file: list[Column], followed: list[Column], columns: list[Column]) -> None:
    wanted = [each if each.name != "x" else column("text", name="x", path="f.x") for each in columns]
    once = effective(record(*file), followed)
    assert list(once.columns) == wanted
    assert effective(once, followed) == once


FOLLOW = Follower(Format.AVRO, Evolve.WIDEN)
OF_THE_VALUE = {Code.RANGE, Code.PRECISION, Code.NUL}


@st.composite
def versions(draw: Draw) -> tuple[list[WriterSchema], list[bytes]]:
    """Two versions of a schema, by chance with fields of the same names, and records of both."""
    found, values = list[WriterSchema](), list[bytes]()
    for id_ in (1, 2):
        schema = draw(schemas())
        found.append(WriterSchema(id_, SchemaLanguage.AVRO, json.dumps(schema)))
        written = Written(copy.deepcopy(schema))
        payloads = [written.write(written.value(draw, written.parsed)) for _ in range(draw(st.integers(1, 3)))]
        values += [b"\0" + id_.to_bytes(4, "big") + payload for payload in payloads]
    return found, values


@examples(150)
@given(versions())
def test_the_columns_that_follow_decode_the_records_of_all_schemas(
    drawn: tuple[list[WriterSchema], list[bytes]],
) -> None:
    found, values = drawn
    shape, asked = RecordShape(None, None, ()), {1: set[str](), 2: set[str]()}
    for schema in found:
        fields = fields_of(schema)
        first = FOLLOW.needed(shape, fields)
        shape = effective(shape, first.columns)
        asked[schema.schema_id] = {each.path for each in first.questions}
        assert FOLLOW.needed(shape, fields) == Needed((), first.questions)
    known = {schema.schema_id: schema for schema in found}
    decoder = compile_decoder(SOURCE, shape, Limits(), lambda ids: {id_: known[id_] for id_ in ids})
    for value in values:
        outcome = decoder.decode(value, b"key", NOON)
        reasons = outcome.reasons if isinstance(outcome, Refusal) else ()
        assert all(_is_of_the_value(reason) or _is_asked(reason, asked[value[4]]) for reason in reasons), reasons


def _is_of_the_value(reason: Reason) -> bool:
    """What no column holds: a date of the year 5000000, or a duration in a union."""
    return reason.code in OF_THE_VALUE or "no column takes a duration" in reason.detail


def _is_asked(reason: Reason, paths: set[str]) -> bool:
    """Whether the question was about this place, one in it, or one that it stands in."""
    return any(reason.path == path or _in(reason.path, path) or _in(path, reason.path) for path in paths)


def _in(inner: str, outer: str) -> bool:
    return inner.startswith((f"{outer}.", f"{outer}["))

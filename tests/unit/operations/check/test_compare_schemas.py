"""Schema, file and table side by side: what each difference means, and whether it matters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from offset_ledger.decoding.typed.types import SchemaField, TypeName, ValueType
from offset_ledger.operations.check.compare_schemas import KnownSchema, Line, Table, compare
from offset_ledger.pipeline_file.pipeline import (
    Column,
    ColumnType,
    Evolve,
    FieldCondition,
    Limits,
    Pipeline,
    Quality,
    RecordShape,
    Target,
)
from offset_ledger.pipeline_file.source import Format, Source
from offset_ledger.postgres.table.fit import Misfit

LONG = ValueType(TypeName.INTEGER, "long", bits=64)
INT = ValueType(TypeName.INTEGER, "int", bits=32)
UINT64 = ValueType(TypeName.INTEGER, "uint64", bits=64, signed=False)
DOUBLE = ValueType(TypeName.FLOAT, "double", bits=64)
STRING = ValueType(TypeName.TEXT, "string")
DECIMAL = ValueType(TypeName.DECIMAL, "decimal(9,2)", scale=2)
NUMBER = ValueType(TypeName.DECIMAL, "number")
NANOS = ValueType(TypeName.TIMESTAMP, "timestamp-nanos", nanoseconds=1)
LOCAL = ValueType(TypeName.LOCAL_TIMESTAMP, "local-timestamp-millis", nanoseconds=1_000_000)
MISSING = Misfit("column amount bigint is missing", "ADD COLUMN amount bigint", "", Evolve.ADD_COLUMNS, "amount")


def pipeline(*columns: Column, form: Format = Format.AVRO, evolve: Evolve = Evolve.NONE) -> Pipeline:
    record = RecordShape(("id",), None, columns)
    source, target = Source("kafka", "orders", format=form), Target("postgres", "public", "orders", evolve=evolve)
    return Pipeline("orders", source, record, target, Quality(), Limits(), Path("orders.yaml"), "hash")


def column(text: str, nullable: bool = False, encoding: str = "", path: str = "f") -> Column:
    name, _, args = text.partition("(")
    numbers = tuple(int(each) for each in args.rstrip(")").split(",") if each)
    return Column("f", ColumnType(name, numbers), tuple(path.split(".")), nullable, encoding)


def known(*fields: SchemaField, name: str = "orders-value version 1") -> KnownSchema:
    return KnownSchema(name, (SchemaField(("id",), STRING, "string", False), *fields))


def field(type_: ValueType | None, shown: str = "", nullable: bool = False, path: str = "f") -> SchemaField:
    return SchemaField(tuple(path.split(".")), type_, shown or (type_.shown if type_ else "record"), nullable)


def marks(lines: tuple[Line, ...]) -> list[str]:
    return [f"{'!' if mark.matters else '+'} {mark.text}" for line in lines for mark in line.marks]


def marks_of(of_file: Column, said: SchemaField, form: Format = Format.AVRO) -> list[str]:
    return marks(compare(pipeline(of_file, form=form), [known(said)], Table(None, {})))


WRITE_JSONB = "records are quarantined; write jsonb, or the path of a value in it"


@pytest.mark.parametrize(
    ("said", "of_file", "mark"),
    [
        (field(LONG), column("bigint"), None),
        (field(INT), column("bigint"), None),
        (field(LONG), column("integer"), "values from 2^31 on are quarantined; write bigint"),
        (field(INT), column("smallint"), "values from 2^15 on are quarantined; write integer"),
        (field(UINT64), column("bigint"), "values from 2^63 on are quarantined; write numeric"),
        (field(LONG), column("numeric(19,0)"), None),
        (field(LONG), column("numeric(20,2)"), "values from 10^18 on are quarantined; write bigint"),
        (field(INT), column("real"), "values above 2^24 that it cannot hold are quarantined; write integer"),
        (field(INT), column("double precision"), None),
        (field(LONG), column("double precision"),
            "values above 2^53 that it cannot hold are quarantined; write bigint"),
        (field(DOUBLE), column("real"), "values that a real cannot hold are quarantined; write double precision"),
        (field(DECIMAL), column("numeric"), None),
        (field(DECIMAL), column("numeric(12,2)"), None),
        (field(DECIMAL), column("numeric(9,1)"), "values with more digits are quarantined; write numeric(9,2)"),
        (field(DECIMAL), column("numeric(8,2)"), "values with more digits are quarantined; write numeric(9,2)"),
        (field(NANOS), column("timestamptz"), "values between two microseconds are quarantined"),
        (field(LONG), column("timestamptz", encoding="epoch_ms"), None),
        (field(STRING), column("timestamptz"), None),
        (field(STRING), column("bigint"), "records are quarantined (expected integer, got string)"),
        (field(DOUBLE), column("numeric"), "records are quarantined (expected a decimal or an integer, got double)"),
        (field(LOCAL), column("timestamptz"),
            "records are quarantined (expected timestamp, got local-timestamp-millis: a local timestamp has no time"
            " zone)"),
        (field(None, "map"), column("jsonb"), None),
        (field(None, "map"), column("text"), WRITE_JSONB),
        (field(None, "union of string, long"), column("text"), None),
    ],
    ids=str,
)  # fmt: skip
def test_a_type_of_the_schema_and_one_of_the_file(said: SchemaField, of_file: Column, mark: str | None) -> None:
    args = f"({','.join(map(str, of_file.type.args))})" if of_file.type.args else ""
    expected = [f"! {said.shown} in the schema, {of_file.type.name}{args} in the file: {mark}"] if mark else []
    assert marks_of(of_file, said) == expected


@pytest.mark.parametrize(
    ("said", "of_file", "mark"),
    [
        (field(LONG, nullable=True), column("bigint", nullable=True), None),
        (field(LONG, nullable=True), column("bigint"),
            "can be null or missing in the schema, not nullable in the file: such records are quarantined"),
        (field(LONG, path="f.x"), column("jsonb"), None),
        (field(LONG, path="f.x"), column("text"), f"a record in the schema, text in the file: {WRITE_JSONB}"),
        (field(None, "map"), column("text", path="f.x"), None),
        (field(LONG), column("text", path="f.x"), "a path into long, which has no fields: records are quarantined"),
    ],
    ids=str,
)  # fmt: skip
def test_nulls_and_paths(said: SchemaField, of_file: Column, mark: str | None) -> None:
    assert marks_of(of_file, said) == ([f"! {mark}"] if mark else [])


def test_a_map_of_protobuf_has_no_path_into_it() -> None:
    found = marks_of(column("text", path="f.x"), field(None, "map<string, int64>"), Format.PROTOBUF)
    assert found == ["! a path into map<string, int64>, which has no fields: records are quarantined"]


@pytest.mark.parametrize(
    ("type_", "mark"),
    [
        ("numeric", None),
        ("double precision", None),
        ("bigint", "values with a fraction are quarantined; write numeric"),
        ("text", "records are quarantined; write numeric"),
    ],
)
def test_a_number_of_json(type_: str, mark: str | None) -> None:
    found = marks_of(column(type_), field(NUMBER), Format.JSON_SCHEMA)
    assert found == ([f"! number in the schema, {type_} in the file: {mark}"] if mark else [])


def test_what_the_schema_lacks_and_what_the_file_lacks() -> None:
    file = pipeline(column("text", nullable=True, path="gone"), replace(column("text", path="lost"), name="g"))
    file = replace(
        file,
        record=replace(file.record, delete_when=FieldCondition(("op",), "d"), where=(FieldCondition(("kind",), "x"),)),
    )

    schema = known(field(STRING, path="op"), field(STRING, path="kind"), field(LONG, path="new.x", nullable=True))
    lines = compare(file, [schema], Table(None, {}))

    assert marks(lines) == [
        "! not in the schema: NULL",
        "! not in the schema, and not nullable: records are quarantined",
        "+ new field, nothing reads it",
    ]
    assert (lines[-1].path, lines[-1].schema, lines[-1].column) == ("$.new.x", "long, null", "")


def test_what_the_table_lacks() -> None:
    amount = replace(column("bigint"), name="amount")
    of_table = Table(
        True,
        {"event_id": "text", "extra": "integer"},
        (
            MISSING,
            Misfit("column extra is NOT NULL", "ALTER COLUMN extra DROP NOT NULL", column="extra"),
            Misfit("it is a view, and rows go into a table"),
        ),
    )

    lines = compare(pipeline(amount, form=Format.JSON), [], of_table)

    assert marks(lines) == [
        "! column amount bigint is missing: run ALTER TABLE public.orders ADD COLUMN amount bigint",
        "! column extra is NOT NULL: run ALTER TABLE public.orders ALTER COLUMN extra DROP NOT NULL",
        "! it is a view, and rows go into a table",
    ]
    assert [(line.column, line.file, line.table) for line in lines] == [
        ("event_id", "text", "text"), ("publish_at", "timestamp with time zone", ""), ("amount", "bigint", ""),
        ("extra", "", "integer"), ("", "", ""),
    ]  # fmt: skip
    evolving = compare(pipeline(amount, evolve=Evolve.ADD_COLUMNS), [], replace(of_table, misfits=(MISSING,)))
    assert marks(evolving) == [
        "+ column amount bigint is missing: the next commit runs ALTER TABLE public.orders ADD COLUMN amount bigint"
    ]


def test_several_schemas_are_named_where_they_differ() -> None:
    schemas = [known(field(INT), name="a version 1"), known(field(LONG), name="b version 2")]

    lines = compare(pipeline(column("integer")), schemas, Table(None, {}))

    assert marks(lines) == [
        "! b version 2: long in the schema, integer in the file: values from 2^31 on are quarantined; write bigint"
    ]
    assert [line.schema for line in lines] == ["string", "", "int; long"]


def moved(path: str, *aliases: str) -> Column:
    return replace(column("bigint", path=path), aliases=tuple((alias,) for alias in aliases))


@pytest.mark.parametrize(
    ("of_file", "said", "mark"),
    [
        (moved("total"), "amount", "! renamed to $.amount: write path: $.amount, aliases: [$.total]"),
        (moved("total", "sum"), "amount", "! renamed to $.amount: write path: $.amount, aliases: [$.total, $.sum]"),
        (moved("amount"), "amount", "+ $.total before, as the schema says: for such records write aliases: [$.total]"),
        (moved("amount", "sum"), "amount",
            "+ $.total before, as the schema says: for such records write aliases: [$.sum, $.total]"),
        (moved("amount", "total"), "amount", None),
        (moved("value", "amount", "total"), "amount", None),
    ],
)  # fmt: skip
def test_a_field_that_the_schema_calls_renamed(of_file: Column, said: str, mark: str | None) -> None:
    renamed = replace(field(LONG, path=said), aliases=(("total",),))

    lines = compare(pipeline(of_file), [known(renamed)], Table(None, {}))

    assert marks(lines) == ([mark] if mark else [])
    assert [line.schema for line in lines if line.column == "f"] == ["" if mark and mark[0] == "!" else "long"]


def test_each_schema_is_compared_where_its_records_have_the_value() -> None:
    old, new = known(field(LONG, path="total")), known(field(STRING, path="amount"), name="orders-value version 2")

    lines = compare(pipeline(moved("amount", "total")), [old, new], Table(None, {}))

    refused = "string in the schema, bigint in the file: records are quarantined (expected integer, got string)"
    assert marks(lines) == [f"! orders-value version 2: {refused}"]
    assert lines[-1].schema == "long; string"

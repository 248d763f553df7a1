"""Which schemas are valid, and what their types are."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from offset_ledger.decoding.avro.schema import (
    MAX_NESTED,
    MAX_SCHEMA_BYTES,
    Array,
    Map,
    Record,
    Scalar,
    Union,
    parse,
    record_or_union,
)
from offset_ledger.decoding.outcome import SchemaProblem
from offset_ledger.decoding.typed.types import TypeName, ValueType
from offset_ledger.model.writer_schema import SchemaLanguage, SchemaReference, WriterSchema
from tests.unit.decoding.avro.avro_checks import record


def record_of(schema: WriterSchema) -> Record:
    """The record that a schema is."""
    found = record_or_union(schema)
    assert isinstance(found, Record)
    return found


def writer(said: Any, *references: Any) -> WriterSchema:
    """The schema with what it refers to; a str is taken as the text."""
    texts = [each if isinstance(each, str) else json.dumps(each) for each in (*references, said)]
    named = tuple(SchemaReference(f"r{n}", f"s{n}", 1, text) for n, text in enumerate(texts[:-1]))
    return WriterSchema(7, SchemaLanguage.AVRO, texts[-1], named)


def field(type_: Any) -> Any:
    """The type of the only field of a record."""
    return record_of(writer(record(type_))).fields[0].type


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("long", ValueType(TypeName.INTEGER, "long", bits=64)),
        ({"type": "int"}, ValueType(TypeName.INTEGER, "int", bits=32)),
        ("float", ValueType(TypeName.FLOAT, "float", bits=32)),
        ({"type": "int", "logicalType": "date"}, ValueType(TypeName.DATE, "date")),
        ({"type": "long", "logicalType": "date"}, ValueType(TypeName.INTEGER, "long", bits=64)),
        ({"type": "int", "logicalType": "time-millis"}, ValueType(TypeName.TIME, "time-millis", nanoseconds=10**6)),
        ({"type": "long", "logicalType": "time-micros"}, ValueType(TypeName.TIME, "time-micros", nanoseconds=1000)),
        ({"type": "long", "logicalType": "timestamp-nanos"},
            ValueType(TypeName.TIMESTAMP, "timestamp-nanos", nanoseconds=1)),
        ({"type": "long", "logicalType": "local-timestamp-micros"},
            ValueType(TypeName.LOCAL_TIMESTAMP, "local-timestamp-micros", nanoseconds=1000)),
        ({"type": "string", "logicalType": "uuid"}, ValueType(TypeName.TEXT, "string")),
        ({"type": "string", "logicalType": 3}, ValueType(TypeName.TEXT, "string")),
        ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, ValueType(TypeName.UUID, "uuid")),
        ({"type": "fixed", "name": "U", "size": 15, "logicalType": "uuid"}, ValueType(TypeName.BYTES, "fixed U")),
        ({"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"},
            ValueType(TypeName.DURATION, "duration")),
        ({"type": "enum", "name": "a.E", "symbols": ["X"]}, ValueType(TypeName.TEXT, "enum a.E")),
    ],
)  # fmt: skip
def test_scalars(said: Any, expected: ValueType) -> None:
    assert field(said).value == expected


@pytest.mark.parametrize(
    ("attributes", "scale"),
    [
        ({"precision": 9, "scale": 2}, 2), ({"precision": 9}, 0), ({"precision": 4, "scale": 4}, 4),
        ({"precision": 4, "scale": 5}, None), ({"precision": 0}, None), ({"precision": -1}, None),
        ({"precision": 4, "scale": -1}, None), ({"precision": "4"}, None), ({"precision": True}, None),
        ({"scale": 2}, None),
    ],
)  # fmt: skip
def test_a_decimal_that_is_not_valid_is_bytes(attributes: dict[str, Any], scale: int | None) -> None:
    found = field({"type": "bytes", "logicalType": "decimal", **attributes}).value
    assert (found.name, found.scale) == ((TypeName.BYTES, 0) if scale is None else (TypeName.DECIMAL, scale))


@pytest.mark.parametrize(
    ("size", "precision", "fits"),
    [(1, 2, True), (1, 3, False), (4, 9, True), (4, 10, False), (8, 18, True), (8, 19, False), (0, 1, False)],
)
def test_a_fixed_decimal_fits_its_size(size: int, precision: int, fits: bool) -> None:
    said = {"type": "fixed", "name": "D", "size": size, "logicalType": "decimal", "precision": precision}
    assert (field(said).value.name is TypeName.DECIMAL) is fits


def test_names_are_resolved_in_their_namespace() -> None:
    enum = {"type": "enum", "name": "E", "symbols": ["X"]}
    inner = record("E", "b.F", "a.E", name="b.Inner")
    fixed = {"type": "fixed", "name": "b.F", "size": 2}
    found = record_of(writer(record(enum, fixed, record("F", "a.E", name="b.Inner"), "E", name="a.Outer")))
    first, second, third, fourth = (each.type for each in found.fields)
    assert isinstance(third, Record)
    assert [each.type for each in third.fields] == [second, first]
    assert fourth is first
    assert (first.name, second.name, third.name) == ("a.E", "b.F", "b.Inner")
    with pytest.raises(SchemaProblem, match=r'b.Inner.f0: expected a type that is defined in the Avro schema, got "E"'):
        parse(writer(record(enum, inner, name="a.Outer")))


def test_a_record_can_contain_itself() -> None:
    tree = record_of(
        writer(record(["null", "Order"], {"type": "array", "items": "Order"}, {"type": "map", "values": "Order"}))
    )
    union, array, map_ = (each.type for each in tree.fields)
    assert isinstance(union, Union)
    assert isinstance(array, Array)
    assert isinstance(map_, Map)
    assert union.branches[1] is array.items is map_.values is tree


def test_references_define_names() -> None:
    money = {"type": "fixed", "name": "com.Money", "size": 3}
    price = record("com.Money", name="com.Price")
    found = record_of(writer(record("com.Price", "com.Money"), money, price, money))
    assert isinstance(found.fields[0].type, Record)
    assert found.fields[0].type.fields[0].type is found.fields[1].type


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ('"string"', "expected an Avro record, or a union with one, got string"),
        (["null", "int"], "expected an Avro record, or a union with one, got union"),
        ("{", "expected an Avro schema in JSON"),
        ("\ud800", "expected an Avro schema in JSON"),
        ("17", "schema: expected a type in the Avro schema, got 17"),
        (record("no.Such"), 'Order.f0: expected a type that is defined in the Avro schema, got "no.Such"'),
        (record({"type": {"type": "string"}}), "Order.f0: expected a type in the Avro schema"),
        (record({"type": "array"}), "Order.f0: expected 'items' in the Avro schema, got none"),
        (record({"type": "map"}), "Order.f0: expected 'values'"),
        (record({"type": "enum", "name": "E"}), "E: expected 'symbols'"),
        (record({"type": "enum", "name": "E", "symbols": ["a", "a"]}), "E: expected different symbols"),
        (record({"type": "enum", "name": "E", "symbols": ["a-b"]}), "E: expected a list of symbols"),
        (record({"type": "fixed", "name": "F"}), "F: expected 'size'"),
        (record({"type": "fixed", "name": "F", "size": -1}), "F: expected a size"),
        (record({"type": "fixed", "name": "F", "size": 1.0}), "F: expected a size"),
        (record({"type": "fixed", "name": "1F", "size": 1}), "Order.f0: expected a name"),
        (record({"type": "fixed", "name": "F", "namespace": 5, "size": 1}), "Order.f0: expected a namespace"),
        (record({"type": "fixed", "name": "Order", "size": 1}),
            'Order.f0: expected a new name in the Avro schema, got "Order"'),
        (record({"type": "fixed", "name": "int", "size": 1}), 'expected a new name in the Avro schema, got "int"'),
        (record(["int", "int"]), "Order.f0: expected a union of different types"),
        (record(["null", ["int"]]), "Order.f0: expected a union of different types"),
        (record([{"type": "array", "items": "int"}, {"type": "array", "items": "long"}]), "a union of different types"),
        ({"type": "record", "name": "R"}, "R: expected 'fields'"),
        ({"type": "record", "name": "R", "fields": {}}, "R: expected a list of fields"),
        ({"type": "record", "name": "R", "fields": [{"type": "int"}]}, "R: expected a field with a name"),
        ({"type": "record", "name": "R", "fields": [{"name": "a.b", "type": "int"}]},
            "R: expected a field with a name"),
        ({"type": "record", "name": "R", "fields": [{"name": "a"}]}, "R.a: expected 'type'"),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}] * 2},
            "R: expected fields of different names"),
        ({"type": "record", "fields": []}, "schema: expected a name"),
    ],
)  # fmt: skip
def test_what_is_not_valid_is_named(said: Any, problem: str) -> None:
    with pytest.raises(SchemaProblem) as raised:
        record_or_union(writer(said))
    assert problem in str(raised.value)
    assert str(raised.value).isprintable()


def nested(depth: int) -> str:
    """A schema of so many arrays, one in another."""
    return '{"type":"array","items":' * depth + '"int"' + "}" * depth


def test_nesting_is_bounded() -> None:
    assert isinstance(parse(writer(nested(MAX_NESTED))), Array)
    for depth in (MAX_NESTED + 1, 1000, 100_000):
        with pytest.raises(SchemaProblem, match="nested types"):
            parse(writer(nested(depth)))
    with pytest.raises(SchemaProblem, match=r"nested types|truncated"):  # Python 3.13 reads on to the end
        parse(writer('{"type":"record","name":"R","fields":[{"name":"a","type":' * 1000))


def test_size_is_bounded() -> None:
    symbols = [f"S{n:06}" for n in range(380_000)]
    large = json.dumps(record({"type": "enum", "name": "E", "symbols": symbols}))
    assert MAX_SCHEMA_BYTES * 9 // 10 < len(large) < MAX_SCHEMA_BYTES
    start = time.process_time()
    found = record_of(writer(large)).fields[0].type
    assert time.process_time() - start < 5
    assert isinstance(found, Scalar)
    assert len(found.symbols) == len(symbols)
    for sizes in (large + " " * MAX_SCHEMA_BYTES, " " * 10**7):
        with pytest.raises(SchemaProblem, match="expected an Avro schema of at most"):
            parse(writer(sizes))
    with pytest.raises(SchemaProblem, match="expected an Avro schema of at most"):
        parse(writer(large, large + " "))

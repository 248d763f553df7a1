"""The fields of schemas: their paths, types and whether they can be null, in each language."""

from __future__ import annotations

import json
from typing import Any

import pytest

from offset_ledger.decoding.avro.schema import MAX_ALIASES
from offset_ledger.decoding.avro.schema import schema_fields as avro_fields
from offset_ledger.decoding.json_schema.fields import schema_fields as json_schema_fields
from offset_ledger.decoding.outcome import SchemaProblem
from offset_ledger.decoding.protobuf.decoder import schema_fields as protobuf_fields
from offset_ledger.decoding.typed.types import SchemaField
from offset_ledger.model.writer_schema import SchemaLanguage, SchemaReference, WriterSchema
from offset_ledger.pipeline_file.json_path import format_path


def _lines(fields: tuple[SchemaField, ...]) -> list[str]:
    return [
        f"{format_path(field.path)} {field.type.name if field.type else '-'} "
        f"[{field.shown}]{' null' if field.nullable else ''}"
        for field in fields
    ]


def _avro(*fields: tuple[str, Any]) -> WriterSchema:
    record = {"type": "record", "name": "R", "fields": [{"name": name, "type": type_} for name, type_ in fields]}
    return WriterSchema(1, SchemaLanguage.AVRO, json.dumps(record))


def _inner(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "S", "fields": [{"name": name, "type": type_} for name, type_ in fields]}


@pytest.mark.parametrize(
    ("type_", "lines"),
    [
        ("long", ["$.f integer [long]"]),
        (["null", "long"], ["$.f integer [long] null"]),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, ["$.f decimal [decimal(9,2)]"]),
        (["string", "long"], ["$.f - [union of string, long]"]),
        (["null", "string", "long"], ["$.f - [union of string, long] null"]),
        ("null", ["$.f - [null] null"]),
        ({"type": "map", "values": "long"}, ["$.f - [map]"]),
        ({"type": "array", "items": "long"}, ["$.f - [array]"]),
        (_inner(("x", "string"), ("y", ["null", "int"])), ["$.f.x text [string]", "$.f.y integer [int] null"]),
        (["null", _inner(("x", "string"))], ["$.f.x text [string] null"]),
        (_inner(), ["$.f - [record S]"]),
        (["null", "R"], ["$.f - [record R] null"]),
        (_inner(("x", "string"), ("more", ["null", "S"])), ["$.f.x text [string]", "$.f.more - [record S] null"]),
    ],
    ids=str,
)
def test_an_avro_field(type_: Any, lines: list[str]) -> None:
    assert _lines(avro_fields(_avro(("f", type_)))) == lines


def _protobuf(fields: str) -> WriterSchema:
    text = f"""syntax = "proto3"; package z; import "google/protobuf/timestamp.proto";
    import "google/protobuf/wrappers.proto"; import "google/protobuf/struct.proto";
    message Event {{ {fields} }} message Inner {{ string x = 1; Inner more = 2; }} message Empty {{}}"""
    return WriterSchema(1, SchemaLanguage.PROTOBUF, text)


@pytest.mark.parametrize(
    ("field", "lines"),
    [
        ("int64 f = 1;", ["$.f integer [int64]"]),
        ("optional int64 f = 1;", ["$.f integer [int64] null"]),
        ("oneof o { int64 f = 1; }", ["$.f integer [int64] null"]),
        ("repeated int64 f = 1;", ["$.f - [repeated int64]"]),
        ("map<string, int64> f = 1;", ["$.f - [map<string, int64>]"]),
        ("google.protobuf.Timestamp f = 1;", ["$.f timestamp [google.protobuf.Timestamp] null"]),
        ("google.protobuf.Int64Value f = 1;", ["$.f integer [google.protobuf.Int64Value] null"]),
        ("google.protobuf.Struct f = 1;", ["$.f - [google.protobuf.Struct] null"]),
        ("Inner f = 1;", ["$.f.x text [string] null", "$.f.more - [z.Inner] null"]),
        ("Event f = 1;", ["$.f - [z.Event] null"]),
        ("Empty f = 1;", ["$.f - [z.Empty] null"]),
    ],
)
def test_a_protobuf_field(field: str, lines: list[str]) -> None:
    assert _lines(protobuf_fields(_protobuf(field))) == lines


def test_protobuf_takes_the_first_message_or_the_one_that_is_named() -> None:
    schema = _protobuf("int64 f = 1;")

    assert _lines(protobuf_fields(schema)) == _lines(protobuf_fields(schema, "z.Event"))
    assert _lines(protobuf_fields(schema, "z.Inner")) == ["$.x text [string]", "$.more - [z.Inner] null"]
    with pytest.raises(SchemaProblem, match=r"expected message z\.Other in the schema"):
        protobuf_fields(schema, "z.Other")
    with pytest.raises(SchemaProblem, match="expected a message in the schema, which has none"):
        protobuf_fields(WriterSchema(1, SchemaLanguage.PROTOBUF, 'syntax = "proto3";'))


def test_proto2_says_what_is_required() -> None:
    text = 'syntax = "proto2"; message E { required int64 a = 1; optional int64 b = 2; }'

    assert _lines(protobuf_fields(WriterSchema(1, SchemaLanguage.PROTOBUF, text))) == [
        "$.a integer [int64]",
        "$.b integer [int64] null",
    ]


DEFINITIONS = {"In": {"type": "object", "required": ["x"], "properties": {"x": {"type": "string"}}}}
CIRCLE = {"type": "object", "properties": {"more": {"$ref": "#/$defs/Circle"}, "x": {"type": "string"}}}


@pytest.mark.parametrize(
    ("said", "lines"),
    [
        ({"type": "integer"}, ["$.f integer [integer]"]),
        ({"type": "number"}, ["$.f decimal [number]"]),
        ({"type": ["boolean", "null"]}, ["$.f boolean [boolean] null"]),
        ({"type": "string", "format": "date-time"}, ["$.f text [string (date-time)]"]),
        ({"type": "string", "contentEncoding": "base64"}, ["$.f text [string (base64)]"]),
        ({"enum": ["a", "b"]}, ["$.f text [string]"]),
        ({"enum": ["a", None]}, ["$.f text [string] null"]),
        ({"const": 1}, ["$.f integer [integer]"]),
        ({"type": "array"}, ["$.f - [array]"]),
        ({"type": ["string", "integer"]}, ["$.f - [integer or string]"]),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, ["$.f - [integer or string]"]),
        ({"oneOf": [{"type": "null"}, {"type": "string", "format": "date"}]}, ["$.f text [string (date)] null"]),
        ({"allOf": [{"$ref": "#/$defs/In"}, {"properties": {"y": {"type": "integer"}}}]},
         ["$.f.x text [string]", "$.f.y integer [integer] null"]),
        ({"$ref": "#/$defs/In"}, ["$.f.x text [string]"]),
        ({"$ref": "in.json"}, ["$.f.x text [string]"]),
        ({"anyOf": [{"type": "null"}, {"$ref": "#/$defs/In"}]}, ["$.f.x text [string] null"]),
        ({"$ref": "#/$defs/Circle"}, ["$.f.more - [object] null", "$.f.x text [string] null"]),
        ({"$ref": "#/$defs/Nowhere"}, ["$.f - [any value] null"]),
        ({"type": "object"}, ["$.f - [object]"]),
        ({}, ["$.f - [any value] null"]),
    ],
    ids=str,
)  # fmt: skip
def test_a_property_of_a_json_schema(said: dict[str, Any], lines: list[str]) -> None:
    text = {"type": "object", "required": ["f"], "properties": {"f": said}, "$defs": {**DEFINITIONS, "Circle": CIRCLE}}
    reference = SchemaReference("in.json", "in", 1, json.dumps(DEFINITIONS["In"]))

    fields = json_schema_fields(WriterSchema(1, SchemaLanguage.JSON, json.dumps(text), (reference,)))

    assert _lines(fields) == lines


def test_a_property_that_is_not_required_can_be_null() -> None:
    text = {"properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9}}}

    (field,) = json_schema_fields(WriterSchema(1, SchemaLanguage.JSON, json.dumps(text)))

    assert (field.path, field.nullable, field.type and field.type.bits) == (("a",), True, 32)


def test_what_is_no_object_has_no_fields() -> None:
    assert json_schema_fields(WriterSchema(1, SchemaLanguage.JSON, '{"type": "string"}')) == ()
    with pytest.raises(SchemaProblem, match="expected a JSON Schema in JSON"):
        json_schema_fields(WriterSchema(1, SchemaLanguage.JSON, "{"))


def _avro_chain(levels: int, twice: str) -> WriterSchema:
    """Records that each hold the one before, once or twice."""
    names = "ab" if twice else "a"
    said = [{"type": "record", "name": "R0", "fields": [{"name": "x", "type": "int"}]}]
    for n in range(1, levels):
        said.append(
            {"type": "record", "name": f"R{n}", "fields": [{"name": each, "type": f"R{n - 1}"} for each in names]}
        )
    *references, text = map(json.dumps, said)
    found = tuple(SchemaReference(f"R{n}", "r", 1, each) for n, each in enumerate(references))
    return WriterSchema(1, SchemaLanguage.AVRO, text, found)


def _protobuf_chain(levels: int, twice: str) -> WriterSchema:
    inner = [f"message R{n} {{ R{n - 1} a = 1; {f'R{n - 1} b = 2;' if twice else ''} }}" for n in range(1, levels)]
    text = "\n".join(['syntax = "proto3";', *reversed(inner), "message R0 { int32 x = 1; }"])
    return WriterSchema(1, SchemaLanguage.PROTOBUF, text)


def _json_chain(levels: int, twice: str) -> WriterSchema:
    """Objects that each hold the one before, or that are it by either of two branches."""
    defined: dict[str, Any] = {"R0": {"type": "object", "properties": {"x": {"type": "integer"}}}}
    for n in range(1, levels):
        inner = {"$ref": f"#/$defs/R{n - 1}"}
        by_name = {"type": "object", "properties": dict.fromkeys("ab" if twice else "a", inner)}
        defined[f"R{n}"] = {"anyOf": [inner, inner]} if twice == "branches" else by_name
    return WriterSchema(1, SchemaLanguage.JSON, json.dumps({"$ref": f"#/$defs/R{levels - 1}", "$defs": defined}))


CHAINS = [
    *((avro_fields, _avro_chain, "fields"), (protobuf_fields, _protobuf_chain, "fields")),
    *((json_schema_fields, _json_chain, "fields"), (json_schema_fields, _json_chain, "branches")),
]


@pytest.mark.parametrize(("fields", "chain", "twice"), CHAINS)
@pytest.mark.parametrize("levels", [17, 60])
def test_a_schema_that_unfolds_without_end_is_refused(fields: Any, chain: Any, twice: str, levels: int) -> None:
    with pytest.raises(SchemaProblem, match=r"^expected a schema of at most 10000 fields, got more$"):
        fields(chain(levels, twice))


@pytest.mark.parametrize(("fields", "chain"), [(fields, chain) for fields, chain, _ in CHAINS[:3]])
def test_of_many_levels_the_last_is_one_field(fields: Any, chain: Any) -> None:
    (deep,) = fields(chain(100, ""))
    assert (deep.path, deep.type is None) == ((*"a" * 99, "x"), False)
    (whole,) = fields(chain(3000, ""))
    assert (whole.path, whole.type) == ((*"a" * 100,), None)


def test_aliases_at_many_levels_are_bounded() -> None:
    type_: Any = "string"
    for level in reversed(range(40)):
        field = {"name": "new", "type": type_, "aliases": ["old"]}
        type_ = {"type": "record", "name": f"R{level}", "fields": [field]}
    (found,) = avro_fields(WriterSchema(1, SchemaLanguage.AVRO, json.dumps(type_)))
    assert found.path == ("new",) * 40
    assert len(found.aliases) == MAX_ALIASES
    assert found.aliases[0] == ("old", *("new",) * 39)

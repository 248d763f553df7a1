"""Values changed, coerced or defaulted, and columns of keys and headers, in every format, alone and at once."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import fastavro
import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass

from offset_ledger.decoding.arrow import decode_batch
from offset_ledger.decoding.decoder import Decoder
from offset_ledger.decoding.formats import compile_decoder
from offset_ledger.decoding.protobuf.schema import compile_schema
from offset_ledger.errors import ConfigurationError
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.pipeline_file.pipeline import (
    REST,
    Column,
    ColumnType,
    FieldCondition,
    Limits,
    RecordShape,
    Tombstone,
)
from offset_ledger.pipeline_file.source import Format, KeyFormat, Source, SubjectStrategy
from tests.unit.decoding.batches import HEAD, batch_of, decoded


def written(form: str, documents: list[Mapping[str, Any]]) -> tuple[list[bytes], WriterSchema]:
    """Documents of texts or null in this format, and the schema that they name."""
    names = list(dict.fromkeys(name for each in documents for name in each))
    if form == Format.AVRO:
        fields = [{"name": name, "type": ["null", "string"], "default": None} for name in names]
        schema = {"type": "record", "name": "Order", "fields": fields}
        values = []
        for each in documents:
            fastavro.schemaless_writer(out := io.BytesIO(), fastavro.parse_schema(dict(schema)), dict(each))
            values.append(HEAD + out.getvalue())
        return values, WriterSchema(1, SchemaLanguage.AVRO, json.dumps(schema))
    if form == Format.PROTOBUF:
        lines = "".join(f"optional string {name} = {number};" for number, name in enumerate(names, start=1))
        schema_ = WriterSchema(1, SchemaLanguage.PROTOBUF, f'syntax = "proto3"; message Order {{ {lines} }}')
        message = GetMessageClass(compile_schema(schema_).file.message_types_by_name["Order"])
        given = [{name: value for name, value in each.items() if value is not None} for each in documents]
        return [HEAD + b"\0" + bytes(ParseDict(each, message()).SerializeToString()) for each in given], schema_
    head = HEAD if form == Format.JSON_SCHEMA else b""
    return [head + json.dumps(each).encode() for each in documents], WriterSchema(1, SchemaLanguage.JSON, "{}")


def compiled(form: Format, record: RecordShape, schema: WriterSchema) -> Decoder:
    source = Source("k", "t", format=form, registry=None if form is Format.JSON else "r", subject=SubjectStrategy.ANY)
    return compile_decoder(source, record, Limits(), lambda _: {1: schema})


def named(name: str, type_: str = "text", *args: int, **more: Any) -> Column:
    return Column(name, ColumnType(type_, args), more.pop("path", (name,)), **more)


CHANGED = (
    named("lowered", transform=("trim", "lower")),
    named("short", "varchar", 3, transform=("upper",)),
    named("tags", "jsonb", split=",", transform=("trim",)),
    named("n", "integer", coerce=True),
    named("price", "numeric", 12, 2, coerce=True, transform=("trim",)),
    named("ratio", "double precision", coerce=True),
    named("yes", "boolean", coerce=True, transform=("lower",)),
    named("at", "timestamptz", encoding="epoch_ms", coerce=True),
    named("status", default='"new"'),
    named("web", path=(), default='"web"'),
    named("day", "date", path=(), default='"2026-01-31"'),
    named("amount", "numeric", path=(), default="12.50"),
)
TEXTS = {
    "id": "a", "lowered": "  ÄB\u0130 ", "short": "ßa", "tags": "x, y ,, z", "n": "-7", "price": " 12.5",
    "ratio": "1e-3", "yes": "True", "at": "1767268800123", "status": None,
}  # fmt: skip
EXPECTED = {
    "lowered": "äbi\u0307", "short": "SSA", "tags": '["x","y","","z"]', "n": -7, "price": "12.50", "ratio": "0.001",
    "yes": True, "at": datetime(2026, 1, 1, 12, 0, 0, 123_000, UTC), "status": "new", "web": "web",
    "day": datetime(2026, 1, 31).date(), "amount": "12.50",
}  # fmt: skip
WRONG = {
    "short": ("ßab", "length"), "n": ("1.0", "type"), "price": ("12.505", "precision"), "ratio": ("0x10", "format"),
    "yes": ("yes", "format"), "at": ("99999999999999999", "range"),
}  # fmt: skip
MALFORMED = ("", " 1", "+1", "01", "1,000", "１", "null", '"1"', "NaN", "1_0")


@pytest.mark.parametrize("form", Format)
def test_texts_are_changed_and_coerced_or_quarantined_and_what_is_absent_has_a_default(form: Format) -> None:
    documents: list[Mapping[str, Any]] = [TEXTS, {**TEXTS, "id": "b", "tags": "", "status": "old"}]
    documents += [{**TEXTS, name: value} for name, (value, _) in WRONG.items()]
    documents += [{**TEXTS, "n": value} for value in MALFORMED]
    values, schema = written(form, documents)
    rows, reasons = decoded(compiled(form, RecordShape(("id",), None, CHANGED), schema), [*values])
    assert {name: rows[0][name] for name in EXPECTED} == EXPECTED
    assert (rows[1]["tags"], rows[1]["status"]) == ("[]", "old")
    wrong = [[(each["path"], each["code"]) for each in of_record] for of_record in reasons.values()]
    assert wrong == [
        *([(f"$.{name}", code)] for name, (_, code) in WRONG.items()),
        *([("$.n", "format")] for _ in MALFORMED),
    ]


def test_json_that_is_no_text_is_taken_as_it_is_where_texts_are_coerced_and_refused_where_they_are_changed() -> None:
    decoder = compile_decoder(Source("k", "t"), RecordShape(("id",), None, CHANGED[:4]), Limits())
    texts: dict[str, Any] = {name: TEXTS[name] for name in ("id", "lowered", "short", "tags", "n")}
    documents: list[dict[str, Any]] = [{**texts, "n": 5}, {**texts, "n": 5.5}, {**texts, "tags": ["x"]}]
    rows, reasons = decoded(decoder, [json.dumps(each).encode() for each in documents])
    assert rows[0]["n"] == 5
    assert {place: [(r["path"], r["code"]) for r in each] for place, each in reasons.items()} == {
        1: [("$.n", "type")],
        2: [("$.tags", "type")],
    }


def test_a_delete_has_no_defaults_and_may_lack_headers_and_keys() -> None:
    columns = (
        named("web", path=(), default='"web"'),
        named("source", path=(), header="source"),
        named("customer", "bigint", path=(), key=("customer",)),
    )
    record = RecordShape(("id",), None, columns, delete_when=FieldCondition(("op",), "d"), tombstone=Tombstone.SKIP)
    decoder = compile_decoder(Source("k", "t", key_format=KeyFormat.JSON), record, Limits())
    rows, reasons = decoded(decoder, [b'{"id": "a", "op": "d"}', b'{"id": "b"}', None], proves=False)
    assert rows[0]["_deleted"]
    assert [rows[0][each.name] for each in columns] == [None, None, None]
    assert [(each["path"], each["code"]) for each in reasons[1]] == [
        ("_headers.source", "missing"),
        ("_key", "missing"),
    ]


def test_headers_and_whole_keys_are_read_as_text_or_bytes_and_the_last_header_of_a_name_counts() -> None:
    columns = (
        named("source", path=(), header="x source", transform=("lower",)),
        named("tries", "smallint", path=(), header="tries", nullable=True),
        named("at", "timestamptz", path=(), header="at", encoding="rfc3339", default='"2026-01-01T00:00:00Z"'),
        named("raw", "bytea", path=(), header="raw", nullable=True),
        named("region", path=(), key=(), transform=("trim",)),
        named("rest_of_it", path=("x",), nullable=True),
        REST,
    )
    headers = [
        [{"key": b"x source", "value": b"OLD"}, {"key": b"x source", "value": b"Web"},
            {"key": b"raw", "value": b"\xff"}],
        [{"key": b"x source", "value": b"App"}, {"key": b"tries", "value": b"3"}, {"key": b"at", "value": None}],
        [{"key": b"x source", "value": b"\xff"}, {"key": b"tries", "value": b"three"}],
        None,
    ]  # fmt: skip
    values: list[bytes | None] = [b'{"id": "%d", "y": 1}' % n for n in range(4)]
    decoder = compile_decoder(Source("k", "t"), RecordShape(("id",), None, columns), Limits())
    rows, reasons = decoded(decoder, values, [b" eu", b"us ", b"eu", None], headers)
    found = [[rows[place][each.name] for each in columns] for place in (0, 1)]
    new_year = datetime(2026, 1, 1, tzinfo=UTC)
    assert found == [
        ["web", None, new_year, b"\xff", "eu", None, '{"y":1}'],
        ["app", 3, new_year, None, "us", None, '{"y":1}'],
    ]
    assert {place: [(r["path"], r["code"]) for r in each] for place, each in reasons.items()} == {
        2: [("_headers['x source']", "encoding"), ("_headers.tries", "format")],
        3: [("_headers['x source']", "missing"), ("_key", "missing")],
    }


def headed(**values: bytes | None) -> list[dict[str, Any]]:
    return [{"key": name.encode(), "value": value} for name, value in values.items()]


@pytest.mark.parametrize("form", Format)
def test_the_moment_of_a_header_is_read_as_a_column_of_a_header_is(form: Format) -> None:
    """CloudEvents in binary mode: what is about the event is in headers."""
    moments = b"2026-01-01T13:00:00.5+01:00", b"", None
    headers = [
        *(headed(ce_time=each) for each in moments),
        *(headed(ce_type=b"order"), None, headed(ce_time=b"yesterday"), headed(ce_time=b"\xff")),
        [*headed(ce_time=b"2020-01-01T00:00:00Z"), *headed(ce_time=b"2026-01-01T12:00:00Z")],
    ]
    values, schema = written(form, [{"id": f"e{n}"} for n in range(len(headers))])
    record = RecordShape(("id",), None, (), publish_at_header="ce_time")
    rows, reasons = decoded(compiled(form, record, schema), [*values], headers=headers, proves=False)
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert {place: row["publish_at"] for place, row in rows.items()} == {0: noon.replace(microsecond=500_000), 7: noon}
    found = {place: [(r["path"], r["code"]) for r in each] for place, each in reasons.items()}
    codes = {1: "format", 2: "null", 3: "missing", 4: "missing", 5: "format", 6: "encoding"}
    assert found == {place: [("_headers.ce_time", code)] for place, code in codes.items()}
    empty = "expected timestamptz, and the header ce_time is empty"
    assert [reasons[place][0]["detail"] for place in (1, 2)] == [empty, empty]


def test_a_moment_of_a_header_may_be_an_epoch_and_a_tombstone_has_it_too() -> None:
    record = RecordShape(
        None, None, (named("n", "bigint"),), "epoch_ns", True, publish_at_header="at", tombstone=Tombstone.DELETE
    )
    headers = [headed(at=b"1767268800000000501"), headed(at=b"1767268800000000000"), None, headed(at=b"1.5")]
    decoder = compile_decoder(Source("k", "t"), record, Limits())
    rows, reasons = decoded(decoder, [b'{"n": 1}', None, None, b'{"n": 1}'], [b"k"] * 4, headers, proves=False)
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    expected = {0: (noon.replace(microsecond=1), 1, False), 1: (noon, None, True)}
    assert {place: (row["publish_at"], row["n"], row["_deleted"]) for place, row in rows.items()} == expected
    assert {place: [r["code"] for r in each] for place, each in reasons.items()} == {2: ["missing"], 3: ["type"]}


def test_moments_of_headers_take_the_quick_way() -> None:
    record = RecordShape(("id",), None, (), publish_at_header="at")
    headers = [headed(at=b"2026-01-01T12:00:00Z")] * 3
    decoder = compile_decoder(Source("k", "t"), record, Limits())
    decoded(decoder, [b'{"id": "%d"}' % n for n in range(3)], headers=headers)


WANTED_BY_HEADERS = {
    "equals": ((FieldCondition((), "order", header="type"),), {0, 9}, {7}),
    "not": ((FieldCondition((), "order", negated=True, header="type"),), {1, 2, 3, 4, 5, 6, 8, 9}, {7}),
    "true": ((FieldCondition((), True, header="type"),), {4, 9}, {0, 1, 3, 6, 7}),
    "a number": ((FieldCondition((), 7, negated=True, header="type"),), {2, 5, 8, 9}, {0, 1, 3, 4, 7}),
    "a value too": ((FieldCondition((), "order", header="type"), FieldCondition(("kind",), "x")), {9}, set()),
    "certainly none": (
        (FieldCondition((), True, header="type"), FieldCondition((), "t", header="none"), FieldCondition(("k",), 1)),
        {9},
        set(),
    ),
}


@pytest.mark.parametrize("form", Format)
@pytest.mark.parametrize("case", WANTED_BY_HEADERS)
def test_headers_say_which_records_are_the_pipelines(form: Format, case: str) -> None:
    conditions, taken, refused = WANTED_BY_HEADERS[case]
    types: list[bytes | None] = [b"order", b"refund", None, b"", b"true", None, b"7", b"\xff"]
    headers = [headed(other=b"order") if n == 5 else headed(type=each) for n, each in enumerate(types)]
    values, schema = written(form, [{"id": f"e{n}", "kind": None} for n in range(9)])
    key = (named("id", path=(), key=()),)
    decoder = compiled(form, RecordShape(None, None, (), where=conditions, tombstone=Tombstone.DELETE, key=key), schema)
    records: list[bytes | None] = [*values, None, None]
    all_headers = [*headers, None, None, headed(type=b"another")]
    rows, reasons = decoded(decoder, records, [b"k"] * 11, all_headers, proves=False)
    tombstone = {10} if case == "not" else set()
    assert rows.keys() - tombstone == taken
    assert (10 in rows) is (case == "not")
    assert {place: {r["path"] for r in each} for place, each in reasons.items() if place != 10} == {
        place: {"_headers.type"} for place in refused
    }
    made = decode_batch(decoder, batch_of(records, [b"k"] * 11, all_headers))
    assert made.skipped == 11 - len(rows) - len(reasons)


@pytest.mark.parametrize("form", [each for each in KeyFormat if each is not KeyFormat.TEXT])
def test_members_of_keys_are_columns_in_every_format(form: KeyFormat) -> None:
    keys, schema = written(form, [{"customer": "7", "zone": " EU"}, {"customer": "x"}, {"customer": None}])
    columns = (
        named("customer", "bigint", path=(), key=("customer",), coerce=True),
        named("zone", path=(), key=("zone",), transform=("trim",), default='"none"'),
        named("note", nullable=True),
    )
    registry = None if form is KeyFormat.JSON else "r"
    value_form = Format.JSON if form is KeyFormat.JSON else Format.JSON_SCHEMA
    head = HEAD[:4] + b"\2" if registry else b""
    source = Source("k", "t", format=value_form, key_format=form, registry=registry, subject=SubjectStrategy.ANY)
    schemas = {1: schema, 2: WriterSchema(2, SchemaLanguage.JSON, "{}")}
    decoder = compile_decoder(
        source, RecordShape(("id",), None, columns), Limits(), lambda ids: {i: schemas[i] for i in ids}
    )
    values: list[bytes | None] = [head + b'{"id": "%d", "note": "n"}' % n for n in range(5)]
    rows, reasons = decoded(decoder, values, [*keys, None, b"\0\0"])
    assert [rows[0][each.name] for each in columns] == [7, "EU", "n"]
    found = {place: [(r["path"], r["code"]) for r in each] for place, each in reasons.items()}
    malformed = "syntax" if form is KeyFormat.JSON else "frame"
    assert found == {
        1: [("_key.customer", "format")],
        2: [("_key.customer", "null")],
        3: [("_key", "missing")],
        4: [("_key", malformed)],
    }


@pytest.mark.parametrize(
    ("column", "says"),
    [
        (named("c", "varchar", 2, default='"abc"'), "expected at most 2 characters, got 3"),
        (named("c", "date", default='"31.1.2026"'), "expected date as YYYY-MM-DD, got 31.1.2026"),
        (named("c", "numeric", 3, 1, default="1.25"), "expected numeric(3,1), got 1.25"),
    ],
)
def test_a_default_that_is_none_of_the_column_is_one_line(column: Column, says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        compile_decoder(Source("k", "t"), RecordShape(("id",), None, (column,)), Limits())
    assert str(caught.value) == f"record.columns.c: {says}; correct its value or default in the pipeline file"

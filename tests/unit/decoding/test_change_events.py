"""Change events and values that were not sent: whole columns and single records say the same of them."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import random
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest

from offset_ledger.decoding.decoder import Decoder
from offset_ledger.decoding.formats import compile_decoder
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.pipeline_file.column_types import parse_type
from offset_ledger.pipeline_file.envelope import in_envelope
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import (
    Column,
    ColumnType,
    FieldCondition,
    JsonPath,
    Limits,
    RecordShape,
    Tombstone,
)
from offset_ledger.pipeline_file.source import Envelope, Format, KeyFormat, Source
from tests.fixtures.debezium import UNAVAILABLE, event, message, truncation, written
from tests.unit.decoding.batches import HEAD, decoded

ROW = {"id": 1, "name": "n", "born": 366, "note": "a", "tags": ["x"], "address": {"street": "s"}}


def column(name: str, kind: str, path: JsonPath = (), **more: Any) -> Column:
    return Column(name, ColumnType(kind), path or (name,), **more)


def shape(**more: Any) -> RecordShape:
    return RecordShape(
        None,
        ("source", "ts_ms"),
        (
            column("name", "text"),
            column("born", "date", nullable=True, encoding="epoch_days"),
            column("note", "text", nullable=True, group="note"),
            column("tags", "text[]", nullable=True, group="lists"),
            column("street", "text", ("address", "street"), nullable=True, group="lists"),
        ),
        publish_at_encoding="epoch_ms",
        key=(column("id", "bigint"),),
        **more,
    )


def json_decoder(record: RecordShape) -> Decoder:
    source = Source(topic="t", envelope=Envelope.DEBEZIUM, key_format=KeyFormat.JSON)
    return compile_decoder(source, record, Limits())


def test_rows_deletes_and_what_is_neither() -> None:
    old = ROW | {"id": 7}
    values = [
        event("c", None, ROW), event("u", ROW, ROW | {"name": "new"}, wrapped=True), event("d", old, None),
        event("d", old, None, wrapped=True), message(), truncation(), event("z", None, ROW), b'{"id": 1}', None,
    ]  # fmt: skip
    rows, reasons = decoded(json_decoder(in_envelope(shape(), False)), values, proves=False)
    assert {place: (row["id"], row["name"], row["_deleted"]) for place, row in rows.items()} == {
        0: (1, "n", False),
        1: (1, "new", False),
        2: (7, None, True),
        3: (7, None, True),
    }
    assert {place: [(r["path"], r["code"]) for r in each] for place, each in reasons.items()} == {
        5: [("$.op", "truncate")],
        6: [("$.op", "format")],
        7: [("$", "type")],
    }


def test_usual_changes_are_read_as_whole_columns_wrapped_or_not() -> None:
    decoder = json_decoder(in_envelope(shape(), False))
    values: list[bytes | None] = [event(op, None, ROW, wrapped=w) for op in "cru" for w in (False, True)]
    decoded(decoder, values)


def test_groups_are_those_of_the_members_that_are_there_and_were_sent() -> None:
    rng = random.Random(5)
    decoder = json_decoder(in_envelope(shape(), False))
    documents = []
    for _ in range(300):
        given: dict[str, Any] = {
            "note": rng.choice(("x", None, UNAVAILABLE)),
            "tags": rng.choice((["y"], [], None, [UNAVAILABLE], [UNAVAILABLE, "y"])),
            "address": rng.choice(({"street": "z"}, {"street": None}, {"street": UNAVAILABLE}, {}, None)),
        }
        documents.append({k: v for k, v in given.items() if rng.random() < 0.7} | {"id": 1, "name": "n", "born": None})
    values: list[bytes | None] = [event("u", None, each, wrapped=rng.random() < 0.5) for each in documents]
    rows, reasons = decoded(decoder, values)
    assert reasons == {}
    for place, each in enumerate(documents):
        street = each.get("address", {}) if "address" in each else {}
        has_street = "address" in each and (street is None or "street" in street)
        sent_street = has_street and (street or {}).get("street") != UNAVAILABLE
        sent_tags = "tags" in each and each["tags"] != [UNAVAILABLE]
        wanted = ["note"] if "note" in each and each["note"] != UNAVAILABLE else []
        wanted += ["lists"] if sent_street or sent_tags else []
        assert rows[place]["_groups"] == wanted, each
        assert UNAVAILABLE not in (rows[place]["note"], rows[place]["street"])
        assert rows[place]["tags"] != [UNAVAILABLE]


def test_wrappers_with_blanks_or_in_another_order_are_payloads_too() -> None:
    decoder = json_decoder(in_envelope(shape(), False))
    payload = event("u", None, ROW | {"address": {}}).decode()
    documents = [f'{{ "schema": {{}}, "payload": {payload}}}', f'{{"payload": {payload}, "schema": null}}', payload]
    rows, reasons = decoded(decoder, [each.encode() for each in documents], proves=False)
    assert reasons == {}
    assert [rows[place]["_groups"] for place in range(3)] == [["note", "lists"]] * 3


def test_the_limit_of_bytes_is_about_the_whole_value_wrapped_or_not() -> None:
    wrapped = event("c", None, ROW, wrapped=True)
    source = Source(topic="t", envelope=Envelope.DEBEZIUM, key_format=KeyFormat.JSON)
    for most, refused in ((len(wrapped), False), (len(wrapped) - 1, True)):
        decoder = compile_decoder(source, in_envelope(shape(), False), Limits(value_bytes=most))
        _, reasons = decoded(decoder, [wrapped], proves=not refused)
        assert [each["code"] for each in reasons.get(0, ())] == (["too_large"] if refused else [])


@pytest.mark.parametrize("tombstone", Tombstone)
@pytest.mark.parametrize("wrapped", [False, True])
def test_null_of_json_converter_is_a_tombstone(tombstone: Tombstone, wrapped: bool) -> None:
    """JsonConverter writes null that has a schema, as ExtractNewRecordState makes it of a delete, as a document."""
    under: JsonPath = ("payload",) if wrapped else ()
    columns = (
        column("a", "text", (*under, "a"), nullable=True),
        column("b", "text", (*under, "b"), nullable=True, group="b"),
    )
    key = (Column("id", ColumnType("bigint"), (), key=("id",)),)
    conditions = FieldCondition((*under, "kind"), "x", negated=True), FieldCondition((), "x", True, "kind")
    record = RecordShape(None, None, columns, key=key, tombstone=tombstone, where=conditions)
    decoder = compile_decoder(Source(topic="t", key_format=KeyFormat.JSON), record, Limits())
    row = written({"a": "x", "b": "y"}, wrapped)
    null = b'{"schema":{"type":"struct"},"payload":null}' if wrapped else b"null"
    rows, reasons = decoded(decoder, [row, null, None, row], [b'{"id":1}'] * 3 + [b"null"], proves=False)
    deletes = {1: (1, True), 2: (1, True)} if tombstone is Tombstone.DELETE else {}
    assert {place: (each["id"], each["_deleted"]) for place, each in rows.items()} == {0: (1, False)} | deletes
    codes = {place: [(r["path"], r["code"]) for r in each] for place, each in reasons.items()}
    refused = {1: [("$", "tombstone")], 2: [("$", "tombstone")]} if tombstone is Tombstone.QUARANTINE else {}
    assert codes == refused | {3: [("_key", "type")]}


@pytest.mark.parametrize("value", [b' {"schema": {}, "payload": null}', b'{"schema":1,"x":2,"payload":null}'])
def test_what_only_looks_like_a_null_of_json_converter_is_read(value: bytes) -> None:
    record = RecordShape(None, None, (column("a", "text", ("payload", "a"), nullable=True),), append=True)
    rows, _ = decoded(compile_decoder(Source(topic="t"), record, Limits()), [value], proves=False)
    assert rows[0]["a"] is None
    record = RecordShape(None, None, (column("schema", "jsonb"),), append=True)
    rows, _ = decoded(compile_decoder(Source(topic="t"), record, Limits()), [b'{"schema":{},"payload":null}'])
    assert rows[0]["schema"] == "{}"


def test_plain_records_have_groups_too_and_a_delete_has_all() -> None:
    record = RecordShape(
        ("id",),
        None,
        (
            column("a", "text", nullable=True, group="a"),
            column("b", "jsonb", nullable=True, group="b", aliases=(("c",),)),
        ),
        delete_when=FieldCondition(("gone",), True),
    )
    decoder = compile_decoder(Source(topic="t"), record, Limits())
    documents = [{"id": "1"}, {"id": "1", "a": None}, {"id": "1", "c": 5}, {"id": "1", "gone": True}]
    rows, reasons = decoded(decoder, [json.dumps(each).encode() for each in documents], proves=False)
    assert reasons == {}
    assert [rows[place]["_groups"] for place in range(4)] == [[], ["a"], ["b"], ["a", "b"]]


PLAIN_SCHEMAS = {
    Format.JSON: (SchemaLanguage.JSON, "", b'{"a": "x"}'),
    Format.JSON_SCHEMA: (SchemaLanguage.JSON, '{"type": "object"}', HEAD + b'{"a": "x"}'),
    Format.AVRO: (SchemaLanguage.AVRO, '{"type": "record", "name": "A", "fields": [{"name": "a", "type": "string"}]}',
        HEAD + b"\x02x"),
    Format.PROTOBUF: (SchemaLanguage.PROTOBUF, 'syntax = "proto3"; message A { optional string a = 1; }',
        HEAD + b"\x00\x0a\x01x"),
}  # fmt: skip


@pytest.mark.parametrize("format", PLAIN_SCHEMAS)
def test_a_tombstone_that_deletes_has_all_groups(format: Format) -> None:
    language, text, value = PLAIN_SCHEMAS[format]
    record = RecordShape(None, None, (column("a", "text", nullable=True, group="a"),), tombstone=Tombstone.DELETE)
    schema = WriterSchema(1, language, text)
    source = Source(topic="t", format=format, registry=None if format is Format.JSON else "r")
    decoder = compile_decoder(source, record, Limits(), lambda refs: dict.fromkeys(refs, schema))
    rows, reasons = decoded(decoder, [value, None], [b"k", b"k"], proves=False)
    assert reasons == {}
    assert {place: (row["a"], row["_groups"], row["_deleted"]) for place, row in rows.items()} == {
        0: ("x", ["a"], False),
        1: (None, ["a"], True),
    }


VALUE = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "long"},
    {"name": "name", "type": "string"},
    {"name": "born", "type": ["null", {"type": "int", "connect.name": "io.debezium.time.Date"}], "default": None},
    {"name": "note", "type": ["null", "string"], "default": None},
    {"name": "tags", "type": ["null", {"type": "array", "items": "string"}], "default": None}]}  # fmt: skip
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.public.customers",
    "fields": [{"name": "before", "type": ["null", VALUE], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": {"type": "record", "name": "Source", "namespace": "io.debezium.connector.postgresql",
            "fields": [{"name": "ts_ms", "type": "long"}, {"name": "lsn", "type": ["null", "long"], "default": None}]}},
        {"name": "op", "type": "string"}, {"name": "ts_ms", "type": ["null", "long"], "default": None}],
}  # fmt: skip


def avro(op: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> bytes:
    out = io.BytesIO()
    body = {"before": before, "after": after, "source": {"ts_ms": 5, "lsn": 9}, "op": op, "ts_ms": 6}
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(ENVELOPE))), body)
    return HEAD + out.getvalue()


def test_avro_envelopes_are_read_like_json() -> None:
    record = shape()
    record = in_envelope(replace(record, columns=record.columns[:4]), False)
    schema = WriterSchema(1, SchemaLanguage.AVRO, json.dumps(ENVELOPE))
    source = Source(topic="t", format=Format.AVRO, registry="r", envelope=Envelope.DEBEZIUM)
    decoder = compile_decoder(source, record, Limits(), lambda refs: dict.fromkeys(refs, schema))
    row = {"id": 3, "name": "n", "born": 366, "note": UNAVAILABLE, "tags": ["a"]}
    values: list[bytes | None] = [
        avro("c", None, row), avro("d", row, None), avro("t", None, None), avro("r", row, row),
    ]  # fmt: skip
    rows, reasons = decoded(decoder, values, proves=False)
    assert {
        p: (r["id"], r["name"], str(r["born"]), r["note"], r["_deleted"], r["_groups"]) for p, r in rows.items()
    } == {
        0: (3, "n", "1971-01-02", None, False, ["lists"]),
        1: (3, None, "None", None, True, ["note", "lists"]),
        3: (3, "n", "1971-01-02", None, False, ["lists"]),
    }
    assert [each["code"] for each in reasons[2]] == ["truncate"]


@pytest.mark.parametrize("days", [-719_162, 2_932_896, -719_163, 2_932_897])
def test_days_since_1970_are_dates_of_the_years_1_to_9999(days: int) -> None:
    decoder = json_decoder(in_envelope(shape(), False))
    rows, reasons = decoded(decoder, [event("c", None, ROW | {"born": days})], proves=False)
    if -719_162 <= days <= 2_932_896:
        assert str(rows[0]["born"]) == ("0001-01-01" if days < 0 else "9999-12-31")
    else:
        assert [(each["path"], each["code"]) for each in reasons[0]] == [("$.after.born", "range")]


def test_paths_are_those_of_the_row_or_of_the_envelope(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        "pipeline: p\nsource: {topic: t, envelope: debezium}\nrecord:\n  event_id: $.id\n"
        "  publish_at: {path: $.source.ts_ms, encoding: epoch_ms}\n"
        "  columns: {op: text, status: text, lsn: {type: bigint, path: $.source.lsn}, "
        "source: {type: text, path: $.after.source}}\ntarget: {table: t}\n"
    )
    record = parse_pipeline(path).record
    assert (record.event_id, record.publish_at) == (("after", "id"), ("source", "ts_ms"))
    assert [each.path for each in record.columns] == [
        ("op",), ("after", "status"), ("source", "lsn"), ("after", "source"),
    ]  # fmt: skip
    assert record.of_deletes().event_id == ("before", "id")
    assert written({"id": 1}, True).startswith(b'{"schema":')


CODES = [*UNAVAILABLE.encode()]
NOT_SENT: dict[str, tuple[Any, dict[str, Any]]] = {  # a type -> what stands for a value, how its column is declared
    "integer[]": (CODES, {}),
    "bigint[]": (CODES, {}),
    "date[]": (CODES, {"encoding": "epoch_days"}),
    "uuid[]": (["b68a35a7-17ad-35b3-af2a-ae46edb4545a"], {}),
    "text[]": ([UNAVAILABLE], {}),
    "bytea[]": ([base64.b64encode(UNAVAILABLE.encode()).decode()], {"encoding": "base64"}),
    "jsonb[]": ([UNAVAILABLE], {"encoding": "json"}),
    "text": (UNAVAILABLE, {"transform": ("upper",)}),
    "bytea": (base64.b64encode(UNAVAILABLE.encode()).decode(), {"encoding": "base64"}),
    "numeric": (UNAVAILABLE, {"coerce": True}),
    "numeric(12,2)": (UNAVAILABLE, {"coerce": True}),
    "jsonb": ({UNAVAILABLE: UNAVAILABLE}, {}),
    "public.hstore": (json.dumps({UNAVAILABLE: UNAVAILABLE}, separators=(",", ":")), {}),
}
SENT: dict[str, Any] = {
    "integer[]": [1], "bigint[]": CODES[:-1], "date[]": [366], "uuid[]": ["b68a35a7-17ad-35b3-af2a-ae46edb4545b"],
    "text[]": ["x"], "bytea[]": ["AA=="], "jsonb[]": ['{"a": 1}'], "text": "x", "bytea": "AA==", "numeric": "1.5",
    "numeric(12,2)": "1.50", "jsonb": {"a": 1}, "public.hstore": "a=>1",
}  # fmt: skip


@pytest.mark.parametrize("kind", NOT_SENT)
def test_each_type_has_a_form_of_its_own_for_what_was_not_sent(kind: str) -> None:
    placeholder, declared = NOT_SENT[kind]
    type_ = parse_type(kind)
    for group in ("v", ""):
        of_type = Column("v", type_, ("v",), nullable=True, group=group, **declared)
        record = replace(shape(), columns=(column("n", "integer"), of_type))
        values = [event("u", None, {"id": 1, "n": n, "v": v}) for n, v in enumerate((SENT[kind], placeholder, None))]
        rows, reasons = decoded(json_decoder(in_envelope(record, False)), values, proves=False)
        if group:
            assert reasons == {}
            assert [rows[place]["_groups"] for place in range(3)] == [["v"], [], ["v"]]
            assert (rows[0]["v"] is None, rows[1]["v"], rows[2]["v"]) == (False, None, None)
        else:
            assert {place: [(r["path"], r["code"]) for r in each] for place, each in reasons.items()} == {
                1: [("$.after.v", "missing")]
            }


@pytest.mark.parametrize(("word", "binary"), [("__gone__", b"__gone__"), ("hex:676f6e65ff", b"gone\xff")])
def test_the_placeholder_is_what_the_connector_was_given(tmp_path: Path, word: str, binary: bytes) -> None:
    path = tmp_path / "p.yaml"
    columns = "".join(
        f"    {name}: {{type: {kind}, nullable: true, absent: keep}}\n"
        for name, kind in (("t", "text"), ("b", "bytea"), ("a", '"bigint[]"'), ("u", '"uuid[]"'))
    )
    path.write_text(
        f'pipeline: p\nsource: {{topic: t, envelope: debezium, unavailable: "{word}"}}\nrecord:\n  event_id: $.id\n'
        f"  publish_at: {{path: $.source.ts_ms, encoding: epoch_ms}}\n  columns:\n{columns}"
        "target: {table: t, bookkeeping: beside}\n"
    )
    pipeline = parse_pipeline(path)
    forms = {
        "t": binary.decode(errors="replace"),
        "b": base64.b64encode(binary).decode(),
        "a": [each - 256 * (each > 127) for each in binary],
        "u": [str(uuid.UUID(bytes=hashlib.md5(binary).digest(), version=3))],
    }
    default = {"t": UNAVAILABLE, "b": "AA==", "a": CODES, "u": None}
    values = [event("u", None, {"id": "1", **row}) for row in (forms, default)]
    rows, reasons = decoded(compile_decoder(pipeline.source, pipeline.record, Limits()), values)
    assert reasons == {}
    assert rows[0]["_groups"] == []
    assert rows[1]["_groups"] == ["t", "b", "a", "u"]
    assert rows[1]["a"] == CODES


def test_records_without_an_envelope_have_placeholders_where_the_file_says_so() -> None:
    record = RecordShape(("id",), None, (column("a", "text", nullable=True, group="a"),), unavailable=b"gone")
    documents = [{"id": "1", "a": "gone"}, {"id": "1", "a": UNAVAILABLE}]
    decoder = compile_decoder(Source(topic="t"), record, Limits())
    rows, reasons = decoded(decoder, [json.dumps(each).encode() for each in documents])
    assert reasons == {}
    assert [rows[place]["_groups"] for place in range(2)] == [[], ["a"]]


def test_arrays_in_avro_stand_for_what_was_not_sent_too() -> None:
    fields = {"a": "int", "u": "string"}
    schema = {"type": "record", "name": "A", "fields": [{"name": "id", "type": "string"}] + [
        {"name": name, "type": {"type": "array", "items": each}} for name, each in fields.items()]}  # fmt: skip
    columns = (column("a", "integer[]", nullable=True, group="a"), column("u", "uuid[]", nullable=True, group="u"))
    record = RecordShape(("id",), None, columns, unavailable=UNAVAILABLE.encode())
    values: list[bytes | None] = []
    for row in ({"a": CODES, "u": NOT_SENT["uuid[]"][0]}, {"a": [1], "u": SENT["uuid[]"]}):
        fastavro.schemaless_writer(out := io.BytesIO(), fastavro.parse_schema(dict(schema)), {"id": "1", **row})
        values.append(HEAD + out.getvalue())
    source = Source(topic="t", format=Format.AVRO, registry="r")
    registered = WriterSchema(1, SchemaLanguage.AVRO, json.dumps(schema))
    rows, reasons = decoded(
        compile_decoder(source, record, Limits(), lambda refs: dict.fromkeys(refs, registered)), values, proves=False
    )
    assert reasons == {}
    assert [rows[place]["_groups"] for place in range(2)] == [[], ["a", "u"]]


def mongo(op: str, after: Any, before: Any = None, wrapped: bool = False) -> bytes:
    """An event of MongoDB's connector, whose rows are texts."""
    texts = [None if each is None else json.dumps(each) for each in (before, after)]
    return event(op, *texts, connector="mongodb", wrapped=wrapped)  # type: ignore[arg-type]


def test_members_of_a_document_that_mongodb_writes_as_a_text_are_paths() -> None:
    columns = (
        column("name", "text"),
        column("oid", "text", ("_id", "$oid")),
        column("more", "jsonb", nullable=True, group="more"),
        column("n", "bigint", ("counts", "n"), nullable=True),
    )
    record = in_envelope(
        replace(shape(), key=(Column("id", ColumnType("text"), (), key=("id",)),), columns=columns), False
    )
    row = {"_id": {"$oid": "5f"}, "name": 'a "quoted" \\u00e9 {"after":"x"}', "more": {"b": 1.50}, "counts": {"n": 7}}
    key = json.dumps({"id": json.dumps({"$oid": "5f"})}).encode()
    values = [mongo("c", row), mongo("u", row | {"more": None}, wrapped=True), mongo("d", None), mongo("d", None, row)]
    values += [mongo("u", {name: row[name] for name in ("_id", "name")})]
    rows, reasons = decoded(json_decoder(record), values, [key] * 5, proves=False)
    assert reasons == {}
    name = row["name"]
    assert [(r["oid"], r["name"], r["more"], r["n"], r["_groups"], r["_deleted"]) for r in rows.values()] == [
        ("5f", name, '{"b": 1.5}', 7, ["more"], False),
        ("5f", name, None, 7, ["more"], False),
        (None, None, None, None, ["more"], True),
        (None, None, None, None, ["more"], True),
        ("5f", name, None, None, [], False),
    ]
    assert {r["id"] for r in rows.values()} == {'{"$oid": "5f"}'}
    usual = [mongo("c", row, wrapped=wrapped) for wrapped in (False, True)]
    decoded(json_decoder(record), usual, [key] * 2)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (mongo("u", None), "missing"),
        (event("c", None, '{"name": "x"'), "syntax"),  # type: ignore[arg-type]
        (event("c", None, "x"), "type"),  # type: ignore[arg-type]
        (event("c", None, '{"name": "x", "name": "y"}'), "duplicate_key"),  # type: ignore[arg-type]
    ],
)
def test_a_text_that_is_no_row_is_refused(value: bytes, code: str) -> None:
    record = in_envelope(replace(shape(), key=(Column("id", ColumnType("text"), (), key=("id",)),)), False)
    _, reasons = decoded(json_decoder(record), [value], [b'{"id": "1"}'], proves=False)
    assert {each["code"] for each in reasons[0]} >= {"null" if code == "missing" else code}


DOCUMENTS = {
    '"{\\"b\\": 1.50, \\"a\\": [true, null]}"': '{"b": 1.50, "a": [true, null]}',
    '"{\\"a\\":\\"1\\",\\"b\\":null}"': '{"a":"1","b":null}',
    '"\\"text\\""': '"text"',
    '"17"': "17",
    '{"b": 1.50}': '{"b": 1.50}',
    "[1]": "[1]",
    f'"{UNAVAILABLE}"': None,
    '"text"': "format",
    '""': "format",
    '"1, 2"': "format",
    '"{\\"a\\": 1, \\"a\\": 2}"': "duplicate_key",
    '"{\\"a\\": \\"\\\\u0000\\"}"': "nul",
    '"{\\"a\\": \\"\\\\ud800\\"}"': "format",
    f'"{"[" * 501}{"]" * 501}"': "depth",
    '"1e200000"': "range",
}


@pytest.mark.parametrize("written_", DOCUMENTS)
def test_a_text_is_a_document_where_the_file_says_so(written_: str) -> None:
    columns = (column("j", "jsonb", nullable=True, encoding="json", group="j"),)
    record = in_envelope(replace(shape(), columns=columns), False)
    value = event("c", None, {"id": 1, "j": "?"}).replace(b'"?"', written_.encode())
    rows, reasons = decoded(json_decoder(record), [value], proves=False)
    expected = DOCUMENTS[written_]
    if reasons:
        assert [(each["path"], each["code"]) for each in reasons[0]] == [("$.after.j", expected)]
    else:
        assert (rows[0]["j"], rows[0]["_groups"]) == (expected, [] if expected is None else ["j"])

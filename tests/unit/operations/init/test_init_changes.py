"""What is proposed for change events and for keys that are structs, by what Debezium wrote about real databases."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.decoding.envelope import connector_of
from offset_ledger.errors import ConfigurationError
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.operations.init.changes import (
    by_connect_names,
    changes_of,
    key_members,
    members_by_schema,
    rows_by_schema,
    rows_of,
)
from offset_ledger.operations.init.propose import Proposal, Wanted, propose
from offset_ledger.operations.init.run import SampledSchemas, check_proposal
from offset_ledger.pipeline_file.column_types import parse_type
from offset_ledger.pipeline_file.envelope import notes_on, notes_on_order
from offset_ledger.pipeline_file.pipeline import Column, RecordShape
from offset_ledger.pipeline_file.source import Envelope, Format, KeyFormat, Source
from offset_ledger.postgres.table.existing import ExistingColumn, ExistingTable
from offset_ledger.postgres.table.infer import Sample, SampledRecord, json_inferred, sampled_kinds, schema_inferred
from tests.examples import examples
from tests.fixtures.debezium import UNAVAILABLE, event, message, truncation, written
from tests.paths import ROOT
from tests.unit.decoding.test_change_events import ENVELOPE, avro, mongo

RECORDED = ROOT / "tests" / "fixtures" / "recorded"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def sample(*records: tuple[bytes | None, bytes | None]) -> Sample:
    return Sample("shop.customers", tuple(SampledRecord(key, value, NOON) for key, value in records))


def recorded(file: str) -> Sample:
    lines = map(json.loads, (RECORDED / f"{file}.jsonl").read_text().splitlines())
    return sample(*((each["key"] and each["key"].encode(), each["value"] and each["value"].encode()) for each in lines))


def proposal(sampled: Sample) -> Proposal:
    changes, source = changes_of(sampled) or rows_of(sampled), Source("kafka_default", sampled.topic)
    source = changes.source(source) if changes else source
    taken = changes.sample if changes else sampled
    columns = changes.columns if changes else json_inferred(sampled)
    proposed = propose(Wanted("customers", "public.customers", True), source, taken, columns,
        members=key_members(taken, bool(source.envelope)))  # fmt: skip
    check_proposal(proposed)
    return proposed


def check_columns(text: str, *lines: str) -> None:
    """Each line stands in the file, and no sampled record would be quarantined."""
    for line in lines:
        assert f"    {line}\n" in text, (line, text)
    assert "quarantined" not in text


def test_a_recorded_topic_of_postgres() -> None:
    text = proposal(recorded("postgresql")).text
    assert "  envelope: debezium\n  key_format: json\n" in text
    assert "  key:\n    id: {type: bigint, key: $.id}\n    region: {type: text, key: $.region}\n" in text
    assert "  publish_at: log\n" in text
    assert "  bookkeeping: beside\n" in text
    check_columns(text, *(f"{name}: {{type: text, nullable: true, absent: keep}}" for name in ("notes", "picture")))


def test_schemas_in_the_records_say_the_types() -> None:
    text = proposal(recorded("postgresql_wrapped")).text
    check_columns(
        text,
        "born: {type: date, nullable: true, encoding: epoch_days}",
        "picture: {type: bytea, nullable: true, absent: keep}",
        "seen: {type: timestamptz, nullable: true, encoding: epoch_ms}",
        "touched: {type: timestamptz, nullable: true, encoding: epoch_us}",
        "joined: {type: timestamptz, nullable: true}",
        "amount: {type: double precision, nullable: true}",
        "ref: {type: uuid, nullable: true}",
        "active: boolean",
    )


def test_a_recorded_topic_of_mariadb() -> None:
    text = proposal(recorded("mariadb")).text
    assert "    region: {type: text, key: $.region}\n" in text
    assert "    visits: {type: bigint, nullable: true}\n" in text


def test_rows_without_a_key_are_named_by_a_value_and_names_of_the_envelope_are_paths_in_the_row() -> None:
    rows = [{"id": n, "source": "web", "note": "n"} for n in range(9)]
    text = proposal(sample(*((None, event("c", None, row)) for row in rows))).text
    assert "  event_id: $.id\n" in text
    assert "    after_source: {type: text, path: $.after.source}\n" in text


def test_a_topic_of_deletes_alone_is_one_line() -> None:
    with pytest.raises(ConfigurationError, match=r"^no sampled change event of shop\.customers has a row"):
        changes_of(sample((written({"id": 1}, False), event("d", {"id": 1}, None))))


@pytest.mark.parametrize("value", [b'{"id": 1}', b'{"op": "c", "id": 1}', b'{"schema": {}, "payload": {"id": 1}}'])
def test_what_is_in_no_envelope_is_read_as_it_is(value: bytes) -> None:
    assert changes_of(sample((b"k", value), (b"k", event("c", None, {"id": 1})))) is None


ANYTHING = st.recursive(
    st.none() | st.integers() | st.text(max_size=3) | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["field", "fields", "name", "type", "a"]), inner, max_size=3)
    ),
    max_leaves=6,
)
NEARLY = st.fixed_dictionaries(
    {"op": st.sampled_from("curd") | ANYTHING, "source": ANYTHING}, optional={"after": ANYTHING, "before": ANYTHING}
)


@examples(300)
@given(document=NEARLY | st.fixed_dictionaries({"schema": ANYTHING, "payload": NEARLY}))
def test_what_is_nearly_a_change_event_never_ends_in_a_traceback(document: dict[str, Any]) -> None:
    try:
        sampled = sample((b"k", json.dumps(document).encode()))
        changes = changes_of(sampled) or rows_of(sampled)
    except ConfigurationError:
        return
    assert changes is None or all(each.path for each in changes.columns)


def test_messages_and_truncations_say_nothing_of_columns_and_keys() -> None:
    changes = changes_of(
        sample((b"{}", message()), (None, truncation()), (written({"id": 1}, True), event("c", None, {"id": 1})))
    )
    assert changes is not None
    assert [each.path for each in changes.columns] == [("id",)]
    assert [each.path for each in key_members(changes.sample)] == [("id",)]


def test_a_key_of_several_members_is_proposed_where_the_key_names_the_event() -> None:
    records = [
        (json.dumps({"tenant": f"t{n % 2}", "number": n // 2}).encode(), json.dumps({"state": "new", "n": n}).encode())
        for n in range(10)
    ]
    proposed = proposal(sample(*records))
    assert "  key_format: json\n" in proposed.text
    assert "  # the members of the Kafka key; unique in 10 records\n" in proposed.text
    assert (
        "  key:\n    tenant: {type: text, key: $.tenant}\n    number: {type: bigint, key: $.number}\n" in proposed.text
    )


KEY = {"type": "record", "name": "Key", "namespace": "shop.public.customers",
    "fields": [{"name": "id", "type": "long"}]}  # fmt: skip


def test_an_avro_envelope_with_a_struct_key_is_proposed_by_their_schemas() -> None:
    value, key = (WriterSchema(n, SchemaLanguage.AVRO, json.dumps(each)) for n, each in ((1, ENVELOPE), (2, KEY)))
    row = {"id": 3, "name": "n", "born": 366, "note": None, "tags": ["a"]}
    taken = sample((b"\0\0\0\0\x02\x06", avro("c", None, row)), (b"\0\0\0\0\x02\x06", avro("d", row, None)))
    source = Source("kafka_default", "shop.customers", format=Format.AVRO, registry="r", key_format=KeyFormat.AVRO)
    columns, _ = schema_inferred(source, sampled_kinds(taken, (value,)), (value,))
    rows = rows_by_schema(columns)
    assert rows is not None
    proposed = propose(Wanted("customers", "public.customers", True), replace(source, envelope=Envelope.DEBEZIUM),
        taken, rows, SampledSchemas(source, (value,), (key,)).lookup, members=members_by_schema([key]))  # fmt: skip
    check_proposal(proposed)
    assert "  envelope: debezium\n  format: avro\n  registry: r\n  key_format: avro\n" in proposed.text
    assert "  key:\n    id: {type: bigint, key: $.id}\n" in proposed.text
    check_columns(proposed.text, "name: {type: text, nullable: true}")


def named_by(kind: str, connect: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "connect.version": 1, "connect.name": f"io.debezium.{connect}", **more}


DECIMAL = {
    **named_by("record", "data.VariableScaleDecimal", name="VariableScaleDecimal", namespace="io.debezium.data"),
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
}
UNSIGNED = {"type": "long", "connect.parameters": {"__debezium.source.column.type": "BIGINT UNSIGNED"}}
NUMERICS = {"__debezium.source.column.type": "_NUMERIC"}
UNWRAPPED = {"type": "record", "name": "Value", "namespace": "shop.public.customers", "fields": [
    {"name": "id", "type": UNSIGNED}, {"name": "born", "type": ["null", named_by("int", "time.Date")], "default": None},
    {"name": "touched", "type": named_by("long", "time.MicroTimestamp")},
    {"name": "opens", "type": named_by("long", "time.MicroTime")},
    {"name": "ref", "type": ["null", named_by("string", "data.Uuid")], "default": None},
    {"name": "settings", "type": named_by("string", "data.Json")},
    {"name": "any", "type": ["null", DECIMAL], "default": None},
    {"name": "more", "type": "io.debezium.data.VariableScaleDecimal"},
    {"name": "days", "type": {"type": "array", "items": named_by("int", "time.Date")}},
    {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
    {"name": "prices", "type": {"type": "array", "items": "string", "connect.parameters": NUMERICS}},
    {"name": "next", "type": ["null", "Value"], "default": None},
    {"name": "__deleted", "type": ["null", "string"], "default": None}]}  # fmt: skip


def test_schemas_in_avro_have_debeziums_types_in_the_names_that_connect_gives() -> None:
    row = {
        **{"id": -1, "born": 366, "touched": 1, "opens": 1, "ref": "b68a35a7-17ad-35b3-af2a-ae46edb4545a"},
        **{"settings": "{}", "any": {"scale": 1, "value": b"\x0f"}, "more": {"scale": 0, "value": b"\x01"}},
        **{"days": [1], "tags": ["a"], "prices": ["1.5"], "next": None, "__deleted": "false"},
    }
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(UNWRAPPED))), row)
    taken = sample((b"k", b"\0\0\0\0\x01" + out.getvalue()))
    schema = WriterSchema(1, SchemaLanguage.AVRO, json.dumps(UNWRAPPED))
    source = Source("kafka_default", "shop.customers", format=Format.AVRO, registry="r")
    columns, _ = schema_inferred(source, sampled_kinds(taken, (schema,)), (schema,))
    columns = by_connect_names(columns, (schema, WriterSchema(2, SchemaLanguage.AVRO, "no JSON")))
    lookup = SampledSchemas(source, (schema,)).lookup
    proposed = propose(Wanted("customers", "public.customers", True, "key"), source, taken, columns, lookup)
    check_proposal(proposed)
    check_columns(
        proposed.text,
        'id: {type: "numeric(20,0)", encoding: unsigned}',
        "born: {type: date, nullable: true, encoding: epoch_days}",
        "touched: {type: timestamptz, encoding: epoch_us}",
        "opens: {type: time, encoding: us}",
        "ref: {type: uuid, nullable: true}",
        "settings: {type: jsonb, encoding: json}",
        "any: {type: numeric, nullable: true, encoding: unscaled}",
        "more: {type: numeric, encoding: unscaled}",
        'days: {type: "date[]", encoding: epoch_days}',
        "tags: jsonb",
        'prices: {type: "numeric[]", coerce: true}',
    )
    assert "  publish_at: log\n  tombstone: skip\n  delete_when: {path: $.__deleted, equals: " in proposed.text


def test_schemas_without_an_envelope_or_a_struct_are_none() -> None:
    plain = WriterSchema(1, SchemaLanguage.AVRO, json.dumps(KEY))
    assert rows_by_schema(schema_inferred(Source(), sampled_kinds(sample(), ()), (plain,))[0]) is None
    assert members_by_schema([WriterSchema(1, SchemaLanguage.AVRO, '"string"')]) == ()


@pytest.mark.parametrize(
    "keys",
    [
        [b'{"a": 1}', b"k"], [b'{"a": 1}', b'{"a": 1, "b": 2}'], [b'{"a": null}', b'{"a": 1}'],
        [b'{"a": {"b": 1}}', b'{"a": {"b": 2}}'], [b'{"a": 1.5}', b'{"a": 2.5}'], [None, b'{"a": 1}'], [b"{}", b"{}"],
    ],
)  # fmt: skip
def test_keys_that_are_no_struct_of_numbers_and_texts_are_taken_whole(keys: list[bytes | None]) -> None:
    assert key_members(sample(*((key, b"{}") for key in keys))) == ()


def test_large_values_that_were_not_sent_are_kept_whatever_their_type() -> None:
    lines = [json.loads(line) for line in (RECORDED / "types/postgres_string.jsonl").read_text().splitlines()]
    toast = [(each["key"].encode(), each["value"].encode()) for each in lines if each["topic"] == "pg.public.toast"]
    text = proposal(sample(*toast)).text
    for name in ("big", "bigb", "ta", "ia", "hs", "nm"):
        assert re.search(rf"^    {name}: .*absent: keep", text, re.M), name
    assert "REPLICA IDENTITY" not in text
    row = {"id": 1, "flags": [True, False], "prices": [1.5, 2.25], "tags": ["a"]}
    assert (
        "# flags, prices: from Postgres, an unchanged large value"
        in proposal(sample((None, event("c", None, row)))).text
    )


def test_a_default_of_a_nullable_field_may_have_been_null() -> None:
    fields = [
        {"type": "int64", "field": "id"},
        {"type": "string", "field": "state", "optional": True, "default": "new"},
        {"type": "string", "field": "note", "optional": True},
        {"type": "int32", "field": "count", "default": 7},
    ]
    schema = {"type": "struct", "fields": [{"type": "struct", "field": "after", "optional": True, "fields": fields}]}
    payload = json.loads(event("c", None, {"id": 1, "state": "new", "note": None, "count": 7}))
    text = proposal(sample((None, json.dumps({"schema": schema, "payload": payload}).encode()))).text
    assert (
        "    state: {type: text, nullable: true}\n    note: {type: text, nullable: true}\n    count: integer\n" in text
    )
    assert "# state: where the source has NULL, Kafka Connect's JsonConverter writes the default of its column" in text


def test_a_topic_of_mongodb() -> None:
    rows = [{"_id": {"$oid": f"{n:024}"}, "email": f"{n}@x", "age": n} for n in range(3)]
    records = [
        (json.dumps({"id": json.dumps(row["_id"])}).encode(), mongo(op, row)) for row in rows for op in ("c", "u")
    ]
    text = proposal(sample(*records)).text
    assert "  key:\n    id: {type: text, key: $.id}\n" in text
    assert "$._id['$oid']" in text
    check_columns(text, "email: text\n    age: bigint")


def test_schemas_in_the_records_say_the_types_of_decimals_arrays_and_members() -> None:
    def field(name: str, type_: str, logical: str | None = None, **more: Any) -> dict[str, Any]:
        return {"type": type_, "field": name, "optional": False, "name": logical} | more

    def array(name: str, type_: str, logical: str | None = None, **more: Any) -> dict[str, Any]:
        return field(name, "array", items={"type": type_, "name": logical, "optional": True} | more)

    decimal, variable = "org.apache.kafka.connect.data.Decimal", "io.debezium.data.VariableScaleDecimal"
    scale = {"parameters": {"scale": "2", "connect.decimal.precision": "10"}}
    unsigned = {"parameters": {"__debezium.source.column.type": "BIGINT UNSIGNED"}}
    fields = [
        field("id", "int64"),
        field("price", "bytes", decimal, **scale),
        field("any", "struct", variable, optional=True, fields=[field("scale", "int32"), field("value", "bytes")]),
        field("big", "int64", **unsigned),
        field("at", "int64", "io.debezium.time.MicroTime"),
        field("length", "int64", "io.debezium.time.MicroDuration"),
        field("settings", "string", "io.debezium.data.Json"),
        array("days", "int32", "io.debezium.time.Date"),
        array("prices", "bytes", decimal, **scale),
        array("anys", "struct", variable),
        array("small", "int16"),
        array("grid", "array"),
        field("ratios", "array", optional=True, items={"type": "double", "optional": True}),
        field("address", "struct", fields=[field("street", "string", optional=True), field("no", "int32")]),
    ]
    row = {"id": 1, "price": "AJY=", "any": {"scale": 1, "value": "Dw=="}, "big": -1, "at": 1, "length": 2}
    row |= {"settings": "{}", "days": [366], "prices": ["AJY="], "anys": [{"scale": 1, "value": "Dw=="}]}
    row |= {"small": [1], "grid": [[1]], "ratios": [0.5], "address": {"street": "s", "no": 5}}
    schema = {"type": "struct", "fields": [field("after", "struct", optional=True, fields=fields)]}
    value = json.dumps({"schema": schema, "payload": json.loads(event("c", None, row))}).encode()
    text = proposal(sample((written({"id": 1}, False), value))).text
    check_columns(
        text,
        'price: {type: "numeric(10,2)", encoding: unscaled(2)}',
        "any: {type: numeric, nullable: true, encoding: unscaled}",
        'big: {type: "numeric(20,0)", encoding: unsigned}',
        "at: {type: time, encoding: us}",
        "length: {type: interval, encoding: us}",
        "settings: {type: jsonb, encoding: json}",
        'days: {type: "date[]", encoding: epoch_days}',
        'prices: {type: "numeric(10,2)[]", encoding: unscaled(2)}',
        'anys: {type: "numeric[]", encoding: unscaled}',
        "small: smallint[]",
        "grid: jsonb",
        'ratios: {type: "double precision[]", nullable: true}',
        "address_street: {type: text, path: $.address.street, nullable: true}",
        "address_no: {type: integer, path: $.address.no}",
    )


def unwrapped_rows(count: int = 3, **more: Any) -> list[tuple[bytes | None, bytes | None]]:
    return [(b'{"id":%d}' % n, json.dumps({"id": n, "email": "a", **more}).encode()) for n in range(count)]


@pytest.mark.parametrize(
    ("more", "delete_when", "tombstone"),
    [
        ({"__deleted": "false", "__source_ts_ms": 5}, 'path: $.__deleted, equals: "true"', "skip"),
        ({"__deleted": False, "__op": "c"}, "path: $.__deleted, equals: true", "skip"),
        ({"__op": "c"}, "path: $.__op, equals: d", "delete"),
        ({"__lsn": 5}, None, "delete"),
        ({"note": UNAVAILABLE}, None, "delete"),
    ],
)
def test_events_that_were_unwrapped_are_ordered_by_the_log_too(
    more: dict[str, Any], delete_when: str | None, tombstone: str
) -> None:
    text = proposal(sample(*unwrapped_rows(**more))).text
    assert f"  publish_at: log\n  tombstone: {tombstone}\n" in text
    assert ("  delete_when: " in text) is bool(delete_when)
    assert delete_when is None or f"  delete_when: {{{delete_when}}}\n" in text
    assert '  unavailable: "__debezium_unavailable_value"\n  key_format: json\n' in text
    assert "  key:\n    id: {type: bigint, key: $.id}\n" in text
    assert "  bookkeeping: beside\n" in text
    assert "__deleted" not in text.partition("  columns:")[2]
    assert ("    note: {type: text, nullable: true, absent: keep}\n" in text) is ("note" in more)


def test_rows_that_are_deleted_say_nothing_of_columns() -> None:
    deleted = {"id": 1, "email": None, "__deleted": "true"}
    records = [*unwrapped_rows(__deleted="false"), (b'{"id":1}', json.dumps(deleted).encode()), (b'{"id":1}', b"null")]
    proposed = proposal(sample(*records))
    assert "    email: text\n" in proposed.text
    assert "# 1 sampled records are tombstones: each repeats the delete before it, and is skipped\n" in proposed.text
    assert "quarantined" not in proposed.text
    with pytest.raises(ConfigurationError, match=r"^all sampled rows of shop\.customers are deleted; raise --records$"):
        rows_of(sample(*records[3:]))


def test_keys_without_an_envelope_have_paths_in_their_wrapper() -> None:
    numbers = [written({"id": n}, True) for n in range(3)]
    assert [(each.path, each.named) for each in key_members(sample(*((n, b"{}") for n in numbers)), False)] == [
        (("payload", "id"), ("id",))
    ]
    alone = [b'{"schema":{"type":"int32","optional":false},"payload":%d}' % n for n in range(3)]
    assert [
        (each.path, each.named, each.type) for each in key_members(sample(*((n, b"{}") for n in alone)), False)
    ] == [(("payload",), ("key",), "bigint")]
    assert key_members(sample((alone[0], b"{}"), (numbers[0], b"{}")), False) == ()


def test_the_key_of_a_table_is_read_in_kafkas_where_tombstones_delete() -> None:
    names = (("id", "integer"), ("email", "text"))
    table = ExistingTable("public.customers", tuple(ExistingColumn(*each, False, False) for each in names), (("id",),))
    taken = sample(*unwrapped_rows(__lsn=1), (b'{"id":1}', None))
    rows = rows_of(taken)
    assert rows is not None
    wanted, source = Wanted("customers", "public.customers", False, None, table), rows.source(Source("k", taken.topic))
    proposed = propose(wanted, source, taken, rows.columns, members=key_members(taken, False))
    check_proposal(proposed)
    assert "  key:\n    id: {type: integer, key: $.id}\n" in proposed.text
    assert "  publish_at: log\n  tombstone: delete\n" in proposed.text


CANAL = {
    "data": [{"id": "1", "name": "a"}, {"id": "2", "name": "b"}],
    **{"database": "shop", "es": 1_589_373_560_000, "id": 9, "isDdl": False, "mysqlType": {"id": "int(11)"}},
    **{"old": None, "pkNames": ["id"], "sql": "", "sqlType": {"id": 4}, "table": "customers", "ts": 1,
        "type": "INSERT"},
}  # fmt: skip


def test_messages_of_canal_are_refused_by_name() -> None:
    ddl = CANAL | {"data": None, "isDdl": True, "type": "ALTER"}
    with pytest.raises(ConfigurationError) as refused:
        rows_of(sample((None, json.dumps(CANAL).encode()), (None, json.dumps(ddl).encode())))
    assert str(refused.value) == (
        "the sampled records of shop.customers are Canal's flat messages, each with a list of rows (data, up to 2 "
        "here), and a record is one row: let a stream processor write a record for each row, or Debezium or Maxwell "
        "read the source; TiCDC, whose canal-json has one row in the list, can write protocol=debezium"
    )


def test_decimals_in_texts_are_numbers_where_the_schema_names_the_type_of_the_source() -> None:
    said = {"__debezium.source.column.type": "NUMERIC"}
    fields = [
        {"field": "price", "type": "string", "optional": True, "parameters": said},
        {"field": "prices", "type": "array", "items": {"type": "string", "optional": True},
            "parameters": {"__debezium.source.column.type": "_NUMERIC"}},
        {"field": "name", "type": "string"},
    ]  # fmt: skip
    payload = {"price": "1.50", "prices": ["NaN", "2"], "name": "7"}
    value = json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": payload}).encode()
    text = proposal(sample((b"k", value))).text
    price = "price: {type: numeric, path: $.payload.price, nullable: true, coerce: true}"
    prices = 'prices: {type: "numeric[]", path: $.payload.prices, coerce: true}'
    check_columns(text, price, prices, "name: {type: text, path: $.payload.name}")


@pytest.mark.parametrize(
    ("path", "connector", "says"),
    [
        (("source", "ts_ms"), "postgresql", "wins over later changes; write"),
        (("source", "ts_us"), "mariadb", "wins over later changes; it is the time of a statement"),
        (("source", "ts_ms"), "mysql", "; without GTIDs it is the time of a statement"),
        (("source", "ts_ns"), "", "; from MariaDB, and from MySQL without GTIDs, it is the time of a statement"),
        (("source", "lsn"), "postgresql", "has none, and is quarantined; write publish_at: log"),
        (("__source_ts_ms",), "mariadb", "$.__source_ts_ms is not the order of the changes"),
    ],
)
def test_what_another_order_of_changes_gets_wrong_is_said(path: tuple[str, ...], connector: str, says: str) -> None:
    record = RecordShape(None, path, (), envelope=path[0] == "source")
    (line,) = notes_on_order(record, connector)
    assert says in line
    assert notes_on(record) == notes_on_order(record)


def test_the_columns_are_named_whose_unchanged_values_arrive_as_null() -> None:
    """As tests/integration/steps/run/test_debezium.py sees them arrive; dates only where they are numbers."""
    known = {"bytea[]": "base64", "jsonb[]": "json", "date[]": "epoch_days", "uuid[]": "", "text": "", "tsvector": ""}
    lost = {"inet[]": "", "smallint[]": "", "timestamptz[]": "rfc3339", "date[]": "", "numeric": "unscaled"}
    named = known.items(), ((f"{type_} lost", encoding) for type_, encoding in lost.items())
    columns = [Column(n, parse_type(n.removesuffix(" lost")), (n,), True, each) for of in named for n, each in of]
    (line,) = notes_on(RecordShape(None, None, tuple(columns), envelope=True, unavailable=UNAVAILABLE.encode()))
    assert line.partition(": ")[0] == ", ".join(f"{type_} lost" for type_ in lost)


@pytest.mark.parametrize("path", [None, ("after", "source"), ("after", "ts_ms"), ("ts_ms",), ("after", "lsn")])
def test_nothing_is_said_of_other_moments(path: tuple[str, ...] | None) -> None:
    assert notes_on_order(RecordShape(None, path, (), envelope=True)) == []


@pytest.mark.parametrize("file", ["postgresql", "mariadb", "postgresql_wrapped"])
def test_the_connector_is_read_in_the_event(file: str) -> None:
    values = [each.value for each in recorded(file).records if each.value]
    assert {connector_of(value) for value in values} == {file.removesuffix("_wrapped")}
    assert [connector_of(value) for value in (b"", b"1", b'{"source": 1}', b"{}", b"\xff")] == [""] * 5

"""Records in Confluent's wire format, with a real registry: rows by identity, schemas kept, a registry that fails."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import timedelta
from http.server import BaseHTTPRequestHandler

import pytest

from offset_ledger.base.retry import VARIABLE as RETRY_SECONDS
from offset_ledger.errors import RegistryUnavailable, SchemaChanged
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import BatchKind
from offset_ledger.model.writer_schema import SchemaLanguage
from offset_ledger.operations.check.diff import diff
from offset_ledger.operations.repair.verify_against_topic import compare_with_topic
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.outside.producer.record import Record
from offset_ledger.outside.schema_registry.client import Reference, connect_registry
from offset_ledger.postgres.ledger.database import rows, transaction
from offset_ledger.steps.plan.step import plan_replay
from offset_ledger.steps.run.redrive import parse_choice, plan_redrive
from tests.fixtures.formats import AVRO, JSON_SCHEMA, PROTOBUF, TestFormat
from tests.fixtures.http_server import Asked, answering, send_json
from tests.fixtures.registry import running_registry
from tests.fixtures.registry_bench import ME, NOON, RegistryBench, away, framed
from tests.unit.decoding.avro.avro_records import Written

FORMATS = pytest.mark.parametrize("form", [JSON_SCHEMA, AVRO, PROTOBUF], ids=lambda form: str(form.name))


@pytest.fixture
def bench(open_bench: Callable[[type[RegistryBench]], RegistryBench]) -> RegistryBench:
    return open_bench(RegistryBench)


@FORMATS
def test_every_record_stands_in_the_table_or_in_quarantine_with_its_schema(
    bench: RegistryBench, form: TestFormat, engine: str
) -> None:
    bench.form = form
    bench.settings |= {"format": form.name, "engine": engine}
    first, second = bench.register(form.schema(1)), bench.register(form.schema(2))
    other = bench.register(form.schema(2), f"{bench.topic}-other") if form.name != "json_schema" else None
    good = {
        (f"a{n}", n, None, first): framed(first, form.encode(1, {"id": f"a{n}", "amount": n})) for n in range(20)
    } | {
        (f"b{n}", n, "x", second): framed(second, form.encode(2, {"id": f"b{n}", "amount": n, "note": "x"}))
        for n in range(20)
    }
    encoded = form.encode(1, {"id": "z", "amount": 1})
    bad = {
        (framed(2**31 - 1, encoded), "unknown_schema", 2**31 - 1),
        (b"{}", "frame", None),
        (framed(first, form.poison), form.poison_code, first),
        (framed(second, b""), form.empty_code, second),
    }
    assert other in (None, second)  # one text, one id: it is of both subjects
    bench.send(*good.values(), *(value for value, _, _ in sorted(bad)))
    (committed,) = bench.ingest()
    assert bench.table() == set(good)
    assert bench.quarantine() == bad
    assert (committed.total.inserted, committed.total.quarantined) == (len(good), len(bad))
    kept = rows(bench.session, "SELECT schema_id, text, subjects FROM offset_ledger.writer_schema")
    assert {row[0]: row[1] for row in kept} == {first: form.schema(1), second: form.schema(2)}
    versions = {first: 1, second: 2}
    assert all([f"{bench.topic}-value", versions[row[0]]] in row[2] for row in kept)
    met = rows(bench.session, "SELECT schema_id, sum(records) FROM offset_ledger.batch_schema GROUP BY 1")
    assert {row[0]: int(row[1]) for row in met} == {first: 21, second: 21, 2**31 - 1: 1}
    bench.agree()


def test_what_the_gate_refuses_keeps_its_schema(bench: RegistryBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        RegistryBench, "TEMPLATE", RegistryBench.TEMPLATE.replace("note: {{type: text", "note: {{type: inet")
    )
    bench.form = JSON_SCHEMA
    first, second = bench.register(JSON_SCHEMA.schema(1)), bench.register(JSON_SCHEMA.schema(2))
    bench.send(framed(first, JSON_SCHEMA.encode(1, {"id": "a", "amount": 1})))
    refused = framed(second, JSON_SCHEMA.encode(2, {"id": "b", "amount": 2, "note": "no address"}))
    bench.send(refused)
    bench.ingest()
    assert bench.table() == {("a", 1, None, first)}
    assert bench.quarantine() == {(refused, "input", second)}
    met = rows(bench.session, "SELECT schema_id, sum(records)::int FROM offset_ledger.batch_schema GROUP BY 1")
    assert {tuple(row) for row in met} == {(first, 1), (second, 1)}
    bench.agree()


def test_a_schema_of_another_subject_is_none_of_the_topic(bench: RegistryBench) -> None:
    elsewhere = bench.register(JSON_SCHEMA.schema(9), f"{bench.topic}-key")
    value = framed(elsewhere, JSON_SCHEMA.encode(1, {"id": "a", "amount": 1}))
    bench.send(value)
    bench.ingest()
    assert bench.quarantine() == {(value, "schema", elsewhere)}
    assert rows(bench.session, "SELECT * FROM offset_ledger.writer_schema") == []
    bench.register(JSON_SCHEMA.schema(9))  # the same id, and a subject of the topic now
    bench.run(plan_redrive(bench.pipeline, parse_choice(reason="schema"), ME))
    assert bench.table() == {("a", 1, None, elsewhere)}


def test_a_replay_and_a_redrive_need_no_registry_for_what_was_read_before(
    bench: RegistryBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = bench.register(JSON_SCHEMA.schema(1))
    bench.send(*(framed(schema, JSON_SCHEMA.encode(1, {"id": f"a{n}", "amount": n})) for n in range(6)))
    refused = framed(schema, b'{"id": "r", "amount": 1.5}')
    bench.send(refused)
    bench.ingest()
    before = bench.rows("event_id, amount, _schema_id, _partition, _offset")
    assert bench.quarantine() == {(refused, "type", schema)}
    away(monkeypatch)
    ranges = [OffsetRange(0, 0, 4), OffsetRange(1, 0, 3)]
    done = bench.run(plan_replay(bench.pipeline, ranges, ME, BatchKind.REPLAY))
    assert (done.total.inserted, done.total.duplicate) == (0, 6)
    assert sorted(bench.rows("event_id, amount, _schema_id, _partition, _offset")) == sorted(before)
    bench.run(plan_redrive(bench.pipeline, parse_choice(), ME))
    assert bench.quarantine() == {(refused, "type", schema)}
    assert compare_with_topic(bench.pipeline).violations == ()


def test_nothing_is_refused_because_the_registry_is_away(
    bench: RegistryBench, monkeypatch: pytest.MonkeyPatch, registry_connection: Connection
) -> None:
    schema = bench.register(JSON_SCHEMA.schema(1))
    bench.send(framed(schema, JSON_SCHEMA.encode(1, {"id": "a", "amount": 1})))
    away(monkeypatch)
    with pytest.raises(RegistryUnavailable) as error:
        bench.ingest()
    assert "\n" not in str(error.value)
    assert rows(bench.session, "SELECT state FROM offset_ledger.batch") == [["staging"]]
    monkeypatch.setenv(environment_name("registry_default"), registry_connection.to_json())
    bench.ingest()
    assert bench.table() == {("a", 1, None, schema)}
    assert bench.quarantine() == set()
    away(monkeypatch)  # a known schema of new records: the registry has to say that it is still the same
    bench.send(framed(schema, JSON_SCHEMA.encode(1, {"id": "b", "amount": 2})))
    with pytest.raises(RegistryUnavailable):
        bench.ingest()


@pytest.mark.full
@pytest.mark.usefixtures("spark")
def test_sparks_workers_retry_for_as_long_as_the_process_that_asks_them(
    bench: RegistryBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark was started with the default of 30 seconds; one attempt of one slice would take that long."""
    bench.settings |= {"engine": "spark"}
    schema = bench.register(JSON_SCHEMA.schema(1))
    bench.send(framed(schema, JSON_SCHEMA.encode(1, {"id": "a", "amount": 1})))
    away(monkeypatch)
    began = time.monotonic()
    with pytest.raises(RegistryUnavailable):
        bench.ingest()
    assert time.monotonic() - began < 30


def test_an_id_that_means_something_else_by_now_stops_new_records_and_no_replay(bench: RegistryBench) -> None:
    schema = bench.register(JSON_SCHEMA.schema(1))
    bench.send(framed(schema, JSON_SCHEMA.encode(1, {"id": "a", "amount": 1})))
    bench.ingest()
    with transaction(bench.session) as cursor:  # as if another registry had been there at the time
        cursor.execute("UPDATE offset_ledger.writer_schema SET text = %s", [JSON_SCHEMA.schema(2)])
    bench.send(framed(schema, JSON_SCHEMA.encode(1, {"id": "b", "amount": 2})))
    with pytest.raises(SchemaChanged, match=f"schema id {schema} has SHA-256 .* nothing was committed"):
        bench.ingest()
    assert bench.table() == {("a", 1, None, schema)}
    assert bench.quarantine() == set()


def test_new_records_are_read_with_what_the_registry_says_now(
    bench: RegistryBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A known id that the registry has lost, or that is of another subject by now."""
    subjects = [f"{bench.topic}-value"]

    def respond(handler: BaseHTTPRequestHandler, asked: Asked) -> None:
        if not subjects:
            send_json(handler, 404, {"error_code": 40403, "message": "Schema 7 not found"})
        elif "/versions" in asked.path:
            send_json(handler, 200, [{"subject": subject, "version": 1} for subject in subjects])
        else:
            send_json(handler, 200, {"schemaType": "JSON", "schema": JSON_SCHEMA.schema(1)})

    with answering(respond) as server:
        there = Connection("registry_default", "http", server.url)
        monkeypatch.setenv(environment_name("registry_default"), there.to_json())
        values = [framed(7, JSON_SCHEMA.encode(1, {"id": f"a{n}", "amount": n})) for n in range(3)]
        bench.send(values[0])
        bench.ingest()
        subjects.clear()
        bench.send(values[1])
        bench.ingest()
        subjects.append("others-value")
        bench.send(values[2])
        bench.ingest()
        assert bench.table() == {("a0", 0, None, 7)}
        assert bench.quarantine() == {(values[1], "unknown_schema", 7), (values[2], "schema", 7)}
        subjects.clear()
        replayed = bench.run(plan_replay(bench.pipeline, [OffsetRange(0, 0, 1)], ME))
        assert (replayed.total.duplicate, replayed.total.quarantined) == (1, 0)
        assert compare_with_topic(bench.pipeline).violations == ()


@pytest.mark.full
def test_an_unknown_id_is_asked_for_again_by_a_redrive(bench: RegistryBench, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_registry() as alone:  # no other test may take the id meanwhile
        connection = alone.connection()
        monkeypatch.setenv(environment_name(connection.conn_id), connection.to_json())
        bench.registry = connect_registry(connection)
        fresh = [JSON_SCHEMA.schema(1).replace("Order1", f"{bench.topic}.{n}") for n in range(2)]
        later = bench.register(fresh[0]) + 1
        value = framed(later, JSON_SCHEMA.encode(1, {"id": "a", "amount": 1}))
        bench.send(value)
        bench.ingest()
        assert bench.quarantine() == {(value, "unknown_schema", later)}
        assert bench.register(fresh[1]) == later
        bench.run(plan_redrive(bench.pipeline, parse_choice(reason="unknown_schema"), ME))
        assert bench.table() == {("a", 1, None, later)}
        assert bench.quarantine() == set()


def test_timestamps_of_kafka_order_framed_records(bench: RegistryBench) -> None:
    schema = bench.register(JSON_SCHEMA.schema(1))
    at = int((NOON - timedelta(hours=1)).timestamp() * 1000)
    bench.send(framed(schema, JSON_SCHEMA.encode(1, {"id": "a", "amount": 1})))
    bench.publish(Record(None, framed(schema, JSON_SCHEMA.encode(1, {"id": "a", "amount": 0})), (), at, 1))
    bench.ingest()
    assert bench.table() == {("a", 1, None, schema)}


PLAIN = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}, format: {format}, schema: {file}{message}}}
record:
  event_id: $.id
  publish_at: kafka_timestamp
  columns: {{amount: {{type: bigint, nullable: true}}}}
target: {{connection: postgres_default, table: public.orders}}
quality: {{max_quarantined_share: 1.0}}
"""


@pytest.mark.parametrize("form", [JSON_SCHEMA, AVRO, PROTOBUF], ids=lambda form: str(form.name))
def test_records_without_a_frame_are_read_with_a_schema_from_a_file(
    bench: RegistryBench, form: TestFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RegistryBench, "TEMPLATE", PLAIN)
    message = ", message: shop.Order1" if form is PROTOBUF else ""
    bench.settings |= {"format": form.name, "file": "order.schema", "message": message}
    (bench.folder / "order.schema").write_text(form.schema(1))
    values = {f"a{n}": form.encode(1, {"id": f"a{n}", "amount": n}) for n in range(10)}
    plain = {name: value[1:] if form is PROTOBUF else value for name, value in values.items()}  # without its index
    poison = form.poison[1:] if form is PROTOBUF else form.poison
    bench.send(*plain.values(), poison)
    before = bench.pipeline.config_hash
    bench.ingest()
    assert set(bench.rows("event_id, amount")) == {(f"a{n}", n) for n in range(10)}
    assert bench.quarantine() == {(poison, form.poison_code, None)}
    (bench.folder / "order.schema").write_text(form.schema(2))
    assert bench.pipeline.config_hash != before


KEYED = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}, format: avro, registry: registry_default, key_format: avro}}
record:
  event_id: key
  publish_at: kafka_timestamp
  tombstone: delete
  columns: {{amount: {{type: bigint, nullable: true}}}}
target: {{connection: postgres_default, table: public.orders}}
quality: {{max_quarantined_share: 1.0}}
"""


def test_keys_in_avro_name_events_and_tombstones_delete_them(
    bench: RegistryBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RegistryBench, "TEMPLATE", KEYED)
    bench.form = AVRO
    schema, key_schema = bench.register(AVRO.schema(1)), bench.register('"long"', f"{bench.topic}-key")
    one, two = (framed(key_schema, bytes([2 * n])) for n in (1, 2))
    value = framed(schema, AVRO.encode(1, {"id": "x", "amount": 5}))
    at = int(NOON.timestamp() * 1000)
    bench.publish(*(Record(key, value, (), at, 0) for key in (one, two, b"plain")))
    bench.publish(Record(one, None, (), at + 1, 0))
    bench.ingest()
    assert set(bench.rows("event_id, amount, _deleted, _schema_id, _key::text")) == {
        ("1", None, True, None, "\\x" + one.hex()),
        ("2", 5, False, schema, "\\x" + two.hex()),
    }
    assert bench.quarantine() == {(value, "frame", schema)}
    kept = rows(bench.session, "SELECT schema_id FROM offset_ledger.writer_schema")
    assert {row[0] for row in kept} == {schema, key_schema}


TWO_KINDS = """
pipeline: {kind}s
source: {{connection: kafka_default, topic: {topic}, format: {format}}}
record:
  event_id: $.id
  publish_at: kafka_timestamp
  where: {{path: $.kind, equals: {kind}}}
  columns: {{amount: {{type: bigint, nullable: true}}}}
target: {{connection: postgres_default, table: "public.{kind}s"}}
quality: {{max_quarantined_share: 1.0}}
"""


def test_two_pipelines_read_their_kinds_of_one_topic(bench: RegistryBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RegistryBench, "TEMPLATE", TWO_KINDS)
    kinds = ["order", "refund", "order", None, "refund", "order"]
    values = [json.dumps({"id": f"a{n}", "amount": n, "kind": kind}).encode() for n, kind in enumerate(kinds)]
    poison = b'{"id": "a", "kind": 5}'
    bench.send(*values, poison)
    for kind in ("order", "refund"):
        bench.settings |= {"format": "json", "kind": kind}
        (committed,) = bench.ingest()
        wanted = {(f"a{n}", n) for n, each in enumerate(kinds) if each == kind}
        query = f"SELECT event_id, amount FROM public.{kind}s"
        assert {tuple(row) for row in rows(bench.session, query)} == wanted
        sheet = committed.total
        assert (sheet.inserted, sheet.skipped, sheet.quarantined) == (len(wanted), len(kinds) - len(wanted), 1)
        bench.agree()
    refused = rows(bench.session, "SELECT pipeline, value, reasons->0->>'path' FROM offset_ledger.quarantine")
    assert {(row[0], bytes(row[1]), row[2]) for row in refused} == {
        ("orders", poison, "$.kind"),
        ("refunds", poison, "$.kind"),
    }


BY_SCHEMA = """
pipeline: version{version}
source: {{connection: kafka_default, topic: {topic}, format: {format}, registry: registry_default, subject: any}}
record:
  event_id: $.id
  publish_at: kafka_timestamp
  where: {{schema: {schema}}}
  columns: {{amount: {{type: bigint, nullable: true}}}}
target: {{connection: postgres_default, table: "public.version{version}"}}
quality: {{max_quarantined_share: 1.0}}
stage: {{engine: {engine}}}
"""


@FORMATS
def test_two_pipelines_read_the_records_of_their_schemas(
    bench: RegistryBench, form: TestFormat, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RegistryBench, "TEMPLATE", BY_SCHEMA)
    monkeypatch.setenv(RETRY_SECONDS, "60")  # no server is away
    bench.form = form
    bench.settings["engine"] = engine
    ids = {version: bench.register(form.schema(version), f"{bench.topic}-{version}") for version in (1, 2)}
    versions = [1, 2, 2, 1, 2]
    values = [framed(ids[v], form.encode(v, {"id": f"a{n}", "amount": n})) for n, v in enumerate(versions)]
    unknown = framed(2**31 - 1, b"{}")
    bench.send(*values, unknown)
    for version in (1, 2):
        name = f"Order{version}" if form is JSON_SCHEMA else f"shop.Order{version}"
        bench.settings |= {"format": form.name, "version": version, "schema": name}
        (committed,) = bench.ingest()
        query = f"SELECT event_id, amount, _schema_id FROM public.version{version}"
        wanted = {(f"a{n}", n, ids[v]) for n, v in enumerate(versions) if v == version}
        assert {tuple(row) for row in rows(bench.session, query)} == wanted
        sheet = committed.total
        assert (sheet.inserted, sheet.skipped, sheet.quarantined) == (len(wanted), len(versions) - len(wanted), 1)
        bench.agree()
    refused = rows(bench.session, "SELECT pipeline, value, reasons->0->>'code' FROM offset_ledger.quarantine")
    assert {(row[0], bytes(row[1]), row[2]) for row in refused} == {
        (f"version{version}", unknown, "unknown_schema") for version in (1, 2)
    }


def test_the_branches_of_a_union_are_schemas_of_other_subjects(
    bench: RegistryBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RegistryBench, "TEMPLATE", BY_SCHEMA.replace(", subject: any", ""))
    bench.form = AVRO
    names = [f"shop.Order{version}" for version in (1, 2)]
    subjects = [f"{bench.topic}-{name}" for name in names]
    for version, subject in enumerate(subjects, start=1):
        bench.register(AVRO.schema(version), subject)
    references = [Reference(name, subject, 1) for name, subject in zip(names, subjects, strict=True)]
    value = f"{bench.topic}-value"
    schema = bench.registry.register(value, SchemaLanguage.AVRO, json.dumps(names), references)
    written = Written([json.loads(AVRO.schema(version)) for version in (1, 2)])  # type: ignore[arg-type]
    amounts = [(names[n % 2], {"id": f"a{n}", "amount": ("long", n), "note": ("null", None)}) for n in range(5)]
    bench.send(*(framed(schema, written.write(each)) for each in amounts), framed(schema, b"\x04"))
    for version, name in enumerate(names, start=1):
        bench.settings |= {"format": AVRO.name, "version": version, "schema": name}
        (committed,) = bench.ingest()
        query = f"SELECT event_id, amount, _schema_id FROM public.version{version}"
        wanted = {(f"a{n}", n, schema) for n in range(5) if names[n % 2] == name}
        assert {tuple(row) for row in rows(bench.session, query)} == wanted
        assert (committed.total.skipped, committed.total.quarantined) == (5 - len(wanted), 1)
        assert compare_with_topic(bench.pipeline).violations == ()
        compared = diff(bench.pipeline)
        assert (compared.schemas, compared.differs) == ((f"{value} version 1",), False)

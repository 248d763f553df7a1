"""Records in Confluent's wire format, with a real registry: rows by identity, schemas kept, a registry that fails."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from offset_ledger.commit.step import Committed
from offset_ledger.connections import Connection, environment_name
from offset_ledger.errors import RegistryUnavailable, SchemaChanged
from offset_ledger.ledger.database import rows, transaction
from offset_ledger.local.layout import free_ports
from offset_ledger.model.batch import Origin
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import BatchKind
from offset_ledger.model.writer_schema import SchemaLanguage
from offset_ledger.operations.diff import diff
from offset_ledger.operations.ingest import run_batch
from offset_ledger.operations.redrive import parse_choice, plan_redrive
from offset_ledger.operations.verify import verify
from offset_ledger.operations.verify_against_topic import compare_with_topic
from offset_ledger.plan.step import plan_replay
from offset_ledger.reliability.publishing.record import Record
from offset_ledger.retry import VARIABLE as RETRY_SECONDS
from offset_ledger.schema_registry.client import Registry, connect_registry
from offset_ledger.schema_registry.documents import Reference
from tests.fixtures.formats import AVRO, JSON_SCHEMA, PROTOBUF, TestFormat
from tests.fixtures.servers import Servers
from tests.fixtures.topic_bench import TopicBench, quiet
from tests.unit.decoding.avro.avro_records import Written

pytestmark = pytest.mark.usefixtures("spark")
ME = Origin("test")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FORMATS = pytest.mark.parametrize("form", [JSON_SCHEMA, AVRO, PROTOBUF], ids=lambda form: str(form.name))


class Bench(TopicBench):
    """A topic of two partitions whose records name schemas of a real registry."""

    TEMPLATE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}, format: {format}, registry: registry_default}}
record:
  event_id: $.id
  publish_at: kafka_timestamp
  columns:
    amount: {{type: bigint, nullable: true}}
    note: {{type: text, nullable: true}}
target: {{connection: postgres_default, table: public.orders}}
quality: {{max_quarantined_share: 1.0}}
spark: {{min_offsets: {min_offsets}}}
"""
    DEFAULTS = MappingProxyType({"min_offsets": 1_000, "format": "json_schema"})
    registry: Registry
    form: TestFormat

    def register(self, text: str, subject: str | None = None) -> int:
        return self.registry.register(subject or f"{self.topic}-value", self.form.language, text)

    def send(self, *values: bytes) -> None:
        """The values, in turns into both partitions."""
        at = int(NOON.timestamp() * 1000)
        self.publish(*(Record(None, value, (), at + n, n % 2) for n, value in enumerate(values)))

    def table(self) -> set[tuple[Any, ...]]:
        return set(self.rows("event_id, amount, note, _schema_id"))

    def quarantine(self) -> set[tuple[Any, ...]]:
        query = "SELECT value, reasons->0->>'code', schema_id FROM offset_ledger.quarantine WHERE resolved_by IS NULL"
        return {(bytes(row[0]), row[1], row[2]) for row in rows(self.session, query)}

    def run(self, planned: Any) -> Committed:
        return run_batch(self.pipeline, planned, ME, quiet).committed


@pytest.fixture
def bench(
    servers: Servers,
    topic_name: Callable[[], str],
    tmp_path: Path,
    registry_connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Bench]:
    monkeypatch.setenv(RETRY_SECONDS, "1")
    with Bench.open(servers, topic_name(), tmp_path, 2, {"retention.ms": "-1"}) as made:
        made.registry = connect_registry(registry_connection)
        made.form = JSON_SCHEMA
        yield made


def away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens where the registry was."""
    nowhere = Connection("registry_default", "http", f"http://127.0.0.1:{free_ports(1)[0]}/apis/ccompat/v7")
    monkeypatch.setenv(environment_name("registry_default"), nowhere.to_json())


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + payload


@FORMATS
def test_every_record_stands_in_the_table_or_in_quarantine_with_its_schema(
    bench: Bench, form: TestFormat, min_offsets: int
) -> None:
    bench.form = form
    bench.settings |= {"format": form.name, "min_offsets": min_offsets}
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
    assert verify(bench.pipeline)[0] == []
    assert compare_with_topic(bench.pipeline).violations == ()


def test_a_schema_of_another_subject_is_none_of_the_topic(bench: Bench) -> None:
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
    bench: Bench, monkeypatch: pytest.MonkeyPatch
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
    bench: Bench, monkeypatch: pytest.MonkeyPatch, registry_connection: Connection
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


def test_sparks_workers_retry_for_as_long_as_the_process_that_asks_them(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark was started with the default of 30 seconds; one attempt of one slice would take that long."""
    bench.settings |= {"min_offsets": 1}
    schema = bench.register(JSON_SCHEMA.schema(1))
    bench.send(framed(schema, JSON_SCHEMA.encode(1, {"id": "a", "amount": 1})))
    away(monkeypatch)
    began = time.monotonic()
    with pytest.raises(RegistryUnavailable):
        bench.ingest()
    assert time.monotonic() - began < 30


def test_an_id_that_means_something_else_by_now_stops_new_records_and_no_replay(bench: Bench) -> None:
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


def test_an_unknown_id_is_asked_for_again_by_a_redrive(bench: Bench) -> None:
    fresh = [JSON_SCHEMA.schema(1).replace("Order1", f"{bench.topic}.{n}") for n in range(2)]
    later = bench.register(fresh[0]) + 1  # one test at a time uses this registry
    value = framed(later, JSON_SCHEMA.encode(1, {"id": "a", "amount": 1}))
    bench.send(value)
    bench.ingest()
    assert bench.quarantine() == {(value, "unknown_schema", later)}
    assert bench.register(fresh[1]) == later
    bench.run(plan_redrive(bench.pipeline, parse_choice(reason="unknown_schema"), ME))
    assert bench.table() == {("a", 1, None, later)}
    assert bench.quarantine() == set()


def test_timestamps_of_kafka_order_framed_records(bench: Bench) -> None:
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
    bench: Bench, form: TestFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Bench, "TEMPLATE", PLAIN)
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


def test_keys_in_avro_name_events_and_tombstones_delete_them(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bench, "TEMPLATE", KEYED)
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


def test_two_pipelines_read_their_kinds_of_one_topic(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bench, "TEMPLATE", TWO_KINDS)
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
        assert verify(bench.pipeline)[0] == []
        assert compare_with_topic(bench.pipeline).violations == ()
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
"""


@FORMATS
def test_two_pipelines_read_the_records_of_their_schemas(
    bench: Bench, form: TestFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Bench, "TEMPLATE", BY_SCHEMA)
    bench.form = form
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
        assert verify(bench.pipeline)[0] == []
        assert compare_with_topic(bench.pipeline).violations == ()
    refused = rows(bench.session, "SELECT pipeline, value, reasons->0->>'code' FROM offset_ledger.quarantine")
    assert {(row[0], bytes(row[1]), row[2]) for row in refused} == {
        (f"version{version}", unknown, "unknown_schema") for version in (1, 2)
    }


def test_the_branches_of_a_union_are_schemas_of_other_subjects(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bench, "TEMPLATE", BY_SCHEMA.replace(", subject: any", ""))
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

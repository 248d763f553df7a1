"""Records of which headers name the schema, from Confluent's serializers and ours, beside records with frames."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka.schema_registry import (
    SchemaRegistryClient,
    header_schema_id_serializer,
    prefix_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from offset_ledger.base.retry import VARIABLE as RETRY_SECONDS
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import BatchKind
from offset_ledger.operations.check.decode_sample import Choice, decode_sample
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.producer.record import Record
from offset_ledger.outside.schema_registry.client import connect_registry
from offset_ledger.postgres.ledger.database import rows
from offset_ledger.steps.plan.step import plan_replay
from offset_ledger.steps.run.redrive import parse_choice, plan_redrive
from offset_ledger_kit.cli.main import main
from tests.fixtures.following import Bench as FollowingBench
from tests.fixtures.following import ranges
from tests.fixtures.formats import AVRO, PROTOBUF
from tests.fixtures.registry_bench import ME, NOON, RegistryBench, away, framed
from tests.fixtures.topic_reader import read

VALUE = "__value_schema_id"
AT = int(NOON.timestamp() * 1000)
LATER = UUID(int=1)


@pytest.fixture
def bench(
    open_bench: Callable[[type[RegistryBench]], RegistryBench],
    guid_connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> RegistryBench:
    bench = open_bench(RegistryBench)
    monkeypatch.setenv(RETRY_SECONDS, "60")  # no server is away
    bench.registry = connect_registry(guid_connection)
    bench.form = AVRO
    bench.settings["format"] = AVRO.name
    return bench


def by_guid(guid: UUID | None, indexes: bytes = b"") -> tuple[str, bytes]:
    assert guid
    return VALUE, b"\1" + guid.bytes + indexes


def test_each_record_stands_in_the_table_or_in_quarantine(
    bench: RegistryBench, guid_connection: Connection, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.settings["engine"] = engine
    client = SchemaRegistryClient({"url": guid_connection.host})
    records: list[Record] = []
    for n in range(40):
        version, header = 1 + n // 20, n % 3 > 0
        how = header_schema_id_serializer if header else prefix_schema_id_serializer
        serialize = AvroSerializer(client, AVRO.schema(version), conf={"schema.id.serializer": how})
        headers: list[tuple[str, bytes]] = [("trace", b"1")]
        document = {"id": f"a{n}", "amount": n} | ({"note": "x"} if version > 1 else {})
        value = serialize(document, SerializationContext(bench.topic, MessageField.VALUE, headers))
        assert len(headers) == 1 + header
        records.append(Record(None, value, tuple(headers), AT + n, n % 2))
    latest = bench.registry.latest(f"{bench.topic}-value")
    assert latest
    payload = AVRO.encode(2, {"id": "z", "amount": 1, "note": None})
    bad = {
        "an unknown GUID": (payload, by_guid(LATER), "unknown_schema"),
        "half a GUID": (payload, (VALUE, b"\1" + LATER.bytes[:8]), "frame"),
        "a frame too": (framed(latest.schema_id, payload), by_guid(latest.guid), "syntax"),
    }
    bench.publish(*records, *(Record(None, value, (header,), AT, 0) for value, header, _ in bad.values()))
    sample = decode_sample(bench.pipeline, Choice(), 100)
    bench.ingest()
    wanted = {(n % 2, n // 2, f"a{n}", n, "x" if n >= 20 else None) for n in range(40)}
    assert set(bench.rows("_partition, _offset, event_id, amount, note")) == wanted
    query = """SELECT partition, "offset", reasons->0->>'code', value FROM offset_ledger.quarantine"""
    quarantined = {(row[0], row[1], row[2], bytes(row[3])) for row in rows(bench.session, query)}
    assert quarantined == {(0, 20 + n, code, value) for n, (value, _, code) in enumerate(bad.values())}
    assert {(row.partition, row.offset, row.key["event_id"]) for row in sample.rows} == {each[:3] for each in wanted}
    assert {(each.partition, each.offset) for each in sample.refusals} == {each[:2] for each in quarantined}
    subject = f"{bench.topic}-value"
    first, second = (client.get_version(subject, version).schema_id for version in (1, 2))
    assert set(bench.rows("event_id, _schema_id")) == {(f"a{n}", second if n >= 20 else first) for n in range(40)}
    met = rows(bench.session, "SELECT schema_id, sum(records)::int FROM offset_ledger.batch_schema GROUP BY 1")
    assert {tuple(row) for row in met} == {(first, 20), (second, 21)}
    kept = {tuple(row) for row in rows(bench.session, "SELECT guid, schema_id FROM offset_ledger.schema_guid")}
    assert (str(latest.guid), second) in kept
    assert len(kept) == 2
    bench.agree()
    away(monkeypatch)
    again = bench.run(plan_replay(bench.pipeline, [OffsetRange(0, 0, 20), OffsetRange(1, 0, 20)], ME, BatchKind.REPLAY))
    assert (again.total.duplicate, again.total.quarantined) == (40, 0)


def test_a_registry_without_guids_lets_the_other_records_pass(
    bench: RegistryBench, registry_connection: Connection, guid_connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = bench.registry.schema(bench.register(AVRO.schema(1)))
    assert schema
    one, two = (AVRO.encode(1, {"id": name, "amount": 1}) for name in "ab")
    bench.publish(
        Record(None, framed(schema.schema_id, one), (), AT, 0), Record(None, two, (by_guid(schema.guid),), AT, 0)
    )
    monkeypatch.setenv("AIRFLOW_CONN_REGISTRY_DEFAULT", registry_connection.to_json())
    bench.ingest()
    assert set(bench.rows("event_id, _offset")) == {("a", 0)}
    assert bench.quarantine() == {(two, "unknown_schema", None)}
    monkeypatch.setenv("AIRFLOW_CONN_REGISTRY_DEFAULT", guid_connection.to_json())
    bench.run(plan_redrive(bench.pipeline, parse_choice(reason="unknown_schema"), ME))
    assert set(bench.rows("event_id, _offset, _schema_id")) == {("a", 0, schema.schema_id), ("b", 1, schema.schema_id)}
    assert bench.quarantine() == set()


def test_a_batch_ends_where_the_schema_of_a_header_needs_another_column(
    open_bench: Callable[[type[FollowingBench]], FollowingBench], guid_connection: Connection
) -> None:
    bench = open_bench(FollowingBench)
    bench.registry = connect_registry(guid_connection)
    bench.form = PROTOBUF
    bench.settings |= {"format": PROTOBUF.name, "amount": "numeric"}
    first, second = (bench.registry.schema(bench.register(PROTOBUF.schema(version))) for version in (1, 2))
    assert first
    assert second
    framed_orders = bench.orders(1, first.schema_id, "ab")
    headed = [  # the index of the message belongs to the header
        (PROTOBUF.encode(1, {"id": "c", "amount": 99})[1:], by_guid(first.guid, b"\0")),
        (PROTOBUF.encode(2, {"id": "d", "amount": 100, "note": "x"})[1:], by_guid(second.guid, b"\2\0")),
    ]
    bench.publish(
        *(Record(None, value, (), AT + n, 0) for n, value in enumerate(framed_orders)),
        *(Record(None, value, (header,), AT + 2 + n, 0) for n, (value, header) in enumerate(headed)),
    )
    before, after = bench.ingest()
    assert (ranges(before), ranges(after)) == ([OffsetRange(0, 0, 3)], [OffsetRange(0, 3, 4)])
    assert set(bench.rows("event_id, amount, note, _schema_id")) == {
        *((name, ord(name), None, first.schema_id) for name in "abc"),
        ("d", 100, "x", second.schema_id),
    }
    bench.agree()


def test_confluents_deserializer_reads_what_is_published_with_headers(
    bench: RegistryBench, guid_connection: Connection, registry_connection: Connection,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    schema, key_schema = bench.folder / "order.avsc", bench.folder / "id.avsc"
    schema.write_text(AVRO.schema(1))
    key_schema.write_text('"string"')
    file = bench.folder / "orders.jsonl"
    file.write_text("".join(json.dumps({"id": f"order-{n}", "amount": n}) + "\n" for n in range(10)))
    kafka = Connection("kafka_default", "kafka", extra=dict(bench.servers.kafka.extra))
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", kafka.to_json())
    command = [
        "kafka",
        "publish",
        bench.topic,
        "--file",
        str(file),
        "--value-serializer",
        "avro",
        "--schema",
        str(schema),
    ]
    command += ["--key", "$.id", "--key-schema", str(key_schema), "--register", "--schema-id", "header"]
    command += ["--key-schema-id", "header"]
    assert main(command) == 0
    # confluent-kafka 2.16 takes no payload of fewer than 6 bytes, although it has no frame.
    deserialize = AvroDeserializer(SchemaRegistryClient({"url": guid_connection.host}))
    found: dict[Any, Any] = {}
    for record in read(dict(bench.servers.kafka.extra), bench.topic).values():
        headers = list(record.headers)
        assert [name for name, _ in headers] == ["event_id", "publish_at", "__key_schema_id", VALUE]
        contexts = (SerializationContext(bench.topic, side, headers) for side in (MessageField.KEY, MessageField.VALUE))
        key, value = (
            deserialize(data, context) for data, context in zip((record.key, record.value), contexts, strict=True)
        )
        found[key] = value
    assert found == {f"order-{n}": {"id": f"order-{n}", "amount": n} for n in range(10)}
    bench.ingest()
    assert {row[:2] for row in bench.table()} == {(f"order-{n}", n) for n in range(10)}
    monkeypatch.setenv("AIRFLOW_CONN_REGISTRY_DEFAULT", registry_connection.to_json())
    capsys.readouterr()
    assert main(command) == 1
    assert "no GUID for a header, as Confluent's does from 8.0 on; write --schema-id prefix" in capsys.readouterr().err

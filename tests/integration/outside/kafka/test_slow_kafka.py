"""A topic that gives its records slowly: a slice that waits for them keeps its session, a paused process does not."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg2
import pyarrow as pa
import pytest

from offset_ledger.errors import DatabaseUnavailable
from offset_ledger.model.batch import Batch
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.outside.connections import Connection, environment_name, get_connection
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.postgres.ledger.database import Session, connect, rows, transaction
from offset_ledger.postgres.ledger.fencing import kept_awake
from offset_ledger.postgres.ledger.staging import StagingTables
from offset_ledger.steps.plan.step import plan
from offset_ledger.steps.stage.claim import Written
from offset_ledger.steps.stage.slices import SliceTask
from offset_ledger.steps.stage.step import stage, stage_with
from offset_ledger_kit.publishing.topics import create_topic
from tests.fixtures.engines import SlicesBy, by_spark
from tests.fixtures.kafka_tools import paste
from tests.fixtures.raw import Raw, arrow, write_slices
from tests.fixtures.servers import Servers
from tests.fixtures.staged import ME, a_pipeline, planned

VALUE = b'{"at": "2026-01-01T12:00:00Z", "state": "x", "note": null}'


def impatient(servers: Servers, monkeypatch: pytest.MonkeyPatch, timeout: str) -> Connection:
    """The database as one that ends a session after so long without a statement in a transaction."""
    options = {"options": f"-c idle_in_transaction_session_timeout={timeout}"}
    made = replace(servers.postgres, extra={**servers.postgres.extra, **options})
    monkeypatch.setenv(environment_name(made.conn_id), made.to_json())
    return made


def slowly(seconds: float) -> Iterator[pa.RecordBatch]:
    for offset in range(3):
        time.sleep(seconds)
        yield arrow([Raw(0, offset, VALUE, b"%d" % offset)])


def test_a_slice_that_waits_longer_for_records_than_the_server_lets_a_session_idle_is_staged(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, pipeline = impatient(servers, monkeypatch, "300ms"), a_pipeline()

    def write(session: Session, _: Batch, tables: StagingTables) -> Written:
        task = replace(SliceTask.of(session, pipeline, tables), database=database)
        write_slices(task, slowly(0.6))
        return Written(1)

    with connect(servers.postgres) as session:
        batch_id = planned(session, pipeline, [OffsetRange(0, 0, 3)])
        stage_with(SlicesBy(write), pipeline, batch_id, ME)
        staged = rows(session, f"SELECT event_id, _offset FROM offset_ledger_staging.b{batch_id}_e1")
        assert {tuple(row) for row in staged} == {("0", 0), ("1", 1), ("2", 2)}


def test_without_kept_awake_an_idle_session_is_lost(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    database = impatient(servers, monkeypatch, "300ms")

    def stand_still() -> None:
        with connect(database) as session:
            items = kept_awake(session, iter("abc"))
            next(items)
            with transaction(session) as cursor:
                cursor.execute("SELECT 1")
                next(items)
                time.sleep(0.6)  # as a process that is paused beside the wait
                cursor.execute("SELECT 1")

    with pytest.raises(DatabaseUnavailable):
        stand_still()


def test_a_failure_of_the_source_and_an_ended_session_are_both_seen(servers: Servers) -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise ValueError("Kafka is away")

    with connect(servers.postgres) as session, pytest.raises(ValueError, match="Kafka is away"):
        list(kept_awake(session, failing()))
    with connect(servers.postgres) as session:
        session.close()
        with pytest.raises(psycopg2.InterfaceError):
            list(kept_awake(session, [1]))


PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}, start: earliest}}
record: {{event_id: key, publish_at: $.at, columns: {{state: text}}}}
target: {{connection: postgres_default, table: public.orders}}
"""


@pytest.mark.full
def test_a_consumer_that_the_brokers_throttle_stages_its_batch(
    servers: Servers, spark: Any, topic_name: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topic_name()
    create_topic(dict(servers.kafka.extra), topic, 1, 1, {"retention.ms": "-1"})
    value = json.dumps({"at": "2026-01-01T12:00:00Z", "state": "x" * 10_000}).encode()
    publish([Record(b"%d" % n, value, (), None, 0) for n in range(240)], dict(servers.kafka.extra), topic)
    paste(
        tmp_path,
        f"kafka-configs.sh --bootstrap-server {servers.bootstrap} --alter --entity-type clients --entity-name {topic}"
        " --add-config consumer_byte_rate=150000",
    )
    small = {"client.id": topic, "max.partition.fetch.bytes": "100000"}
    kafka = replace(servers.kafka, extra={**servers.kafka.extra, **small})
    monkeypatch.setenv(environment_name(kafka.conn_id), kafka.to_json())
    impatient(servers, monkeypatch, "2s")
    (tmp_path / "orders.yaml").write_text(PIPELINE.format(topic=topic))
    pipeline = parse_pipeline(tmp_path / "orders.yaml")
    batch = plan(pipeline, ME).batch
    assert batch is not None
    usual = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "60")  # two waits of seconds within the slice
    try:
        began = time.monotonic()
        stage(by_spark(spark), pipeline, batch.batch_id, ME)
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", usual)
    assert time.monotonic() - began > 4  # it was throttled
    with connect(get_connection("postgres_default")) as session:
        staged = rows(session, "SELECT event_id, _offset FROM offset_ledger_staging.b1_e1")
    assert {tuple(row) for row in staged} == {(f"{n}", n) for n in range(240)}

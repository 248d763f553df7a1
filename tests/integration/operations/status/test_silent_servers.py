"""Brokers that are really killed, and a registry that is away: nobody says that all is well without knowing it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.errors import BrokerUnavailable
from offset_ledger.interfaces.page.app import create_app
from offset_ledger.interfaces.page.rights import Rights
from offset_ledger.operations.status.brokers import BrokerCache, unread_deadline
from offset_ledger.operations.status.overview import overview
from offset_ledger.operations.status.reader import read_pipelines
from offset_ledger.operations.status.status import batch_metrics
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger_kit.sandbox.kafka import Kafka
from offset_ledger_kit.sandbox.layout import free_ports
from offset_ledger_kit.sandbox.stack import Stack
from tests.fixtures.asgi import Client
from tests.fixtures.exporter_bench import Bench, scraped
from tests.fixtures.own_kafka import bench_on, own_cluster
from tests.fixtures.servers import Servers

pytestmark = [pytest.mark.full, pytest.mark.minutes(1)]

DAGS = frozenset({"ingest_orders"})
OF_LOG = {"lag_offsets", "lag_seconds", "log_changed", "lost_offsets", "unread_expiry_timestamp_seconds"}
SILENT = {"level": "unknown", "text": "Kafka does not answer"}


@pytest.fixture(scope="module")
def cluster(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with own_cluster(stack, tmp_path_factory.mktemp("killed"), 2) as made:
        yield made


@pytest.fixture
def bench(
    cluster: Kafka,
    servers: Servers,
    topic_name: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Bench]:
    for broker in cluster.brokers:
        if broker.daemon.pid() is None:
            broker.start()
    cluster.wait()
    with bench_on(cluster, servers, topic_name(), tmp_path, monkeypatch, partitions=3) as made:
        yield made


def page(bench: Bench, path: str = "/api/pipelines/orders") -> Any:
    rights = Rights(readable=DAGS, existing=DAGS)
    app = create_app(lambda: rights, partial(read_pipelines, bench.folder), BrokerCache(max_age=0, timeout=30))
    answer = Client(app).get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def families(samples: dict[tuple[str, ...], float]) -> set[str]:
    return {key[0] for key in samples}


REGISTERED = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}, format: avro, registry: registry_default}}
record: {{event_id: $.id, publish_at: $.at, columns: {{state: text}}}}
target: {{connection: postgres_default, table: public.orders}}
"""


def test_a_registry_that_does_not_answer_is_a_condition_of_its_own(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bench.folder / "orders.yaml").write_text(REGISTERED.format(topic=bench.pipeline.source.topic))
    assert parse_pipeline(bench.folder / "orders.yaml").source.registry == "registry_default"
    away = Connection("registry_default", "http", f"http://127.0.0.1:{free_ports(1)[0]}")
    monkeypatch.setenv(environment_name(away.conn_id), away.to_json())
    shown = page(bench)
    assert shown["condition"] == {"level": "unknown", "text": "the schema registry does not answer"}
    assert "check that the schema registry runs" in shown["registry_problem"]
    assert (shown["broker_problem"], shown["totals"]["lag"]) == (None, 0)
    assert scraped(bench)["up", "registry_default", "registry"] == 0


def test_a_topic_that_does_not_exist_or_was_not_found_yet_is_shown(bench: Bench) -> None:
    for topic in ("topic: no.such.topic", r"topic_pattern: no\.such\..*"):
        text = bench.pipeline.path.read_text().replace(f"topic: {bench.pipeline.source.topic}", topic)
        (bench.folder / "orders.yaml").write_text(text)
        (line,) = page(bench, "/api/pipelines")["pipelines"]
        assert line["condition"] == {"level": "bad", "text": "the topic does not exist"}
        assert scraped(bench)["condition", "bad", "not started"] == 1


def test_a_partition_without_a_leader_may_have_unread_records(bench: Bench, cluster: Kafka) -> None:
    sent, topic = datetime.now(UTC) - timedelta(hours=1), bench.pipeline.source.topic
    for partition in range(3):
        bench.publish(partition, sent, f"{partition}")
    bench.ingest()
    assert unread_deadline(bench.pipeline) is None
    with connect_kafka(bench.servers.kafka) as kafka:
        led = {each["leader_id"]: each["partition_index"] for each in kafka.describe(topic)["partitions"]}
        bench.publish(led[2], sent, "unread")
        cluster.broker(2).kill()
        deadline = time.monotonic() + 60
        while all(each["leader_id"] >= 0 for each in kafka.describe(topic)["partitions"]):
            assert time.monotonic() < deadline
            time.sleep(0.5)
    with pytest.raises(BrokerUnavailable):
        unread_deadline(bench.pipeline)
    assert page(bench)["condition"] == SILENT


def test_with_all_brokers_killed_neither_lag_nor_deadline_is_known(bench: Bench, cluster: Kafka) -> None:
    bench.publish(0, datetime.now(UTC) - timedelta(hours=1), "a", "b", None)
    bench.ingest()
    assert page(bench)["condition"] == {"level": "good", "text": "up to date, 1 in quarantine"}
    well = scraped(bench)
    assert well["condition", "good", "up to date"] == 1
    assert batch_metrics(bench.pipeline, 1).lag == 0
    for broker in cluster.brokers:
        broker.kill()

    (line,) = page(bench, "/api/pipelines")["pipelines"]
    shown = page(bench)
    for each in (line, shown):
        assert (each["condition"], each["retention"], each["snapshot_taken_at"]) == (SILENT, None, None)
        assert [each["totals"][name] for name in ("lag", "gone_after", "tombstones_after")] == [None] * 3
    assert {each["lag"] for each in shown["partitions"]} == {None}
    assert {each["lag"] for each in page(bench, "/api/pipelines/orders/completeness")["partitions"]} == {None}
    silent = scraped(bench)
    assert silent["condition", "unknown", "not known"] == 1
    assert silent["up", "kafka_default", "kafka"] == silent["topic_readable",] == 0
    assert families(well) & OF_LOG
    assert families(silent) & OF_LOG == set()
    (told,) = overview(bench.folder)
    assert (told.state, told.lag) == ("not known", None)
    with pytest.raises(BrokerUnavailable):  # notify neither warns of a loss nor says that there is none ahead
        unread_deadline(bench.pipeline)
    measured = batch_metrics(bench.pipeline, 1)
    assert (measured.lag, measured.records, measured.quarantined) == (None, 3, 1)

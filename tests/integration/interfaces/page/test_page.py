"""The ledger page's routes on a real ledger and a real broker; rights are given, not asked of Airflow."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from psycopg2.errors import ReadOnlySqlTransaction

from offset_ledger.errors import DatabaseUnavailable
from offset_ledger.interfaces.page.app import create_app
from offset_ledger.interfaces.page.rights import Rights
from offset_ledger.model.batch import Batch
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import State
from offset_ledger.operations.status import reader
from offset_ledger.operations.status.brokers import BrokerCache
from offset_ledger.operations.status.reader import read_pipelines, reading
from offset_ledger.outside.connections import environment_name
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Session, connect, rows, transaction
from offset_ledger.postgres.ledger.decisions import decide
from offset_ledger.postgres.ledger.redrive import Selection
from offset_ledger.steps.commit.step import commit
from offset_ledger.steps.plan.step import plan, plan_replay
from offset_ledger.steps.run.redrive import dismiss
from offset_ledger_kit.publishing.topics import create_topic, delete_topic
from offset_ledger_kit.sandbox.layout import free_ports
from tests.fixtures.asgi import Client
from tests.fixtures.audited import audited
from tests.fixtures.servers import Servers
from tests.fixtures.staged import ME, Event, staged, validated
from tests.paths import ROOT

FIXTURES = ROOT / "tests" / "fixtures"
SENT = datetime(2026, 11, 21, 12, tzinfo=UTC)
DAGS = frozenset({"ingest_orders", "redrive_orders"})
FULL = Rights(readable=DAGS, triggerable=DAGS, existing=DAGS, import_errors=True)
PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}}}
record: {{event_id: $.id, publish_at: $.at, columns: {{state: text, note: {{type: text, nullable: true}}}}}}
target: {{connection: postgres_default, table: public.orders}}
"""


@dataclass
class Bench:
    """A pipeline over a topic of two partitions, and a page on it."""

    servers: Servers
    session: Session
    pipeline: Pipeline
    folder: Path

    @property
    def reports(self) -> Path:
        return Path(os.environ["OFFSET_LEDGER_REPORTS"])

    def client(self, rights: Rights = FULL) -> Client:
        return Client(
            create_app(lambda: rights, partial(read_pipelines, self.folder), BrokerCache(max_age=0, timeout=30))
        )

    def get(self, path: str, rights: Rights = FULL) -> Any:
        answer = self.client(rights).get(path)
        assert answer.status_code == 200, answer.text
        assert answer.headers["cache-control"] == "no-store"
        return answer.json()

    def publish(self, partition: int, count: int) -> None:
        sent = [
            Record(b"k", b"{}", timestamp_ms=int(SENT.timestamp() * 1000), partition=partition) for _ in range(count)
        ]
        publish(sent, dict(self.servers.kafka.extra), self.pipeline.source.topic)

    def stage(self, batch: Batch | None) -> int:
        """The planned batch, staged and validated without Spark."""
        assert batch
        offsets = [(r.partition, offset) for r in batch.ranges for offset in range(r.from_offset, r.until_offset)]
        events = [Event(offset, partition, offset, f"{partition}/{offset}") for partition, offset in offsets]
        validated(self.session, staged(self.session, self.pipeline, batch.batch_id, events))
        return batch.batch_id

    def ingest(self) -> int:
        batch_id = self.stage(plan(self.pipeline, replace(ME, dag_id="ingest_orders", run_id="run 1")).batch)
        commit(self.pipeline, batch_id, ME)
        return batch_id

    def reject(self, batch: Batch | None) -> int:
        """A planned batch that the gate rejected."""
        assert batch
        tables = staged(self.session, self.pipeline, batch.batch_id, [], "transaction")
        verdict = {"success": False, "reasons": ["too many"], "notes": [], "quarantined_share": 0.5}
        with transaction(self.session) as cursor:
            cursor.execute(
                "UPDATE offset_ledger.batch SET state = 'rejected', verdict = %s, validated_at = now(),"
                " changed_by = 'gate' WHERE batch_id = %s",
                [json.dumps(verdict), tables.batch_id],
            )
        return tables.batch_id


@pytest.fixture
def bench(servers: Servers, topic_name: Callable[[], str], tmp_path: Path) -> Iterator[Bench]:
    topic, folder = topic_name(), tmp_path / "pipelines"
    create_topic(dict(servers.kafka.extra), topic, 2, 1, {"retention.ms": "-1"})
    folder.mkdir()
    (folder / "orders.yaml").write_text(PIPELINE.format(topic=topic))
    with connect(servers.postgres) as session:
        yield Bench(servers, session, parse_pipeline(folder / "orders.yaml"), folder)


def test_the_page_follows_a_pipeline_from_its_first_record_to_a_rejected_batch(bench: Bench) -> None:
    (before,) = bench.get("/api/pipelines")["pipelines"]
    assert before["condition"] == {"level": "plain", "text": "nothing was planned yet"}

    bench.publish(0, 4)
    bench.publish(1, 3)
    first = bench.ingest()
    bench.publish(1, 2)
    found = bench.get("/api/pipelines/orders")
    assert found["condition"]["text"] == "behind"
    shown = ("partition", "log_start", "cursor", "last_stable", "high_watermark", "lag", "bar")
    assert [[p[name] for name in shown] for p in found["partitions"]] == [
        [1, 0, 3, 5, 5, 2, [0.0, 0.6, 0.4, 0.0]],
        [0, 0, 4, 4, 4, 0, [0.0, 1.0, 0.0, 0.0]],
    ]
    assert found["totals"]["lag"] == 2
    assert (found["quarantined"], found["findings"], found["broker_problem"]) == (0, [], None)
    assert found["retention"] == {"age": None, "bytes": None, "tombstones": None}
    with transaction(bench.session) as cursor:
        cursor.execute(
            "INSERT INTO offset_ledger.quarantine VALUES"
            " (DEFAULT, 'orders', 't', 0, 0, now(), NULL, NULL, NULL, %s, %s)",
            [json.dumps([{"code": "precision"}, {"code": "missing"}]), first],
        )
    again = bench.get("/api/pipelines/orders")
    assert (again["quarantined"], again["quarantine_codes"]) == (1, {"missing": 1, "precision": 1})
    dismiss(bench.pipeline, Selection(0, (0,)), ME, "will never fit")
    again = bench.get("/api/pipelines/orders")
    assert (again["quarantined"], again["dismissed"], again["quarantine_codes"]) == (0, 1, {})

    second = bench.reject(plan(bench.pipeline, ME).batch)
    (after,) = bench.get("/api/pipelines")["pipelines"]
    assert (after["condition"]["level"], after["open_batch"]["batch_id"]) == ("warn", second)
    one, two = reversed(bench.get("/api/pipelines/orders/batches")["batches"])
    zero = dict.fromkeys(("updated", "superseded", "duplicate", "deleted", "quarantined", "skipped", "gap"), 0)
    assert (one["batch_id"], one["state"], one["sheet"]) == (first, "committed", {"inserted": 7, **zero})
    assert (one["dag_id"], one["run_id"], one["decisions"]) == ("ingest_orders", "run 1", [])
    assert (one["engine"], one["engine_reason"]) == (None, None)
    assert (two["batch_id"], two["sheet"], two["verdict"], two["reasons"]) == (second, None, "rejected", ["too many"])
    assert two["decisions"] == ["approve", "abandon"]

    decide(bench.session, second, State.ABANDONED, ME, "test data")
    whole = bench.get(f"/api/pipelines/orders/batches/{second}")
    assert [(r["partition"], r["from_offset"], r["until_offset"], r["sheet"]) for r in whole["ranges"]] == [
        (1, 3, 5, None)
    ]
    assert [(e["to_state"], e["who"], e["why"]) for e in whole["events"]][-1] == ("abandoned", "test", "test data")


def test_a_batch_over_the_limit_that_was_approved_is_not_shown_as_good(bench: Bench) -> None:
    bench.publish(0, 2)
    batch_id = bench.reject(plan(bench.pipeline, ME).batch)
    decide(bench.session, batch_id, State.VALIDATED, ME, "known")
    commit(bench.pipeline, batch_id, ME)
    (shown,) = bench.get("/api/pipelines")["pipelines"]
    assert (shown["quarantined_share"], shown["judged_approved"]) == (0.5, True)
    assert shown["condition"] == {
        "level": "plain",
        "text": f"up to date; batch {batch_id} refused 50% (limit 1%), and was approved",
    }
    bench.publish(1, 1)
    assert bench.get("/api/pipelines/orders")["condition"]["text"] == "behind"


def test_batches_come_in_pages_and_by_kind_state_and_run(bench: Bench) -> None:
    bench.publish(0, 3)
    first = bench.ingest()
    again = [plan_replay(bench.pipeline, [OffsetRange(0, 0, n)], ME).batch for n in (1, 2, 3)]
    ids = [first, *(batch.batch_id for batch in again if batch)]

    def listed(query: str) -> tuple[list[int], int | None]:
        found = bench.get(f"/api/pipelines/orders/batches?{query}")
        return [each["batch_id"] for each in found["batches"]], found["before"]

    assert listed("") == (ids[::-1], None)
    assert listed("limit=2") == ([ids[3], ids[2]], ids[2])
    assert listed(f"limit=2&before={ids[2]}") == ([ids[1], ids[0]], ids[0])
    assert listed("kind=head") == ([first], None)
    assert listed("state=planned&kind=replay") == (ids[:0:-1], None)
    assert listed("dag_id=ingest_orders&run_id=run%201") == ([first], None)
    assert listed("dag_id=redrive_orders&run_id=run%201") == ([], None)


def test_a_thousand_batches_of_a_hundred_partitions_are_shown_page_by_page(bench: Bench) -> None:
    with connect_kafka(bench.servers.kafka) as kafka:
        topic_id = kafka.snapshot(bench.pipeline.source.topic).topic_id
    with transaction(bench.session) as cursor:
        cursor.execute((FIXTURES / "thousand_batches.sql").read_text(), {"pipeline": "orders", "topic_id": topic_id})
    listed: list[int] = []
    below: str | None = ""
    while below is not None:
        found = bench.get(f"/api/pipelines/orders/batches?limit=200{below}")
        listed += [each["batch_id"] for each in found["batches"]]
        below = f"&before={found['before']}" if found["before"] else None
    assert listed == sorted(listed, reverse=True)
    assert len(set(listed)) == 1000
    partitions = bench.get("/api/pipelines/orders")["partitions"]
    assert sorted(each["partition"] for each in partitions) == list(range(100))
    assert len({each["cursor"] for each in partitions}) == 1
    opened = bench.get(f"/api/pipelines/orders/batches/{listed[1]}")
    assert [each["partition"] for each in opened["ranges"]] == list(range(100))


def test_the_charts_sum_what_was_committed(bench: Bench) -> None:
    bench.publish(0, 3)
    bench.ingest()
    replayed = bench.stage(plan_replay(bench.pipeline, [OffsetRange(0, 1, 3)], ME).batch)
    commit(bench.pipeline, replayed, ME)
    points = bench.get("/api/pipelines/orders/history?window=1h")
    seen = [point for point in points if point["head"] or point["again"]]
    assert len(points) == 60
    assert (sum(p["head"] for p in seen), sum(p["again"] for p in seen)) == (3, 2)
    assert [p["lag"] for p in points if p["lag"] is not None] == [3]


def test_the_newest_audit_is_shown(bench: Bench) -> None:
    bench.publish(0, 1)
    bench.ingest()
    for days, said in ((2, {"old": "error"}), (1, {"one": "ok", "two": "error"})):
        audited(bench.session, "orders", bench.pipeline.source.topic, SENT - timedelta(days=days), said)
    found = bench.get("/api/pipelines/orders")["findings"]
    assert [(each["rule"], each["severity"]) for each in found] == [("two", "error"), ("one", "ok")]


def test_cursors_of_the_old_topic_say_nothing_about_a_recreated_one(bench: Bench) -> None:
    bench.publish(0, 4)
    bench.ingest()
    topic, extra = bench.pipeline.source.topic, dict(bench.servers.kafka.extra)
    delete_topic(extra, topic)
    create_topic(extra, topic, 2, 1, {"retention.ms": "-1"})
    bench.publish(0, 5)
    bench.publish(1, 1)
    found = bench.get("/api/pipelines/orders")
    assert found["condition"]["text"] == "the topic was recreated"
    assert [(p["cursor"], p["lag"]) for p in found["partitions"]] == [(None, 5), (None, 1)]
    assert (found["totals"]["lag"], found["totals"]["complete_to"]) == (6, None)


def test_without_the_broker_the_page_shows_what_the_last_batch_knew(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.publish(0, 2)
    bench.ingest()
    away = replace(bench.servers.kafka, extra={"bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}"})
    monkeypatch.setenv(environment_name("kafka_default"), away.to_json())
    found = bench.get("/api/pipelines/orders")
    assert "did not answer" in found["broker_problem"]
    known = {p["partition"]: (p["cursor"], p["last_stable"], p["lag"]) for p in found["partitions"]}
    assert known[0] == (2, 2, None)
    assert found["condition"] == {"level": "unknown", "text": "Kafka does not answer"}
    assert (found["totals"]["lag"], found["totals"]["gone_after"]) == (None, None)


def test_without_the_ledger_the_page_says_what_is_wrong(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = replace(bench.servers.postgres, host="127.0.0.1", port=free_ports(1)[0], password="hunter2")
    monkeypatch.setenv(environment_name("postgres_default"), secret.to_json())
    (found,) = bench.get("/api/pipelines")["pipelines"]
    assert found["condition"] == {"level": "unknown", "text": "its ledger cannot be read"}
    assert "is not available" in found["ledger_problem"]
    answer = bench.client().get("/api/pipelines/orders/batches")
    assert (answer.status_code, answer.json()["error"]) == (503, "DatabaseUnavailable")
    assert "hunter2" not in answer.text + json.dumps(found)


def test_a_ledger_that_is_not_migrated_is_reported(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = replace(bench.servers.postgres, schema="postgres")
    monkeypatch.setenv(environment_name("postgres_default"), bare.to_json())
    (found,) = bench.get("/api/pipelines")["pipelines"]
    assert "run: offset-ledger migrate" in found["ledger_problem"]


@pytest.mark.usefixtures("servers")
def test_the_page_reads_in_a_transaction_that_can_change_nothing() -> None:
    with reading("postgres_default") as cursor, pytest.raises(ReadOnlySqlTransaction):
        cursor.execute("DELETE FROM offset_ledger.batch")


@pytest.mark.usefixtures("servers")
def test_a_query_that_takes_too_long_for_a_page_may_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_STATEMENT_MILLISECONDS", 1000)
    with pytest.raises(DatabaseUnavailable, match="within 1 s"), reading("postgres_default") as cursor:
        cursor.execute("SELECT pg_sleep(20)")


OTHER = Rights(readable=frozenset({"ingest_other", "redrive_orders"}), import_errors=False)


def test_a_user_sees_only_pipelines_whose_dag_they_may_read(bench: Bench) -> None:
    bench.publish(0, 1)
    batch_id = bench.ingest()
    place = bench.reports / "orders"
    place.mkdir(parents=True)
    (place / f"{batch_id}.html").write_text("<p>report</p>")
    paths = [
        "/api/pipelines/orders",
        "/api/pipelines/orders/batches",
        f"/api/pipelines/orders/batches/{batch_id}",
        "/api/pipelines/orders/history",
        f"/reports/orders/{batch_id}.html",
    ]
    assert [bench.client().get(path).status_code for path in paths] == [200] * 5
    assert [bench.client(OTHER).get(path).status_code for path in paths] == [404] * 5
    assert bench.get("/api/pipelines", OTHER) == {"problems": [], "pipelines": []}
    (shown,) = bench.get("/api/pipelines/orders/batches")["batches"]
    assert shown["report"] == f"orders/{batch_id}.html"
    assert bench.get("/api/pipelines/orders")["report"] is None


def test_reports_run_no_script_and_lead_nowhere_else(bench: Bench) -> None:
    place = bench.reports
    (place / "orders").mkdir(parents=True)
    (place / "orders" / "index.html").write_text("<p>report</p>")
    (place / "index.html").write_text("outside")
    client = bench.client()
    policy = client.get("/reports/orders/index.html").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script" not in policy
    for path in (
        "index.html",
        "orders/..%2findex.html",
        "%2e%2e/orders.yaml",
        "..%2fpipelines/orders.yaml",
        "%2fetc/hosts",
    ):
        assert client.get(f"/reports/{path}").status_code == 404


def test_nothing_can_be_written(bench: Bench) -> None:
    client = bench.client()
    assert {client.request(method, "/api/pipelines").status_code for method in ("POST", "PUT", "PATCH", "DELETE")} == {
        405
    }
    assert rows(bench.session, "SELECT count(*) FROM offset_ledger.batch")[0][0] == 0


@pytest.mark.parametrize(
    "path",
    [
        "batches/99999999999999999999",
        "batches/-1",
        "batches?kind=%00",
        "batches?state=%00",
        "batches?dag_id=x&run_id=%00",
        "audits?topic=%00",
        "audits?before=9999-12-31T23:59:59-23:59",
    ],
)
def test_what_postgres_cannot_take_is_refused_before_it_is_asked(bench: Bench, path: str) -> None:
    assert bench.client().get(f"/api/pipelines/orders/{path}").status_code == 422

"""Small batches, staged by the process of their task: the same staging as Spark's, and what happens in trouble."""

from __future__ import annotations

import logging
import time
from collections import Counter
from functools import partial
from types import MappingProxyType, ModuleType
from typing import Any

import pytest

from offset_ledger.base import progress
from offset_ledger.errors import OffsetExpired
from offset_ledger.model.batch import Origin
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.outside.kafka import bulk_reader
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.outside.kafka.records import record_offsets
from offset_ledger.postgres.ledger import database
from offset_ledger.postgres.ledger.database import rows
from offset_ledger.steps.commit.step import commit
from offset_ledger.steps.plan.step import plan, plan_replay
from offset_ledger.steps.run.ingest import ingest
from offset_ledger.steps.stage import readers as slices_progress
from offset_ledger.steps.stage import step as stage_step
from offset_ledger.steps.stage.step import stage
from offset_ledger.steps.validate.step import validate
from tests.fixtures.engines import BY_PROCESS, by_spark
from tests.fixtures.odd_records import EVERY_TIMESTAMP, odd_records, order, send_transactions, send_unchecked
from tests.fixtures.topic_bench import TopicBench, quiet

ME = Origin("test")
PIPELINE = """
pipeline: {name}
source: {{connection: kafka_default, topic: {topic}, transactional: true}}
record:
  event_id: $.id
  publish_at: $.at
  tombstone: skip
  columns: {{state: text, amount: {{type: numeric, nullable: true}}}}
target: {{connection: postgres_default, table: public.{name}}}
quality: {{max_quarantined_share: 1.0}}
stage: {{engine: {engine}}}
"""


class Bench(TopicBench):
    """A topic of three partitions whose batches are small, if a test does not say otherwise."""

    TEMPLATE = PIPELINE
    PARTITIONS = 3
    CONFIGS = EVERY_TIMESTAMP
    DEFAULTS = MappingProxyType({"name": "orders", "engine": "process"})

    def planned(self) -> int:
        batch = plan(self.pipeline, ME).batch
        assert batch is not None
        return batch.batch_id

    def table(self) -> set[tuple[Any, ...]]:
        return set(self.rows("event_id, _partition, _offset"))

    def staged(self, batch_id: int) -> dict[str, list[tuple[Any, ...]]]:
        """All of the rows and of the refusals, and what the slices say of each partition."""
        table = f"offset_ledger_staging.b{batch_id}_e1"
        queries = {
            "slices": f"""SELECT partition, sum(rows), sum(refused), sum(skipped), min(min_offset), max(max_offset),
                min(min_timestamp), max(max_timestamp) FROM offset_ledger.slice
                WHERE batch_id = {batch_id} AND partition IS NOT NULL GROUP BY partition ORDER BY 1""",
            "rows": f"SELECT t::text FROM {table} AS t ORDER BY _partition, _offset",
            "refused": f"SELECT t::text FROM {table}_refused AS t ORDER BY _partition, _offset",
        }
        return {name: [tuple(row) for row in rows(self.session, query)] for name, query in queries.items()}


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(_: object) -> None:
        raise AssertionError("a Spark session was started")

    monkeypatch.setattr("offset_ledger.steps.run.ingest.staging_session", started)


@pytest.mark.full
def test_the_staging_is_that_of_spark(bench: Bench, spark: Any) -> None:
    send_unchecked(bench.servers.bootstrap, bench.topic, odd_records())
    send_transactions(bench.servers.bootstrap, bench.topic)
    first = bench.planned()
    stage(BY_PROCESS, bench.pipeline, first, ME)
    bench.settings |= {"name": "orders_again"}
    second = bench.planned()
    stage(by_spark(spark), bench.pipeline, second, ME)
    found = bench.staged(first)
    assert len(found["rows"]) > 80
    assert len(found["refused"]) >= 4
    assert found == bench.staged(second)


@pytest.mark.usefixtures("no_spark")
def test_a_batch_below_the_limit_takes_no_spark_and_one_at_the_limit_does(bench: Bench) -> None:
    bench.settings["engine"] = "auto, process_below: 4"
    bench.publish(order("a"), order("b", 1), order("c", 2))
    (done,) = ingest(bench.pipeline, ME, False, quiet)
    assert bench.table() == {("a", 0, 0), ("b", 1, 0), ("c", 2, 0)}
    assert "session" not in done.seconds
    bench.publish(*(order(f"{n}", n % 3) for n in range(4)))
    with pytest.raises(AssertionError, match="a Spark session was started"):
        list(ingest(bench.pipeline, ME, False, quiet))


def test_what_retention_deletes_before_it_is_read_is_an_expired_offset(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.publish(*(order(f"{n}", n % 3) for n in range(9)))
    batch_id = bench.planned()
    usual = bulk_reader.bulk_reader

    def late_reader(*given: Any) -> Any:
        bench.delete_below(1, 2)
        return usual(*given)

    monkeypatch.setattr(bulk_reader, "bulk_reader", late_reader)
    with pytest.raises(OffsetExpired, match="the log starts at 2 now; 2 offsets are gone"):
        stage(BY_PROCESS, bench.pipeline, batch_id, ME)
    assert bench.table() == set()


def test_a_range_is_read_whole_whether_it_was_fetched_ahead_or_another_one_was(bench: Bench) -> None:
    bench.publish(*(order(f"{n}", n % 3) for n in range(30)))
    send_transactions(bench.servers.bootstrap, bench.topic)
    with connect_kafka(bench.servers.kafka) as kafka:
        end = kafka.snapshot(bench.topic).partitions[0].last_stable
    first, second, third = (OffsetRange(p, 2, 9) for p in range(3))
    tail = OffsetRange(0, 9, end)  # it reads on, and ends with records of aborted transactions
    order_and_hints = [(first, second), (second, third), (first, tail), (tail, None), (third, first), (first, None)]
    with bulk_reader.bulk_reader(bench.servers.kafka) as read:
        for wanted, hint in order_and_hints:
            given = read(bench.topic, wanted, partial(lambda hint: hint, hint))
            found = [(each.partition(), each.offset()) for part in given for each in part]
            offsets = record_offsets(bench.servers.kafka, bench.topic, wanted, "read_committed")
            assert found == [(wanted.partition, offset) for offset in offsets]


def test_a_batch_connects_once_in_a_step_and_again_after_a_wait(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.publish(*(order(f"{n}", n % 3) for n in range(9)))
    opened: list[str] = []

    def counted(module: ModuleType, name: str) -> None:
        usual = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, **more: opened.append(name) or usual(*given, **more))

    counted(stage_step, "connect_kafka")
    counted(database, "open_session")
    monkeypatch.setattr(stage_step, "_RECENT_SECONDS", 600)
    batch_id = bench.planned()
    opened.clear()
    stage(BY_PROCESS, bench.pipeline, batch_id, ME)
    assert Counter(opened) == {"connect_kafka": 1, "open_session": 3}  # its own, and one for each of two readers
    for step in (validate, commit):
        opened.clear()
        step(bench.pipeline, batch_id, ME)  # type: ignore[operator]
        assert opened == ["open_session"]

    monkeypatch.setattr(stage_step, "_RECENT_SECONDS", 0)
    replay = plan_replay(bench.pipeline, [OffsetRange(0, 0, 2)], ME).batch
    assert replay is not None
    opened.clear()
    stage(BY_PROCESS, bench.pipeline, replay.batch_id, ME)
    assert opened.count("connect_kafka") == 3  # before the claim, after it, and after the read


def test_progress_counts_every_offset_whoever_stages(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 0)
    monkeypatch.setattr(slices_progress, "_SECONDS", 0.05)
    bench.publish(order("a"), order("b", 1), order("c", 1), order("d", 2))
    with caplog.at_level(logging.INFO, "offset_ledger.base.progress"):
        staged = stage(BY_PROCESS, bench.pipeline, bench.planned(), ME)
    assert caplog.messages[-1].partition(" offsets")[0] == "staged 4 of 4"

    caplog.clear()
    with (
        caplog.at_level(logging.INFO, "offset_ledger.base.progress"),
        slices_progress.slices_shown(bench.servers.postgres, staged.attempt, 4),
    ):
        deadline = time.monotonic() + 60
        while not caplog.messages and time.monotonic() < deadline:
            time.sleep(0.05)
    assert caplog.messages[0].partition(" offsets")[0] == "staged 4 of 4"  # as if Spark's executors had staged it

"""Topics that are appended to a table, from Kafka on: each committed record is one row, by its place in its topic."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from offset_ledger.base.failpoints import NOT_ALWAYS, VARIABLE, Failpoint
from offset_ledger.model.balance_sheet import Dispositions
from offset_ledger.model.batch import Origin
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.request import Request, RunAction
from offset_ledger.operations.repair.verify import verify
from offset_ledger.operations.repair.verify_against_topic import compare_with_topic
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.parse import parse_named
from offset_ledger.postgres.ledger.database import rows
from offset_ledger.steps.decide.accept_topic import accept_topic
from offset_ledger.steps.plan.step import plan_replay
from offset_ledger.steps.plan.topics import find_pipelines
from offset_ledger.steps.run.ingest import ingest, run_batch
from offset_ledger.steps.run.redrive import parse_choice, plan_redrive
from offset_ledger.steps.run.requests import plan_request
from offset_ledger_kit.publishing.topics import create_topic, delete_topic
from tests.fixtures.topic_bench import TopicBench, quiet

pytestmark = pytest.mark.minutes(1)

ME = Origin("test")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEEP = {"retention.ms": "-1"}  # the records are older than a week

PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, {source}: {topic}}}
record:
  columns: {{n: "{n}", note: {{type: text, nullable: true}}}}
target: {{connection: postgres_default, table: public.orders, merge: append, evolve: widen{target}}}
quality: {{max_quarantined_share: 1.0}}
stage: {{engine: process}}
"""
BOTH = pytest.mark.parametrize("target", ["", ", bookkeeping: beside"], ids=["columns", "beside"])


class Bench(TopicBench):
    """A topic of two partitions whose records are appended."""

    TEMPLATE = PIPELINE
    PARTITIONS = 2
    DEFAULTS = MappingProxyType({"source": "topic", "n": "text", "target": ""})

    def places(self) -> list[tuple[Any, ...]]:
        return sorted(self.rows("_partition, _offset, n"))

    def texts(self) -> list[str]:
        return sorted(row[0] for row in self.rows("n"))

    def replay(self, *ranges: OffsetRange) -> Dispositions:
        done = run_batch(self.pipeline, plan_replay(self.pipeline, ranges, ME), ME, quiet)
        return done.committed.total


def at(partition: int, n: str, **more: Any) -> Record:
    moment = int((NOON + timedelta(seconds=1)).timestamp() * 1000)
    return Record(key=b"k", value=json.dumps({"n": n, **more}).encode(), partition=partition, timestamp_ms=moment)


def publish_some(bench: Bench) -> list[tuple[int, int, str]]:
    """Records of transactions of which one is aborted; the rows that come of them."""
    extra, topic = dict(bench.servers.kafka.extra), bench.topic
    publish([at(0, "a"), at(1, "b"), at(0, "c")], extra, topic, transactional_id=f"{topic}-1")
    publish([at(0, "never"), at(1, "never")], extra, topic, commit=False, transactional_id=f"{topic}-2")
    publish([at(1, "d"), at(1, "d")], extra, topic, transactional_id=f"{topic}-3")
    return [(0, 0, "a"), (0, 1, "c"), (1, 0, "b"), (1, 4, "d"), (1, 5, "d")]


@BOTH
def test_committed_records_of_transactions_are_rows_and_all_else_is_a_gap(bench: Bench, target: str) -> None:
    bench.settings["target"] = target
    expected = publish_some(bench)
    (done,) = bench.ingest()
    assert (done.total.inserted, done.total.gap) == (5, done.total.total - 5)
    assert bench.texts() == sorted(n for _, _, n in expected)
    if not target:
        assert bench.places() == expected
    assert bench.ingest() == []
    replayed = bench.replay(*done.batch.ranges)
    assert (replayed.duplicate, replayed.gap) == (5, done.total.gap)
    assert bench.texts() == sorted(n for _, _, n in expected)
    bench.check()


@pytest.mark.parametrize("place", [place for place in Failpoint if place not in NOT_ALWAYS])
def test_a_kill_at_every_failpoint_leaves_each_record_one_row(bench: Bench, place: Failpoint) -> None:
    expected = publish_some(bench)
    done = subprocess.run(
        [sys.executable, "-m", "offset_ledger_kit.cli", "ingest", str(bench.path)],
        env={**os.environ, VARIABLE: f"{place}=kill"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    bench.ingest()
    assert bench.places() == expected
    bench.check()


@BOTH
def test_a_fixed_record_comes_in_once_by_its_redrive(bench: Bench, target: str) -> None:
    bench.settings |= {"target": target, "n": "varchar(1)"}
    bench.publish(at(0, "a"), at(0, "bb"), at(0, "c"))
    bench.ingest()
    bench.settings["n"] = "text"
    assert bench.replay(OffsetRange(0, 0, 3)) == Dispositions(duplicate=3)
    planned = plan_redrive(bench.pipeline, parse_choice(), ME)
    assert run_batch(bench.pipeline, planned, ME, quiet).committed.total == Dispositions(inserted=1)
    assert bench.replay(OffsetRange(0, 0, 3)) == Dispositions(duplicate=3)
    assert bench.texts() == ["a", "bb", "c"]
    assert plan_redrive(bench.pipeline, parse_choice(), ME).batch is None
    bench.check()


def test_two_topics_have_the_same_places_in_one_table(bench: Bench, tmp_path: Path) -> None:
    extra, other = dict(bench.servers.kafka.extra), f"{bench.topic}.other"
    create_topic(extra, other, 2, 1, KEEP)
    bench.publish(at(0, "a"), at(0, "b"))
    publish([at(0, "c"), at(0, "d"), at(1, "e")], extra, other)
    path = tmp_path / "both.yaml"
    path.write_text(PIPELINE.format(source="topics", topic=f"[{bench.topic}, {other}]", n="text", target=""))
    pipeline = parse_named(str(path))
    list(ingest(pipeline, ME, True, quiet))
    expected = [
        *[(bench.topic, 0, 0, "a"), (bench.topic, 0, 1, "b")],
        *[(other, 0, 0, "c"), (other, 0, 1, "d"), (other, 1, 0, "e")],
    ]
    for each in find_pipelines(pipeline):
        ranges = [OffsetRange(0, 0, 2)]
        total = run_batch(each, plan_replay(each, ranges, ME), ME, quiet).committed.total
        assert total == Dispositions(duplicate=2)
        request = Request(RunAction.RANGES, ranges=tuple(ranges), fill=True)
        total = run_batch(each, plan_request(each, request, ME), ME, quiet).committed.total
        assert total == Dispositions(duplicate=2)
        assert sorted(bench.rows("_topic, _partition, _offset, n")) == expected
        assert verify(each)[0] == []
        assert compare_with_topic(each).violations == ()
    copy = "INSERT INTO public.orders SELECT * FROM public.orders WHERE n = 'd'"
    with bench.session, bench.session.cursor() as cursor:
        cursor.execute(copy)
    found = {each.source.topic: [line.number for line in verify(each)[0]] for each in find_pipelines(pipeline)}
    assert found == {bench.topic: [11], other: [11, 12, 13]}


def test_verify_against_the_topic_names_what_differs_and_a_fill_mends_it(bench: Bench) -> None:
    bench.publish(*(at(0, str(n)) for n in range(5)))
    bench.ingest()
    with bench.session, bench.session.cursor() as cursor:
        cursor.execute("DELETE FROM public.orders WHERE n = '1'; UPDATE public.orders SET n = 'x' WHERE n = '2'")
    lines = [str(line) for line in compare_with_topic(bench.pipeline).violations]
    assert [line.split(": ", 1)[1] for line in lines] == [
        "partition 0 offset 1 event 0, 1: the table does not have this event id",
        "partition 0 offset 2 event 0, 2: n is x in the table and 2 in the topic",
    ]
    request = Request(RunAction.RANGES, ranges=(OffsetRange(0, 0, 5),), fill=True)
    total = run_batch(bench.pipeline, plan_request(bench.pipeline, request, ME), ME, quiet).committed.total
    assert total == Dispositions(inserted=1, updated=1, duplicate=3)
    assert bench.places() == [(0, n, str(n)) for n in range(5)]
    assert compare_with_topic(bench.pipeline).violations == ()


@BOTH
def test_the_records_of_a_topic_that_was_created_again_are_rows_too(bench: Bench, target: str) -> None:
    bench.settings["target"] = target
    extra = dict(bench.servers.kafka.extra)
    bench.publish(at(0, "a"), at(0, "b"))
    bench.ingest()
    delete_topic(extra, bench.topic)
    create_topic(extra, bench.topic, 2, 1, KEEP)
    bench.publish(at(0, "a"), at(0, "z"))
    change = accept_topic(bench.pipeline, ME, "moved house")
    assert change.question.text.endswith("also what the table has of the earlier one.")
    bench.ingest()
    assert bench.replay(OffsetRange(0, 0, 2)) == Dispositions(duplicate=2)
    assert bench.texts() == ["a", "a", "b", "z"]
    bench.check()
    if not target:
        found = rows(bench.session, "SELECT n, count(DISTINCT _batch_id) FROM public.orders GROUP BY 1 ORDER BY 1")
        assert [tuple(row) for row in found] == [("a", 2), ("b", 1), ("z", 1)]

"""``publish_at: log`` from Kafka on: another log after the topic was created again, the comparison with the topic, and
the way there from another order.
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import pytest

from offset_ledger.errors import TargetMismatch
from offset_ledger.model.batch import Origin
from offset_ledger.operations.repair.verify import verify
from offset_ledger.operations.repair.verify_against_topic import compare_with_topic
from offset_ledger.outside.producer.record import Record
from offset_ledger.postgres.ledger.database import transaction
from offset_ledger.steps.decide.accept_topic import accept_topic
from offset_ledger.steps.plan.topics import find_pipelines
from offset_ledger.steps.run.remerge import replay_parts, restate_rows
from offset_ledger_kit.publishing.topics import create_topic, delete_topic
from tests.fixtures.topic_bench import TopicBench, quiet

ME = Origin("test")
KEEP = {"retention.ms": "-1"}
NOON = 1_767_268_800_000
PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, {source}: {topic}}}
record:
  event_id: key
  publish_at: {order}
  {deletes}
  columns: {{state: text, note: {{type: text, nullable: true{note}}}}}
target: {{connection: postgres_default, table: public.orders{target}}}
quality: {{max_quarantined_share: 1.0}}
stage: {{engine: process}}
"""
SHAPES = {
    "columns": {},
    "beside": {"target": ", bookkeeping: beside"},
    "groups": {"target": ", bookkeeping: beside", "note": ", absent: keep"},
}
IN_SHAPES = pytest.mark.parametrize("shape", SHAPES)


class Bench(TopicBench):
    """A topic of two partitions that the log orders."""

    TEMPLATE = PIPELINE
    PARTITIONS = 2
    DEFAULTS = MappingProxyType(
        {"source": "topic", "order": "log", "deletes": "tombstone: delete", "note": "", "target": ""}
    )

    def put(self, key: str, seconds: int, state: str | None, partition: int = 0, **more: Any) -> None:
        value = None if state is None else json.dumps({"state": state, **more}).encode()
        self.publish(Record(key.encode(), value, (), NOON + seconds * 1000, partition))

    def live(self) -> list[tuple[Any, ...]]:
        where = "" if "beside" in self.settings["target"] else " WHERE NOT _deleted"
        with transaction(self.session) as cursor:
            cursor.execute(f"SELECT event_id, state, note FROM public.orders{where} ORDER BY 1")
            return [tuple(row) for row in cursor.fetchall()]


@IN_SHAPES
def test_of_two_logs_the_one_that_was_accepted_later_is_newer(bench: Bench, shape: str) -> None:
    bench.settings |= SHAPES[shape]
    for n, key in enumerate("abac"):
        bench.put(key, 1000 + n, f"old {n}", note=f"old {n}")
    bench.put("d", 1010, "old 4", partition=1, note="old 4")
    bench.ingest()
    delete_topic(dict(bench.servers.kafka.extra), bench.topic)
    create_topic(dict(bench.servers.kafka.extra), bench.topic, 2, 1, KEEP)
    bench.put("a", 3, "new 0", note="new 0")
    bench.put("b", 2, None)
    bench.put("d", 1, "new 2")  # it has another partition here
    accept_topic(bench.pipeline, ME, "moved house")
    bench.ingest()
    of_d = "old 4" if shape == "groups" else None
    expected = [("a", "new 0", "new 0"), ("c", "old 3", "old 3"), ("d", "new 2", of_d)]
    assert bench.live() == expected
    bench.check()


@IN_SHAPES
def test_the_comparison_with_the_topic_says_what_the_log_says(bench: Bench, shape: str) -> None:
    bench.settings |= SHAPES[shape]
    for n in range(4):
        bench.put("a", 10 - n, f"{n}", note=f"{n}")  # its clock goes backwards
    bench.put("b", 10, "left", partition=0, note="left")
    bench.put("b", 20, "arrived", partition=1, note="arrived")
    bench.ingest()
    assert bench.live() == [("a", "3", "3"), ("b", "arrived", "arrived")]
    bench.check()
    kept = "offset_ledger_rows.orders" if bench.settings["target"] else "public.orders"
    with transaction(bench.session) as cursor:
        older = "_offset = 1, publish_at = publish_at + interval '2 s', _timestamp = _timestamp + interval '2 s'"
        cursor.execute(f"UPDATE {kept} SET {older} WHERE event_id = 'a'")
    (line, *_) = [str(each) for each in compare_with_topic(bench.pipeline).violations]
    assert "partition 0 offset 3 event a: the table has an older record, partition 0 offset 1" in line


@IN_SHAPES
def test_rows_of_another_order_are_remerged_into_that_of_the_log(bench: Bench, shape: str) -> None:
    bench.settings |= SHAPES[shape] | {"order": "$.at", "deletes": "delete_when: {path: $.state, equals: gone}"}
    for key, at, state in (("a", 9, "first"), ("a", 5, "last"), ("b", 9, "first"), ("b", 1, "gone"), ("c", 1, "only")):
        bench.put(key, 0, state, at=f"2026-01-01T00:00:0{at}Z", note=state)
    bench.ingest()
    assert [row[1] for row in bench.live()] == ["first", "first", "only"]
    bench.settings["order"] = "log"
    bench.put("d", 0, "new")
    with pytest.raises(TargetMismatch, match="order all of them by the log with: offset-ledger remerge orders"):
        bench.ingest()
    restated = restate_rows(bench.pipeline, ME, "its clocks are wrong")
    list(replay_parts(bench.pipeline, restated.parts, ME, "its clocks are wrong", quiet))
    bench.ingest()
    assert [row[1] for row in bench.live()] == ["last", "only", "new"]
    bench.check()


@IN_SHAPES
def test_of_several_topics_each_orders_its_own_and_moments_order_them(bench: Bench, shape: str) -> None:
    bench.settings |= SHAPES[shape]
    one, other = bench.topic, f"{bench.topic}.b"
    create_topic(dict(bench.servers.kafka.extra), other, 2, 1, KEEP)
    for topic, key, seconds, state in (
        *((one, "a", 9, "1"), (one, "a", 5, "2"), (other, "a", 7, "3"), (other, "a", 6, "4")),
        *((one, "b", 1, "5"), (other, "b", 9, "6"), (other, "b", 2, "7")),
    ):
        bench.topic = topic
        bench.put(key, seconds, state, note=state)
    bench.topic = f"[{one}, {other}]"
    bench.settings["source"] = "topics"
    bench.ingest()
    # Of a, 2 and 4 are the last of their topics, and 4 is the later one; of b it is 7.
    assert bench.live() == [("a", "4", "4"), ("b", "7", "7")]
    assert verify(bench.pipeline)[0] == []
    for each in find_pipelines(bench.pipeline):
        assert compare_with_topic(each).violations == ()

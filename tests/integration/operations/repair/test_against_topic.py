"""Verify against the topic: every kind of change to table and quarantine is named, and what is right passes."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition

from offset_ledger.model.ranges import OffsetRange
from offset_ledger.operations.repair.prune import prune_beyond
from offset_ledger.operations.repair.verify import verify
from offset_ledger.operations.repair.verify_against_topic import TopicComparison, compare_with_topic
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Session, connect, rows, transaction
from offset_ledger.postgres.ledger.redrive import RedriveChoice, Selection
from offset_ledger.steps.plan.step import plan, plan_replay
from offset_ledger.steps.run.ingest import run_batch
from offset_ledger.steps.run.redrive import dismiss, plan_redrive
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox.stack import Stack
from tests.fixtures.ages import same_age
from tests.fixtures.servers import Servers
from tests.fixtures.staged import ME, NOON
from tests.fixtures.suites import in_set, write_suite
from tests.fixtures.tables import pipeline_of
from tests.fixtures.topic_bench import quiet

TOPIC = "orders.verified"
PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}, transactional: true}}
record:
  event_id: key
  publish_at: $.at
  delete_when: {{path: $.op, equals: d}}
  columns: {{state: text, amount: {{type: "numeric(12,2)", nullable: true}}, doc: {doc}}}
target: {{connection: postgres_default, table: public.orders, merge: {merge}}}
quality: {{suite: orders, max_quarantined_share: 1.0}}
"""


def order(at: int, state: str = "new", **more: Any) -> bytes:
    return json.dumps({"at": (NOON + timedelta(seconds=at)).isoformat(), "state": state, **more}).encode()


SENT = [  # (partition, key, value): what each becomes stands in `bench`
    (0, b"a", order(1, amount=1.5)),
    (0, b"b", order(1, doc={"deep": [1.0, 2]})),
    (0, b"bad", b"{"),
    (0, b"c", order(1)),
    (0, b"lost", order(1, "lost")),
    (0, b"paid", order(1, "paid")),
    (0, b"c", order(6, op="d")),
    (0, b"a", order(3, "new")),
    (1, b"a", order(2)),
    (1, b"d", order(5)),
    (1, b"d", order(5)),
    (1, b"e", order(4)),
]


@pytest.fixture(scope="module")
def filled(stack: Stack) -> None:
    """The topic that most tests share has its records."""
    fill({"bootstrap.servers": stack.kafka.bootstrap}, TOPIC)


def fill(extra: dict[str, str], topic: str) -> None:
    create_topic(extra, topic, 2, 1, {"retention.ms": "-1"})  # its records are said to be old
    headers = (("trace", b"\xff\x00"), ("plain", b"text"))
    noon = int(NOON.timestamp() * 1000)
    records = [Record(key, value, headers, noon + n * 1000, partition=p) for n, (p, key, value) in enumerate(SENT)]
    publish(records, extra, topic, transactional_id=f"{topic}.tests")
    with connect_kafka(Connection("k", "kafka", extra=extra)) as kafka:
        while [p.last_stable for p in kafka.snapshot(topic).partitions] != [9, 5]:
            time.sleep(0.05)  # the end of a transaction shows a moment later


@dataclass
class Bench:
    """A pipeline over a filled topic, and its ledger."""

    folder: Path
    session: Session
    topic: str = TOPIC
    doc: str = "{type: jsonb, nullable: true}"
    merge: str = "newest_wins"

    @property
    def pipeline(self) -> Pipeline:
        return pipeline_of(self.folder, PIPELINE, topic=self.topic, doc=self.doc, merge=self.merge)

    def rule(self, *states: str) -> None:
        """From now on ``state`` must be one of these."""
        write_suite(self.folder, in_set("quarantine", "state", *states))

    def execute(self, statement: str) -> None:
        with transaction(self.session) as cursor:
            cursor.execute(statement)

    def fill(self) -> None:
        """Two head batches, a redrive that resolves ``paid``, and a replay of all."""
        self.rule("new")
        for limit in (6, None):
            run_batch(self.pipeline, plan(self.pipeline, ME, limit), ME, quiet)
        self.rule("new", "paid")
        run_batch(self.pipeline, plan_redrive(self.pipeline, RedriveChoice(), ME), ME, quiet)
        again = plan_replay(self.pipeline, [OffsetRange(0, 0, 8), OffsetRange(1, 0, 4)], ME)
        run_batch(self.pipeline, again, ME, quiet)


@pytest.fixture
def bench(servers: Servers, tmp_path: Path, filled: None) -> Iterator[Bench]:  # noqa: ARG001
    with connect(servers.postgres) as session:
        yield Bench(tmp_path, session)


PHANTOM = """INSERT INTO public.orders
SELECT 'z', publish_at, state, amount, doc, 0, {offset}, _timestamp, _key, _headers, _deleted, _batch_id
FROM public.orders WHERE event_id = 'b'"""
A = "partition 0 offset 7 event a: "
E = "partition 1 offset 3 event e: "
Q = "in quarantine, but"
MISSING = "the table does not have this event id"
TAMPERING = [  # rounds of statements that do not disturb each other, each with the lines that it has to give
    {
        "UPDATE public.orders SET state = 'old' WHERE event_id = 'a'": [f"{A}state is old in the table and new in the"],
        "UPDATE public.orders SET doc = '{\"deep\": [1, 2]}' WHERE event_id = 'b'": ["1 event b: doc .*1, 2.*1.0, 2"],
        "UPDATE public.orders SET _key = 'x' WHERE event_id = 'e'": [f"{E}_key is .*78 in .*65 in"],
        "UPDATE public.orders SET _deleted = false, state = '' WHERE event_id = 'c'": [
            "partition 0 offset 6 event c: _deleted is false in the table and true in the topic",
            "partition 0 offset 6 event c: state is  in the table and NULL in the topic",
        ],
        PHANTOM.format(offset=8): ["partition 0 offset 8 event z: the topic has no such record"],
        "UPDATE offset_ledger.quarantine SET value = 'x' WHERE key = 'lost'": [
            f"partition 0 offset 4: {Q} the SHA-256 of value is .* there and .* in the topic"
        ],
        "UPDATE offset_ledger.quarantine SET key = 'x' WHERE key = 'bad'": [f"partition 0 offset 2: {Q} key is "],
    },
    {
        PHANTOM.format(offset=2): ["partition 0 offset 2 event z: its record is refused today: .*syntax"],
        "UPDATE public.orders SET amount = 0 WHERE event_id = 'a'": [f"{A}amount is 0.00 in the table and NULL in the"],
        "UPDATE public.orders SET _headers = NULL WHERE event_id = 'e'": [f"{E}_headers is NULL .*trace"],
        "DELETE FROM public.orders WHERE event_id = 'b'": [f"partition 0 offset 1 event b: {MISSING}"],
    },
    {
        "UPDATE public.orders SET publish_at = publish_at + interval '1s' WHERE event_id = 'a'": [
            f"{A}publish_at is .*:04.* in .*:03"
        ],
        "UPDATE public.orders SET _timestamp = _timestamp + interval '1ms' WHERE event_id = 'e'": [
            f"{E}_timestamp is "
        ],
        "DELETE FROM public.orders WHERE event_id = 'c'": [f"partition 0 offset 6 event c: {MISSING}"],
        "UPDATE public.orders SET _offset = 3 WHERE event_id = 'b'": [
            "partition 0 offset 3 event b: _key is ",
            "partition 0 offset 3 event b: _timestamp is ",
            "partition 0 offset 3 event b: doc is ",
            "partition 0 offset 3 event b: event_id is b in the table and c in the topic",
        ],
    },
    {
        "UPDATE public.orders SET publish_at = publish_at - interval '1h' WHERE event_id = 'a'": [
            f"{A}publish_at is ",
            f"{A}the table has an older record, partition 0 offset 7 with publish_at .*11:00:03.*12:00:03",
        ],
        PHANTOM.format(offset=1): ["partition 0 offset 1 event z: event_id is z in the table and b in the topic"],
        "DELETE FROM offset_ledger.redrive_record; DELETE FROM offset_ledger.quarantine WHERE key = 'bad'": [
            "partition 0 offset 2: refused and not in quarantine: .*syntax"
        ],
    },
    {
        "TRUNCATE public.orders": [
            f"partition {place}: {MISSING}"
            for place in (
                "0 offset 1 event b",
                "0 offset 5 event paid",
                "0 offset 6 event c",
                "0 offset 7 event a",
                "1 offset 2 event d",
                "1 offset 3 event e",
            )
        ],
    },
]


def lines(compared: TopicComparison) -> list[str]:
    """The violations without the names of their queries."""
    return sorted(re.sub(r"^topic [^:]+: ", "", line) for line in compared.violations)


def test_every_change_is_named_by_its_place(bench: Bench) -> None:
    bench.fill()
    tables = ("public.orders", "offset_ledger.redrive_record", "offset_ledger.quarantine")
    assert compare_with_topic(bench.pipeline) == TopicComparison(
        (OffsetRange(0, 0, 9), OffsetRange(1, 0, 5)), len(SENT), (), ()
    )
    assert verify(bench.pipeline)[0] == []
    for n, table in enumerate(tables):
        bench.execute(f"CREATE TABLE public.kept_{n} AS TABLE {table}")
    for tampering in TAMPERING:
        for statement in tampering:
            bench.execute(statement)
        found = lines(compare_with_topic(bench.pipeline))
        expected = [pattern for patterns in tampering.values() for pattern in patterns]
        explained = [line for line in found if any(re.search(pattern, line) for pattern in expected)]
        missed = [pattern for pattern in expected if not any(re.search(pattern, line) for line in found)]
        assert (explained, missed, len(found)) == (found, [], len(expected))
        bench.execute("TRUNCATE " + ", ".join((*tables, "offset_ledger.dead_letter", "offset_ledger.dismissal_record")))
        for n, table in reversed([*enumerate(tables)]):
            override = "OVERRIDING SYSTEM VALUE" if table.endswith("quarantine") else ""
            bench.execute(f"INSERT INTO {table} {override} TABLE public.kept_{n}")
    assert compare_with_topic(bench.pipeline).violations == ()


def test_the_verb_fails_for_a_violation_and_not_for_what_an_earlier_pipeline_file_merged(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.fill()
    path = str(bench.pipeline.path)
    assert main(["verify", path, "--deep", "--against-topic"]) == 0
    assert f"{len(SENT)} records of {TOPIC} read again: " in capsys.readouterr().out
    bench.execute("UPDATE public.orders SET state = 'old' WHERE event_id = 'a'")
    assert main(["verify", path, "--json"]) == 0
    capsys.readouterr()
    assert main(["verify", path, "--against-topic", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    (line,) = answer["violations"]
    assert line == f"topic 2 every row equals its record: {A}state is old in the table and new in the topic"
    assert (answer["records"], answer["read_again"]) == (len(SENT), [[0, 0, 9], [1, 0, 5]])

    bench.execute("UPDATE public.orders SET state = 'new' WHERE event_id = 'a'")
    bench.doc = "{type: jsonb, nullable: true, path: $.other}"
    compared = compare_with_topic(bench.pipeline)
    assert compared.violations == ()
    (note,) = compared.notes
    assert note == (
        "merged under an earlier pipeline file, and decoded differently by today's: 1 values or records, such as "
        'partition 0 offset 1 event b: doc is {"deep": [1.0, 2]} in the table and NULL in the topic'
    )
    bench.execute("DELETE FROM public.orders WHERE event_id = 'b'")
    assert lines(compare_with_topic(bench.pipeline)) == [
        "partition 0 offset 1 event b: the table does not have this event id"
    ]


def test_a_column_that_the_next_batch_adds_is_null_in_the_table(bench: Bench) -> None:
    bench.fill()
    bench.doc = "{type: jsonb, nullable: true}, more: {type: jsonb, nullable: true, path: $.doc}"
    compared = compare_with_topic(bench.pipeline)
    assert compared.violations == ()
    (note,) = compared.notes
    assert 'partition 0 offset 1 event b: more is NULL in the table and {"deep": [1.0, 2]} in the topic' in note


def test_with_skip_existing_the_published_records_are_compared(bench: Bench) -> None:
    bench.merge = "skip_existing"
    bench.fill()
    assert compare_with_topic(bench.pipeline).violations == ()
    assert [row[0] for row in rows(bench.session, "SELECT _offset FROM public.orders WHERE event_id = 'a'")] == [0]
    bench.execute("UPDATE public.orders SET amount = 2 WHERE event_id = 'a'")
    bench.execute("DELETE FROM public.orders WHERE event_id = 'd'")
    assert lines(compare_with_topic(bench.pipeline)) == [
        "partition 0 offset 0 event a: amount is 2.00 in the table and 1.50 in the topic",
        "partition 1 offset 2 event d: the table does not have this event id",
    ]


def test_a_record_that_was_dismissed_and_pruned_is_expected_nowhere(bench: Bench) -> None:
    bench.fill()
    dismiss(bench.pipeline, Selection(0, (2, 4)), ME, "never")  # one does not decode, one breaks a rule
    assert prune_beyond(bench.pipeline, same_age(timedelta(0)), 0, ME).records == 2
    left = rows(bench.session, 'SELECT partition, "offset" FROM offset_ledger.quarantine')
    assert [tuple(row) for row in left] == [(0, 5)]  # a redrive that no head batch has followed yet
    bench.rule("new", "paid", "lost")
    assert compare_with_topic(bench.pipeline).violations == ()
    bench.execute("DELETE FROM offset_ledger.pruned_dismissal")
    refused, lost = lines(compare_with_topic(bench.pipeline))
    assert refused.startswith("partition 0 offset 2: refused and not in quarantine: ")
    assert lost == f"partition 0 offset 4 event lost: {MISSING}"


def test_what_retention_deleted_is_said_and_not_compared(servers: Servers, bench: Bench) -> None:
    bench.topic = f"{TOPIC}.deleted"
    fill(dict(servers.kafka.extra), bench.topic)
    bench.fill()
    admin = KafkaAdminClient(bootstrap_servers=servers.bootstrap)
    admin.delete_records({TopicPartition(bench.topic, 0): 4})
    admin.close()
    bench.execute("UPDATE public.orders SET state = 'old'")
    compared = compare_with_topic(bench.pipeline)
    assert compared.ranges == (OffsetRange(0, 4, 9), OffsetRange(1, 0, 5))
    assert compared.notes == (
        f"range {OffsetRange(0, 0, 4)} is no longer in the topic; its rows and quarantined records were not compared",
    )
    found = [re.match(r"partition (\d) offset (\d) event (\w+): (\w+)", line) for line in lines(compared)]
    assert [match.groups() for match in found if match] == [
        ("0", "5", "paid", "state"),
        ("0", "6", "c", "state"),
        ("0", "7", "a", "state"),
        ("1", "2", "d", "state"),
        ("1", "3", "e", "state"),
    ]

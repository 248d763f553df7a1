"""From Kafka to the table, on real parts: broker, Spark, Great Expectations, Postgres."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import pytest
from kafka import KafkaAdminClient

from offset_ledger.base import extras
from offset_ledger.errors import (
    BatchRejected,
    ConfigurationError,
    OffsetExpired,
    StateConflict,
    TopicRecreated,
    UnexplainedGap,
    UnknownTopic,
)
from offset_ledger.model.batch import Origin
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import State
from offset_ledger.operations.repair.verify import explain_gaps, verify
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.outside.producer.publisher import Publisher, publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.postgres.ledger.database import rows
from offset_ledger.postgres.ledger.decisions import decide
from offset_ledger.steps.commit.step import commit
from offset_ledger.steps.decide.answers import skip_lost
from offset_ledger.steps.plan.step import plan, plan_replay
from offset_ledger.steps.run.ingest import run_batch
from offset_ledger.steps.run.redrive import parse_choice, plan_redrive
from offset_ledger.steps.stage.step import stage
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.publishing.topics import create_topic, delete_topic
from tests.fixtures.engines import BY_PROCESS
from tests.fixtures.spark import ENGINES, chosen
from tests.fixtures.suites import in_set, write_suite
from tests.fixtures.topic_bench import TopicBench, quiet

ME = Origin("test")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEEP = {"retention.ms": "-1"}  # the records are older than a week
MILLIS = int(NOON.timestamp() * 1000)

PIPELINE = """
pipeline: orders
source:
  {{connection: kafka_default, topic: {topic}, start: {start}, on_expired: {expired}{transactional}}}
record:
  event_id: $.id
  publish_at: $.at
  tombstone: skip
  columns:
    state: text
    amount: {{type: "numeric(12,2)", nullable: true}}
target: {{connection: postgres_default, table: public.orders}}
quality: {{max_quarantined_share: {share}{suite}}}
limits: {{records_per_batch: {limit}}}
stage: {{engine: {engine}}}
"""


def order(event_id: str, at: int, state: str = "new", **more: Any) -> bytes:
    moment = (NOON + timedelta(seconds=at)).isoformat()
    return json.dumps({"id": event_id, "at": moment, "state": state, **more}).encode()


class Bench(TopicBench):
    """A topic of two partitions, and a pipeline with a limit and a gate."""

    TEMPLATE = PIPELINE
    PARTITIONS = 2
    DEFAULTS = MappingProxyType(
        {
            "start": "earliest",
            "expired": "fail",
            "transactional": ", transactional: false",
            "share": 1.0,
            "suite": "",
            "limit": 100_000,
            "engine": "process",
        }
    )

    def table(self) -> dict[str, tuple[Any, ...]]:
        return {row[0]: row[1:] for row in self.rows("event_id, state, _partition, _offset")}

    def quarantined(self) -> set[tuple[int, int, bytes, str]]:
        records = rows(
            self.session, "SELECT partition, \"offset\", value, reasons->0->>'path' FROM offset_ledger.quarantine"
        )
        return {(row[0], row[1], bytes(row[2]), row[3]) for row in records}


@pytest.fixture
def bench(bench: Bench, request: pytest.FixtureRequest) -> Bench:
    bench.settings["engine"] = chosen(request)
    return bench


IN_BOTH = pytest.mark.parametrize("bench", ENGINES, indirect=True)
"""For what is read: once staged by the process, and once by Spark."""


def at(partition: int, value: bytes | None, **more: Any) -> Record:
    return Record(key=more.pop("key", b"k"), value=value, partition=partition, timestamp_ms=MILLIS, **more)


def test_nothing_is_planned_for_a_suite_without_great_expectations(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.settings["suite"] = ", suite: orders"
    bench.publish(at(0, order("a", 1)))
    with monkeypatch.context() as patch:
        patch.setattr(extras, "find_spec", lambda _: None)
        for attempt in (
            bench.ingest,
            lambda: plan_replay(bench.pipeline, [OffsetRange(0, 0, 1)], ME),
            lambda: plan_redrive(bench.pipeline, parse_choice(), ME),
        ):
            with pytest.raises(ConfigurationError, match=r"a suite needs great_expectations, .*offset-ledger\[gx\]"):
                attempt()
    assert rows(bench.session, "SELECT batch_id FROM offset_ledger.batch") == []


# -- exactly once ----------------------------------------------------------------------------------------------


@IN_BOTH
def test_every_record_ends_in_the_table_or_in_quarantine_and_a_second_run_changes_nothing(bench: Bench) -> None:
    bench.publish(
        at(0, order("a", 1)),
        at(0, order("a", 2, "paid")),
        at(0, order("b", 5, "sent")),
        at(0, order("b", 4, "late")),
        at(0, b'{"id":"c","at":"2026-01-01T12:00:00Z","state":"x","amount":1.005}'),
        at(1, b"{"),
        at(1, order("d", 1)),
        at(1, order("d", 1)),
        at(1, None),
    )
    (done,) = bench.ingest()
    assert bench.table() == {"a": ("paid", 0, 1), "b": ("sent", 0, 2), "d": ("new", 1, 2)}
    assert {(p, o, path) for p, o, _, path in bench.quarantined()} == {(0, 4, "$.amount"), (1, 0, "$")}
    assert done.sheet[0].__class__(2, 0, 2, 0, 0, 1, 0, 0) == done.sheet[0]
    assert done.sheet[1].__class__(1, 0, 0, 1, 0, 1, 1, 0) == done.sheet[1]
    before = rows(bench.session, "SELECT xmin::text, t.*::text FROM public.orders t ORDER BY 2")
    assert bench.ingest() == []
    assert rows(bench.session, "SELECT xmin::text, t.*::text FROM public.orders t ORDER BY 2") == before
    assert verify(bench.pipeline) == ([], 12)


@IN_BOTH
def test_what_kafka_knows_of_a_record_is_kept(bench: Bench) -> None:
    headers = (("trace", b"\x00\xff"), ("tenant", "Zürich".encode()), ("none", b""))
    bench.publish(
        at(1, order("a", 1), key=b'"\\x\x00\xfe', headers=headers), at(1, b"broken\xff", key=None, headers=headers)
    )
    bench.ingest()
    kept = [["trace", {"base64": "AP8="}], ["tenant", "Zürich"], ["none", ""]]
    (row,) = rows(bench.session, "SELECT _key, _headers, _timestamp, _partition, _offset, _batch_id FROM public.orders")
    assert (bytes(row[0]), *row[1:]) == (b'"\\x\x00\xfe', kept, NOON, 1, 0, 1)
    (refused,) = rows(
        bench.session, 'SELECT key, headers, "timestamp", partition, "offset", value FROM offset_ledger.quarantine'
    )
    assert (*refused[:5], bytes(refused[5])) == (None, kept, NOON, 1, 1, b"broken\xff")


@IN_BOTH
def test_a_record_without_a_timestamp_gets_none(bench: Bench) -> None:
    from kafka import KafkaProducer

    with closing(KafkaProducer(bootstrap_servers=bench.servers.bootstrap)) as careless:
        for value in (order("a", 1), b"{"):
            careless.send(bench.topic, value, b"k", [], 0, -1).get(30)
    bench.publish(at(1, order("b", 1)))
    bench.ingest()
    assert bench.table() == {"a": ("new", 0, 0), "b": ("new", 1, 0)}
    assert rows(bench.session, "SELECT event_id, _timestamp FROM public.orders ORDER BY 1") == [
        ["a", None],
        ["b", NOON],
    ]
    assert rows(bench.session, 'SELECT "offset", "timestamp" FROM offset_ledger.quarantine') == [[1, None]]
    spans = "SELECT partition, min_timestamp, max_timestamp FROM offset_ledger.batch_range ORDER BY 1"
    assert rows(bench.session, spans) == [[0, None, None], [1, NOON, NOON]]
    assert verify(bench.pipeline)[0] == []


def test_limits_cut_batches_and_the_rest_follows(bench: Bench) -> None:
    bench.settings["limit"] = 7
    bench.publish(*(at(p, order(f"{p}-{i}", i)) for p in (0, 1) for i in range(10)))
    done = bench.ingest()
    assert [c.total.inserted for c in done] == [7, 7, 6]
    assert set(bench.table()) == {f"{p}-{i}" for p in (0, 1) for i in range(10)}
    assert verify(bench.pipeline)[0] == []


def test_a_limit_of_the_command_line_cuts_a_batch(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.publish(*(at(0, order(f"{i}", i)) for i in range(3)))
    file = str(bench.pipeline.path)
    assert main(["ingest", file, "--limit", "2", "--dry-run", "--json"]) == 0
    assert [(r["from"], r["until"]) for r in json.loads(capsys.readouterr().out)["ranges"]] == [(0, 2)]
    assert main(["ingest", file, "--limit", "2"]) == 0
    assert {(place[1], place[2]) for place in bench.table().values()} == {(0, 0), (0, 1)}
    assert main(["ingest", file, "--limit", "0"]) == 2


def test_of_several_producers_of_one_partition_each_event_has_its_newest_state(bench: Bench) -> None:
    extra, bench.settings["limit"] = dict(bench.servers.kafka.extra), 20
    events = [(f"e{number % 10}", number) for number in range(40)]  # each event changes four times

    def record(event_id: str, number: int) -> Record:
        return Record(None, order(event_id, number, f"state {number}"), partition=0)

    with Publisher(extra, bench.topic) as fast, Publisher(extra, bench.topic) as slow:
        for event in events[20:]:
            fast.send(record(*event))
        fast.finish()
        for event in events[:20]:  # older, and behind the newer ones in the topic
            slow.send(record(*event))
        slow.finish()
    assert len(bench.ingest()) == 2
    newest = {event_id: (f"state {number}", 0, number - 20) for event_id, number in events}
    assert bench.table() == newest


@IN_BOTH
def test_a_partition_added_later_is_read_from_its_first_offset(bench: Bench) -> None:
    bench.settings["start"] = "latest"
    bench.publish(at(0, order("before", 1)))
    assert bench.ingest() == []  # a first run at the latest offset
    admin = KafkaAdminClient(bootstrap_servers=bench.servers.bootstrap)
    admin.create_partitions({bench.topic: 3})
    admin.close()
    bench.publish(at(0, order("a", 1)), at(2, order("c", 1)))
    bench.ingest()
    assert set(bench.table()) == {"a", "c"}


def wait_for_markers(bench: Bench, ends: list[int]) -> None:
    """A broker answers that a transaction has ended, and writes its markers into the partitions after that."""
    deadline = time.monotonic() + 60
    with connect_kafka(bench.servers.kafka) as kafka:
        while [each.last_stable for each in kafka.snapshot(bench.topic).partitions] != ends:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@IN_BOTH
def test_transactions_are_read_committed_and_their_markers_are_labelled_gaps(bench: Bench) -> None:
    bench.settings["transactional"] = ""  # the record batches say so themselves
    extra = dict(bench.servers.kafka.extra)
    bench.publish(at(0, order("a", 1)), transactional_id=f"{bench.topic}-1")
    publish(
        [at(0, order("a", 9, "never")), at(1, order("z", 9))],
        extra,
        bench.topic,
        commit=False,
        transactional_id=f"{bench.topic}-2",
    )
    wait_for_markers(bench, [4, 2])
    (done,) = bench.ingest()
    assert bench.table() == {"a": ("new", 0, 0)}
    assert (done.total.inserted, done.total.gap) == (1, done.total.total - 1)
    deep = explain_gaps(bench.pipeline)
    assert (deep.violations, deep.unreadable) == ((), ())
    assert [str(gap) for gap in deep.gaps] == [
        "0:[1, 2): control record",
        "0:[2, 3): aborted transaction",
        "0:[3, 4): control record",
        "1:[0, 1): aborted transaction",
        "1:[1, 2): control record",
    ]


@IN_BOTH
def test_a_gap_on_a_topic_that_is_not_transactional_is_an_error(bench: Bench) -> None:
    bench.publish(at(0, order("a", 1)), transactional_id=f"{bench.topic}-1")
    bench.publish(at(0, order("b", 1)))
    with pytest.raises(UnexplainedGap, match="1 of 3 offsets gave no record"):
        bench.ingest()
    assert bench.table() == {}


def test_an_open_batch_is_resumed_and_never_planned_again(bench: Bench) -> None:
    bench.publish(at(0, order("a", 1)))
    first = plan(bench.pipeline, ME)
    bench.publish(at(0, order("b", 1)), at(1, order("c", 1)))
    again = plan(bench.pipeline, ME)
    assert first.batch is not None
    assert again.batch is not None
    assert (again.resumed, again.batch.batch_id, again.batch.ranges) == (True, 1, (OffsetRange(0, 0, 1),))
    assert [c.total.inserted for c in bench.ingest()] == [1, 2]


def test_a_replay_changes_no_row_and_moves_no_cursor(bench: Bench) -> None:
    bench.publish(at(0, order("a", 1)), at(0, order("a", 2)), at(0, order("b", 1)))
    bench.ingest()
    before = bench.table()
    planned = plan_replay(bench.pipeline, [OffsetRange(0, 0, 2)], ME)
    done = run_batch(bench.pipeline, planned, ME, quiet)
    assert (done.committed.total.superseded, done.committed.total.duplicate) == (1, 1)
    assert bench.table() == before
    assert verify(bench.pipeline)[0] == []


# -- refusals --------------------------------------------------------------------------------------------------


def test_a_recreated_topic_is_refused_before_anything_is_read(bench: Bench) -> None:
    extra = dict(bench.servers.kafka.extra)
    bench.publish(at(0, order("a", 1)))
    bench.ingest()
    delete_topic(extra, bench.topic)
    create_topic(extra, bench.topic, 2, 1, KEEP)
    bench.publish(at(0, order("x", 9)), at(0, order("y", 9)))
    with pytest.raises(TopicRecreated, match="was recreated"):
        bench.ingest()
    assert set(bench.table()) == {"a"}


def test_a_topic_that_was_deleted_is_named_with_the_file_to_remove(bench: Bench) -> None:
    bench.publish(at(0, order("a", 1)))
    bench.ingest()
    delete_topic(dict(bench.servers.kafka.extra), bench.topic)
    with pytest.raises(UnknownTopic) as raised:
        bench.ingest()
    assert str(raised.value).endswith(
        f"create it, or correct its name; if it was deleted for good, remove {bench.pipeline.path}"
    )


def test_records_deleted_under_the_cursor_are_named_and_not_skipped(bench: Bench) -> None:

    bench.publish(*(at(0, order(f"{i}", 1)) for i in range(3)))
    bench.ingest()
    bench.publish(*(at(0, order(f"{i}", 1)) for i in range(3, 9)))
    bench.delete_below(0, 5)
    with pytest.raises(OffsetExpired, match=r"offsets \[3, 5\) are gone, 2 in all"):
        bench.ingest()
    assert set(bench.table()) == {"0", "1", "2"}
    with pytest.raises(ConfigurationError, match="on_expired: fail"):
        skip_lost(bench.pipeline, ME, "gone")
    bench.settings["expired"] = "earliest_after_approval"
    with pytest.raises(OffsetExpired):  # never skipped by itself
        bench.ingest()
    assert skip_lost(bench.pipeline, ME, "seen it").total.skipped == 2
    bench.ingest()
    assert set(bench.table()) == {"0", "1", "2", "5", "6", "7", "8"}
    assert verify(bench.pipeline)[0] == []


def test_a_failed_gate_rejects_the_batch_and_a_person_decides(bench: Bench) -> None:
    write_suite(bench.folder, in_set("reject", "state", "new", "paid"))
    bench.settings["suite"] = ", suite: orders"
    bench.publish(at(0, order("a", 1)), at(0, order("b", 1, "broken")))
    with pytest.raises(BatchRejected, match="1 of 2 rows fail"):
        bench.ingest()
    assert bench.table() == {}
    assert rows(bench.session, "SELECT count(*) FROM offset_ledger.cursor")[0][0] == 0
    with pytest.raises(BatchRejected, match="needs approval"):
        bench.ingest()
    decide(bench.session, 1, State.VALIDATED, ME, "the new state is right")
    assert [c.total.inserted for c in bench.ingest()] == [2]
    assert set(bench.table()) == {"a", "b"}


@pytest.mark.full
def test_great_expectations_is_imported_for_rows_to_validate_and_pyarrow_for_records(bench: Bench) -> None:
    write_suite(bench.folder, in_set("reject", "state", "new", "paid"))
    bench.settings["suite"] = ", suite: orders"
    modules, code = [], "import sys; from offset_ledger_kit.cli.main import main; main(sys.argv[1:]); "
    code += "print(*sorted({'great_expectations', 'numpy', 'pyarrow'} & sys.modules.keys()))"
    command = [sys.executable, "-c", code, "ingest", str(bench.path)]
    for published in ([], [b"{"], [order("a", 1)]):
        bench.publish(*(at(0, value) for value in published))
        ended = subprocess.run(command, check=True, capture_output=True, text=True)
        modules.append(ended.stdout.splitlines()[-1])
    assert modules == ["", "numpy pyarrow", "great_expectations numpy pyarrow"]
    assert (set(bench.table()), len(bench.quarantined())) == ({"a"}, 1)


def test_a_quarantined_share_above_the_limit_rejects(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.settings["share"] = 0.4
    bench.publish(at(0, order("a", 1)), at(0, order("b", 1, amount=1.125)))
    with pytest.raises(BatchRejected, match=r"quarantine.*offset-ledger batch approve 1 --why"):
        bench.ingest()
    assert bench.quarantined() == set()
    path = str(bench.pipeline.path)
    assert main(["quarantine", "list", path, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    why = {"code": "precision", "path": "$.amount", "records": 1, "examples": ["0:1"]}
    assert (told["records"], told["rejected"]["refused"]) == (
        0,
        [{**why, "such_as": "expected numeric(12,2), got 1.125"}],
    )
    assert main(["status", path]) == 0
    assert re.search(r"lag: 2 offsets\n.*rejected.*\n.*abandon 1 --why", capsys.readouterr().out)
    decide(bench.session, 1, State.ABANDONED, ME, "so that nothing waits")
    assert main(["quarantine", "list", path]) == 0
    assert capsys.readouterr().out == "0 unresolved records\n"


def test_a_pipeline_that_never_ran_says_so(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.publish(at(0, order("a", 1)))
    path = str(bench.pipeline.path)
    assert [main([*verb, path]) for verb in (["batch", "list"], ["verify"])] == [0, 0]
    assert capsys.readouterr().out == "no batches yet\norders has no batches yet: nothing to check\n"
    assert main(["status", path]) == 0
    assert "none yet" in capsys.readouterr().out


def test_a_batch_that_ended_is_not_staged_again(bench: Bench) -> None:
    bench.publish(at(0, order("a", 1)))
    bench.ingest()
    assert stage(BY_PROCESS, bench.pipeline, 1, ME).done
    assert commit(bench.pipeline, 1, ME).already
    bench.publish(at(0, order("b", 1)))
    planned = plan(bench.pipeline, ME).batch
    assert planned is not None
    decide(bench.session, planned.batch_id, State.ABANDONED, ME, "no")
    with pytest.raises(StateConflict, match="abandoned"):
        stage(BY_PROCESS, bench.pipeline, planned.batch_id, ME)

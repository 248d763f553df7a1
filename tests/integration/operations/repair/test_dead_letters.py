"""Dead letters: each quarantined record once for a reader of committed data, whoever dies on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import Any

import psutil
import pytest

from offset_ledger.base.failpoints import ONCE, VARIABLE, Failpoint
from offset_ledger.errors import ConfigurationError, OpenTransaction
from offset_ledger.model.header_name import HeaderName
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import BatchKind
from offset_ledger.operations.status.status import status
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.outside.kafka.records import read_records
from offset_ledger.outside.producer.publisher import Publisher
from offset_ledger.outside.producer.record import Record
from offset_ledger.postgres.ledger.database import rows
from offset_ledger.steps.plan.step import plan, plan_replay
from offset_ledger.steps.report.dead_letters import Delivery, deliver, source_position
from offset_ledger_kit.publishing.topics import create_topic, delete_topic
from tests.fixtures.odd_records import CAFE, send_unchecked
from tests.fixtures.raw import Raw, commit_raw
from tests.fixtures.staged import ME, NOON
from tests.fixtures.topic_bench import TopicBench

PIPELINE = """
pipeline: {name}
source: {{connection: kafka_default, topic: {topic}}}
record: {{event_id: $.id, publish_at: $.at, columns: {{state: text}}}}
target: {{connection: postgres_default, table: public.orders}}
quality: {{max_quarantined_share: 1.0, dead_letter_topic: {dead}}}
"""
Place = tuple[int, int]


class Bench(TopicBench):
    """A pipeline with a dead letter topic of two partitions. Its name, and so its transactional id, is its own."""

    TEMPLATE = PIPELINE
    PARTITIONS = 2

    @property
    def dead(self) -> str:
        return f"{self.topic}.dead"

    @property
    def extra(self) -> dict[str, str]:
        return dict(self.servers.kafka.extra)

    def refuse(self, start: int, until: int) -> None:
        """Commit broken records with these offsets, in both partitions."""
        commit_raw(
            self.session, self.pipeline, [Raw(p, n, f"{p}-{n}".encode()) for p in (0, 1) for n in range(start, until)]
        )

    def letters(self) -> list[tuple[Place, Any]]:
        """What a reader of committed data finds: coordinates and record."""
        deadline = time.monotonic() + 30
        with connect_kafka(self.servers.kafka) as kafka:
            at = kafka.snapshot(self.dead)
            while any(p.last_stable < p.high_watermark for p in at.partitions):
                assert time.monotonic() < deadline, at
                at = kafka.snapshot(self.dead)
        ends = [(p.partition, p.high_watermark) for p in at.partitions if p.high_watermark]
        found = []
        for partition, end in ends:
            for record in read_records(self.servers.kafka, self.dead, OffsetRange(partition, 0, end), "read_committed"):
                place = source_position(record.headers, self.pipeline.name)
                assert place is not None
                found.append(((place.partition, place.offset), record))
        return found

    def counted(self) -> Counter[Place]:
        return Counter(place for place, _ in self.letters())

    def quarantined(self) -> Counter[Place]:
        return Counter(
            (row[0], row[1]) for row in rows(self.session, 'SELECT partition, "offset" FROM offset_ledger.quarantine')
        )

    def waiting(self) -> int:
        return int(
            rows(self.session, "SELECT count(*) FROM offset_ledger.dead_letter WHERE delivered_at IS NULL")[0][0]
        )

    def process(self, failpoint: str) -> subprocess.Popen[str]:
        """The verb in a process of its own, with a failpoint that acts once."""
        once = self.folder / "once"
        once.mkdir(exist_ok=True)
        return subprocess.Popen(
            [sys.executable, "-m", "offset_ledger_kit.cli", "quarantine", "deliver", str(self.pipeline.path)],
            env={**os.environ, VARIABLE: failpoint, ONCE: str(once)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def bench(bench: Bench) -> Bench:
    bench.settings |= {"name": bench.topic.replace(".", "_"), "dead": bench.dead}
    create_topic(bench.extra, bench.dead, 2, 1)
    return bench


def test_a_letter_is_the_record_as_it_was_with_its_coordinates_and_reasons(bench: Bench) -> None:
    headers = (("trace", b"\x00\xff"), ("none", None), ("trace", b"again"), ("offset-ledger.offset", b"77"))
    good = json.dumps({"id": "a", "at": NOON.isoformat(), "state": "new"}).encode()
    commit_raw(
        bench.session,
        bench.pipeline,
        [
            Raw(0, 5, b"\xff\x00{", b"\x00key", headers),
            Raw(0, 6, good),
            Raw(0, 7, None),
            Raw(0, 8, None, None),
            Raw(2, 0, b""),
        ],
        BatchKind.REPLAY,
    )
    assert deliver(bench.pipeline) == Delivery(published=4)
    found = dict(bench.letters())
    assert {place: (r.partition, r.key, r.value) for place, r in found.items()} == {
        (0, 5): (0, b"\x00key", b"\xff\x00{"),
        (0, 7): (0, b"k", None),
        (0, 8): (0, None, b""),
        (2, 0): (0, b"k", b""),
    }
    assert dict(found[0, 8].headers)["offset-ledger.sent-empty"] == b'["value"]'
    original = [(name, value or b"") for name, value in headers]
    assert found[0, 5].headers[:4] == original
    ours = dict(found[0, 5].headers[4:])
    assert json.loads(ours.pop("offset-ledger.reasons"))[0]["code"] == "encoding"
    assert ours == {
        "offset-ledger.pipeline": bench.pipeline.name.encode(),
        "offset-ledger.topic": bench.topic.encode(),
        "offset-ledger.topic-id": b"topic-1",
        "offset-ledger.partition": b"0",
        "offset-ledger.offset": b"5",
        "offset-ledger.timestamp": str(int(NOON.timestamp() * 1000)).encode(),
        "offset-ledger.batch": b"1",
        "offset-ledger.sent-empty": b"[1]",
    }
    at = rows(
        bench.session,
        'SELECT "offset", at_partition, at_offset FROM offset_ledger.dead_letter'
        " JOIN offset_ledger.quarantine USING (quarantine_id)",
    )
    assert {(row[1], row[2]) for row in at} == {(r.partition, r.offset) for r in found.values()}


def test_header_names_of_any_bytes_are_sent_escaped_and_read_back(bench: Bench) -> None:
    named = ((HeaderName.of(CAFE.raw), b"1"), ("é", b"2"))
    commit_raw(bench.session, bench.pipeline, [Raw(p, 0, b"{", headers=named) for p in (0, 1)])
    foreign = [Record(b"k", b"foreign", ((CAFE, b""),), partition=p) for p in (0, 1)]
    send_unchecked(bench.servers.bootstrap, bench.dead, foreign)
    assert bench.process(f"{Failpoint.DEAD_LETTERS_COMMITTED}=kill").wait(60) == -signal.SIGKILL
    assert deliver(bench.pipeline) == Delivery(already_delivered=2)
    for partition in (0, 1):
        read = list(read_records(bench.servers.kafka, bench.dead, OffsetRange(partition, 0, 2), "read_committed"))
        assert [(each.value, [name.encode() for name, _ in each.headers[:2]]) for each in read] == [
            (b"foreign", [CAFE.raw]),
            (b"{", [CAFE.raw.decode(errors="backslashreplace").encode(), "é".encode()]),
        ]
        assert dict(read[1].headers)["offset-ledger.sent-escaped"] == b"[0]"


def test_nothing_is_delivered_twice(bench: Bench) -> None:
    bench.refuse(0, 3)
    assert deliver(bench.pipeline) == Delivery(published=6)
    assert deliver(bench.pipeline) == Delivery()
    bench.refuse(3, 5)
    assert deliver(bench.pipeline) == Delivery(published=4)
    assert bench.counted() == bench.quarantined()


@pytest.mark.parametrize(
    ("place", "after"),
    [
        (Failpoint.DEAD_LETTERS_SENT, Delivery(published=6)),
        (Failpoint.DEAD_LETTERS_COMMITTED, Delivery(already_delivered=6)),
    ],
)
def test_a_killed_delivery_is_finished_by_the_next(bench: Bench, place: Failpoint, after: Delivery) -> None:
    bench.refuse(0, 3)
    dying = bench.process(f"{place}=kill")
    assert dying.wait(60) == -signal.SIGKILL
    assert bench.waiting() == 6
    assert deliver(bench.pipeline) == after
    assert bench.counted() == bench.quarantined()
    bench.refuse(3, 4)
    assert deliver(bench.pipeline) == Delivery(published=2)
    assert bench.counted() == bench.quarantined()


@pytest.mark.parametrize(
    ("place", "exit_code"), [(Failpoint.DEAD_LETTERS_SENT, 1), (Failpoint.DEAD_LETTERS_COMMITTED, 0)]
)
def test_a_zombie_delivers_nothing_twice(bench: Bench, place: Failpoint, exit_code: int) -> None:
    bench.refuse(0, 3)
    zombie = bench.process(f"{place}=stop")
    deadline = time.monotonic() + 60
    while psutil.Process(zombie.pid).status() != psutil.STATUS_STOPPED:
        assert zombie.poll() is None, zombie.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    bench.refuse(3, 4)
    done = deliver(bench.pipeline)
    zombie.send_signal(signal.SIGCONT)
    _, told = zombie.communicate(timeout=90)
    assert (zombie.returncode, done.published + done.already_delivered) == (exit_code, 8), told
    assert bench.waiting() == 0
    assert bench.counted() == bench.quarantined()


def test_an_open_transaction_of_another_application_is_waited_for_and_then_named(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.refuse(0, 2)
    monkeypatch.setenv("OFFSET_LEDGER_RETRY_SECONDS", "1")
    with Publisher(bench.extra, bench.dead, transactional_id=f"{bench.topic}.other") as other:
        other.send(Record(None, b"theirs", (("offset-ledger.pipeline", b"another"),), partition=0))
        other.flush()
        with pytest.raises(OpenTransaction, match="a transaction is open there"):
            deliver(bench.pipeline)
        assert bench.waiting() == 4
        other.finish(commit=False)
    monkeypatch.delenv("OFFSET_LEDGER_RETRY_SECONDS")
    assert deliver(bench.pipeline) == Delivery(published=4)
    assert bench.counted() == bench.quarantined()


def test_a_dead_letter_topic_that_is_away_harms_nothing_and_its_letters_wait(bench: Bench) -> None:
    bench.refuse(0, 2)
    deliver(bench.pipeline)
    delete_topic(bench.extra, bench.dead)
    bench.refuse(2, 3)
    says = f"dead letter topic '{bench.dead}' does not exist; create it, or correct quality.dead_letter_topic"
    with pytest.raises(ConfigurationError, match=says):
        deliver(bench.pipeline)
    assert status(bench.pipeline).dead_letters_waiting == 2
    create_topic(bench.extra, bench.dead, 2, 1)  # another topic of that name: its marks are its own
    assert deliver(bench.pipeline) == Delivery(published=2)
    assert bench.counted() == Counter([(0, 2), (1, 2)])


def test_an_unknown_dead_letter_topic_is_named_when_a_batch_is_planned(bench: Bench) -> None:
    bench.publish(Record(None, b"{"))
    delete_topic(bench.extra, bench.dead)
    with pytest.raises(ConfigurationError, match="does not exist; create it, or correct"):
        plan(bench.pipeline, ME)
    with pytest.raises(ConfigurationError, match="does not exist"):
        plan_replay(bench.pipeline, [OffsetRange(0, 0, 1)], ME)

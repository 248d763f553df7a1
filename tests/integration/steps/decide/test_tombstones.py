"""How late a batch may be read before tombstones may be missing from it: real plans and looks, staged without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from kafka import KafkaAdminClient
from kafka.admin import NewPartitions

from offset_ledger.errors import ConfigurationError, StateConflict, TombstonesMayBeGone
from offset_ledger.model.batch import Attempt, Batch, EngineChoice
from offset_ledger.model.questions import QuestionAnswer, QuestionKind
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.snapshot import Boundary, PartitionSnapshot, TopicSnapshot
from offset_ledger.model.states import BatchKind, State
from offset_ledger.operations.audit.finding import Severity
from offset_ledger.operations.audit.run import audit_pipeline
from offset_ledger.operations.status.status import status
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.pipeline import Pipeline, Stage, StageEngine, Tombstone
from offset_ledger.pipeline_file.source import OnExpired
from offset_ledger.postgres.ledger import batches, pipelines
from offset_ledger.postgres.ledger.database import Cursor, Session, connect, rows, transaction
from offset_ledger.postgres.ledger.staging import StagingTables
from offset_ledger.steps.commit.step import commit
from offset_ledger.steps.decide import tombstones
from offset_ledger.steps.decide.answers import answer_question, loss_question, record_question, skip_lost
from offset_ledger.steps.decide.tombstones import approve_tombstones
from offset_ledger.steps.plan.step import plan
from offset_ledger.steps.stage.claim import TombstoneRetention, late_ranges, tombstone_retention
from offset_ledger.steps.stage.step import StagedBatch, next_stage
from offset_ledger_kit.publishing.topics import create_topic
from tests.examples import examples
from tests.fixtures.servers import Servers
from tests.fixtures.staged import ME, NOON, Event, a_pipeline, a_snapshot, planned, staged, validated
from tests.fixtures.tables import do

HOUR = timedelta(hours=1)
DAY = TombstoneRetention(24 * HOUR)


@dataclass
class Bench:
    """A compacted topic of one partition, which is never cleaned: what is missing the tests say."""

    servers: Servers
    session: Session
    pipeline: Pipeline

    def publish(self, count: int, partition: int = 0) -> None:
        sent = [Record(b"k", b"{}", (), None, partition) for _ in range(count)]
        publish(sent, dict(self.servers.kafka.extra), self.pipeline.source.topic)

    def plan(self, limit: int | None = None) -> Batch:
        batch = plan(self.pipeline, ME, limit).batch
        assert batch is not None
        return batch

    def stage(self, batch: Batch, missing: Sequence[int] = (), kept: TombstoneRetention = DAY) -> Batch:
        """Stage all offsets of the batch but those."""
        offsets = [(r.partition, o) for r in batch.ranges for o in range(r.from_offset, r.until_offset)]
        events = [Event(o, p, o, f"e{p}-{o}") for p, o in offsets if o not in missing]
        staged(self.session, self.pipeline, batch.batch_id, events, "compaction", kept)
        return self.read(batch)

    def read(self, batch: Batch) -> Batch:
        with transaction(self.session) as cursor:
            return batches.read_batch(cursor, batch.batch_id)

    def commit(self, batch: Batch) -> None:
        now = self.read(batch)
        validated(self.session, StagingTables(now.attempt))
        commit(self.pipeline, batch.batch_id, ME)

    def through(self, missing: Sequence[int] = ()) -> Batch:
        batch = self.plan()
        self.stage(batch, missing)
        self.commit(batch)
        return batch

    def hours_ago(self, hours: float) -> None:
        """Let everything that the ledger has seen so far be so much older."""
        ago = timedelta(hours=hours)
        with transaction(self.session) as cursor:
            cursor.execute("UPDATE offset_ledger.topic_look SET seen_at = seen_at - %s", [ago])
            cursor.execute("UPDATE offset_ledger.beginning SET recorded_at = recorded_at - %s", [ago])
            cursor.execute(
                "UPDATE offset_ledger.batch SET planned_at = planned_at - %s"
                " WHERE state NOT IN ('committed', 'abandoned')",
                [ago],
            )

    def looks(self) -> list[tuple[Any, ...]]:
        found = rows(self.session, "SELECT last_stables, delete_retention_ms FROM offset_ledger.topic_look ORDER BY 1")
        return [tuple(row) for row in found]


@pytest.fixture
def bench(servers: Servers, topic_name: Callable[[], str]) -> Iterator[Bench]:
    topic = topic_name()
    create_topic(dict(servers.kafka.extra), topic, 1, 1, {"cleanup.policy": "compact"})
    made = a_pipeline()
    source = replace(made.source, topic=topic, on_expired=OnExpired.EARLIEST_AFTER_APPROVAL)
    with connect(servers.postgres) as session:
        record = replace(made.record, publish_at=None, delete_when=None, tombstone=Tombstone.DELETE)
        yield Bench(servers, session, replace(made, source=source, record=record, stage=Stage(StageEngine.SPARK)))


def test_gaps_within_the_time_that_tombstones_are_kept_for_are_gaps_and_no_more(bench: Bench) -> None:
    bench.publish(3)
    bench.through(missing=[1])
    bench.hours_ago(23)
    bench.publish(3)
    assert bench.stage(bench.plan(), missing=[3, 4]).state is State.STAGED


def test_what_was_read_too_late_stops_the_batch_and_loses_nothing(bench: Bench) -> None:
    bench.publish(3)
    bench.through()
    bench.hours_ago(25)
    bench.publish(4)
    batch = bench.plan()
    with pytest.raises(TombstonesMayBeGone) as refused:
        bench.stage(batch, missing=[4, 5])
    text = str(refused.value)
    assert "range 0:[3, 7): 2 of 4 offsets gave no record, and its records may have waited 25 hours" in text
    assert "only 24 hours (delete.retention.ms)" in text
    assert (bench.read(batch).state, bench.read(batch).late) == (
        State.STAGING,
        {"ranges": [[0, 3, 7]], "missing": {"0": 2}, "waited": "25 hours", "kept": "24 hours"},
    )
    with transaction(bench.session) as cursor:
        cursors = pipelines.read_cursors(cursor, "orders")
    assert cursors is not None
    assert cursors.next_offsets == {0: 3}
    assert "offset-ledger accept loss orders" in (status(bench.pipeline).waits_for or "")


def test_a_range_without_a_gap_may_be_read_as_late_as_it_is(bench: Bench) -> None:
    bench.publish(3)
    bench.through()
    bench.hours_ago(1000)
    bench.publish(3)
    assert bench.stage(bench.plan()).state is State.STAGED


def test_an_idle_pipeline_that_takes_snapshots_is_not_late(bench: Bench) -> None:
    bench.publish(3)
    bench.through()
    for _ in range(5):
        bench.hours_ago(10)
        assert plan(bench.pipeline, ME).batch is None
    assert bench.looks() == [([3], 86_400_000)]
    bench.hours_ago(23)
    bench.publish(3)
    assert bench.stage(bench.plan(), missing=[3]).state is State.STAGED


def test_a_pipeline_that_is_only_woken_takes_snapshots_without_a_plan(bench: Bench) -> None:
    bench.publish(3)
    bench.through()
    bench.hours_ago(30)
    tombstones.record_stable_offsets(bench.pipeline)
    tombstones.record_stable_offsets(bench.pipeline)
    assert bench.looks() == [([3], 86_400_000)]
    bench.publish(3)
    assert bench.stage(bench.plan(), missing=[3]).state is State.STAGED


def test_what_waits_for_a_later_batch_waits_since_it_was_stable(bench: Bench) -> None:
    bench.publish(3)
    bench.through()
    bench.publish(4)
    first = bench.plan(limit=2)
    bench.stage(first)
    bench.hours_ago(15)
    bench.commit(first)
    second = bench.plan(limit=1)  # [5, 6), which the look of 15 hours ago saw
    bench.stage(second)
    bench.commit(second)
    bench.hours_ago(10)
    with pytest.raises(TombstonesMayBeGone, match=r"range 0:\[6, 7\).*25 hours"):
        bench.stage(bench.plan(), missing=[6])


def test_a_pipeline_without_deletes_keeps_no_snapshots_and_only_head_batches_are_checked(bench: Bench) -> None:
    skips = replace(bench.pipeline, record=replace(bench.pipeline.record, tombstone=Tombstone.SKIP))
    bench.publish(1)
    batch = plan(skips, ME).batch
    assert batch is not None
    assert bench.looks() == []
    compacted = replace(a_snapshot(bench.pipeline), compacted=True, delete_retention_ms=5000)
    plain = replace(compacted, compacted=False, delete_retention_ms=1)
    declared = replace(bench.pipeline, source=replace(bench.pipeline.source, compacted=True))
    assert tombstone_retention(skips, batch, compacted) is None
    assert tombstone_retention(bench.pipeline, replace(batch, kind=BatchKind.REPLAY), compacted) is None
    assert tombstone_retention(bench.pipeline, batch, plain, compacted) == TombstoneRetention(timedelta(seconds=5))
    assert tombstone_retention(bench.pipeline, batch, plain) == TombstoneRetention(None)
    assert tombstone_retention(declared, batch, compacted, plain) == TombstoneRetention(timedelta(milliseconds=1))


def test_the_shortest_time_that_plans_saw_counts_and_not_what_was_raised_since(bench: Bench) -> None:
    bench.publish(3)
    bench.through()
    do(bench.session, "UPDATE offset_ledger.topic_look SET delete_retention_ms = 3600000")
    bench.hours_ago(2)
    bench.publish(3)
    batch = bench.plan()
    with pytest.raises(TombstonesMayBeGone, match=r"2 hours, but tombstones are kept for only 1 hour "):
        bench.stage(batch, missing=[4], kept=TombstoneRetention(1000 * HOUR))
    with pytest.raises(TombstonesMayBeGone):  # it was compacted then, whatever it is now
        bench.stage(batch, missing=[4], kept=TombstoneRetention(None))


def test_an_audit_warns_before(bench: Bench) -> None:
    bench.publish(3)
    bench.through()
    bench.hours_ago(17)
    bench.publish(1)

    def told(pipeline: Pipeline) -> tuple[Severity, str]:
        (found,) = (each for each in audit_pipeline(pipeline).findings if each.rule == "tombstones-against-lag")
        return found.severity, found.found

    waited = "partition 0: records may have waited unread for 17 hours, and tombstones are kept for 24 hours"
    assert told(replace(bench.pipeline, schedule="*/15 * * * *")) == (Severity.WARNING, waited)
    days = "up to 92 days pass between two runs, and tombstones are kept for 24 hours"
    assert told(replace(bench.pipeline, schedule="@quarterly")) == (Severity.ERROR, days)
    assert told(replace(bench.pipeline, schedule="@quarterly", wake_on_data=True)) == (Severity.WARNING, waited)


# -- the approval ----------------------------------------------------------------------------------------------


@pytest.fixture
def late(bench: Bench) -> Batch:
    """A batch of [3, 7) that lacks 4 and 5 and was read too late."""
    bench.publish(3)
    bench.through()
    bench.hours_ago(25)
    bench.publish(4)
    batch = bench.plan()
    with pytest.raises(TombstonesMayBeGone):
        bench.stage(batch, missing=[4, 5])
    return batch


def test_an_approval_in_airflow_commits_what_was_staged_and_nothing_else(bench: Bench, late: Batch) -> None:
    question = loss_question(bench.pipeline)
    assert question is not None
    assert (question.kind, question.batch_id) == (QuestionKind.UNREAD_TOMBSTONES, late.batch_id)
    asked = record_question(bench.pipeline, question)
    assert answer_question(bench.pipeline, asked, QuestionAnswer.APPROVE, ME, "looked") is QuestionAnswer.APPROVE
    kept = rows(bench.session, "SELECT kind, answer, who, why, batch_id FROM offset_ledger.decision")
    assert [tuple(row) for row in kept] == [("unread_tombstones", "approve", "test", "looked", late.batch_id)]
    done = next_stage(bench.session, bench.pipeline, late.batch_id)
    assert isinstance(done, StagedBatch)
    assert (bench.read(late).state, done.attempt.epoch, loss_question(bench.pipeline)) == (State.STAGED, 1, None)
    assert bench.plan().batch_id == late.batch_id
    bench.commit(late)
    places = {tuple(row) for row in rows(bench.session, "SELECT event_id, _offset FROM public.orders")}
    assert places == {(f"e0-{o}", o) for o in (0, 1, 2, 3, 6)}
    bench.hours_ago(25)
    bench.publish(2)
    with pytest.raises(TombstonesMayBeGone, match=r"range 0:\[7, 9\)"):  # the next one has no approval
        bench.stage(bench.plan(), missing=[7])


def test_a_no_changes_nothing(bench: Bench, late: Batch) -> None:
    question = loss_question(bench.pipeline)
    assert question is not None
    asked = record_question(bench.pipeline, question)
    assert answer_question(bench.pipeline, asked, QuestionAnswer.REJECT, ME, "not yet") is QuestionAnswer.REJECT
    assert (bench.read(late).state, loss_question(bench.pipeline)) == (State.STAGING, question)


def test_an_approved_batch_whose_staging_is_gone_may_lack_no_more_than_was_approved(bench: Bench, late: Batch) -> None:
    approve_tombstones(bench.pipeline, ME, "looked")
    with transaction(bench.session) as cursor:
        name = StagingTables(Attempt(late.batch_id, 1))
        cursor.execute(f"TRUNCATE offset_ledger_staging.{name.rows}")
    assert isinstance(next_stage(bench.session, bench.pipeline, late.batch_id), EngineChoice)
    with pytest.raises(TombstonesMayBeGone, match="3 of 4 offsets"):
        bench.stage(late, missing=[4, 5, 6])
    assert bench.stage(late, missing=[4, 5]).state is State.STAGED
    why = "SELECT why FROM offset_ledger.batch_event WHERE batch_id = %s AND to_state = 'staged' ORDER BY event_id"
    again = "staged again with no more offsets missing: the approval of test still counts (looked)"
    assert [row[0] for row in rows(bench.session, why, [late.batch_id])] == ["looked", again]


def test_only_what_was_shown_is_approved(bench: Bench, late: Batch) -> None:
    question = loss_question(bench.pipeline)
    assert question is not None
    asked = record_question(bench.pipeline, question)
    with pytest.raises(TombstonesMayBeGone):
        bench.stage(late, missing=[4, 5, 6])
    with pytest.raises(StateConflict, match="not what was approved"):
        answer_question(bench.pipeline, asked, QuestionAnswer.APPROVE, ME, "looked")
    assert bench.read(late).state is State.STAGING


def test_on_expired_fail_asks_no_question(bench: Bench, late: Batch) -> None:
    no = replace(bench.pipeline, source=replace(bench.pipeline.source, on_expired=OnExpired.FAIL))
    assert loss_question(no) is None
    with pytest.raises(ConfigurationError, match="on_expired: fail"):
        skip_lost(no, ME, "looked")
    assert bench.read(late).state is State.STAGING


# -- since when ------------------------------------------------------------------------------------------------


def test_an_added_partition_waits_since_the_last_snapshot_without_it(bench: Bench) -> None:
    bench.publish(3)
    bench.through()
    bench.hours_ago(25)
    admin = KafkaAdminClient(bootstrap_servers=bench.servers.bootstrap)
    admin.create_partitions({bench.pipeline.source.topic: NewPartitions(2)})
    admin.close()
    for _ in range(50):
        if len(status(bench.pipeline).partitions) == 2:
            break
    bench.publish(3, partition=1)
    batch = bench.plan()
    assert OffsetRange(1, 0, 3) in batch.ranges
    with pytest.raises(TombstonesMayBeGone, match=r"range 1:\[0, 3\).*25 hours"):
        bench.stage(batch, missing=[1])


def test_since_when_an_offset_was_not_compacted(servers: Servers) -> None:
    pipeline = a_pipeline()
    with connect(servers.postgres) as session:
        planned(session, pipeline, [OffsetRange(0, 0, 10)])  # of a log that is stable up to 1,000,000
        with transaction(session) as cursor:
            cursor.execute("SELECT min(recorded_at) FROM offset_ledger.beginning")
            begun: datetime = cursor.one()[0]
            looks = [("old", 1, [500, 500]), ("topic-1", 2, [10, 0]), ("topic-1", 3, [20, 5]), ("topic-1", 4, [20])]
            for log, hours, stable in looks:
                cursor.execute(
                    "INSERT INTO offset_ledger.topic_look (pipeline, topic_id, seen_at, last_stables)"
                    " VALUES ('orders', %s, %s, %s)",
                    [log, begun + hours * HOUR, stable],
                )

            def since(log: str, partition: int, offset: int) -> timedelta:
                cursor.execute(
                    "SELECT offset_ledger.not_compacted_before('orders', %s, %s, %s)", [log, partition, offset]
                )
                found: datetime = cursor.one()[0]
                return found - begun

            assert since("topic-1", 0, 9) == 1 * HOUR  # every look of its own log saw it stable
            assert since("topic-1", 0, 10) == 2 * HOUR
            assert since("topic-1", 0, 20) == 4 * HOUR
            assert since("topic-1", 1, 4) == 4 * HOUR  # the partition was not there
            assert since("topic-1/1", 0, 15) == 2 * HOUR  # cut off and accepted: below the cut the records are the same
            cursor.execute("DELETE FROM offset_ledger.topic_look")
            assert since("topic-1", 0, 9) == timedelta(0)
            assert since("topic-1", 0, 1_000_000) >= timedelta(0)  # planned when it was not stable


# -- a model of the log cleaner --------------------------------------------------------------------------------

KEPT_HOURS = 24


@dataclass
class Cleaned:
    """A log as KIP-534 has it cleaned, and what a reader of it has in its table; hours since the pipeline began."""

    db: Cursor
    now: float = 0
    written: list[tuple[str, bool]] = field(default_factory=list)  # key, tombstone
    gone: set[int] = field(default_factory=set)
    horizons: dict[int, float] = field(default_factory=dict)
    cursor: int = 0
    table: set[str] = field(default_factory=set)
    late: bool = False

    def write(self, key: str, tombstone: bool) -> None:
        self.written.append((key, tombstone))

    def pause(self, hours: float) -> None:
        """A cleaning of all that was written, and one so much later."""
        self.write("filler", False)
        self.clean()
        self.now += hours
        self.clean()

    def clean(self) -> None:
        below = [o for o in range(len(self.written) - 1) if o not in self.gone]  # the last one is in the open segment
        newest = {self.written[o][0]: o for o in below}
        for o in below:
            key, tombstone = self.written[o]
            expired = tombstone and self.now >= self.horizons.setdefault(o, self.now + KEPT_HOURS)
            if o < newest[key] or expired:
                self.gone.add(o)

    def run(self, limit: int, takes: float, cleaned: bool) -> None:
        """A plan, its read so much later, and the commit."""
        end = len(self.written)
        until = min(end, self.cursor + limit)
        snapshot = TopicSnapshot("c", "t", "topic-1", True, (PartitionSnapshot(0, 0, end, end, 1),))
        pipelines.record_snapshot(self.db, "orders", "topic-1", self.at(), snapshot, {0: self.cursor})
        self.now += takes
        if cleaned:
            self.clean()
        if until > self.cursor:
            self.read(OffsetRange(0, self.cursor, until))

    def read(self, offsets: OffsetRange) -> None:
        found = [o for o in range(offsets.from_offset, offsets.until_offset) if o not in self.gone]
        query = "SELECT offset_ledger.not_compacted_before('orders', 'topic-1', 0, %s)"
        self.db.execute(query, [offsets.from_offset])
        wait = (self.at() - self.db.one()[0], timedelta(hours=KEPT_HOURS))
        self.late = self.late or bool(late_ranges([offsets], {0: offsets.width - len(found)}, {0: wait}))
        for key, tombstone in (self.written[o] for o in found):
            (self.table.discard if tombstone else self.table.add)(key)
        self.cursor = offsets.until_offset

    def at(self) -> datetime:
        return NOON + timedelta(hours=self.now)


PAUSE = st.tuples(st.just("pause"), st.sampled_from([1, 11, 25]))
WRITE = st.tuples(st.just("write"), st.sampled_from("ab"), st.booleans())
RUN = st.tuples(st.just("run"), st.integers(1, 4), st.sampled_from([0, 0, 13, 25]), st.booleans())


@pytest.fixture
def begun(servers: Servers) -> Iterator[Session]:
    """A pipeline that began at noon and has seen nothing yet."""
    with connect(servers.postgres) as session:
        with transaction(session) as cursor:
            pipelines.register(cursor, a_pipeline(), a_snapshot(a_pipeline()))
            pipelines.record_start_offsets(cursor, "orders", "topic-1", [Boundary(0, 0)])
            cursor.execute("UPDATE offset_ledger.beginning SET recorded_at = %s", [NOON])
        yield session


@examples(200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=st.lists(WRITE | PAUSE, max_size=5), operations=st.lists(WRITE | PAUSE | RUN, max_size=10))
def test_a_pipeline_that_is_never_late_misses_no_tombstone(
    begun: Session, before: list[tuple[Any, ...]], operations: list[tuple[Any, ...]]
) -> None:
    with transaction(begun) as cursor:
        cursor.execute("DELETE FROM offset_ledger.topic_look")
        log = Cleaned(cursor)
        for name, *arguments in [("write", "a", False), *before]:  # the topic is older than the pipeline
            getattr(log, name)(*arguments)
        log.horizons = {offset: at - log.now for offset, at in log.horizons.items()}
        log.now = 0
        for name, *arguments in [("run", 3, 0, False), *operations]:
            getattr(log, name)(*arguments)
        while log.cursor < len(log.written) and not log.late:
            log.run(2, 0, False)
        last = dict(log.written)
        assert log.late or {key for key in log.table if last[key]} == set()

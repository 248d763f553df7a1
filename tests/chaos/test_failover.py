"""A standby promoted without the last commits, and restores to a moment before them.

Rows, quarantine, sheets and cursors go back together, and the pipeline reads on from there. One primary has a database
for each state that a batch may be in at the split; then it goes on alone, commits, and is lost.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from random import Random
from threading import Event
from typing import Any, ClassVar

import pytest
from kafka import KafkaAdminClient, TopicPartition

from offset_ledger.base.ids import consumer_group
from offset_ledger.errors import Fenced, IncompleteStaging, OffsetExpired, TransientError, UnknownBatch
from offset_ledger.model.batch import Batch, EngineChoice, Origin
from offset_ledger.outside.connections import Connection, environment_name, get_connection
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.batches import read_batch
from offset_ledger.postgres.ledger.database import connect, migrate, transaction
from offset_ledger.postgres.ledger.staging import StagingTables
from offset_ledger.steps.commit.step import commit
from offset_ledger.steps.plan.step import plan
from offset_ledger.steps.report.consumer_group import mirror
from offset_ledger.steps.report.dead_letters import Delivery, deliver, source_position
from offset_ledger.steps.stage.record_batches import slice_reader
from offset_ledger.steps.stage.runs import SharedSlices
from offset_ledger.steps.stage.slices import SliceTask, stage_slices
from offset_ledger.steps.stage.step import stage
from offset_ledger.steps.validate.step import validate
from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox.postgres import ROLE, Postgres
from offset_ledger_kit.sandbox.stack import Stack
from tests.chaos.bench import Bench
from tests.chaos.lab import Lab
from tests.chaos.oracle import Kind
from tests.fixtures.engines import BY_PROCESS
from tests.fixtures.replicas import Replicas, ask, cut_off, promote, replicas
from tests.fixtures.topic_reader import read

pytestmark = [pytest.mark.full, pytest.mark.minutes(1)]

# The state of a second batch at the split; None: nothing is open, so the next batch has the same id on both sides.
AT_SPLIT = {
    **{state: state for state in ("planned", "staging", "staged", "validated")},
    **{"late_same": "planned", "late_other": None, "idle": None, "expired": None},
}


ME = Origin("chaos")


class Stalled(Exception):
    """An attempt ends here without a word."""


@dataclass(frozen=True)
class FirstSlice:
    """Stages the first range of a batch, and stalls."""

    choice: ClassVar[EngineChoice] = BY_PROCESS.choice
    transient: ClassVar[type[TransientError]] = BY_PROCESS.transient

    def read(self, kafka: Connection, batch: Batch, pipeline: Pipeline, task: SliceTask) -> int:
        BY_PROCESS.read(kafka, replace(batch, ranges=batch.ranges[:1]), pipeline, task)
        raise Stalled


@dataclass(frozen=True)
class AfterLateTask:
    """Stages a batch after a task of the lost time has tried to write each slice that it had."""

    lost: Batch
    claimed_at: datetime
    same_ranges: bool
    choice: ClassVar[EngineChoice] = BY_PROCESS.choice
    transient: ClassVar[type[TransientError]] = BY_PROCESS.transient

    def read(self, kafka: Connection, batch: Batch, pipeline: Pipeline, task: SliceTask) -> int:
        assert (task.tables.attempt, batch.ranges == self.lost.ranges) == (self.lost.attempt, self.same_ranges)
        late = replace(task, tables=StagingTables(self.lost.attempt, self.claimed_at))
        with ExitStack() as opened:
            reader = slice_reader(kafka, pipeline.source.topic, opened)
            for each in enumerate(self.lost.ranges):
                with pytest.raises(Fenced):
                    stage_slices(late, reader, SharedSlices(deque([(each,)]), Event()), lambda _: None)
        return BY_PROCESS.read(kafka, batch, pipeline, task)


def bring(pipeline: Pipeline, state: str) -> int | None:
    """Plan a batch, or take the open one, and bring it to this state; its id, or None if nothing is new."""
    batch = plan(pipeline, ME).batch
    if batch is None or state == "planned":
        return batch.batch_id if batch else None
    if state == "staging":
        with suppress(Stalled):
            stage(FirstSlice(), pipeline, batch.batch_id, ME)
        return batch.batch_id
    stage(BY_PROCESS, pipeline, batch.batch_id, ME)
    if state in ("validated", "committed"):
        validate(pipeline, batch.batch_id, ME)
    if state == "committed":
        commit(pipeline, batch.batch_id, ME)
    return batch.batch_id


def drain(pipeline: Pipeline) -> list[str]:
    """Batches until nothing is new; the transient errors on the way, as the next attempt goes on after them."""
    errors: list[str] = []
    while len(errors) < 5:
        try:
            if bring(pipeline, "committed") is None:
                return errors
        except TransientError as error:
            errors.append(type(error).__name__)
    raise AssertionError(f"not drained: {errors}")


@dataclass
class World:
    """One pipeline in many databases; they share a topic and its journal, but ``expired`` has its own."""

    replicas: Replicas
    benches: dict[str, Bench]
    patch: pytest.MonkeyPatch
    standby: Postgres | None = None
    before: dict[str, dict[str, Any]] = field(default_factory=dict)
    lost: dict[str, dict[int, Batch]] = field(default_factory=dict)
    claimed_at: dict[str, datetime] = field(default_factory=dict)
    committed_xid: str = ""

    def on(self, server: Postgres, name: str) -> Bench:
        """The bench of this database there, to which the pipeline's connection leads from now on."""
        there = replace(server.connection(name), conn_id="postgres_default")
        self.patch.setenv(environment_name("postgres_default"), there.to_json())
        return replace(self.benches[name], database=there)


def pipeline_of(bench: Bench) -> Pipeline:
    """The pipeline, with dead letters."""
    made = bench.pipeline
    return replace(made, quality=replace(made.quality, dead_letter_topic=f"{bench.topic}.dead"))


def produce(world: World, seed: int) -> None:
    """Records of every kind, a malformed one at least; and a few for ``expired``."""
    random = Random(seed)
    shared, alone = world.benches["idle"], world.benches["expired"]
    shared.produce(random, 60)
    shared.publish([shared.record(random, Kind.MALFORMED)])
    alone.publish([alone.record(random) for _ in range(12)])


def picture(bench: Bench) -> dict[str, Any]:
    """All that has to go back together."""
    tables = ("batch", "batch_range", "cursor", "quarantine", "batch_event", "dead_letter")
    kept = {name: bench.query(f"SELECT t::text FROM offset_ledger.{name} AS t ORDER BY 1") for name in tables}
    return kept | {"rows": bench.fingerprint()}


@pytest.fixture(scope="module")
def world(lab: Lab, stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Two servers that were one: of the primary only the archive is left, the standby is not yet promoted."""
    with pytest.MonkeyPatch.context() as patch, replicas() as servers:
        kafka = Connection("kafka_default", "kafka", extra={"bootstrap.servers": stack.kafka.bootstrap})
        patch.setenv(environment_name(kafka.conn_id), kafka.to_json())
        made = World(servers, make_benches(lab, tmp_path_factory.mktemp("failover"), servers.primary), patch)
        produce(made, 1)
        for name in AT_SPLIT:
            bring(pipeline_of(made.on(servers.primary, name)), "committed")
        servers.back_up()
        with servers.standby() as standby:
            split(made, standby)
            lose(made)
            made.standby = standby
            yield made


def make_benches(lab: Lab, folder: Path, server: Postgres) -> dict[str, Bench]:
    """A migrated database for each, and two topics."""
    ask(server, f"CREATE DATABASE template_ledger OWNER {ROLE}")
    with connect(server.connection("template_ledger")) as session:
        migrate(session)
    for name in AT_SPLIT:
        ask(server, f"CREATE DATABASE {name} TEMPLATE template_ledger OWNER {ROLE}")
    shared, alone = (Bench(lab, server.connection(), folder, f"failover.{uuid.uuid4().hex[:8]}") for _ in range(2))
    for bench in (shared, alone):
        bench.create()
        create_topic(bench.extra, f"{bench.topic}.dead", 1, 1, {})
    return {name: alone if name == "expired" else shared for name in AT_SPLIT}


def split(world: World, standby: Postgres) -> None:
    """Each open batch comes to its state, and from then on the primary is alone."""
    produce(world, 2)
    primary = world.replicas.primary
    for name, state in AT_SPLIT.items():
        bench = world.on(primary, name)
        if state:
            bring(pipeline_of(bench), state)
        world.before[name] = picture(bench)
    cut_off(primary, standby)
    ask(primary, "SELECT pg_create_restore_point('split')")


def lose(world: World) -> None:
    """The primary commits all there is, delivers and mirrors; the next batch is staging when it stops for good."""
    primary = world.replicas.primary
    for name in AT_SPLIT:
        drain(pipeline_of(world.on(primary, name)))
    idle = pipeline_of(world.on(primary, "idle"))
    deliver(idle)
    mirror(idle)
    produce(world, 3)
    for name in AT_SPLIT:
        bench = world.on(primary, name)
        assert bring(pipeline_of(bench), "staging") == 3
        with connect(bench.database) as session, transaction(session) as cursor:
            cursor.execute("SELECT claimed_at FROM offset_ledger.batch WHERE batch_id = 2")
            world.claimed_at[name] = cursor.one()["claimed_at"]
            world.lost[name] = {batch_id: read_batch(cursor, batch_id) for batch_id in (2, 3)}
    (world.committed_xid,) = world.on(primary, "idle").query(
        "SELECT committed_xid::text FROM offset_ledger.batch WHERE batch_id = 2"
    )[0]
    world.replicas.archive()
    primary.stop(immediate=True)


@pytest.fixture(scope="module", params=["promoted", "restored"])
def server(request: pytest.FixtureRequest, world: World) -> Iterator[Postgres]:
    """What takes the primary's place."""
    assert world.standby
    if request.param == "promoted":
        promote(world.standby)
        yield world.standby
    else:
        with world.replicas.restored(recovery_target_name="split") as made:
            yield made


@pytest.mark.parametrize("name", AT_SPLIT)
def test_rows_quarantine_sheets_and_cursors_go_back_together(world: World, server: Postgres, name: str) -> None:
    bench = world.on(server, name)
    assert picture(bench) == world.before[name]
    assert bench.check(drained=False) == []
    with pytest.raises(UnknownBatch):  # a run of the lost time goes on with the batch that it had planned
        commit(pipeline_of(bench), 3, ME)


@pytest.mark.parametrize("name", ["planned", "staging", "staged", "validated"])
def test_the_pipeline_continues_from_the_remaining_cursors(world: World, server: Postgres, name: str) -> None:
    bench = world.on(server, name)
    step = {"staged": validate, "validated": commit}.get(name)
    if step:  # no standby and no backup has UNLOGGED tables
        with pytest.raises(IncompleteStaging):
            step(pipeline_of(bench), 2, ME)
    assert drain(pipeline_of(bench)) == []
    assert bench.check() == []


@pytest.mark.parametrize("name", ["late_same", "late_other"])
def test_a_task_of_the_lost_time_that_writes_into_the_new_primary_corrupts_nothing(
    world: World, server: Postgres, name: str
) -> None:
    """Batch id, epoch and slices have the same numbers on both sides; the ranges too, if they are from before."""
    bench = world.on(server, name)
    pipeline = pipeline_of(bench)
    batch = bring(pipeline, "planned")
    assert batch is not None
    late = AfterLateTask(world.lost[name][batch], world.claimed_at[name], name == "late_same")
    with suppress(TransientError):
        stage(late, pipeline, batch, ME)
        validate(pipeline, batch, ME)
        commit(pipeline, batch, ME)
    drain(pipeline)
    assert bench.check() == []


def test_dead_letters_are_not_doubled_and_the_mirrored_group_waits(world: World, server: Postgres) -> None:
    bench = world.on(server, "idle")
    pipeline = pipeline_of(bench)
    ahead = group(bench)
    mirror(pipeline)
    assert group(bench) == ahead
    assert all(ahead[p] > next_offset for p, next_offset in cursors(bench).items())
    small = replace(pipeline, limits=replace(pipeline.limits, records_per_batch=24))
    again = Delivery()
    while bring(small, "committed"):  # the first deliveries read letters of records that are not in quarantine again
        again += deliver(small)
    assert again.already_delivered > 0
    mirror(pipeline)
    assert group(bench) == cursors(bench)
    published = read(bench.extra, f"{bench.topic}.dead").values()
    letters = [source_position(letter.headers, pipeline.name) for letter in published]
    assert sorted((at.partition, at.offset) for at in letters if at) == sorted(
        place for place, _ in bench.journal.of(Kind.MALFORMED)
    )
    assert bench.check() == []


def group(bench: Bench) -> dict[int, int]:
    """The offsets of the consumer group that mirrors the cursors."""
    with connect_kafka(get_connection("kafka_default")) as kafka:
        return kafka.group_offsets(consumer_group(bench.pipeline.name), bench.topic)


def cursors(bench: Bench) -> dict[int, int]:
    """Where each partition goes on."""
    return dict(map(tuple, bench.query("SELECT partition, next_offset FROM offset_ledger.cursor")))


def test_what_retention_deleted_after_the_lost_commits_is_named(world: World, server: Postgres) -> None:
    bench = world.on(server, "expired")
    admin = KafkaAdminClient(bootstrap_servers=bench.servers)
    lost = {TopicPartition(bench.topic, r.partition): r.until_offset for r in world.lost["expired"][2].ranges}
    admin.delete_records(lost)
    admin.close()
    with pytest.raises(OffsetExpired):
        plan(pipeline_of(bench), ME)
    assert picture(bench) == world.before["expired"]


@pytest.mark.parametrize("inclusive", ["off", "on"])
def test_a_restore_to_the_moment_of_a_commit_has_all_of_it_or_nothing(world: World, inclusive: str) -> None:
    target = {"recovery_target_xid": world.committed_xid, "recovery_target_inclusive": inclusive}
    with world.replicas.restored(**target) as made:
        bench = world.on(made, "idle")
        ranges = world.lost["idle"][2].ranges
        ends = {r.partition: r.until_offset if inclusive == "on" else r.from_offset for r in ranges}
        assert cursors(bench) == ends
        assert bench.query("SELECT state FROM offset_ledger.batch WHERE batch_id = 2") == [
            ["committed" if inclusive == "on" else "validated"]
        ]
        assert bench.check(drained=False) == []
        drain(pipeline_of(bench))
        assert bench.check() == []

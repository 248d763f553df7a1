"""The short form of the fault suite: each fault once, at the place where it hurts most, on real servers."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from os import dup
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import psutil
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

from offset_ledger.base.failpoints import Failpoint
from offset_ledger.errors import SparkFailed
from offset_ledger.model.batch import Origin
from offset_ledger.model.states import State
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.kafka import offsets, topics
from offset_ledger.outside.kafka.client import KafkaClient, connect_kafka
from offset_ledger.outside.kafka.python_client import Admin
from offset_ledger.outside.producer.publisher import Publisher
from offset_ledger.postgres.ledger.database import connect, rows
from offset_ledger.postgres.ledger.decisions import decide
from offset_ledger.steps.plan.step import plan
from offset_ledger.steps.stage.readers import SparkReader, classify
from offset_ledger.steps.stage.step import TopicStager, stage
from offset_ledger_kit.publishing.topics import create_topic, delete_topic
from tests.chaos.bench import ELSEWHERE, ORDERS, Bench
from tests.chaos.cycle import run_cycle
from tests.chaos.faults import disk_full
from tests.chaos.lab import Answer, Lab
from tests.chaos.oracle import SPAN, Kind
from tests.chaos.short import errors, produced, to_step, until
from tests.fixtures.engines import BY_PROCESS, by_spark
from tests.fixtures.servers import Servers, execute

pytestmark = [pytest.mark.full, pytest.mark.minutes(3)]
UNUSED: Any = object()
"""A Spark session where what it reads is replaced."""


@pytest.fixture
def bench(lab: Lab, servers: Servers, topic_name: Callable[[], str], tmp_path: Path) -> Iterator[Bench]:
    """A topic of three partitions and a database of the test's own; everything is healed afterwards."""
    for setting in ELSEWHERE:
        execute(servers.postgres, f"ALTER DATABASE {servers.postgres.schema} {setting}")
    made = Bench(lab, servers.postgres, tmp_path, topic_name())
    made.create()
    yield made
    lab.disarm()
    lab.resume()
    lab.proxy.release()


# -- processes die, stall and run twice ------------------------------------------------------------------------


@pytest.mark.parametrize("place", [Failpoint.BEFORE_MERGE, Failpoint.AFTER_MERGE])
def test_a_committing_process_that_was_stopped_is_ended_by_the_next_commit(bench: Bench, place: Failpoint) -> None:
    produced(bench)
    batch = to_step(bench, "validate")
    bench.lab.arm(f"{place}=stop")
    stopped = bench.submit(bench.lab.second, "commit", batch=batch)
    until(bench.lab.second.stopped)
    staged = bench.ask(bench.lab.heavy, "stage", 15, batch=batch)
    assert (staged.error, staged.found.get("done")) == (None, True)
    again = bench.ask(bench.lab.light, "commit", 30, batch=batch)
    assert (again.error, again.found.get("already")) == (None, False)
    bench.lab.resume()
    woken = stopped.result(60)
    assert woken.error is None, woken  # the ledger says it: committed by the other one
    bench.drain()
    assert bench.check() == []
    assert bench.states() == [(batch, "committed", 1)]


def test_a_stopped_committer_that_wakes_in_time_commits_once(bench: Bench) -> None:
    produced(bench)
    batch = to_step(bench, "validate")
    bench.lab.arm("before_merge=stop")
    first = bench.submit(bench.lab.second, "commit", batch=batch)
    until(bench.lab.second.stopped)
    again = bench.submit(bench.lab.light, "commit", batch=batch)
    time.sleep(0.5)
    bench.lab.resume()
    assert first.result(30).error is None
    assert again.result(30).error in (None, "StateConflict")
    assert bench.check() == []
    assert bench.states() == [(batch, "committed", 1)]


def test_two_attempts_at_once_commit_each_offset_once(bench: Bench) -> None:
    produced(bench)
    both: list[list[Answer]] = []
    racing = [
        threading.Thread(target=lambda light=light: both.append(bench.attempt(light)))
        for light in (bench.lab.light, bench.lab.second)
    ]
    for each in racing:
        each.start()
    for each in racing:
        each.join()
    failed = {str(answer) for answers in both for answer in answers if answer.error}
    assert all(line.startswith(("Fenced", "StateConflict", "IncompleteStaging")) for line in failed), failed
    bench.drain()
    assert bench.check() == []


def test_spark_tries_a_failed_task_again_in_the_same_attempt(bench: Bench) -> None:
    produced(bench)
    bench.lab.arm("slice_copied=fail;slice_committed=kill")
    assert errors(bench.attempt()) == []
    assert bench.lab.reached() == {"slice_copied", "slice_committed"}
    assert bench.check() == []
    assert bench.states() == [(1, "committed", 1)]


def test_two_live_tasks_of_one_slice_stage_it_once(bench: Bench) -> None:
    bench.partitions = 1
    produced(bench)
    batch = to_step(bench, "plan")
    bench.lab.arm("slice_copied=stop")
    staging = bench.submit(bench.lab.heavy, "stage", batch=batch, twins=True)
    until(bench.lab.heavy.stopped)
    until(lambda: waiting_slices(bench) == 1)  # the twin waits for the key of the first one's manifest row
    bench.lab.resume()
    assert staging.result(60).error is None
    assert bench.query("SELECT batch_id, epoch, slice_no FROM offset_ledger.slice") == [[batch, 1, 0]]
    assert errors(bench.run(batch, skip=1)) == []
    assert bench.check() == []
    assert bench.states() == [(batch, "committed", 1)]


def test_a_live_task_stages_what_its_failing_concurrent_attempt_does_not(bench: Bench) -> None:
    bench.partitions = 1
    produced(bench)
    batch = to_step(bench, "plan")
    bench.lab.arm("slice_copied=kill")  # one of the two dies with its rows copied and not committed
    staged = bench.ask(bench.lab.heavy, "stage", batch=batch, twins=True)
    assert staged.error is None, staged
    assert bench.lab.reached() == {"slice_copied"}
    assert bench.query("SELECT batch_id, epoch, slice_no FROM offset_ledger.slice") == [[batch, 1, 0]]
    assert errors(bench.run(batch, skip=1)) == []
    assert bench.check() == []


def waiting_slices(bench: Bench) -> int:
    found = bench.query(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        " AND application_name ~ ' slices'"
    )
    return int(found[0][0])


def test_a_process_stopped_until_another_attempt_has_ended_changes_nothing_when_it_wakes(bench: Bench) -> None:
    assert run_cycle(bench, 1, 1, 60, ["stopped_past_heartbeat"]).violations == []


def test_a_replay_that_died_is_resumed_by_the_same_replay(bench: Bench) -> None:
    produced(bench)
    bench.drain()
    before = bench.fingerprint()
    ranges = bench.query("SELECT partition, from_offset, until_offset FROM offset_ledger.batch_range ORDER BY 1")
    wanted = [list(row) for row in ranges]
    first = bench.ask(bench.lab.light, "replay", ranges=wanted).found
    bench.lab.arm("after_validate=kill")
    assert errors(bench.run(first["batch"])) == ["Died"]
    again = bench.ask(bench.lab.light, "replay", ranges=wanted).found
    assert (again["batch"], again["resumed"]) == (first["batch"], True)
    other = bench.ask(bench.lab.light, "replay", ranges=wanted[:1]).found
    assert (other["batch"] == first["batch"], other["resumed"]) == (False, False)
    assert errors([*bench.run(first["batch"]), *bench.run(other["batch"])]) == []
    anew = bench.ask(bench.lab.light, "replay", ranges=wanted).found
    assert (anew["batch"] == first["batch"], anew["resumed"]) == (False, False)
    assert bench.fingerprint() == before


def test_a_replay_during_a_live_batch_keeps_the_newest(bench: Bench) -> None:
    produced(bench)
    bench.drain()
    produced(bench, seed=2)
    assert run_cycle(bench, 1, 1, 60, ["replay_overlaps"]).violations == []


def test_a_remerge_beside_an_attempt_orders_the_rows_of_both_topics(bench: Bench) -> None:
    bench.order, bench.neighbour = "clock", f"{bench.topic}.z"
    bench.create()
    bench.produce(Random(2), 60)
    assert bench.drain() == []
    found = run_cycle(bench, 1, 1, 60, ["remerged", "columns_changed"])
    assert (found.violations, found.odd, bench.order) == ([], [], "remerged")
    assert {place[0] >= SPAN for place in bench.journal.acknowledged} == {False, True}
    bench.journal.acknowledged = {
        place: replace(record, publish_at=record.timestamp + 1) for place, record in bench.journal.acknowledged.items()
    }
    assert bench.check() != []


# -- Postgres --------------------------------------------------------------------------------------------------


def test_staging_emptied_by_a_crash_is_noticed_and_staged_again(bench: Bench) -> None:
    produced(bench)
    batch = to_step(bench, "validate")
    bench.lab.stack.postgres.restart(immediate=True)
    assert bench.ask(bench.lab.light, "commit", batch=batch).error == "IncompleteStaging"
    bench.drain()
    assert bench.check() == []
    assert bench.states() == [(batch, "committed", 2)]


def test_staging_emptied_before_validation_is_noticed(bench: Bench) -> None:
    produced(bench)
    batch = to_step(bench, "stage")
    bench.lab.stack.postgres.restart(immediate=True)
    assert bench.ask(bench.lab.light, "validate", batch=batch).error == "IncompleteStaging"
    bench.drain()
    assert bench.check() == []


def test_a_crash_of_postgres_during_the_merge_leaves_nothing_of_it(bench: Bench) -> None:
    produced(bench)
    batch = to_step(bench, "validate")
    bench.lab.arm("after_merge=sleep:3")
    committing = bench.submit(bench.lab.light, "commit", batch=batch)
    until(lambda: bench.lab.reached() == {"after_merge"})
    bench.lab.stack.postgres.restart(immediate=True)
    assert committing.result(60).error == "DatabaseUnavailable"
    assert bench.query("SELECT count(*) FROM public.orders")[0][0] == 0
    bench.drain()
    assert bench.check() == []


@pytest.mark.parametrize("step", ["stage", "commit"])
def test_sessions_that_are_terminated_lose_nothing(bench: Bench, step: str) -> None:
    produced(bench)
    batch = to_step(bench, "plan" if step == "stage" else "validate")
    place = "slice_copied" if step == "stage" else "after_merge"
    bench.lab.arm(f"{place}=sleep:2")
    running = bench.submit(bench.lab.heavy if step == "stage" else bench.lab.light, step, batch=batch)
    until(lambda: bench.lab.reached() == {place})
    assert bench.terminate_sessions() > 0
    assert running.result(60).error == "DatabaseUnavailable"
    bench.drain()
    assert bench.check() == []


def test_a_connection_cut_during_commit_is_resolved_from_the_ledger(bench: Bench) -> None:
    produced(bench)
    batch = to_step(bench, "validate")
    bench.lab.arm("after_merge=sleep:1")
    committing = bench.submit(bench.lab.light, "commit", batch=batch)
    until(lambda: bench.lab.reached() == {"after_merge"})
    bench.lab.proxy.stall()  # COMMIT is sent after the sleep and does not arrive
    time.sleep(1.5)
    bench.lab.proxy.cut()
    bench.lab.proxy.release()
    assert committing.result(60).error in (None, "DatabaseUnavailable")
    bench.drain()
    assert bench.check() == []


def test_a_full_disk_under_staging_is_an_error_and_loses_nothing(bench: Bench) -> None:
    if not psutil.LINUX or psutil.Process().uids().real != 0:
        pytest.skip("a small disk is mounted for this, which needs root on Linux")
    produced(bench, 900)
    batch = to_step(bench, "plan")
    with disk_full(bench, Random(1)):
        full = bench.ask(bench.lab.heavy, "stage", batch=batch)
    assert (full.error, full.found["transient"]) == ("DatabaseFull", True)
    assert "make room" in str(full)
    bench.drain()
    assert bench.check() == []


def test_a_silent_network_is_noticed_within_two_minutes_by_both_sides(servers: Servers) -> None:
    with connect(servers.postgres) as session, socket.socket(fileno=dup(session.fileno())) as ours:
        assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        theirs = {
            name: rows(session, "SELECT current_setting(%s)", [name])[0][0]
            for name in ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout")
        }
        if psutil.LINUX:
            assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 120_000
            assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30
            assert list(theirs.values()) == ["30", "10", "6", "120000"]


def test_an_approved_batch_whose_staging_was_emptied_is_staged_again_and_stays_approved(bench: Bench) -> None:
    bench.settings["share"] = 0.0
    random = Random(3)
    bench.publish([bench.record(random, kind) for kind in [Kind.EVENT] * 9 + [Kind.MALFORMED]])
    batch = to_step(bench, "stage")
    assert bench.ask(bench.lab.light, "validate", batch=batch).found["state"] == "rejected"
    with connect(bench.database) as session:
        decide(session, batch, State.VALIDATED, Origin("somebody"), "known")
    bench.lab.stack.postgres.restart(immediate=True)
    assert bench.ask(bench.lab.light, "commit", batch=batch).error == "IncompleteStaging"
    bench.drain()
    assert bench.states() == [(batch, "committed", 2)]
    assert bench.check() == []
    told = bench.query("SELECT why FROM offset_ledger.batch_event WHERE from_state = 'rejected' ORDER BY event_id")
    assert [row[0] for row in told] == [
        "known", "staged again with the same verdict: the approval of somebody still counts (known)"
    ]  # fmt: skip


# -- Kafka -----------------------------------------------------------------------------------------------------


def test_a_broker_killed_and_restarted_between_plan_and_read(bench: Bench) -> None:
    produced(bench)
    to_step(bench, "plan")
    bench.broker().kill()
    bench.start_brokers()
    bench.drain()
    assert bench.check() == []


def test_a_recreated_topic_with_overlapping_offsets_is_refused_and_changes_nothing(bench: Bench) -> None:
    produced(bench)
    bench.drain()
    before = bench.fingerprint()
    produced(bench, seed=2)
    batch = to_step(bench, "plan")
    delete_topic(bench.extra, bench.topic)
    create_topic(bench.extra, bench.topic, 3, 1)
    journal, bench.journal = bench.journal, type(bench.journal)()
    produced(bench, 300, seed=3)
    bench.journal = journal
    assert bench.ask(bench.lab.heavy, "stage", batch=batch).error == "TopicRecreated"
    assert errors(bench.attempt()) == ["TopicRecreated"]
    assert bench.fingerprint() == before
    assert bench.check(drained=False) == []


def test_records_deleted_under_a_planned_range_are_named(bench: Bench) -> None:
    produced(bench)
    batch = to_step(bench, "plan")
    admin = KafkaAdminClient(bootstrap_servers=bench.extra["bootstrap.servers"])
    admin.delete_records({TopicPartition(bench.topic, 1): 5})
    admin.close()
    assert bench.ask(bench.lab.heavy, "stage", batch=batch).error == "OffsetExpired"
    assert bench.states() == [(batch, "planned", 0)]
    assert bench.query("SELECT count(*) FROM public.orders")[0][0] == 0


def test_a_partition_added_after_the_plan_is_read_by_the_next_batch(bench: Bench) -> None:
    produced(bench)
    to_step(bench, "plan")
    admin = KafkaAdminClient(bootstrap_servers=bench.extra["bootstrap.servers"])
    admin.create_partitions({bench.topic: 4})
    admin.close()
    bench.partitions = 4
    produced(bench, seed=2)
    bench.drain()
    assert {place[0] for place in bench.journal.acknowledged} == {0, 1, 2, 3}
    assert bench.check() == []


@pytest.mark.parametrize("commit", [True, False])
def test_records_of_an_open_transaction_are_read_after_its_end_or_never(bench: Bench, commit: bool) -> None:
    produced(bench)
    bench.drain()
    random = Random(5)
    drawn = [bench.record(random, Kind.EVENT if commit else Kind.ABORTED, ids=9) for _ in range(9)]
    kinds = {id(record): what for record, what in drawn}
    ack = bench.journal.on_ack(kinds)
    with Publisher(bench.extra, bench.topic, transactional_id=f"{bench.topic}-open", on_ack=ack) as publisher:
        for record, _ in drawn:
            publisher.send(record)
        publisher._producer.flush(20)
        bench.publish([bench.record(random) for _ in range(20)])  # they lie behind it
        assert errors(bench.attempt()) == []
        marks = {what.mark for what in kinds.values()}
        assert not marks & {row[0] for row in bench.query("SELECT state FROM public.orders")}
        publisher.finish(commit)
    bench.drain()
    assert bench.check() == []


def test_a_record_whose_answer_was_lost_is_in_the_table_once(bench: Bench) -> None:
    produced(bench)
    random = Random(8)
    unanswered = [bench.record(random, ids=10_000) for _ in range(5)]
    placed = [(msgspec.structs.replace(sent, partition=0), what) for sent, what in unanswered]
    bench.publish_unanswered(placed, 1)
    marks = {what.mark for _, what in placed}
    until(lambda: marks <= set(bench.marks().values()))
    bench.publish([bench.record(random) for _ in range(20)])
    bench.drain()
    assert set(bench.journal.unknown) == marks
    assert bench.check() == []  # they are told from rows that nobody produced
    assert marks == {row[0] for row in bench.query("SELECT state FROM public.orders")} & marks
    unknown, bench.journal.unknown = bench.journal.unknown, {}
    told = bench.check()
    assert len([line for line in told if "was never produced" in line]) == len(marks), told
    bench.journal.unknown = {mark: replace(what, event_id="other") for mark, what in unknown.items()}
    told = bench.check()
    assert len([line for line in told if "differs from what was produced" in line]) == len(marks), told
    bench.journal.unknown = unknown
    assert bench.settle() == len(marks)
    assert (bench.journal.unknown, bench.check()) == ({}, [])


def test_a_range_that_ends_in_a_control_record_or_is_nothing_else(bench: Bench) -> None:
    random = Random(6)
    bench.publish([bench.record(random) for _ in range(30)], f"{bench.topic}-1")
    bench.drain()
    bench.publish([bench.record(random, Kind.ABORTED) for _ in range(30)], f"{bench.topic}-2", commit=False)
    before = bench.fingerprint()
    until(lambda: bench.ask(bench.lab.light, "plan").found.get("batch"))
    assert errors(bench.attempt()) == []
    assert bench.fingerprint() == before
    bench.drain()
    assert bench.check() == []


# -- together --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [101, 102, 103])
def test_faults_together(bench: Bench, number: int) -> None:
    bench.order = list(ORDERS)[number % len(ORDERS)]
    assert run_cycle(bench, number, 1).violations == []


# -- what attempts leave for one another ------------------------------------------------------------------------


def test_a_plan_made_from_an_old_snapshot_does_not_cry_damage(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    produced(bench)
    bench.drain()
    real = KafkaClient.snapshot
    with connect_kafka(Connection("kafka_default", "kafka", extra=bench.extra)) as kafka:
        answers = [kafka.snapshot(bench.topic)]
    produced(bench, seed=2)
    bench.drain()
    monkeypatch.setattr(
        KafkaClient, "snapshot", lambda self, *given, **more: answers.pop() if answers else real(self, *given, **more)
    )
    assert plan(bench.pipeline, Origin("late planner")).batch is None
    assert answers == []


def test_an_old_answer_after_a_leader_change_is_not_believed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    produced(bench)
    bench.drain()
    real = KafkaClient.snapshot
    with connect_kafka(Connection("kafka_default", "kafka", extra=bench.extra)) as kafka:
        old = kafka.snapshot(bench.topic)
    answers = [replace(old, partitions=old.partitions[:2])]
    monkeypatch.setattr(
        KafkaClient, "snapshot", lambda self, *given, **more: answers.pop() if answers else real(self, *given, **more)
    )
    assert plan(bench.pipeline, Origin("a partition seems gone")).batch is None
    produced(bench, seed=2)
    planned = plan(bench.pipeline, Origin("next")).batch
    assert planned is not None
    answers += [old, replace(old, partitions=old.partitions[:2])]  # the log ends below the range, a partition is gone
    with closing(TopicStager(BY_PROCESS, bench.pipeline)) as stager:
        stager.check(planned)
    assert answers == []
    bench.drain()
    assert bench.check() == []


def test_an_old_description_gives_a_range_no_old_epoch(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    produced(bench)
    real = topics.describe_available_topic

    def old(admin: Admin, topic: str) -> dict[str, Any]:
        found = dict(real(admin, topic))
        return {**found, "partitions": [{**p, "leader_epoch": p["leader_epoch"] - 1} for p in found["partitions"]]}

    with connect_kafka(Connection("kafka_default", "kafka", extra=bench.extra)) as kafka:
        true = kafka.snapshot(bench.topic).partitions
        for module in (topics, offsets):  # the two that ask for a description
            monkeypatch.setattr(module, "describe_available_topic", old)
        assert kafka.snapshot(bench.topic).partitions == true
        assert kafka.epoch_ends(bench.topic, {p.partition: p.leader_epoch for p in true}) == {
            p.partition: p.high_watermark for p in true
        }


def test_a_loss_that_spark_reports_and_the_topic_does_not_have_is_transient(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    produced(bench)
    batch = plan(bench.pipeline, Origin("test")).batch
    assert batch is not None

    def reports_a_loss(*_: object) -> int:
        raise classify(RuntimeError("offset_ledger.errors.LostRange: partition 0"))

    with monkeypatch.context() as patched:
        patched.setattr(SparkReader, "read", reports_a_loss)
        with pytest.raises(SparkFailed, match="the topic has every planned range"):
            stage(by_spark(UNUSED), bench.pipeline, batch.batch_id, Origin("test"))
    bench.drain()
    assert bench.check() == []


def test_staging_of_a_batch_that_was_never_reported_is_dropped_by_a_later_one(bench: Bench) -> None:
    produced(bench)
    bench.lab.arm("after_commit=kill")
    assert errors(bench.attempt()) == ["Died"]
    bench.lab.disarm()
    produced(bench, seed=2)
    bench.drain()
    assert bench.query("SELECT tablename FROM pg_tables WHERE schemaname = 'offset_ledger_staging'") == []


def test_a_concurrent_attempt_that_comes_second_finds_the_work_done(bench: Bench) -> None:
    produced(bench)
    batch = to_step(bench, "validate")
    bench.lab.arm("before_merge=sleep:1")
    first = bench.submit(bench.lab.light, "commit", batch=batch)
    until(lambda: bench.lab.reached() == {"before_merge"})
    again = bench.ask(bench.lab.second, "commit", batch=batch)
    assert first.result(30).error is None
    assert again.found.get("already") is True


def test_a_stopped_slice_is_fenced_by_the_next_claim(bench: Bench) -> None:
    produced(bench)
    batch = to_step(bench, "plan")
    bench.lab.arm("slice_copied=stop")
    stalled = bench.submit(bench.lab.heavy, "stage", batch=batch)
    until(bench.lab.heavy.stopped)
    again = bench.ask(bench.lab.heavy, "stage", 60, batch=batch)
    bench.lab.resume()
    assert stalled.result(60).error == "Fenced"
    assert (again.error, again.found.get("epoch")) == (None, 2)
    bench.drain()
    assert bench.check() == []
    assert bench.states() == [(batch, "committed", 2)]  # drain finds it staged


def test_holes_that_compaction_made_are_labelled_gaps(bench: Bench) -> None:
    bench.topic += ".compacted"
    often = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0.001"}
    bench.settings["transactional"] = "false"
    bench.create(often | {"max.compaction.lag.ms": "1", "min.compaction.lag.ms": "0"})
    drawn = sorted((bench.record(Random(n), ids=6) for n in range(60)), key=lambda pair: pair[1].publish_at)
    for part in (drawn[:20], drawn[20:40], drawn[40:]):
        bench.publish(part)
    until(lambda: len(readable(bench)) < 45, 40)
    kept = frozen(bench)
    journal = bench.journal.acknowledged
    for place in journal.keys() - kept:
        journal[place] = replace(journal[place], kind=Kind.ABORTED)  # as unreadable as an aborted one
    bench.drain()
    gaps = bench.query("SELECT sum(gap)::bigint, array_agg(DISTINCT gap_reason) FROM offset_ledger.batch_range")
    assert gaps[0][0] > 0
    assert "compaction" in gaps[0][1]
    assert bench.check() == []


def frozen(bench: Bench) -> set[tuple[int, int]]:
    """Stop compaction, and what it left: nothing may vanish between the look at the topic and the run."""
    week = str(7 * 24 * 3600 * 1000)
    lags = {"min.compaction.lag.ms": week, "max.compaction.lag.ms": week, "min.cleanable.dirty.ratio": "1.0"}
    admin = KafkaAdminClient(bootstrap_servers=bench.extra["bootstrap.servers"])
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, bench.topic, configs=lags)])
    admin.close()
    seen = [readable(bench)]

    def settled() -> bool:
        time.sleep(2)  # twice the cleaner's backoff: a cleaning that had begun has ended
        seen.append(readable(bench))
        return seen[-1] == seen[-2]

    until(settled, 40)
    return seen[-1]


def readable(bench: Bench) -> set[tuple[int, int]]:
    """The places that a plain consumer finds."""
    consumer = KafkaConsumer(bootstrap_servers=bench.extra["bootstrap.servers"], consumer_timeout_ms=1500)
    places = [TopicPartition(bench.topic, p) for p in range(bench.partitions)]
    consumer.assign(places)
    consumer.seek_to_beginning()
    found = {(message.partition, message.offset) for message in consumer}
    consumer.close()
    return found

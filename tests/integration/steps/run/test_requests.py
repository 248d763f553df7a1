# ruff: noqa: F811 (the fixture bench is that of test_ingest)
"""What a run may be asked for, on real parts: windows, dry runs, decisions about losses, and the mirror."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition

from offset_ledger.base.ids import consumer_group
from offset_ledger.errors import OffsetExpired, StateConflict, UnknownBatch
from offset_ledger.interfaces.airflow.concurrent_runs import one_run_plans
from offset_ledger.model.balance_sheet import Dispositions
from offset_ledger.model.batch import Origin, current_origin
from offset_ledger.model.questions import Question, QuestionAnswer, QuestionKind
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.request import Request, RunAction
from offset_ledger.model.states import BatchKind
from offset_ledger.operations.repair.verify import verify
from offset_ledger.operations.repair.verify_against_topic import compare_with_topic
from offset_ledger.operations.status.status import batch_metrics
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.postgres.ledger import decisions
from offset_ledger.postgres.ledger.database import rows, transaction
from offset_ledger.steps.decide.accept_topic import accept_topic
from offset_ledger.steps.decide.answers import answer_question, loss_question, skip_lost
from offset_ledger.steps.plan.step import plan
from offset_ledger.steps.report.consumer_group import mirror
from offset_ledger.steps.run.ingest import run_batch
from offset_ledger.steps.run.requests import plan_request, preview
from offset_ledger.steps.stage.step import stage
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.publishing.topics import create_topic, delete_topic
from tests.fixtures.engines import BY_PROCESS
from tests.fixtures.java_clients import JavaClients
from tests.fixtures.topic_bench import quiet
from tests.integration.steps.run.test_ingest import KEEP, ME, NOON, Bench, bench, order  # noqa: F401

RUN = Origin("airflow:ingest_orders.plan", "ingest_orders", "backfill__1", 1)


def at(minute: int, partition: int, event_id: str, state: str = "new") -> Record:
    moment = int((NOON + timedelta(minutes=minute)).timestamp() * 1000)
    return Record(b"k", order(event_id, minute * 60, state), (), moment, partition)


def window(first: int, last: int, **more: Any) -> Request:
    since, until = (NOON + timedelta(minutes=minute) for minute in (first, last))
    return Request(RunAction.WINDOW, since, until, **more)


def again(bench: Bench, request: Request, origin: Origin = RUN) -> Dispositions:
    return run_batch(bench.pipeline, plan_request(bench.pipeline, request, origin), origin, quiet).committed.total


def delete_records(bench: Bench, partition: int, before: int) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bench.servers.bootstrap)
    admin.delete_records({TopicPartition(bench.topic, partition): before})
    admin.close()


def cursors(bench: Bench) -> dict[int, int]:
    found = rows(
        bench.session,
        "SELECT partition, next_offset FROM offset_ledger.cursor JOIN offset_ledger.pipeline"
        " USING (pipeline, topic_id)",
    )
    return {row[0]: row[1] for row in found}


def test_a_window_reads_its_records_again_and_moves_no_cursor(bench: Bench) -> None:
    bench.publish(at(0, 0, "a"), at(5, 0, "b"), at(9, 0, "c"), at(5, 1, "d"), at(20, 1, "e"))
    bench.ingest()
    bench.publish(at(21, 0, "b", "paid"))
    bench.ingest()
    before, moved = bench.table(), cursors(bench)
    planned = plan_request(bench.pipeline, window(5, 10), RUN)
    assert planned.batch is not None
    assert (planned.batch.kind, planned.batch.ranges) == (
        BatchKind.BACKFILL,
        (OffsetRange(0, 1, 3), OffsetRange(1, 0, 1)),
    )
    total = run_batch(bench.pipeline, planned, RUN, quiet).committed.total
    assert (total.superseded, total.duplicate, total.total) == (1, 2, 3)
    assert (bench.table(), cursors(bench)) == (before, moved)
    assert verify(bench.pipeline)[0] == []


def test_a_window_names_the_late_records_that_the_index_leaves_out_and_a_scan_reads_them(bench: Bench) -> None:
    bench.publish(at(5, 0, "a"), at(20, 0, "b"))
    bench.ingest()
    bench.publish(at(7, 0, "late"), at(21, 0, "c"), at(8, 1, "d"))
    bench.ingest()
    bench.publish(at(40, 0, "e"))
    bench.ingest()
    planned = plan_request(bench.pipeline, window(5, 10), RUN)
    assert planned.batch is not None
    assert planned.batch.ranges == (OffsetRange(0, 0, 1), OffsetRange(1, 0, 1))
    told = "partition 0: offsets [1, 4) are left out and have records of it"
    assert told in planned.message
    assert told in preview(bench.pipeline, window(5, 10)).notes
    assert "left out" not in preview(bench.pipeline, window(30, 50)).notes
    scanned = plan_request(bench.pipeline, window(5, 10, scan=True), RUN)
    assert scanned.batch is not None
    assert scanned.batch.ranges == (OffsetRange(0, 0, 4), OffsetRange(1, 0, 1))
    assert "left out" not in scanned.message


def test_a_replay_that_fills_gives_a_column_that_came_later_its_values(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.publish(*(Record(b"k", order(name, 1, note=f"of {name}"), (), partition=0) for name in "abc"))
    bench.ingest()
    bench.publish(Record(b"k", order("c", 2, "paid", note="newer"), (), partition=0))
    bench.ingest()
    text = bench.pipeline.path.read_text()
    with_note = text.replace("state: text", "state: text\n    note: {type: text, nullable: true}")
    file = bench.pipeline.path.with_name("noted.yaml")
    file.write_text(with_note.replace("table: public.orders", "table: public.orders, evolve: add_columns"))
    replay = ["replay", str(file), "--partition", "0", "--from-offset", "0", "--until-offset", "3"]
    assert main(replay) == 0
    assert rows(bench.session, "SELECT count(note) FROM public.orders") == [[0]]
    assert compare_with_topic(parse_pipeline(file)).notes != ()
    assert main([*replay, "--fill", "--dry-run"]) == 0
    assert "rows whose state is one of these records are written again" in capsys.readouterr().out
    assert main([*replay, "--fill"]) == 0
    written = rows(bench.session, "SELECT event_id, state, note, _offset FROM public.orders ORDER BY 1")
    assert [tuple(row) for row in written] == [
        ("a", "new", "of a", 0),
        ("b", "new", "of b", 1),
        ("c", "paid", None, 3),
    ]
    sheet = "SELECT updated, superseded, duplicate FROM offset_ledger.batch_range ORDER BY batch_id DESC LIMIT 1"
    assert [tuple(row) for row in rows(bench.session, sheet)] == [(2, 1, 0)]
    assert main([*replay[:-1], "4", "--fill"]) == 0
    compared = compare_with_topic(parse_pipeline(file))
    assert (compared.violations, compared.notes) == ((), ())
    assert verify(parse_pipeline(file))[0] == []


def test_a_window_whose_only_records_are_late_says_so(bench: Bench) -> None:
    bench.publish(at(60, 0, "ahead"), at(5, 0, "a"), at(6, 0, "b"))
    bench.ingest()
    nothing = plan_request(bench.pipeline, window(5, 10), RUN)
    assert nothing.batch is None
    assert "partition 0: offsets [0, 3) are left out and have records of it" in nothing.message
    scanned = plan_request(bench.pipeline, window(5, 10, scan=True), RUN)
    assert scanned.batch is not None
    assert scanned.batch.ranges == (OffsetRange(0, 0, 3),)


def test_a_rerun_resumes_its_open_batch_and_reads_again_once_it_is_committed(bench: Bench) -> None:
    bench.publish(at(0, 0, "a"), at(5, 0, "b"))
    bench.ingest()
    first = plan_request(bench.pipeline, window(0, 10), RUN)
    bench.publish(at(6, 0, "c"))  # the window has grown: the rerun reads what was planned all the same
    same = plan_request(bench.pipeline, window(0, 10), replace(RUN, try_number=2))
    other_run = plan_request(bench.pipeline, window(0, 10), replace(RUN, run_id="backfill__2"))
    other_request = plan_request(bench.pipeline, window(0, 1), RUN)
    made = [planned.batch for planned in (first, same, other_run, other_request)]
    assert [batch.batch_id for batch in made if batch] == [2, 2, 3, 4]
    assert same.resumed
    assert run_batch(bench.pipeline, same, RUN, quiet).committed.total.duplicate == 2
    cleared = plan_request(bench.pipeline, window(0, 10), RUN)
    assert cleared.batch is not None
    assert (cleared.resumed, cleared.batch.batch_id, cleared.batch.ranges) == (False, 5, (OffsetRange(0, 0, 3),))


def test_a_window_before_the_log_start_says_what_is_gone_and_reads_the_rest(bench: Bench) -> None:
    bench.publish(*(at(minute, 0, f"{minute}") for minute in range(8)))
    bench.ingest()
    delete_records(bench, 0, 5)
    planned = plan_request(bench.pipeline, window(2, 7), RUN)
    told = "partition 0: offsets [0, 5) are gone and held records of it, before 2026-01-01T12:05:00+00:00"
    assert planned.batch is not None
    assert planned.batch.ranges == (OffsetRange(0, 5, 7),)
    assert told in planned.message
    (why,) = rows(bench.session, "SELECT why FROM offset_ledger.batch_event WHERE batch_id = 2")[0]
    assert told in why
    nothing = plan_request(bench.pipeline, window(0, 3), RUN)
    assert nothing.batch is None
    assert "has no record in [2026-01-01T12:00:00+00:00, 2026-01-01T12:03:00+00:00): partition 0" in nothing.message
    times = "; its first record is of 2026-01-01T12:05:00+00:00, its newest of 2026-01-01T12:07:00+00:00; "
    assert times in nothing.message


def test_a_window_without_records_says_where_the_records_of_the_topic_are(bench: Bench) -> None:
    empty = plan_request(bench.pipeline, window(20, 30), RUN)
    assert empty.message.endswith("12:20:00+00:00, 2026-01-01T12:30:00+00:00); it is empty")
    bench.publish(at(5, 0, "a"), at(41, 0, "b"), at(7, 1, "c"))
    nothing = plan_request(bench.pipeline, window(20, 30), RUN)
    times = "its first record is of 2026-01-01T12:05:00+00:00, its newest of 2026-01-01T12:41:00+00:00"
    assert (nothing.batch, nothing.message.endswith(f"12:30:00+00:00); {times}")) == (None, True)


def test_a_dry_run_shows_ranges_and_overlap_and_writes_nothing(bench: Bench) -> None:
    def written() -> list[Any]:
        return rows(
            bench.session,
            "SELECT (SELECT count(*) FROM offset_ledger.batch), (SELECT count(*) FROM offset_ledger.beginning)",
        )

    bench.publish(at(0, 0, "a"), at(1, 0, "b"), at(1, 1, "c"))
    assert preview(bench.pipeline, Request(limit=2)).data["offsets"] == 2
    assert written() == [[0, 0]]
    bench.ingest()
    bench.publish(at(2, 0, "d"), at(3, 0, "e"))
    before = written()
    found = preview(
        bench.pipeline, Request(RunAction.RANGES, ranges=(OffsetRange(0, 1, 4), OffsetRange(1, 0, 1)), limit=3)
    )
    assert found.data["ranges"] == [
        {"partition": 0, "from": 1, "until": 3, "offsets": 2, "committed": 1, "batches": [1]},
        {"partition": 1, "from": 0, "until": 1, "offsets": 1, "committed": 1, "batches": [1]},
    ]
    assert "left out, beyond the limit: 1 offset" in str(found)
    assert preview(bench.pipeline, window(2, 9)).data["committed"] == 0
    assert [line.wanted for line in preview(bench.pipeline, Request()).lines] == [OffsetRange(0, 2, 4)]
    assert written() == before


def test_a_decision_is_about_a_batch_of_this_pipeline_and_may_be_repeated(bench: Bench) -> None:
    bench.publish(at(0, 0, "a"))
    first = plan(bench.pipeline, ME)
    assert first.batch is not None
    request = Request(RunAction.ABANDON, batch_id=first.batch.batch_id, why="a mistake")
    with pytest.raises(UnknownBatch, match="is of pipeline orders, not of others"):
        plan_request(replace(bench.pipeline, name="others"), request, RUN)
    for _ in range(2):  # the second as a cleared task would
        assert "abandoned" in plan_request(bench.pipeline, request, replace(RUN, who="ann")).message
    found = rows(bench.session, "SELECT to_state, who, why FROM offset_ledger.batch_event ORDER BY event_id")
    assert [tuple(row) for row in found][1:] == [("abandoned", "ann", "a mistake")]


def test_a_person_approves_exactly_the_loss_that_was_shown(bench: Bench) -> None:
    bench.settings["expired"] = "earliest_after_approval"
    bench.publish(*(at(minute, 0, f"{minute}") for minute in range(3)))
    bench.ingest()
    bench.publish(*(at(minute, 0, f"{minute}") for minute in range(3, 9)))
    delete_records(bench, 0, 5)
    question = loss_question(bench.pipeline)
    assert question is not None
    assert (question.kind, question.details) == (QuestionKind.LOST_RANGE, {"ranges": [[0, 3, 5]]})
    with transaction(bench.session) as cursor:
        decision_id = decisions.ask(cursor, question, RUN)
    delete_records(bench, 0, 6)  # more is lost meanwhile, and nobody has approved that
    answer_question(bench.pipeline, decision_id, QuestionAnswer.APPROVE, replace(RUN, who="ann"), "gone for good")
    assert cursors(bench)[0] == 5
    with pytest.raises(OffsetExpired, match=r"offsets \[5, 6\) are gone"):
        bench.ingest()
    assert answer_question(bench.pipeline, decision_id, QuestionAnswer.REJECT, ME, "too late") is QuestionAnswer.APPROVE
    kept = rows(bench.session, "SELECT kind, answer, who, why, batch_id, run_id FROM offset_ledger.decision")
    assert [tuple(row) for row in kept] == [("lost_range", "approve", "ann", "gone for good", 2, "backfill__1")]


def test_a_decision_made_elsewhere_answers_the_waiting_run(bench: Bench) -> None:
    bench.settings["expired"] = "earliest_after_approval"
    bench.publish(*(at(minute, 0, f"{minute}") for minute in range(4)))
    plan(bench.pipeline, ME)
    rejected = Question(bench.pipeline.name, QuestionKind.REJECTED_BATCH, "id", "commit it?", {}, 1)
    with transaction(bench.session) as cursor:
        decisions.ask(cursor, rejected, RUN)
    plan_request(bench.pipeline, Request(RunAction.ABANDON, batch_id=1, why="seen"), replace(RUN, who="ann"))
    delete_records(bench, 0, 2)
    question = loss_question(bench.pipeline)
    assert question is not None
    with transaction(bench.session) as cursor:
        waits = decisions.ask(cursor, question, RUN)
    plan_request(bench.pipeline, Request(RunAction.SKIP, why="known"), replace(RUN, who="bob"))
    kept = rows(bench.session, "SELECT answer, who, why FROM offset_ledger.decision ORDER BY decision_id")
    assert [tuple(row) for row in kept] == [("abandon", "ann", "seen"), ("approve", "bob", "known")]
    assert (
        answer_question(bench.pipeline, waits, QuestionAnswer.REJECT, ME, "no answer in time") is QuestionAnswer.APPROVE
    )


def test_an_open_batch_that_would_read_lost_offsets_is_abandoned_with_the_yes(bench: Bench) -> None:
    bench.settings["expired"] = "earliest_after_approval"
    bench.publish(*(at(minute, 0, f"{minute}") for minute in range(5)))
    plan(bench.pipeline, ME)
    delete_records(bench, 0, 2)
    question = loss_question(bench.pipeline)
    assert question is not None
    assert question.details == {"ranges": [[0, 0, 2]], "abandons": 1}
    with transaction(bench.session) as cursor:
        decision_id = decisions.ask(cursor, question, RUN)
    answer_question(bench.pipeline, decision_id, QuestionAnswer.APPROVE, replace(RUN, who="ann"), "known")
    bench.ingest()
    assert set(bench.table()) == {"2", "3", "4"}
    states = rows(bench.session, "SELECT batch_id, state FROM offset_ledger.batch ORDER BY 1")
    assert [tuple(row) for row in states] == [(1, "abandoned"), (2, "committed"), (3, "committed")]
    assert verify(bench.pipeline)[0] == []


def test_what_expired_of_a_partition_that_was_added_is_a_loss(bench: Bench) -> None:
    bench.settings["expired"] = "earliest_after_approval"
    plan(bench.pipeline, ME)
    admin = KafkaAdminClient(bootstrap_servers=bench.servers.bootstrap)
    admin.create_partitions({bench.topic: 3})
    admin.close()
    bench.publish(*(at(minute, 2, f"{minute}") for minute in range(5)))
    delete_records(bench, 2, 2)
    with pytest.raises(OffsetExpired, match=r"partition 2: offsets \[0, 2\) are gone"):
        bench.ingest()
    question = loss_question(bench.pipeline)
    assert question is not None
    assert question.details == {"ranges": [[2, 0, 2]]}
    skip_lost(bench.pipeline, ME, "known")
    bench.ingest()
    assert set(bench.table()) == {"2", "3", "4"}
    assert cursors(bench) == {2: 5}
    assert verify(bench.pipeline)[0] == []


def test_a_no_changes_nothing_and_a_loss_that_changed_its_shape_is_not_skipped(bench: Bench) -> None:
    bench.settings["expired"] = "earliest_after_approval"
    bench.publish(*(at(minute, 0, f"{minute}") for minute in range(6)))
    plan(bench.pipeline, ME)
    plan_request(bench.pipeline, Request(RunAction.ABANDON, batch_id=1, why="to lose some"), ME)
    delete_records(bench, 0, 2)
    question = loss_question(bench.pipeline)
    assert question is not None
    with transaction(bench.session) as cursor:
        decision_id = decisions.ask(cursor, question, RUN)
    answer_question(bench.pipeline, decision_id, QuestionAnswer.REJECT, ME, "no")
    assert cursors(bench) == {}
    with pytest.raises(StateConflict, match=r"range 0:\[0, 3\) was approved, but the loss is 0:\[0, 2\) now"):
        skip_lost(bench.pipeline, ME, "x", [OffsetRange(0, 0, 3)])
    assert cursors(bench) == {}


def test_an_accepted_topic_starts_again_and_the_old_one_stays_in_the_ledger(bench: Bench) -> None:
    extra = dict(bench.servers.kafka.extra)
    bench.settings["start"] = "latest"  # of the first run only: a new topic is read from its first record
    plan(bench.pipeline, ME)
    bench.publish(at(0, 0, "a"), at(1, 0, "b"))
    bench.ingest()
    bench.publish(at(2, 0, "c"))
    plan(bench.pipeline, ME)  # left open
    delete_topic(extra, bench.topic)
    create_topic(extra, bench.topic, 2, 1, KEEP)
    bench.publish(at(30, 0, "a", "paid"), at(31, 1, "x"))
    question = loss_question(bench.pipeline)
    assert question is not None
    assert question.kind is QuestionKind.RECREATED_TOPIC
    assert question.details["cursors"] == {"0": 2, "1": 0}
    assert question.details["log"] == {"0": [0, 1], "1": [0, 1]}
    with pytest.raises(StateConflict, match="the log is not the one that was approved"):
        accept_topic(bench.pipeline, ME, "x", replace(question, topic_id="another"))
    accept_topic(bench.pipeline, replace(RUN, who="ann"), "moved house", question)
    bench.ingest()
    assert {event: row[0] for event, row in bench.table().items()} == {"a": "paid", "b": "new", "x": "new"}
    assert cursors(bench) == {0: 1, 1: 1}
    found = rows(
        bench.session, "SELECT topic_id, partition, next_offset FROM offset_ledger.cursor ORDER BY updated_at, 2"
    )
    assert (found[0]["topic_id"], found[0]["next_offset"]) == (question.details["topic_id"][0], 2)
    kept = rows(bench.session, "SELECT kind, answer, who, why FROM offset_ledger.decision")
    assert [tuple(row) for row in kept] == [("recreated_topic", "approve", "ann", "moved house")]
    states = rows(bench.session, "SELECT state FROM offset_ledger.batch ORDER BY batch_id")
    assert [row[0] for row in states] == ["committed", "abandoned", "committed"]
    assert verify(bench.pipeline)[0] == []


def skip_by_form(bench: Bench) -> None:
    plan_request(bench.pipeline, Request(RunAction.SKIP, why="moved house"), ME)


def skip_by_verb(bench: Bench) -> None:
    assert main(["accept", "loss", str(bench.pipeline.path), "--why", "moved house"]) == 0


@pytest.mark.parametrize("skip", [skip_by_form, skip_by_verb])
def test_form_and_verb_settle_the_question_of_a_recreated_topic_alike(
    bench: Bench, skip: Callable[[Bench], None]
) -> None:
    bench.publish(at(0, 0, "a"), at(1, 0, "b"))
    bench.ingest()
    mirror(bench.pipeline)
    delete_topic(dict(bench.servers.kafka.extra), bench.topic)
    create_topic(dict(bench.servers.kafka.extra), bench.topic, 2, 1, KEEP)
    bench.publish(at(30, 0, "x"))
    skip(bench)
    assert group_offsets(bench) == {0: 0, 1: 0}
    bench.ingest()
    assert set(bench.table()) == {"a", "b", "x"}
    kept = rows(bench.session, "SELECT kind, answer, why FROM offset_ledger.decision")
    assert [tuple(row) for row in kept] == [("recreated_topic", "approve", "moved house")]
    assert verify(bench.pipeline)[0] == []


def test_a_replay_resumes_what_it_left_open_although_the_topic_has_lost_it(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.publish(at(0, 0, "a"), at(5, 0, "b"))
    bench.ingest()
    first = plan_request(bench.pipeline, window(0, 10), current_origin())
    assert first.batch is not None
    stage(BY_PROCESS, bench.pipeline, first.batch.batch_id, current_origin())
    delete_records(bench, 0, 2)
    since, until = (str((NOON + timedelta(minutes=minute)).isoformat()) for minute in (0, 10))
    assert main(["replay", str(bench.pipeline.path), "--since", since, "--until", until]) == 0
    assert f"resuming batch {first.batch.batch_id}" in capsys.readouterr().err
    assert rows(bench.session, "SELECT state FROM offset_ledger.batch ORDER BY batch_id") == [["committed"]] * 2


def group_offsets(bench: Bench) -> dict[int, int]:
    with connect_kafka(bench.servers.kafka) as kafka:
        return kafka.group_offsets(consumer_group(bench.pipeline.name), bench.topic)


def test_kafkas_own_tool_shows_the_cursors_and_the_lag(bench: Bench) -> None:
    bench.publish(at(0, 0, "a"), at(1, 0, "b"), at(1, 1, "c"))
    bench.ingest()
    bench.publish(at(2, 0, "d"))
    assert mirror(bench.pipeline) == {0: 2, 1: 1}
    clients = JavaClients(bench.servers.stack.java, bench.servers.bootstrap)
    assert clients.consumer_group(consumer_group(bench.pipeline.name), bench.topic) == {0: (2, 3, 1), 1: (1, 1, 0)}


def test_the_mirror_follows_every_commit_and_its_failure_harms_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench.publish(at(0, 0, "a"))
    bench.ingest()
    assert group_offsets(bench) == {0: 1, 1: 0}
    with connect_kafka(bench.servers.kafka) as kafka:
        kafka.set_group_offsets(consumer_group(bench.pipeline.name), bench.topic, {0: 7})
    assert mirror(bench.pipeline) == {0: 1, 1: 0}
    assert group_offsets(bench) == {0: 7, 1: 0}  # it goes back only after an approved new beginning
    mirror(bench.pipeline, backwards=True)
    assert group_offsets(bench) == {0: 1, 1: 0}
    away = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:9"}})
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", away)
    monkeypatch.setenv("OFFSET_LEDGER_RETRY_SECONDS", "0.1")
    assert mirror(bench.pipeline) == {}
    assert "the consumer group offset-ledger.orders was not set: Kafka at 127.0.0.1:9 did not answer" in caplog.text


def test_metrics_of_a_batch_and_of_the_remaining_lag(bench: Bench) -> None:
    bench.publish(at(0, 0, "a"), Record(b"k", b"{", (), None, 1))
    bench.ingest()
    bench.publish(at(1, 0, "b"), at(2, 1, "c"))
    found = batch_metrics(bench.pipeline, 1)
    assert (found.lag, found.records, found.quarantined) == (2, 2, 1)
    assert set(found.seconds) == {"stage", "validate", "commit"}
    assert all(seconds > 0 for seconds in found.seconds.values())


def test_moments_between_two_milliseconds_leave_no_record_to_both_sides(bench: Bench) -> None:
    bench.publish(at(0, 0, "a"))
    moment: datetime = NOON + timedelta(microseconds=500)
    with connect_kafka(bench.servers.kafka) as kafka:
        assert kafka.offsets_at(bench.topic, NOON)[0] == 0
        assert kafka.offsets_at(bench.topic, moment)[0] is None


def test_of_two_simultaneous_runs_one_plans_after_the_other(bench: Bench) -> None:
    seen: list[str] = []

    def second() -> None:
        with one_run_plans(bench.pipeline):
            seen.append("second")

    with one_run_plans(bench.pipeline):
        other = threading.Thread(target=second)
        other.start()
        other.join(0.5)
        seen.append("first")
    other.join(30)
    assert seen == ["first", "second"]

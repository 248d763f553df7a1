"""A batch ahead of the open one: staged while that is not committed, and committed after it, or given up with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from psycopg2 import errors as pg

from offset_ledger.base.failpoints import VARIABLE
from offset_ledger.errors import BatchRejected, StateConflict, TransientError
from offset_ledger.model.batch import Batch, Origin
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.request import Request
from offset_ledger.model.states import State
from offset_ledger.operations.repair.verify import verify
from offset_ledger.operations.status.status import recent_batches, status
from offset_ledger.outside.producer.record import Record
from offset_ledger.postgres.ledger.database import connect, rows, transaction
from offset_ledger.postgres.ledger.decisions import decide
from offset_ledger.steps.commit.step import commit
from offset_ledger.steps.decide.answers import skip_lost
from offset_ledger.steps.plan.step import PlannedBatch, plan, plan_ahead
from offset_ledger.steps.run.ingest import ingest
from offset_ledger.steps.run.requests import preview
from offset_ledger.steps.stage.step import stage
from offset_ledger.steps.validate.step import validate
from tests.dags.fresh import answer_of
from tests.fixtures.engines import BY_PROCESS
from tests.fixtures.tables import do
from tests.fixtures.topic_bench import TopicBench
from tests.witness.replay import witness

pytestmark = pytest.mark.minutes(2)

ME = Origin("test")
NOON = 1_767_268_800_000  # in milliseconds
GOOD = b'{"id": "e%d", "at": "2026-01-31T12:00:00Z", "amount": %d}'
BAD = b'{"id": "e%d", "at": "2026-01-31T12:00:00Z", "amount": "%d"}'


class Bench(TopicBench):
    """Records in turns into two partitions, in batches of four."""

    TEMPLATE = """
pipeline: orders
source:
  {{connection: kafka_default, topic: {topic}, on_expired: earliest_after_approval, transactional: false}}
record: {{event_id: $.id, publish_at: $.at, columns: {{amount: integer}}}}
target: {{connection: postgres_default, table: public.orders}}
quality: {{max_quarantined_share: {share}}}
limits: {{records_per_batch: 4, records_per_slice: 1}}
stage: {{engine: process}}
"""
    PARTITIONS = 2
    DEFAULTS = MappingProxyType({"share": 1})

    def send(self, first: int, end: int, value: bytes = GOOD) -> None:
        self.publish(*(Record(None, value % (n, n), (), NOON, n % 2) for n in range(first, end)))

    def staged(self, plans: Callable[..., PlannedBatch] = plan) -> Batch:
        planned = plans(self.pipeline, ME).batch
        assert planned is not None
        stage(BY_PROCESS, self.pipeline, planned.batch_id, ME)
        return planned

    def batches(self) -> list[tuple[int, str, int, int | None]]:
        query = "SELECT batch_id, state, epoch, after FROM offset_ledger.batch ORDER BY 1"
        return [(row[0], row[1], row[2], row[3]) for row in rows(self.session, query)]

    def why(self, batch_id: int) -> str:
        query = "SELECT why FROM offset_ledger.batch_event WHERE batch_id = %s ORDER BY event_id DESC LIMIT 1"
        return str(rows(self.session, query, [batch_id])[0][0])

    def tables(self) -> set[str]:
        return {row[0] for row in rows(self.session, "SELECT tablename FROM pg_tables WHERE schemaname ~ 'staging'")}

    def decide(self, batch_id: int, after: State) -> None:
        with connect(self.servers.postgres) as session:
            decide(session, batch_id, after, ME, "a test")

    def has(self, *numbers: int) -> bool:
        """Whether these records are in the table, each once at its place, and the history is one of the model."""
        assert verify(self.pipeline)[0] == []
        witness(lambda text: [dict(row) for row in rows(self.session, text)])
        there = sorted(self.rows("_partition, _offset, event_id, amount"))
        return there == sorted((n % 2, n // 2, f"e{n}", n) for n in numbers)

    def run(self, *options: str, **environment: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "offset_ledger_kit.cli", "ingest", str(self.path), "--until-drained", *options]
        where: dict[str, Any] = {"cwd": self.folder, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, env={**os.environ, **environment}, text=True, **where)


# -- one ahead ---------------------------------------------------------------------------------------------------------


def test_a_batch_ahead_is_staged_first_and_judged_when_the_one_before_it_is_committed(bench: Bench) -> None:
    bench.send(0, 12)
    first, ahead = bench.staged(), bench.staged(plan_ahead)
    assert first.ranges == (OffsetRange(0, 0, 2), OffsetRange(1, 0, 2))
    assert ahead.ranges == (OffsetRange(0, 2, 4), OffsetRange(1, 2, 4))
    assert bench.batches() == [(1, "staged", 1, None), (2, "staged", 1, 1)]
    with pytest.raises(StateConflict, match=r"batch 2 .*after batch 1\) waits for that one"):
        validate(bench.pipeline, 2, ME)
    again, there = plan(bench.pipeline, ME).batch, plan_ahead(bench.pipeline, ME).batch
    assert (again and again.batch_id, there and there.batch_id) == (1, 2)
    assert bench.has()
    validate(bench.pipeline, 1, ME)
    commit(bench.pipeline, 1, ME)
    assert bench.batches() == [(1, "committed", 1, None), (2, "staged", 1, None)]
    assert bench.has(*range(4))
    bench.ingest()
    assert [each[:3] for each in bench.batches()] == [(n, "committed", 1) for n in (1, 2, 3)]
    assert bench.has(*range(12))


def test_who_asks_for_the_open_batch_is_answered_with_one_that_is_not_ahead(bench: Bench) -> None:
    bench.send(0, 8)
    bench.staged()
    bench.staged(plan_ahead)
    shown = status(bench.pipeline)
    assert (shown.head and shown.head.id, shown.lag) == (1, 8)
    assert [(each["batch_id"], each["state"]) for each in recent_batches(bench.pipeline, 5)] == [
        (2, "staged"),
        (1, "staged"),
    ]
    assert preview(bench.pipeline, Request()).notes == "batch 1 of orders (head, staged, epoch 1) would be resumed"


def test_a_batch_ahead_begins_at_cursors_where_the_one_before_it_has_nothing(bench: Bench) -> None:
    bench.publish(*(Record(None, GOOD % (2 * n, 2 * n), (), NOON, 0) for n in range(4)))
    assert bench.staged().ranges == (OffsetRange(0, 0, 4),)
    bench.publish(*(Record(None, GOOD % (2 * n + 1, 2 * n + 1), (), NOON, 1) for n in range(4)))
    assert bench.staged(plan_ahead).ranges == (OffsetRange(1, 0, 4),)
    bench.ingest()
    assert bench.has(*range(8))


def test_nothing_is_planned_ahead_of_what_is_not_staged_or_for_less_than_a_whole_batch(bench: Bench) -> None:
    bench.send(0, 7)
    assert "no staged one before it" in plan_ahead(bench.pipeline, ME).message
    plan(bench.pipeline, ME)
    assert "no staged one before it" in plan_ahead(bench.pipeline, ME).message
    bench.staged()
    assert plan_ahead(bench.pipeline, ME).message == "no batch is planned ahead: 3 offsets wait, of 4"
    bench.send(7, 8)
    assert plan_ahead(bench.pipeline, ME).message.startswith("planned batch 2 of orders (head, planned, epoch 0, after")


FORBIDDEN = {
    "a second one ahead": (
        "INSERT INTO offset_ledger.batch (pipeline, kind, topic_id, config_hash, code_version, changed_by, after)"
        " SELECT pipeline, 'head', topic_id, '', '', 'test', 1 FROM offset_ledger.pipeline",
        "batch_one_ahead",
    ),
    "a second open one": ("UPDATE offset_ledger.batch SET after = NULL WHERE batch_id = 2", "batch_one_open_head"),
    "a verdict": (
        "UPDATE offset_ledger.batch SET state = 'validated', verdict = '{}' WHERE batch_id = 2",
        "a_batch_ahead_waits",
    ),
}


@pytest.mark.parametrize(("statement", "constraint"), FORBIDDEN.values(), ids=FORBIDDEN)
def test_the_ledger_refuses(bench: Bench, statement: str, constraint: str) -> None:
    bench.send(0, 8)
    bench.staged()
    bench.staged(plan_ahead)
    with pytest.raises((pg.UniqueViolation, pg.CheckViolation), match=constraint), transaction(bench.session) as cursor:
        cursor.execute(statement)


# -- the one before it does not commit ---------------------------------------------------------------------------------


def test_it_waits_for_one_that_is_rejected(bench: Bench) -> None:
    bench.settings["share"] = 0.2
    bench.send(0, 1, BAD)
    bench.send(1, 8)
    bench.staged()
    with pytest.raises(BatchRejected):
        bench.ingest()
    assert bench.batches() == [(1, "rejected", 1, None), (2, "staged", 1, 1)]
    with pytest.raises(BatchRejected):
        bench.ingest()
    assert bench.has()
    bench.decide(1, State.VALIDATED)
    bench.ingest()
    assert bench.batches() == [(1, "committed", 1, None), (2, "committed", 1, None)]
    assert bench.has(*range(1, 8))


def test_it_goes_with_one_that_is_abandoned(bench: Bench) -> None:
    bench.send(0, 8)
    bench.staged()
    bench.staged(plan_ahead)
    bench.decide(1, State.ABANDONED)
    assert bench.batches() == [(1, "abandoned", 1, None), (2, "abandoned", 1, None)]
    assert (bench.why(1), bench.why(2)) == ("a test", "batch 1 before it was abandoned")
    assert bench.has()
    bench.ingest()
    assert [each[:2] for each in bench.batches()[2:]] == [(3, "committed"), (4, "committed")]
    assert (bench.has(*range(8)), bench.tables()) == (True, set())


def test_it_can_be_abandoned_alone(bench: Bench) -> None:
    bench.send(0, 8)
    bench.staged()
    bench.staged(plan_ahead)
    bench.decide(2, State.ABANDONED)
    assert bench.batches() == [(1, "staged", 1, None), (2, "abandoned", 1, None)]
    assert bench.staged(plan_ahead).ranges == (OffsetRange(0, 2, 4), OffsetRange(1, 2, 4))
    bench.ingest()
    assert bench.has(*range(8))


def test_it_goes_when_the_one_before_it_has_to_be_staged_again(bench: Bench) -> None:
    bench.send(0, 8)
    bench.staged()
    bench.staged(plan_ahead)
    do(bench.session, "TRUNCATE offset_ledger_staging.b1_e1, offset_ledger_staging.b2_e1")
    bench.ingest()
    assert bench.batches()[:2] == [(1, "committed", 2, None), (2, "abandoned", 1, None)]
    assert bench.why(2) == "batch 1 before it is staged again"
    assert bench.has(*range(8))


def test_it_goes_with_one_whose_records_are_lost(bench: Bench) -> None:
    bench.send(0, 8)
    bench.staged()
    bench.staged(plan_ahead)
    bench.execute("TRUNCATE offset_ledger_staging.b1_e1")
    bench.delete_below(0, 3)
    skip_lost(bench.pipeline, ME, "a test")
    assert bench.batches()[:2] == [(1, "abandoned", 1, None), (2, "abandoned", 1, None)]
    bench.ingest()
    assert bench.has(1, 3, 5, 6, 7)


# -- a run that stages ahead -------------------------------------------------------------------------------------------


def test_a_run_stages_each_batch_while_it_commits_the_one_before(bench: Bench) -> None:
    bench.send(0, 16)
    out, err = bench.run().communicate(timeout=120)
    said = [line for line in err.splitlines() if line.startswith("ahead: ")]
    assert [line.split(" of ")[0] for line in said if "planned" in line] == [
        f"ahead: planned batch {n}" for n in (2, 3, 4)
    ]
    assert [line.partition(":")[0] for line in out.splitlines()] == [
        *(f"committed batch {n}" for n in (1, 2, 3, 4)),
        "4 batches committed",
    ]
    assert all("stage ahead" in line for line in out.splitlines()[1:4])
    assert [each[:3] for each in bench.batches()] == [(n, "committed", 1) for n in (1, 2, 3, 4)]
    assert bench.has(*range(16))


def test_what_fails_ahead_is_raised_when_the_one_before_is_committed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.send(0, 8)
    bench.staged()
    monkeypatch.setenv(VARIABLE, "after_claim=fail")  # of the batch ahead: the first one is staged
    running = ingest(bench.pipeline, ME, True, lambda _: None)
    assert next(running).committed.batch.batch_id == 1
    with pytest.raises(TransientError, match="failpoint after_claim"):
        next(running)
    assert bench.batches() == [(1, "committed", 1, None), (2, "staging", 1, None)]
    monkeypatch.delenv(VARIABLE)
    bench.ingest()
    assert bench.has(*range(8))


PLACES = ("after_plan_ahead", "after_claim", "slice_copied", "slice_committed", "after_stage", "after_validate",
          "before_merge", "after_merge", "after_commit", "before_report")  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_a_run_that_is_killed_anywhere_is_made_good_by_the_next(bench: Bench, place: str) -> None:
    bench.send(0, 16)
    bench.staged()  # so that the first claim, slice and seal is of the batch ahead
    run = bench.run(**{VARIABLE: f"{place}=kill"})
    out, err = run.communicate(timeout=120)
    assert run.returncode == -signal.SIGKILL, (out, err)
    run = bench.run()
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, (out, err)
    assert bench.has(*range(16))
    assert [each[1] for each in bench.batches()] == ["committed"] * 4


def test_complete_staging_of_a_batch_ahead_outlives_the_run(bench: Bench) -> None:
    bench.send(0, 8)
    bench.staged()
    run = bench.run(**{VARIABLE: "after_stage=kill"})
    run.communicate(timeout=120)
    bench.run().communicate(timeout=120)
    assert bench.batches() == [(1, "committed", 1, None), (2, "committed", 1, None)]
    assert bench.has(*range(8))


def test_an_attempt_that_stages_ahead_and_stops_is_fenced(bench: Bench) -> None:
    bench.send(0, 8)
    bench.staged()
    first = bench.run(**{VARIABLE: "slice_copied=stop"})
    try:
        for _ in range(3000):
            claimed = (2, "staging", 1) in [each[:3] for each in bench.batches()]
            if claimed and os.waitpid(first.pid, os.WNOHANG | os.WUNTRACED)[0]:
                break
            time.sleep(0.1)
        out, err = bench.run("--take-over").communicate(timeout=120)
        assert bench.batches() == [(1, "committed", 1, None), (2, "committed", 2, None)], (out, err)
        os.kill(first.pid, signal.SIGCONT)
        while first.poll() is None:  # it may have begun to stop at its other slice
            time.sleep(0.5)
            os.kill(first.pid, signal.SIGCONT)
        out, err = first.communicate(timeout=120)
        assert "Fenced: batch 2 of orders" in err, err
    finally:
        first.kill()
        first.communicate()
    assert bench.has(*range(8))


def test_a_run_that_is_interrupted_ends_and_leaves_both_batches_to_the_next(bench: Bench) -> None:
    bench.send(0, 16)
    bench.staged()
    run = bench.run(**{VARIABLE: "slice_committed=sleep:3"})
    for _ in range(600):
        if rows(bench.session, "SELECT FROM offset_ledger.slice WHERE batch_id = 2"):
            break
        time.sleep(0.1)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 130, (out, err)
    assert "Traceback" not in err
    assert (2, "staging", 1) in [each[:3] for each in bench.batches()]
    bench.ingest()
    assert bench.has(*range(16))


# -- a run of Airflow --------------------------------------------------------------------------------------------------

_TASK = """
import json, sys
from offset_ledger.interfaces.airflow import operators
from offset_ledger.model.request import Request
operators.request_of = lambda context: Request(limit=int(sys.argv[2]) if sys.argv[2:] else None)
try:
    print(json.dumps(operators.StageAheadOperator(task_id="ahead", pipeline_file=sys.argv[1]).execute({"ti": None})))
except Exception as error:
    print(json.dumps([type(error).__name__, str(error)]))
"""


def test_a_task_of_airflow_stages_ahead_and_fails_no_run(bench: Bench, tmp_path: Path) -> None:
    bench.send(0, 8)
    known = {name: value for name, value in os.environ.items() if name.startswith("AIRFLOW_CONN_")}
    kind, said = answer_of(_TASK, tmp_path, str(bench.path), **known)
    assert (kind, "no staged one before it" in said) == ("AirflowSkipException", True)
    bench.staged()
    kind, said = answer_of(_TASK, tmp_path, str(bench.path), "2", **known)
    assert (kind, said) == ("AirflowSkipException", "the run was asked for one batch")
    kind, said = answer_of(_TASK, tmp_path, str(bench.path), **known, **{VARIABLE: "after_claim=fail"})
    assert (kind, "failpoint after_claim" in said) == ("AirflowSkipException", True)
    assert bench.batches() == [(1, "staged", 1, None), (2, "staging", 1, 1)]
    assert answer_of(_TASK, tmp_path, str(bench.path), **known) is None
    assert bench.batches() == [(1, "staged", 1, None), (2, "staged", 2, 1)]
    bench.ingest()
    assert bench.has(*range(8))

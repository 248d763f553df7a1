"""A second run of a batch: it leaves one that is alive alone, and takes over from one that is silent or gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from offset_ledger import BatchInUse, ingest
from offset_ledger.model.batch import Attempt, Origin
from offset_ledger.operations.repair.verify import verify
from offset_ledger.outside.producer.record import Record
from offset_ledger.postgres.ledger.database import connect, rows
from offset_ledger.steps.plan.step import plan
from offset_ledger.steps.stage.claim import claim
from tests.dags.fresh import answer_of
from tests.fixtures.topic_bench import TopicBench

pytestmark = pytest.mark.minutes(1)

PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}}}
record: {{event_id: $.id, publish_at: $.at, columns: {{amount: integer}}}}
target: {{connection: postgres_default, table: public.orders}}
quality: {{max_quarantined_share: 1}}
stage: {{engine: process}}
"""
MAIN = "from sys import exit; from offset_ledger_kit.cli.main import main; exit(main())"
SILENT = "from offset_ledger.postgres.ledger import fencing; fencing._SILENT_SECONDS = "
VALUE = b'{"id": "%d", "at": "2026-01-31T12:00:00Z", "amount": 1}'


class Bench(TopicBench):
    """Five records, and processes that ingest them."""

    TEMPLATE = PIPELINE

    def run(
        self, *options: str, verb: str = "ingest", at: str = "", before: str = "pass", **more: str
    ) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", f"{before}; {MAIN}", *verb.split(), str(self.path), *options]
        environment = {**os.environ, "OFFSET_LEDGER_FAILPOINTS": at, **more}
        return subprocess.Popen(
            command, env=environment, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def ended(self, process: subprocess.Popen[str]) -> tuple[int, str]:
        out, err = process.communicate(timeout=120)
        return process.returncode, out + err

    @contextmanager
    def held(self, action: str, *options: str, verb: str = "ingest") -> Iterator[subprocess.Popen[str]]:
        """A process that has claimed its new batch, and goes no further."""
        claimed = [*self.epochs(), 1]
        process = self.run(*options, verb=verb, at=f"after_claim={action}", USER="deploy")
        try:
            for _ in range(600):
                if self.epochs() == claimed or process.poll() is not None:
                    break
                time.sleep(0.1)
            assert self.epochs() == claimed, self.ended(process)
            yield process
        finally:
            process.kill()
            process.communicate()

    def epochs(self) -> list[int]:
        return [row[0] for row in rows(self.session, "SELECT epoch FROM offset_ledger.batch ORDER BY batch_id")]

    def committed(self) -> bool:
        return len(self.rows("event_id")) == 5 and verify(self.pipeline)[0] == []


@pytest.fixture
def bench(bench: Bench) -> Bench:
    bench.publish(*[Record(None, VALUE % n) for n in range(5)])
    return bench


def test_a_run_that_is_alive_is_named_and_left_alone_until_somebody_takes_over(bench: Bench) -> None:
    with bench.held("sleep:600") as first:
        code, said = bench.ended(bench.run(USER="grace"))
        assert said.count("BatchInUse") == 1, said
        line = said.splitlines()[-1]
        assert code == 75
        assert "batch 1 of orders is being ingested by deploy@" in line
        assert "since 20" in line
        assert "--take-over" in line
        assert (bench.epochs(), first.poll()) == ([1], None)
        last = "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND application_name ~ %s"
        assert rows(bench.session, last, [" run b1 of deploy@"]) == [["SELECT 1"]]  # it is heard of although it sleeps
        code, said = bench.ended(bench.run("--take-over"))
        assert (code, bench.epochs(), bench.committed()) == (0, [2], True), said


def test_each_committed_batch_is_a_line_of_the_result(bench: Bench) -> None:
    out, err = bench.run("--until-drained", "--limit", "3").communicate(timeout=120)
    assert [line.partition(":")[0] for line in out.splitlines()] == [
        "committed batch 1",
        "committed batch 2",
        "2 batches committed",
    ]
    assert "committed" not in err.replace("planned", "")


def test_a_run_whose_process_was_killed_is_taken_over_unasked(bench: Bench) -> None:
    with bench.held("kill") as first:
        assert first.wait(timeout=60) == -signal.SIGKILL
        code, said = bench.ended(bench.run())
    assert (code, bench.epochs(), bench.committed()) == (0, [2], True), said


def test_a_run_that_is_silent_is_taken_over_unasked_and_is_fenced_when_it_wakes_up(bench: Bench) -> None:
    with bench.held("stop") as first:
        code, said = bench.ended(bench.run(before=f"{SILENT}3600"))
        assert (code, bench.epochs()) == (75, [1]), said  # it was heard of a moment ago
        code, said = bench.ended(bench.run(before=f"{SILENT}1"))
        assert (code, bench.epochs(), bench.committed()) == (0, [2], True), said
        os.kill(first.pid, signal.SIGCONT)
        code, said = bench.ended(first)
        assert "Fenced: batch 1 of orders: this attempt has epoch 1" in said


def test_a_task_of_airflow_that_works_at_the_batch_is_left_alone_too(bench: Bench) -> None:
    origin = Origin("airflow:orders_ingest.stage", "orders_ingest", "scheduled__1", 1)
    planned = plan(bench.pipeline, origin)
    assert planned.batch is not None
    with connect(bench.servers.postgres) as task:
        tables = claim(task, bench.pipeline, planned.batch.batch_id, origin)
        assert tables.attempt == Attempt(1, 1)
        code, said = bench.ended(bench.run())
        assert code == 75
        assert "is being ingested by airflow:orders_ingest.stage" in said
        with connect(bench.servers.postgres) as retry:  # as Airflow's next try does: it knows that the last one is dead
            claim(retry, bench.pipeline, 1, origin)
    code, said = bench.ended(bench.run())
    assert (code, bench.epochs(), bench.committed()) == (0, [3], True), said


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("replay", ["--partition", "0", "--from-offset", "0", "--until-offset", "3"]),
        ("quarantine retry", []),
    ],
)
def test_so_is_a_replay_and_a_redrive(bench: Bench, verb: str, options: list[str]) -> None:
    bench.publish(Record(None, b"{"))
    bench.ingest()
    with bench.held("sleep:600", *options, verb=verb) as first:
        code, said = bench.ended(bench.run(*options, verb=verb))
        assert (code, bench.epochs(), first.poll()) == (75, [1, 1], None), said
        assert "BatchInUse: batch 2 of orders is being ingested by deploy@" in said
        code, said = bench.ended(bench.run(*options, "--take-over", verb=verb))
        assert (code, bench.epochs(), bench.committed()) == (0, [1, 2], True), said


def test_so_is_one_that_python_would_ingest_too(bench: Bench) -> None:
    with bench.held("sleep:600") as first:
        with pytest.raises(BatchInUse, match=r"by deploy@.* since 20.*take_over=True"):
            ingest(bench.path)
        assert (bench.epochs(), first.poll()) == ([1], None)
        assert [done.committed.batch.epoch for done in ingest(bench.path, take_over=True)] == [2]
    assert bench.committed()


_TASKS = """
import json, sys
from offset_ledger.interfaces.airflow import operators
operators.batch_id_of = lambda ti: 1
failed = []
for made in (
    operators.StageOperator(task_id="stage", pipeline_file=sys.argv[1]),
    operators.ValidateOperator(task_id="validate", pipeline_file=sys.argv[1], question=""),
    operators.CommitOperator(task_id="commit", pipeline_file=sys.argv[1]),
):
    try:
        made.execute({"ti": None})
    except Exception as error:
        failed.append([type(error).__name__, str(error)])
print(json.dumps(failed))
"""


def test_tasks_of_airflow_leave_a_run_at_a_command_line_alone(bench: Bench, tmp_path: Path) -> None:
    """Each fails, to be tried again later; a retry of a task whose try was killed takes the batch at once, as above."""
    run = {"AIRFLOW_CTX_DAG_ID": "orders_ingest", "AIRFLOW_CTX_DAG_RUN_ID": "manual__1", "AIRFLOW_CTX_TASK_ID": "stage"}
    known = {name: value for name, value in os.environ.items() if name.startswith("AIRFLOW_CONN_")}
    with bench.held("sleep:600") as first:
        failed = answer_of(_TASKS, tmp_path, str(bench.path), **known, **run)
        assert [kind for kind, _ in failed] == ["AirflowException"] * 3, failed
        for _, line in failed:
            assert "BatchInUse: batch 1 of orders is being ingested by deploy@" in line
            assert "since 20" in line
            assert "next try" in line
        assert (bench.epochs(), first.poll()) == ([1], None)

"""Runs of the ingest DAG in a real Airflow, as somebody meets them who knows nothing but Airflow.

One Airflow for all: what takes long is started at once, and each test waits for what it is about.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition

from offset_ledger import broker
from offset_ledger.connections import Connection, environment_name
from offset_ledger.core.request import Action, Request
from offset_ledger.ledger.batches import Origin
from offset_ledger.ledger.database import connect, rows
from offset_ledger.local.airflow import Airflow
from offset_ledger.local.process import Launch
from offset_ledger.local.stack import Stack
from offset_ledger.pipeline.model import Pipeline
from offset_ledger.pipeline.parse import parse_pipeline
from offset_ledger.publishing.producer import publish
from offset_ledger.publishing.record import Record
from offset_ledger.publishing.topics import create_topic
from offset_ledger.steps.plan import plan
from offset_ledger.steps.requests import plan_request
from offset_ledger.steps.verify import verify
from tests.fixtures.servers import ROOT, _execute

pytestmark = pytest.mark.timeout(420)
FIRST = datetime(2026, 3, 1, tzinfo=UTC)
PATIENCE = 240.0

PIPELINE = """
pipeline: {name}
source: {{connection: kafka_default, topic: {name}, on_expired: earliest_after_approval}}
record: {{event_id: $.id, publish_at: $.at, columns: {{state: text}}}}
target: {{connection: postgres_default, table: public.{name}}}
quality: {{suite: {suite}, max_quarantined_share: 1}}
schedule: {schedule}
answer_within: {answer_within}
freshness: {freshness}
"""
SUITE = {
    "name": "strict",
    "expectations": [
        {
            "type": "expect_column_values_to_be_in_set",
            "kwargs": {"column": "state", "value_set": ["new", "paid"]},
            "meta": {"action": "reject"},
        }
    ],
    "meta": {"great_expectations_version": "1.24.1"},
}


def record(moment: datetime, event_id: str, state: str = "new") -> Record:
    value = json.dumps({"id": event_id, "at": moment.isoformat(), "state": state}).encode()
    return Record(event_id.encode(), value, (), int(moment.timestamp() * 1000), 0)


def until(found: Callable[[], Any], what: str) -> Any:
    """The first true answer."""
    deadline = time.monotonic() + PATIENCE
    while not (answer := found()):
        assert time.monotonic() < deadline, f"waited {PATIENCE:.0f} s for {what}"
        time.sleep(0.5)
    return answer


@dataclass
class World:
    """Airflow, its ledger, and three pipelines."""

    airflow: Airflow
    environment: dict[str, str]
    postgres: Connection
    kafka: Connection
    project: Path
    token: str = ""

    def call(self, method: str, path: str, body: object = None, expect: int = 200) -> Any:
        status, found = self.airflow.request(method, f"/api/v2{path}", body, self.token)
        assert status == expect, (method, path, status, found)
        return found

    def pipeline(self, name: str) -> Pipeline:
        return parse_pipeline(self.project / "dags" / "pipelines" / f"{name}.yaml")

    def write(self, name: str, **more: str) -> None:
        settings = {"suite": "null", "schedule": "null", "answer_within": "1h", "freshness": "1h", **more}
        text = PIPELINE.format(name=name, **settings)
        (self.project / "dags" / "pipelines" / f"{name}.yaml").write_text(text)
        create_topic(dict(self.kafka.extra), name, 1, 1, {"retention.ms": "-1"})

    def publish(self, name: str, *records: Record) -> None:
        publish(records, dict(self.kafka.extra), name)

    def unpause(self, name: str) -> None:
        path = f"/api/v2/dags/ingest_{name}"
        until(lambda: self.airflow.request("GET", path, None, self.token)[0] == 200, f"the DAG of {name}")
        self.call("PATCH", f"/dags/ingest_{name}", {"is_paused": False})

    def trigger(self, name: str, **form: Any) -> str:
        body = {"logical_date": None, "conf": form}
        return str(self.call("POST", f"/dags/ingest_{name}/dagRuns", body)["dag_run_id"])

    def run(self, name: str, run_id: str) -> str:
        return f"/dags/ingest_{name}/dagRuns/{run_id}"

    def state(self, name: str, run_id: str) -> str:
        return str(self.call("GET", self.run(name, run_id))["state"])

    def ended(self, name: str, run_id: str) -> str:
        return str(until(lambda: (s := self.state(name, run_id)) in ("success", "failed") and s, f"run {run_id}"))

    def tasks(self, name: str, run_id: str) -> dict[str, str]:
        found = self.call("GET", f"{self.run(name, run_id)}/taskInstances")["task_instances"]
        return {task["task_id"]: task["state"] for task in found}

    def log(self, name: str, run_id: str, task: str) -> str:
        return json.dumps(self.call("GET", f"{self.run(name, run_id)}/taskInstances/{task}/logs/1"))

    def xcom(self, name: str, run_id: str, task: str, key: str) -> Any:
        return self.call("GET", f"{self.run(name, run_id)}/taskInstances/{task}/xcomEntries/{key}")["value"]

    def question(self, name: str, run_id: str) -> Any:
        """The Required Action of the run."""

        def ask() -> Any:
            path = f"{self.run(name, run_id)}/hitlDetails?response_received=false"
            return self.call("GET", path)["hitl_details"] or self.state(name, run_id) in ("success", "failed")

        found = until(ask, f"the question of {run_id}")
        assert found is not True, self.tasks(name, run_id)
        until(lambda: self.parked(run_id), f"the scheduler to have seen that {run_id} waits")
        return found[0]

    def parked(self, run_id: str) -> bool:
        """Whether the scheduler knows that a task of the run waits; after an earlier answer it tries the task again."""
        log = (self.airflow.directory / "scheduler.log").read_text(errors="replace")
        return any(f"run_id={run_id}," in line and "state=awaiting_input" in line for line in log.splitlines())

    def airflow_cli(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "airflow", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with connect(self.postgres) as session:
            return [tuple(row) for row in rows(session, query)]


@pytest.fixture(scope="module")
def world(stack: Stack, template_database: str) -> Iterator[World]:
    project = Path(tempfile.mkdtemp(prefix="offset-ledger-project-"))
    for folder in ("dags/pipelines", "expectations", "plugins"):
        (project / folder).mkdir(parents=True)
    shutil.copy(ROOT / "dags" / "ingest.py", project / "dags")
    (project / "expectations" / "strict.json").write_text(json.dumps(SUITE))
    _execute(stack.postgres.connection(), f"CREATE DATABASE runs TEMPLATE {template_database}")
    kafka, postgres, spark = stack.connections()
    postgres = replace(postgres, schema="runs")
    connections = {environment_name(each.conn_id): each.to_json() for each in (kafka, postgres, spark)}
    airflow = Airflow(stack.home / "airflow", project, stack.ports.airflow, stack.postgres)
    settings = {**stack.environment(), **connections, "OFFSET_LEDGER_REPORTS": str(project / "reports")}
    made = World(airflow, {**os.environ, **settings, **airflow.environment()}, postgres, kafka, project)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in connections.items():
            patch.setenv(name, value)
        try:
            begin(made)
            airflow.up(settings, Launch(print))
            made.token = airflow.token()
            for name in ("strict", "orders", "lossy", "gone"):
                made.unpause(name)
            yield made
        finally:
            airflow.down()
            shutil.rmtree(project)


def begin(world: World) -> None:
    """Orders of three days, a strict pipeline with a broken order, and one whose cursor retention has overtaken."""
    world.write("orders", schedule='"@daily"')
    days = (FIRST, FIRST + timedelta(days=1), FIRST + timedelta(days=4))
    world.publish("orders", *(record(day + timedelta(hours=n), f"{day.day}-{n}") for day in days for n in range(3)))
    world.write("strict", suite="strict")
    world.publish("strict", record(FIRST, "good"), record(FIRST, "bad", "broken"))
    world.write("lossy", answer_within="5s", freshness="1s")
    lose(world, "lossy", 3)
    world.write("gone")
    lose(world, "gone", 4)


def lose(world: World, name: str, before: int) -> None:
    """A pipeline that has begun at offset 0, and whose first offsets retention then deletes."""
    world.publish(name, *(record(FIRST, f"{n}") for n in range(4)))
    planned = plan(world.pipeline(name), Origin("test"))
    assert planned.batch is not None
    given_up = Request(Action.ABANDON, batch_id=planned.batch.batch_id, why="lost")
    plan_request(world.pipeline(name), given_up, Origin("test"))
    admin = KafkaAdminClient(bootstrap_servers=world.kafka.extra["bootstrap.servers"])
    admin.delete_records({TopicPartition(name, 0): before})
    admin.close()


@pytest.fixture(scope="module")
def started(world: World) -> dict[str, str]:
    """What takes long: the scheduled run of orders, a backfill of two of its days beside it, and a rejected batch."""
    strict = world.trigger("strict")
    lossy = world.trigger("lossy")
    dates = ["--from-date", FIRST.isoformat(), "--to-date", (FIRST + timedelta(days=1)).isoformat()]
    world.airflow_cli("backfill", "create", "--dag-id", "ingest_orders", *dates, "--max-active-runs", "2")
    return {"strict": strict, "lossy": lossy}


def backfills(world: World) -> list[str]:
    found = world.call("GET", "/dags/ingest_orders/dagRuns?run_type=backfill&order_by=logical_date")["dag_runs"]
    return [run["dag_run_id"] for run in found]


def test_no_answer_in_time_is_a_no_and_a_person_may_decide_with_the_form(world: World, started: dict[str, str]) -> None:
    assert world.ended("lossy", started["lossy"]) == "failed"
    tasks = world.tasks("lossy", started["lossy"])
    assert (tasks["plan"], tasks["approve_loss"], tasks["stage"]) == ("success", "failed", "upstream_failed")
    kept = "SELECT kind, answer, who, why FROM offset_ledger.decision WHERE pipeline = 'lossy' ORDER BY decision_id"
    assert [row[:3] for row in world.rows(kept)] == [("lost_range", "reject", "nobody (no answer in time)")]
    run_id = world.trigger("lossy", action="skip", why="retention was too short")
    assert world.ended("lossy", run_id) == "success"
    assert set(world.tasks("lossy", run_id).values()) == {"success", "skipped"}
    skipped = "SELECT changed_by FROM offset_ledger.batch WHERE pipeline = 'lossy' AND state = 'committed'"
    assert world.rows(skipped) == [("admin",)]
    with broker.connect(world.kafka) as kafka:
        assert kafka.group_offsets("offset-ledger.lossy", "lossy") == {0: 3}


def test_a_loss_that_a_person_approves_is_skipped_and_the_run_goes_on(world: World) -> None:
    run_id = world.trigger("gone")
    asked = world.question("gone", run_id)
    assert asked["subject"] == "skip 4 offsets of topic gone that retention deleted unread: 0:[0, 4)?"
    parked = ("approve_loss", "awaiting_input")
    until(lambda: parked in world.tasks("gone", run_id).items(), "the task to park without a worker")
    path = f"{world.run('gone', run_id)}/taskInstances/approve_loss/-1/hitlDetails"
    world.call("PATCH", path, {"chosen_options": ["Approve"], "params_input": {"why": "known"}})
    assert world.ended("gone", run_id) == "success"
    tasks = world.tasks("gone", run_id)
    assert (tasks["approve_loss"], tasks["stage"], tasks["commit"]) == ("success", "skipped", "skipped")
    sheet = "SELECT from_offset, until_offset, r.skipped, changed_by FROM offset_ledger.batch_range r"
    kept = (
        f"{sheet} JOIN offset_ledger.batch USING (batch_id, pipeline) WHERE pipeline = 'gone' AND state = 'committed'"
    )
    assert world.rows(kept) == [(0, 4, 4, "admin")]


def test_a_run_that_is_late_is_named_in_the_triggerers_log(world: World, started: dict[str, str]) -> None:
    line = f"pipeline lossy is not fresh: run {started['lossy']} has not ended 1 s after it was queued"

    def said() -> bool:
        return any(line in log.read_text(errors="replace") for log in world.airflow.directory.rglob("*.log"))

    until(said, "the deadline alert")


def test_a_contradiction_fails_the_first_task_with_one_plain_line(world: World) -> None:
    run_id = world.trigger("lossy", action="window", since="2026-03-01T00:00:00Z")
    assert world.ended("lossy", run_id) == "failed"
    assert world.tasks("lossy", run_id)["plan"] == "failed"
    told = "ContradictoryRequest: action window needs until; fill in what is missing"
    assert told in world.log("lossy", run_id, "plan")


def test_a_rejected_batch_waits_for_a_person_whose_answer_is_kept(world: World, started: dict[str, str]) -> None:
    asked = world.question("strict", started["strict"])
    assert asked["subject"].startswith("commit batch ")
    assert "1 of 2 rows fail" in asked["subject"]
    assert "| ranges | 0:[0, 2) |" in asked["body"]
    assert asked["options"] == ["Approve", "Abandon", "Reject"]
    parked = ("approve_batch", "awaiting_input")
    until(lambda: parked in world.tasks("strict", started["strict"]).items(), "the task to park without a worker")
    beside = world.trigger("strict")
    assert world.ended("strict", beside) == "success"
    assert world.xcom("strict", beside, "plan", "outcome") == "busy"
    answer = {"chosen_options": ["Approve"], "params_input": {"why": "a new state, seen"}}
    path = f"{world.run('strict', started['strict'])}/taskInstances/approve_batch/-1/hitlDetails"
    world.call("PATCH", path, answer)
    assert world.ended("strict", started["strict"]) == "success"
    kept = "SELECT answer, who, why, answered_at > asked_at FROM offset_ledger.decision WHERE pipeline = 'strict'"
    assert world.rows(kept) == [("approve", "admin", "a new state, seen", True)]
    events = (
        "SELECT who, why FROM offset_ledger.batch_event JOIN offset_ledger.batch USING (batch_id)"
        " WHERE pipeline = 'strict' AND from_state = 'rejected'"
    )
    assert world.rows(events) == [("admin", "a new state, seen")]
    found = world.rows("SELECT event_id, state FROM public.strict ORDER BY 1")
    assert found == [("bad", "broken"), ("good", "new")]


def test_a_backfill_reads_its_intervals_beside_a_live_run(world: World, started: dict[str, str]) -> None:  # noqa: ARG001
    runs = backfills(world)
    assert len(runs) == 2
    path = "/dags/ingest_orders/dagRuns?run_type=scheduled"
    scheduled = until(lambda: world.call("GET", path)["dag_runs"], "the scheduled run")
    for run_id in [*runs, *(run["dag_run_id"] for run in scheduled)]:
        assert world.ended("orders", run_id) == "success"
    read = (
        "SELECT run_id, kind, state, from_offset, until_offset FROM offset_ledger.batch JOIN offset_ledger.batch_range"
        " USING (batch_id, pipeline) WHERE pipeline = 'orders' AND kind = 'backfill' ORDER BY from_offset"
    )
    assert world.rows(read) == [
        (runs[0], "backfill", "committed", 0, 3),
        (runs[1], "backfill", "committed", 3, 6),
    ]
    days = {1: range(3), 2: range(3), 5: range(3)}
    wanted = {(f"{day}-{n}", "new") for day, numbers in days.items() for n in numbers}
    assert set(world.rows("SELECT event_id, state FROM public.orders")) == wanted
    assert world.rows("SELECT next_offset FROM offset_ledger.cursor WHERE pipeline = 'orders'") == [(9,)]
    assert verify(world.pipeline("orders"))[0] == []
    events = world.call("GET", "/assets/events?order_by=-timestamp")["asset_events"]
    told = {tuple(event["extra"]["ranges"]["0"]) for event in events if event["extra"].get("topic") == "orders"}
    assert {(0, 3), (3, 6), (0, 9)} <= told


def test_all_runs_again_with_other_parameters_reuse_the_run_and_the_ledger_decides(world: World) -> None:
    before = world.rows("SELECT count(*) FROM offset_ledger.batch WHERE pipeline = 'orders'")
    day = FIRST.isoformat()
    body = {"dag_id": "ingest_orders", "from_date": day, "to_date": day, "reprocess_behavior": "completed"}
    again = {**body, "dag_run_conf": {"dry_run": True}}
    path = "/api/v2/backfills"  # refused until the scheduler has closed the first one
    until(lambda: world.airflow.request("POST", path, again, world.token)[0] == 200, "the first backfill to be closed")
    (run_id, _) = backfills(world)
    tasks = until(lambda: (t := world.tasks("orders", run_id))["report"] == "skipped" and t, "the dry run")
    assert set(tasks.values()) == {"success", "skipped"}
    preview = world.xcom("orders", run_id, "plan", "preview")
    assert (preview["kind"], preview["offsets"], preview["committed"]) == ("backfill", 3, 3)
    assert world.rows("SELECT count(*) FROM offset_ledger.batch WHERE pipeline = 'orders'") == before

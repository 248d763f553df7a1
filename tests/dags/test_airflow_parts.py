"""Metrics, deadline and lag trigger as Airflow meets them; each in a process of its own, with a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.errors import BatchRejected
from offset_ledger.model.states import State
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.outline import outline
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import connect, rows
from offset_ledger.postgres.ledger.decisions import decide
from offset_ledger.steps.plan.step import plan
from offset_ledger.steps.run.ingest import run_batch
from offset_ledger_kit.publishing.topics import create_topic, delete_topic
from tests.dags.fresh import answer_of
from tests.fixtures.servers import Servers
from tests.fixtures.staged import ME, NOON
from tests.fixtures.topic_bench import quiet

PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}}}
record: {{event_id: $.id, publish_at: $.at, columns: {{state: text}}}}
target: {{connection: postgres_default, table: public.orders}}
quality: {{max_quarantined_share: 0.5}}
"""

_METRICS = """
import json
from airflow.sdk.observability import stats
from offset_ledger.interfaces.airflow.metrics import emit
from offset_ledger.operations.status.status import BatchMetrics

sent = []

class Recorder:
    def gauge(self, name, value, **more): sent.append(["gauge", name, value, more["tags"]])
    def incr(self, name, count, **more): sent.append(["incr", name, count, more["tags"]])
    def timing(self, name, dt, **more): sent.append(["timing", name, dt.total_seconds(), more["tags"]])

stats.initialize(factory=Recorder, export_legacy_names=True)
emit("orders", BatchMetrics(5, 9, 1, {"stage": 2.5}))
print(json.dumps(sent))
"""

_DEADLINE = """
import asyncio, json, logging
from offset_ledger.interfaces.airflow import callbacks
said = []
callbacks.log.addFilter(lambda record: said.append(record.getMessage()))
asyncio.run(callbacks.late("orders", 60, context={"dag_run": {"dag_run_id": "scheduled__1"}}))
print(json.dumps(said))
"""

_ASSETS = """
import json, os, sys
from pathlib import Path
from offset_ledger.interfaces.airflow.assets import table_asset
from offset_ledger.pipeline_file.parse import parse_pipeline
pipeline = parse_pipeline(Path(sys.argv[1]))
made = [table_asset(pipeline)]
os.environ["AIRFLOW_CONN_POSTGRES_DEFAULT"] = "postgres://db:5433/shop"
made.append(table_asset(pipeline))
print(json.dumps([[each.name, each.uri] for each in made]))
"""

_TRIGGER = """
import asyncio, json, sys
from offset_ledger.interfaces.airflow.triggers import NewRecords

class Led(NewRecords):
    def waiting(self):
        print("ready", flush=True)
        sys.stdin.readline()
        return super().waiting()

async def look():
    async for event in Led(json.loads(sys.argv[1]), 0).run():
        print(json.dumps(event.payload), flush=True)

asyncio.run(look())
"""


def run(program: str, home: Path, *arguments: str) -> Any:
    return answer_of(program, home, *arguments, as_task=True, **os.environ)


TAGS = {"pipeline": "orders"}
TAGGED = [
    ["gauge", "offset_ledger.lag", 5, TAGS],
    ["incr", "offset_ledger.records", 9, TAGS],
    ["incr", "offset_ledger.quarantined", 1, TAGS],
    ["timing", "offset_ledger.seconds", 2.5, {**TAGS, "step": "stage"}],
]


def test_batch_metrics_are_metrics_of_airflow_with_tags_and_by_their_names_of_before(tmp_path: Path) -> None:
    assert run(_METRICS, tmp_path) == [
        *TAGGED,
        ["gauge", "offset_ledger.orders.lag", 5, TAGS],
        ["incr", "offset_ledger.orders.records", 9, TAGS],
        ["incr", "offset_ledger.orders.quarantined", 1, TAGS],
        ["timing", "offset_ledger.orders.seconds.stage", 2.5, TAGS],
    ]


def test_the_names_of_before_are_not_sent_where_airflow_sends_none_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__METRICS__LEGACY_NAMES_ON", "False")
    assert run(_METRICS, tmp_path) == TAGGED


@pytest.mark.parametrize(
    ("table", "uri"),
    [("shop.orders", "shop/orders"), ('"Sales/EU"."Order Lines?"', "Sales%2FEU/Order%20Lines%3F")],
)
def test_the_asset_of_a_table_of_any_name_has_a_uri(tmp_path: Path, table: str, uri: str) -> None:
    path = tmp_path / "orders.yaml"
    record = "{event_id: $.id, publish_at: $.at, columns: {}}"
    path.write_text(f"pipeline: orders\nsource: {{topic: orders}}\nrecord: {record}\ntarget: {{table: '{table}'}}\n")
    environment = {name: value for name, value in os.environ.items() if name != "AIRFLOW_CONN_POSTGRES_DEFAULT"}
    without, known = answer_of(_ASSETS, tmp_path, str(path), as_task=True, **environment)
    assert without[0] == known[0] == f"postgres_default/{table}"
    assert without[1].startswith("offset-ledger://postgres_default/")
    assert known[1] == f"postgres://db:5433/shop/{uri}"


def test_a_late_run_is_one_line(tmp_path: Path) -> None:
    said = run(_DEADLINE, tmp_path)
    assert said == ["pipeline orders is not fresh: run scheduled__1 has not ended 60 s after it was queued"]


@dataclass
class Trigger:
    """The trigger in a process of its own, which looks when it is told to."""

    process: subprocess.Popen[str]

    def look(self) -> list[Any]:
        """What one look fires."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return [json.loads(line) for line in iter(self.process.stdout.readline, "ready\n")]


@contextmanager
def triggering(pipeline: Pipeline, home: Path) -> Iterator[Trigger]:
    program = [sys.executable, "-c", _TRIGGER, json.dumps(outline(pipeline))]
    environment = {**os.environ, "AIRFLOW_HOME": str(home)}
    with subprocess.Popen(program, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as made:
        try:
            assert made.stdout is not None
            assert "ready\n" in iter(made.stdout.readline, "")
            yield Trigger(made)
        finally:
            made.kill()


def test_the_trigger_fires_once_for_each_move_of_ends_or_cursors_and_not_while_a_person_has_to_decide(
    servers: Servers, topic_name: Callable[[], str], tmp_path: Path
) -> None:
    topic = topic_name()
    create_topic(dict(servers.kafka.extra), topic, 1, 1)
    good = json.dumps({"id": "a", "at": NOON.isoformat(), "state": "new"}).encode()

    def send(*values: bytes) -> None:
        publish([Record(b"k", value, (), None, 0) for value in values], dict(servers.kafka.extra), topic)

    def commit_next() -> None:
        run_batch(pipeline, plan(pipeline, ME, 1), ME, quiet)

    file = tmp_path / "orders.yaml"
    file.write_text(PIPELINE.format(topic=topic))
    pipeline = parse_pipeline(file)
    with triggering(pipeline, tmp_path) as trigger, connect(servers.postgres) as session:
        assert trigger.look() == []
        send(good, good, b"not JSON")
        assert trigger.look() == [{"last_stable": {"0": 3}}]
        assert [trigger.look(), trigger.look()] == [[], []]
        commit_next()
        assert trigger.look() == [{"last_stable": {"0": 3}}], "what a limit left over was not told"
        assert trigger.look() == []
        commit_next()
        with pytest.raises(BatchRejected):
            commit_next()
        send(good)
        assert trigger.look() == []
        ((batch_id,),) = rows(session, "SELECT batch_id FROM offset_ledger.batch WHERE state = 'rejected'")
        decide(session, batch_id, State.ABANDONED, ME, "not JSON")
        assert trigger.look() == [{"last_stable": {"0": 4}}]
        delete_topic(dict(servers.kafka.extra), topic)
        create_topic(dict(servers.kafka.extra), topic, 1, 1)
        assert trigger.look() == [{"last_stable": {"0": 0}}], "a log that ends below the cursor was not told"

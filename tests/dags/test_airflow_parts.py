"""Metrics, deadline and lag trigger as Airflow meets them; each in a process of its own, with a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from offset_ledger.publishing.producer import publish
from offset_ledger.publishing.record import Record
from offset_ledger.publishing.topics import create_topic
from tests.fixtures.servers import Servers

PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}}}
record: {{event_id: $.id, publish_at: $.at, columns: {{state: text}}}}
target: {{connection: postgres_default, table: public.orders}}
"""

_METRICS = """
import json
from airflow.sdk.observability import stats
from offset_ledger.airflow.metrics import emit
from offset_ledger.steps.figures import Figures

sent = []

class Recorder:
    def gauge(self, name, value, **more): sent.append(["gauge", name, value, more["tags"]["pipeline"]])
    def incr(self, name, count, **more): sent.append(["incr", name, count, more["tags"]["pipeline"]])
    def timing(self, name, dt, **more): sent.append(["timing", name, dt.total_seconds(), more["tags"]["pipeline"]])

stats.initialize(factory=Recorder, export_legacy_names=True)
emit("orders", Figures(5, 9, 1, {"stage": 2.5}))
print(json.dumps(sent))
"""

_DEADLINE = """
import asyncio, json, logging
from offset_ledger.airflow import deadlines
said = []
deadlines.log.addFilter(lambda record: said.append(record.getMessage()))
asyncio.run(deadlines.late("orders", 60, context={"dag_run": {"dag_run_id": "scheduled__1"}}))
print(json.dumps(said))
"""

_TRIGGER = """
import asyncio, json, sys
from offset_ledger.airflow.triggers import NewRecords

async def look():
    events = NewRecords(sys.argv[1], 0.1).run()
    first = await anext(events)
    again = asyncio.ensure_future(anext(events))
    done, _ = await asyncio.wait([again], timeout=1)
    again.cancel()
    return [first.payload, len(done)]

print(json.dumps(asyncio.run(look())))
"""


def run(program: str, home: Path, *arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "AIRFLOW_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_figures_are_metrics_of_airflow(tmp_path: Path) -> None:
    assert run(_METRICS, tmp_path) == [
        ["gauge", "offset_ledger.orders.lag", 5, "orders"],
        ["incr", "offset_ledger.orders.records", 9, "orders"],
        ["incr", "offset_ledger.orders.quarantined", 1, "orders"],
        ["timing", "offset_ledger.orders.seconds.stage", 2.5, "orders"],
    ]


def test_a_late_run_is_one_line(tmp_path: Path) -> None:
    said = run(_DEADLINE, tmp_path)
    assert said == ["pipeline orders is not fresh: run scheduled__1 has not ended 60 s after it was queued"]


def test_new_records_fire_the_trigger_once(servers: Servers, topic_name: Callable[[], str], tmp_path: Path) -> None:
    topic = topic_name()
    create_topic(dict(servers.kafka.extra), topic, 2, 1)
    publish([Record(b"k", b"{}", (), None, 1)], dict(servers.kafka.extra), topic)
    file = tmp_path / "orders.yaml"
    file.write_text(PIPELINE.format(topic=topic))
    assert run(_TRIGGER, tmp_path, str(file)) == [{"last_stable": {"1": 1}}, 0]

"""faucet-stream: its command line with a Kafka source and a Postgres sink that upserts; the last write wins."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.peers.task import Task, answer

IDLE = 2  # seconds without a record after which a run ends that has not had them all


def _configuration(task: Task) -> dict[str, Any]:
    schema, table = task.table.split(".")
    source = {
        "brokers": task.bootstrap,
        "topics": [task.topic],
        "group_id": uuid.uuid4().hex,
        "value_format": {"type": "json"},
        "auto_offset_reset": "earliest",
        "max_messages": task.records,
        "idle_timeout": IDLE,
        "batch_size": 5_000,
    }
    sink = {
        "connection_url": f"postgres://{task.server}",
        "schema": schema,
        "table_name": table,
        "column_mapping": "auto_map",
        "write_mode": "upsert",
        "key": ["event_id"],
        "batch_size": 5_000,
    }
    transforms = [  # the source puts each value beside its key, topic, offset and headers
        {"type": "flatten", "config": {"separator": "__"}},
        {"type": "rename_keys", "config": {"pattern": "^value__(?:address__)?", "replacement": ""}},
        {"type": "select", "config": {"fields": list(task.columns)}},
    ]
    pipeline = {
        "source": {"type": "kafka", "config": source},
        "transforms": transforms,
        "sink": {"type": "postgres", "config": sink},
    }
    return {"version": 1, "name": task.name, "pipeline": pipeline}


def work(task: Task) -> Callable[[], None]:
    """Write the configuration, which is YAML as well as JSON; the whole run of the program is timed."""
    path = Path(task.scratch) / "faucet.yaml"
    path.write_text(json.dumps(_configuration(task)))

    def run() -> None:
        done = subprocess.run([task.faucet, "run", str(path)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"faucet: {(done.stderr or done.stdout)[-1500:]}")

    return run


if __name__ == "__main__":
    answer(work)

"""From the trigger of a DAG run to the commit and to the end of the run, through a real Airflow.

    python -m benchmarks.airflow [--events 10000] [--runs 3] [--engine process submit connect]

Each run has new events. ``process``: the task stages the batch itself; ``submit`` and ``connect``: Spark does, by
spark-submit or in a Spark Connect server.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from pathlib import Path
from typing import Any

from benchmarks.bench_stack import bench_stack, temporary_folder
from benchmarks.ingest import PIPELINE, events
from tabulate import tabulate

from offset_ledger.outside.producer.publisher import publish
from offset_ledger.postgres.ledger.database import connect, rows
from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox.stack import SparkKind, Stack

_PAUSE = 0.05


def project(folder: Path, engine: str) -> Path:
    """The project folder of Airflow with one pipeline."""
    (folder / "dags" / "pipelines").mkdir(parents=True)
    shutil.copy("dags/ingest.py", folder / "dags")
    text = PIPELINE + ("" if engine == "process" else "stage: {engine: spark}\n")
    (folder / "dags" / "pipelines" / "bench.yaml").write_text(text)
    return folder


def measure(stack: Stack, count: int, runs: int) -> list[dict[str, Any]]:
    """Seconds of each run."""
    extra, token = dict(stack.connections()[0].extra), stack.airflow.token()
    create_topic(extra, "bench.events", 8, 1, {})
    found: list[dict[str, Any]] = []

    def call(method: str, path: str, body: object = None) -> Any:
        return stack.airflow.request(method, f"/api/v2/dags/ingest_bench{path}", body, token)

    while call("GET", "")[0] != 200:
        time.sleep(_PAUSE)
    call("PATCH", "", {"is_paused": False})
    for number in range(runs):
        publish(events(count), extra, "bench.events")
        began = time.perf_counter()
        run_id = call("POST", "/dagRuns", {"logical_date": None, "conf": {}})[1]["dag_run_id"]
        committed = 0.0
        while (state := call("GET", f"/dagRuns/{run_id}")[1]["state"]) not in ("success", "failed"):
            if not committed and _committed(stack) > number:
                committed = time.perf_counter() - began
            time.sleep(_PAUSE)
        ended = time.perf_counter() - began
        tasks = call("GET", f"/dagRuns/{run_id}/taskInstances")[1]["task_instances"]
        seconds = {each["task_id"]: round(each["duration"], 1) for each in tasks if each["duration"]}
        found.append({"state": state, "committed s": round(committed, 1), "ended s": round(ended, 1), **seconds})
    return found


def _committed(stack: Stack) -> int:
    with connect(stack.postgres.connection()) as session:
        query = "SELECT count(*) FROM offset_ledger.batch WHERE pipeline = 'bench' AND state = 'committed'"
        return int(rows(session, query)[0][0])


def one_engine(engine: str, count: int, runs: int) -> list[dict[str, Any]]:
    """The runs of one engine, on servers of its own."""
    with (
        temporary_folder() as home,
        bench_stack(
            home / "stack",
            airflow=True,
            project=project(home / "project", engine),
            spark=SparkKind.CONNECT if engine == "connect" else SparkKind.NONE,
        ) as stack,
    ):
        return [{"engine": engine, **each} for each in measure(stack, count, runs)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3)
    engines = ["process", "submit", "connect"]
    parser.add_argument("--engine", nargs="+", default=engines, choices=engines)
    arguments = parser.parse_args()
    found = [run for engine in arguments.engine for run in one_engine(engine, arguments.events, arguments.runs)]
    print(tabulate(found, headers="keys", tablefmt="pipe"))
    print(f"{arguments.events:,} events a run, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()

"""This project: plan, stage, validate and commit of one batch.

Server: staged by a Spark Connect server after two other batches. Session: the first batch of a new Spark session, as
spark-submit starts one. Process: the first batch of a process, without Spark.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.ingest import PIPELINE, steps
from benchmarks.peers.bench_servers import settle
from benchmarks.peers.task import Task, answer

from offset_ledger.base.without_pandas import this_process_is_ours
from offset_ledger.outside.connections import get_connection
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.outside.spark.remote_session import remote_session
from offset_ledger.outside.spark.session import local_session
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import pipelines
from offset_ledger.postgres.ledger.database import connect, transaction
from offset_ledger.postgres.table.change import ensure_target
from offset_ledger_kit.sandbox.layout import free_ports
from offset_ledger_kit.sandbox.process import Launch
from offset_ledger_kit.sandbox.spark import SparkConnect

WARM_UP = 500_000  # records of each batch that makes a session warm


def pipeline(task: Task, name: str, table: str, limit: int) -> Pipeline:
    """The pipeline of this table."""
    text = PIPELINE.replace("pipeline: bench", f"pipeline: {name}").replace("bench.events", task.topic)
    text = text.replace("public.bench", table).replace("100000000", str(limit))
    if task.wide:
        text = text.replace("    city:", "    pad: text\n    city:")
    path = Path(task.scratch) / f"{name}.yaml"
    path.write_text(text)
    return parse_pipeline(path)


def make_table(task: Task) -> None:
    """Make the table as the first plan would."""
    made = pipeline(task, task.name, task.table, 10**9)
    with connect_kafka(get_connection("kafka_default")) as kafka:
        snapshot = kafka.snapshot(task.topic)
    with connect(get_connection("postgres_default")) as session, transaction(session) as cursor:
        pipelines.register(cursor, made, snapshot)
        ensure_target(cursor, made)


def work(task: Task) -> Callable[[], dict[str, Any]]:
    """Start the session, and warm it up if it is to be warm; the rest is timed."""
    this_process_is_ours()
    measured = pipeline(task, task.name, task.table, 10**9)
    spark = _session(task)
    if task.variant == "server":
        for n in range(2):
            steps(pipeline(task, f"{task.name}_warm_up_{n}", f"{task.table}_warm_up_{n}", WARM_UP), spark)
        settle(task.superuser)

    def run() -> dict[str, Any]:
        seconds, _, _ = steps(measured, spark)
        return {name: round(each, 2) for name, each in seconds.items()}

    return run


def _session(task: Task) -> Any:
    if task.variant == "process":
        return None
    if task.variant == "session":
        return local_session()
    server = SparkConnect(Path(task.scratch) / "spark", free_ports(1)[0])
    server.up(os.environ, Launch(lambda line: print(line, file=sys.stderr)))
    atexit.register(server.stop)
    opened = ExitStack()
    atexit.register(opened.close)
    return opened.enter_context(remote_session(server.connection()))


if __name__ == "__main__":
    if sys.argv[2:] == ["make-table"]:
        answer(lambda task: lambda: make_table(task))
    else:
        answer(work)

"""This project: plan, stage, validate and commit of one batch; cold, or after a batch in the same session."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.ingest import PIPELINE, steps
from benchmarks.peers.task import Task, answer

from offset_ledger.config.model import Pipeline
from offset_ledger.config.parse import parse_pipeline
from offset_ledger.connections import get_connection
from offset_ledger.kafka.client import connect_kafka
from offset_ledger.ledger import pipelines
from offset_ledger.ledger.database import connect, transaction
from offset_ledger.stage.session import local_session
from offset_ledger.target.table import ensure_target

WARM_UP = 500_000  # records of the batch that makes a session warm


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
    spark = local_session()
    if task.variant == "warm":
        steps(pipeline(task, f"{task.name}_warm_up", f"{task.table}_warm_up", WARM_UP), spark)
    measured = pipeline(task, task.name, task.table, 10**9)

    def run() -> dict[str, Any]:
        seconds, _, _ = steps(measured, spark)
        return {name: round(each, 2) for name, each in seconds.items()}

    return run


if __name__ == "__main__":
    if sys.argv[2:] == ["make-table"]:
        answer(lambda task: lambda: make_table(task))
    else:
        answer(work)

"""Runs of one ingest DAG beside each other: which of them works on the head, or waits for an answer about it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow.sdk.exceptions import AirflowRuntimeError

from offset_ledger.connections import get_connection
from offset_ledger.core.questions import QuestionKind
from offset_ledger.ledger import batches, decisions
from offset_ledger.ledger.database import connect, transaction
from offset_ledger.ledger.migrate import check_migrated
from offset_ledger.pipeline.model import Pipeline

_SECONDS = 30.0  # a stopped process may hold the lock, and fencing decides in any case


@contextmanager
def one_after_the_other(pipeline: Pipeline) -> Iterator[None]:
    """Let one run at a time look whether it is alone, and plan: of two that begin together one finds the other."""
    with connect(get_connection(pipeline.target.connection)) as session:
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            with transaction(session) as cursor:
                cursor.execute("SELECT pg_try_advisory_lock(hashtext(%s))", [f"offset-ledger plan {pipeline.name}"])
                if cursor.one()[0]:
                    break
            time.sleep(0.2)
        yield


def other_run(pipeline: Pipeline, ti: Any) -> str | None:
    """What another live run of this DAG does with the head, or waits to be told about it; None if there is none."""
    with connect(get_connection(pipeline.target.connection)) as session:
        check_migrated(session)
        with transaction(session) as cursor:
            head = batches.open_head(cursor, pipeline.name)
            asked = decisions.open_questions(cursor, pipeline.name)
    if head and _lives(ti, head.dag_id, head.run_id):
        return f"run {head.run_id} has {head}"
    for each in asked:
        if each.question.kind is not QuestionKind.REJECTED_BATCH and _lives(ti, each.dag_id, each.run_id):
            return f"run {each.run_id} waits for an answer: {each.question.text}"
    return None


def _lives(ti: Any, dag_id: str | None, run_id: str | None) -> bool:
    if run_id is None or dag_id != ti.dag_id or run_id == ti.run_id:
        return False
    try:
        state = ti.get_dagrun_state(dag_id, run_id)
        return getattr(state, "value", state) in ("running", "queued")
    except AirflowRuntimeError:  # somebody deleted it
        return False

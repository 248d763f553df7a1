"""Concurrent runs of one ingest DAG: which of them has the head batch, or waits for an answer about it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg2

from offset_ledger.model.batch import Batch
from offset_ledger.model.questions import QuestionKind
from offset_ledger.model.states import State
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import batches, decisions, pipelines
from offset_ledger.postgres.ledger.database import Session, open_ledger, transaction
from offset_ledger.postgres.ledger.decisions import AskedQuestion

_LOCK_SECONDS = 30  # a stopped process may hold the lock; fencing decides in any case


@contextmanager
def one_run_plans(pipeline: Pipeline) -> Iterator[None]:
    """Lock out other runs while one looks for them and plans, so that of two that start together one sees the other.

    A transaction that stays open holds the lock: a connection pooler may give a session, and a session-level lock with
    it, to another client between two transactions.
    """
    with open_ledger(pipeline) as session:
        pipelines.lock_planning(session, pipeline.name, _LOCK_SECONDS)
        yield
        with suppress(psycopg2.Error):  # the server ends a transaction that was idle for long, and with it the lock
            session.end("ROLLBACK")


def other_run(pipeline: Pipeline, ti: Any, session: Session | None = None) -> str | None:
    """Return the other live run of this DAG that has the head batch, or waits for an answer about it; or None."""
    for dag_id, run_id, what in _at_the_head(*_head(pipeline, session)):
        if dag_id == ti.dag_id and run_id != ti.run_id and _lives(ti, dag_id, run_id):
            return what
    return None


def nothing_to_wake_for(pipeline: Pipeline, ti: Any) -> str | None:
    """Return why a run that is started now would have nothing to do; None if it has.

    ``ti`` only has to answer ``get_dr_count``: the triggerer has no task instance.
    """
    head, asked = _head(pipeline)
    if head and head.state is State.REJECTED:
        return f"{head} needs approval"
    return next((what for dag_id, run_id, what in _at_the_head(head, asked) if _lives(ti, dag_id, run_id)), None)


def _head(pipeline: Pipeline, session: Session | None = None) -> tuple[Batch | None, tuple[AskedQuestion, ...]]:
    with open_ledger(pipeline, session) as session, transaction(session) as cursor:
        return batches.open_head(cursor, pipeline.name), decisions.open_questions(cursor, pipeline.name)


def _at_the_head(head: Batch | None, asked: tuple[AskedQuestion, ...]) -> Iterator[tuple[str, str, str]]:
    """Yield DAG and run that have the head batch, or wait for an answer about it, and which of the two it is."""
    if head and head.dag_id and head.run_id:
        yield head.dag_id, head.run_id, f"run {head.run_id} has {head}"
    for each in asked:
        if each.question.kind is not QuestionKind.REJECTED_BATCH and each.dag_id and each.run_id:
            yield each.dag_id, each.run_id, f"run {each.run_id} waits for an answer: {each.question.text}"


def _lives(ti: Any, dag_id: str, run_id: str) -> bool:
    """Return whether the run is queued or running; a deleted run is neither."""
    return int(ti.get_dr_count(dag_id, run_ids=[run_id], states=["queued", "running"])) > 0

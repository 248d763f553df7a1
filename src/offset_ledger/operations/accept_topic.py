"""Accept a topic: a person lets a pipeline go on after its topic was recreated or deleted, or its log truncated."""

from __future__ import annotations

from typing import Any

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import get_connection
from offset_ledger.errors import StateConflict, TerminalError
from offset_ledger.kafka.client import connect_kafka
from offset_ledger.ledger import batches, decisions, pipelines
from offset_ledger.ledger.completeness import check_not_whole, is_whole
from offset_ledger.ledger.database import Cursor, Session, transaction
from offset_ledger.ledger.open import open_ledger
from offset_ledger.model.batch import Origin
from offset_ledger.model.questions import Question
from offset_ledger.model.states import BatchKind, State
from offset_ledger.operations.log_change import LogChange, find_log_change


def accept_topic(
    pipeline: Pipeline, origin: Origin, why: str, approved: Question | None = None, decision_id: int | None = None
) -> LogChange:
    """Go on with the log as it is now: a recreated topic from its start, a truncated log from where it still agrees.

    One of several topics that was deleted is left out of later runs.

    ``approved`` is the question that the person saw. Open batches of the earlier log are abandoned: nobody can read
    their ranges any more.

    Raises:
        StateConflict: the log has changed again since the approval, or the open head batch is completely staged.
        TerminalError: the log is the one that the cursors belong to, or the topic was retired before.
        UnknownTopic: the topic of a pipeline that reads no other does not exist.
    """
    connection = get_connection(pipeline.source.connection)
    with connect_kafka(connection) as kafka, open_ledger(pipeline) as session:
        with transaction(session) as cursor:
            if head := batches.open_head(cursor, pipeline.name):
                check_not_whole(cursor, head)
        change, snapshot = find_log_change(kafka, session, pipeline)
        if change is None:
            holds = "is the one its cursors belong to, and holds all that was committed"
            state = holds if snapshot else "is gone, and was retired before"
            raise TerminalError(f"pipeline {pipeline.name}: topic {pipeline.source.topic} {state}; nothing was changed")
        if approved is not None and _approvable(approved) != _approvable(change.question):
            raise StateConflict(
                f"the log is not the one that was approved; nothing was changed: {change.question.text}"
            )
        _accept(session, pipeline, change, origin, why, decision_id)
    return change


def _approvable(question: Question) -> tuple[Any, ...]:
    """What a person approves; the other numbers change all the time."""
    return question.kind, question.topic_id, question.details.get("back"), question.details.get("abandons")


def _accept(
    session: Session, pipeline: Pipeline, change: LogChange, origin: Origin, why: str, decision_id: int | None
) -> None:
    with transaction(session) as cursor:
        pipelines.lock_pipeline(cursor, pipeline.name)
        if pipelines.read_cursors(cursor, pipeline.name) != change.cursors:
            raise StateConflict(f"the cursors of {pipeline.name} have moved meanwhile; nothing was changed")
        for batch_id in _to_abandon(cursor, pipeline, change):
            decisions.decide_batch(cursor, batch_id, State.ABANDONED, origin, f"its log has changed: {why}")
        decisions.approve(cursor, change.question, decision_id, origin, why)
        pipelines.change_topic(cursor, pipeline.name, change.log_id, change.cluster_id)
        cursors = pipelines.read_cursors(cursor, pipeline.name)
        known = set(cursors.next_offsets) if cursors else set()
        new = [b for b in change.start_offsets if b.partition not in known]
        pipelines.record_start_offsets(cursor, pipeline.name, change.log_id, new)


def _to_abandon(cursor: Cursor, pipeline: Pipeline, change: LogChange) -> list[int]:
    """The open batches that need records of the earlier log; of a topic that is gone, those that are not staged."""
    if not change.is_gone:
        return batches.open_batches(cursor, pipeline.name, heads_only=not change.start_offsets)
    unended = [batches.read_batch(cursor, batch_id) for batch_id in batches.open_batches(cursor, pipeline.name)]
    reading = [each for each in unended if each.kind is not BatchKind.REDRIVE]
    return [each.batch_id for each in reading if not is_whole(cursor, each)]

"""Accept a topic: a person lets a pipeline go on after its topic was recreated or deleted, or its log truncated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import get_connection
from offset_ledger.decoding.needed_columns import Difference
from offset_ledger.errors import ConfigurationError, StateConflict, TerminalError
from offset_ledger.kafka.client import connect_kafka
from offset_ledger.ledger import batches, decisions, pipelines, schema_boundaries
from offset_ledger.ledger.completeness import check_not_whole, is_whole
from offset_ledger.ledger.database import Cursor, Session, open_ledger, transaction
from offset_ledger.ledger.schema_boundaries import Writer
from offset_ledger.model.batch import Batch, Origin
from offset_ledger.model.questions import Question, QuestionKind
from offset_ledger.model.states import BatchKind, State
from offset_ledger.operations.log_change import LogChange, find_log_change
from offset_ledger.stage.schemas import Brought, read_opening
from offset_ledger.target import row_counts
from offset_ledger.target.table import ensure_target


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


def accept_table(pipeline: Pipeline, origin: Origin, why: str) -> int:
    """Count the table's event ids, which ``verify`` compares with from now on; returns the count.

    Raises:
        ConfigurationError: the pipeline has never been planned.
        TargetMismatch: the target table does not fit the pipeline file.
    """
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        known = pipelines.registered_of(cursor, pipeline)
        if known is None:
            raise ConfigurationError(
                f"pipeline {pipeline.name} is not in this ledger, so there is nothing to compare; ingest it first"
            )
        pipelines.lock_pipeline(cursor, known.name)
        pipelines.lock_table(cursor, known)
        ensure_target(cursor, known)
        return row_counts.count(cursor, known, origin, why)


def schema_question(pipeline: Pipeline) -> Question | None:
    """Whether to leave the columns as they are although the open head batch begins with a schema that does not fit."""
    if not pipeline.follows_schemas:
        return None
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        undecided = _read(cursor, pipeline)
        return _question(pipeline, *undecided) if undecided else None


def accept_schema(
    pipeline: Pipeline, origin: Origin, why: str, approved: Question | None = None, decision_id: int | None = None
) -> tuple[Difference, ...]:
    """Leave the columns as they are: what does not fit them goes to quarantine; returns the accepted differences.

    ``approved`` is the question that the person saw. The same differences of a later schema are not asked about again.

    Raises:
        StateConflict: the differences are no longer the ones that were approved.
        TerminalError: no schema waits for a decision.
    """
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        pipelines.lock_pipeline(cursor, pipeline.name)
        undecided = _read(cursor, pipeline) if pipeline.follows_schemas else None
        if undecided is None:
            raise TerminalError(f"pipeline {pipeline.name}: no schema waits for a decision")
        question = _question(pipeline, *undecided)
        if approved and approved.details["differences"] != question.details["differences"]:
            raise StateConflict(f"other differences were approved; nothing was changed: {question.text}")
        differences = _differences(undecided[2])
        schema_boundaries.accept(cursor, pipeline.name, differences, origin, why)
        decisions.approve(cursor, question, decision_id, origin, why)
        return differences


def _read(cursor: Cursor, pipeline: Pipeline) -> tuple[Batch, Mapping[Writer, Mapping[int, int]], Brought] | None:
    """The open head batch, the schemas that it begins with, and what they bring; None where nothing is to be asked."""
    head = batches.open_head(cursor, pipeline.name)
    if head is None or head.judged:
        return None
    opening, brought = read_opening(cursor, pipeline, head)
    return (head, opening, brought) if brought.questions else None


def _differences(brought: Brought) -> tuple[Difference, ...]:
    return tuple(dict.fromkeys(each for differences in brought.questions.values() for each in differences))


def _question(
    pipeline: Pipeline, head: Batch, opening: Mapping[Writer, Mapping[int, int]], brought: Brought
) -> Question:
    begins = {str(partition): offset for writer in brought.questions for partition, offset in opening[writer].items()}
    schemas, differences = list(map(str, brought.questions)), list(map(str, _differences(brought)))
    adds = [f"{each.column.name} {each.column.type.sql}" for each in brought.columns]
    details = {"schemas": schemas, "begins": begins, "differences": differences, "adds": adds or None}
    text = (
        f"leave the columns as they are, although {', '.join(schemas)} in topic {pipeline.source.topic} does not fit "
        f"them: {'; '.join(differences)}?"
    )
    return Question(pipeline.name, QuestionKind.CHANGED_SCHEMA, head.topic_id, text, details, head.batch_id)

"""Accept a schema: a person lets a pipeline go on with columns that do not fit the schema of its next records."""

from __future__ import annotations

from collections.abc import Mapping

from offset_ledger.config.model import Pipeline
from offset_ledger.decoding.needed_columns import Difference
from offset_ledger.errors import StateConflict, TerminalError
from offset_ledger.ledger import batches, decisions, pipelines, schema_boundaries
from offset_ledger.ledger.database import Cursor, transaction
from offset_ledger.ledger.open import open_ledger
from offset_ledger.ledger.schema_boundaries import Writer
from offset_ledger.model.batch import Batch, Origin
from offset_ledger.model.questions import Question, QuestionKind
from offset_ledger.stage.following import read_opening
from offset_ledger.stage.schema_needs import Brought


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

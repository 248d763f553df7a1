"""Answers of people to questions of a run: each is kept in the transaction that acts on it."""

from __future__ import annotations

from offset_ledger.config.model import Pipeline
from offset_ledger.ledger import batches, decisions
from offset_ledger.ledger.database import open_ledger, transaction
from offset_ledger.model.batch import Origin, current_origin
from offset_ledger.model.questions import Question, QuestionAnswer, QuestionKind
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import State
from offset_ledger.operations.accept_topic import accept_schema, accept_topic, schema_question
from offset_ledger.operations.losses import loss_question, skip_lost
from offset_ledger.operations.tombstones import approve_tombstones
from offset_ledger.units import counted

_AFTER = {QuestionAnswer.APPROVE: State.VALIDATED, QuestionAnswer.ABANDON: State.ABANDONED}


def record_question(pipeline: Pipeline, question: Question) -> int:
    """Record a question of this run and return its id."""
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        return decisions.ask(cursor, question, current_origin())


def question_before_staging(pipeline: Pipeline) -> Question | None:
    """What a person has to decide before the next batch can be staged: about a loss, or about a changed schema."""
    return loss_question(pipeline) or schema_question(pipeline)


def answer_loss(
    pipeline: Pipeline, decision_id: int, given: QuestionAnswer, origin: Origin, why: str
) -> QuestionAnswer:
    """Answer a question before staging; an approval skips or accepts exactly what was asked about.

    Returns the answer that counts: an earlier one, if somebody has already decided elsewhere.

    Raises:
        StateConflict: what was asked about has changed meanwhile.
    """
    # Somebody may have solved it while the run waited.
    solved = given is QuestionAnswer.APPROVE and question_before_staging(pipeline) is None
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        asked = decisions.read_question(cursor, decision_id, lock=True)
        if asked.answer:
            return asked.answer
        if solved or given is not QuestionAnswer.APPROVE:
            decisions.answer(cursor, decision_id, given, origin, why)
            return given
    approve_loss(pipeline, asked.question, origin, why, decision_id)
    return given


def approve_loss(
    pipeline: Pipeline, question: Question | None, origin: Origin, why: str, decision_id: int | None = None
) -> str:
    """Skip or accept exactly what the question is about; the message says what was done.

    Raises:
        StateConflict: what was asked about has changed meanwhile.
        ConfigurationError, TerminalError: there is no question; the message says why nothing is skipped.
    """
    if question is None or question.kind is QuestionKind.LOST_RANGE:
        approved = [OffsetRange(*r) for r in question.details["ranges"]] if question else None
        done = skip_lost(pipeline, origin, why, approved, decision_id)
        lost = ", ".join(map(str, done.batch.ranges))
        return f"{done.batch} records {counted(done.total.skipped, 'lost offset')}: {lost}"
    if question.kind is QuestionKind.UNREAD_TOMBSTONES:
        batch = approve_tombstones(pipeline, origin, why, question, decision_id)
        return f"approved {batch}; the next run goes on with it"
    if question.kind is QuestionKind.CHANGED_SCHEMA:
        differences = accept_schema(pipeline, origin, why, question, decision_id)
        return f"accepted {counted(len(differences), 'difference')}"
    return f"accepted {accept_topic(pipeline, origin, why, question, decision_id)}"


def batch_question(pipeline: Pipeline, batch_id: int) -> Question | None:
    """Whether to commit a rejected batch; None if the batch is not rejected, or not any more."""
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        batch = batches.read_batch(cursor, batch_id)
    if batch.state is not State.REJECTED:
        return None
    text = f"commit batch {batch_id} of {pipeline.name}, which the gate rejected: {batch.reasons}?"
    details = {
        "kind": str(batch.kind),
        "ranges": [str(r) for r in batch.ranges],
        "rows": batch.rows,
        "refused": batch.refused,
        "reasons": batch.reasons,
    }
    return Question(pipeline.name, QuestionKind.REJECTED_BATCH, batch.topic_id, text, details, batch_id)


def answer_batch(
    pipeline: Pipeline, decision_id: int, given: QuestionAnswer, origin: Origin, why: str
) -> QuestionAnswer:
    """Answer a question about a rejected batch.

    Returns the answer that counts: an earlier one, if somebody has already decided elsewhere.
    """
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        batch_id = decisions.read_question(cursor, decision_id).question.batch_id
        assert batch_id is not None
        batches.read_batch(cursor, batch_id, lock=True)  # first, in the order of those who decide elsewhere
        if earlier := decisions.read_question(cursor, decision_id, lock=True).answer:
            return earlier
        decisions.answer(cursor, decision_id, given, origin, why)
        if given in _AFTER:
            decisions.decide_batch(cursor, batch_id, _AFTER[given], origin, why)
        return given

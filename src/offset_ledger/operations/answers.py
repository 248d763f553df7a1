"""Answers: what a person said to a question, kept in the ledger in the same transaction as what it brings about."""

from __future__ import annotations

from offset_ledger.config.model import Pipeline
from offset_ledger.ledger import batches, decisions
from offset_ledger.ledger.database import transaction
from offset_ledger.ledger.open import open_ledger
from offset_ledger.ledger.origin import current_origin
from offset_ledger.model.batch import Origin
from offset_ledger.model.questions import Question, QuestionAnswer, QuestionKind
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import State
from offset_ledger.operations.log_change import accept_topic
from offset_ledger.operations.losses import loss_question, skip_lost
from offset_ledger.operations.tombstones import approve as approve_tombstones

_AFTER = {QuestionAnswer.APPROVE: State.VALIDATED, QuestionAnswer.ABANDON: State.ABANDONED}


def keep_question(pipeline: Pipeline, question: Question) -> int:
    """Keep a question of this run and return its id."""
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        return decisions.ask(cursor, question, current_origin())


def answer_loss(
    pipeline: Pipeline, decision_id: int, given: QuestionAnswer, origin: Origin, why: str
) -> QuestionAnswer:
    """Answer a question about a loss; a yes skips or accepts exactly what was asked about.

    The answer that holds is returned: an earlier one, if somebody has decided by another way.

    Raises:
        StateConflict: what was asked about has changed meanwhile.
    """
    solved = given is QuestionAnswer.APPROVE and loss_question(pipeline) is None  # by another way, while the run waited
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        found = decisions.read_question(cursor, decision_id, lock=True)
        if found.answer:
            return found.answer
        if solved or given is not QuestionAnswer.APPROVE:
            decisions.answer(cursor, decision_id, given, origin, why)
            return given
    asked = found.question
    if asked.kind is QuestionKind.LOST_RANGE:
        approved = [OffsetRange(*r) for r in asked.details["ranges"]]
        skip_lost(pipeline, origin, why, approved, decision_id)
    elif asked.kind is QuestionKind.UNREAD_TOMBSTONES:
        approve_tombstones(pipeline, origin, why, asked, decision_id)
    else:
        accept_topic(pipeline, origin, why, asked, decision_id)
    return given


def batch_question(pipeline: Pipeline, batch_id: int) -> Question | None:
    """Whether to commit a rejected batch; None for one that is not rejected, or no longer."""
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

    The answer that holds is returned: an earlier one, if somebody has decided by another way.
    """
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        batch_id = decisions.read_question(cursor, decision_id).question.batch_id
        assert batch_id is not None
        batches.read_batch(cursor, batch_id, lock=True)  # first, like whoever decides by another way
        if held := decisions.read_question(cursor, decision_id, lock=True).answer:
            return held
        decisions.answer(cursor, decision_id, given, origin, why)
        if given in _AFTER:
            decisions.decide_batch(cursor, batch_id, _AFTER[given], origin, why)
        return given

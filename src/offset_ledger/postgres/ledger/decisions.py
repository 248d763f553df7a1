"""The decisions of people: about a batch, about a loss, about a recreated topic; kept with who, when and why."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from offset_ledger.errors import StateConflict
from offset_ledger.model.batch import Batch, Origin
from offset_ledger.model.questions import Question, QuestionAnswer, QuestionKind
from offset_ledger.model.states import TRANSITIONS, State
from offset_ledger.postgres.ledger import batches, pipelines
from offset_ledger.postgres.ledger.completeness import is_whole
from offset_ledger.postgres.ledger.database import Cursor, Session, transaction


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question in the ledger, and the run that waits for its answer."""

    decision_id: int
    question: Question
    dag_id: str | None
    run_id: str | None
    answer: QuestionAnswer | None


def decide(session: Session, batch_id: int, after: State, origin: Origin, why: str) -> Batch:
    """Approve (``after`` validated) a rejected batch, or abandon an open one.

    Raises:
        StateConflict: the batch is in a state that this decision does not lead out of, or what was validated is gone.
    """
    with transaction(session) as cursor:
        return decide_batch(cursor, batch_id, after, origin, why)


def decide_batch(cursor: Cursor, batch_id: int, after: State, origin: Origin, why: str) -> Batch:
    """Decide inside the caller's transaction; a run that waits with a question about the batch has its answer."""
    batch, approves = batches.read_batch(cursor, batch_id, lock=True), after is State.VALIDATED
    if batch.state is not State.REJECTED if approves else after not in TRANSITIONS[batch.state]:
        verb = "approved; only a rejected one can" if approves else "abandoned; it has ended"
        raise StateConflict(f"{batch} cannot be {verb}")
    if approves and not is_whole(cursor, batch):  # it commits exactly what was validated
        raise StateConflict(
            f"{batch} cannot be approved: its staging is gone (it is kept for quality.keep_rejected_days, and a "
            f"Postgres that stops empties it); offset-ledger batch abandon {batch.batch_id} --why ..., and the next "
            "run stages and validates its offsets again"
        )
    approval = {"who": origin.who, "why": why, "judged": (batch.verdict or {}).get("judged")}
    kept: dict[str, Any] = {"approval": approval} if approves else {"ended_at": datetime.now(UTC)}
    batches.move(cursor, batch.attempt, batch.state, after, origin, why=why, **kept)
    given = QuestionAnswer.APPROVE if approves else QuestionAnswer.ABANDON
    for asked in open_questions(cursor, batch.pipeline, QuestionKind.REJECTED_BATCH):
        if asked.question.batch_id == batch_id:
            answer(cursor, asked.decision_id, given, origin, why)
    return batches.read_batch(cursor, batch_id)


def ask(cursor: Cursor, question: Question, origin: Origin) -> int:
    """Keep a question and return its id; the same question, asked by a run that did not wait for the answer, ends."""
    pipelines.lock_pipeline(cursor, question.pipeline)  # in the same order as every other way to decide
    if question.batch_id is not None:
        batches.read_batch(cursor, question.batch_id, lock=True)
    for asked in open_questions(cursor, question.pipeline, question.kind):
        if asked.question.batch_id == question.batch_id:
            answer(cursor, asked.decision_id, QuestionAnswer.REJECT, Origin("offset-ledger"), "it was asked again")
    about = {"pipeline": question.pipeline, "topic_id": question.topic_id, "batch_id": question.batch_id}
    asked_now = {"kind": question.kind, "question": question.text, "details": json.dumps(question.details)}
    run = {"dag_id": origin.dag_id, "run_id": origin.run_id}
    return int(cursor.run("decisions/ask", **about, **asked_now, **run).one()["decision_id"])


def answer(
    cursor: Cursor,
    decision_id: int,
    given: QuestionAnswer,
    origin: Origin,
    why: str | None,
    batch_id: int | None = None,
) -> None:
    """Keep the answer, once; raises StateConflict where the question is answered already."""
    answered = {"answer": given, "who": origin.who, "why": why, "batch_id": batch_id}
    if cursor.run("decisions/answer", **answered, decision_id=decision_id).rowcount == 0:
        raise StateConflict(f"question {decision_id} is answered already; see table offset_ledger.decision")


def approve(cursor: Cursor, question: Question, decision_id: int | None, origin: Origin, why: str) -> None:
    """Record a yes to the question that was asked, to those with which runs still wait, or to one recorded now."""
    open_ids = answered_by(cursor, question.pipeline, question.kind, decision_id)
    for each in open_ids or [ask(cursor, question, origin)]:
        answer(cursor, each, QuestionAnswer.APPROVE, origin, why)


def read_question(cursor: Cursor, decision_id: int, *, lock: bool = False) -> AskedQuestion:
    """The question of that id, locked against every other answer if asked."""
    if lock:
        cursor.execute("SELECT FROM offset_ledger.decision WHERE decision_id = %s FOR UPDATE", [decision_id])
    return _asked(cursor.execute("SELECT * FROM offset_ledger.decision WHERE decision_id = %s", [decision_id]).one())


def open_questions(cursor: Cursor, pipeline: str, kind: QuestionKind | None = None) -> tuple[AskedQuestion, ...]:
    """The questions of the pipeline, or of one kind, that nobody has answered yet."""
    return tuple(map(_asked, cursor.run("decisions/open", pipeline=pipeline, kind=kind)))


def approved(cursor: Cursor, batch_id: int, kind: QuestionKind) -> list[Any]:
    """The approvals of questions of this kind about a batch, in their order: ``details``, ``who`` and ``why``."""
    query = "SELECT * FROM offset_ledger.decision WHERE batch_id = %s AND kind = %s AND answer = 'approve'"
    return [*cursor.execute(f"{query} ORDER BY decision_id", [batch_id, kind])]


def answered_by(cursor: Cursor, pipeline: str, kind: QuestionKind, decision_id: int | None) -> list[int]:
    """The question that was answered; without one, those that runs wait with while somebody decides by another way."""
    if decision_id is not None:
        return [decision_id]
    return [asked.decision_id for asked in open_questions(cursor, pipeline, kind)]


def _asked(row: Any) -> AskedQuestion:
    kind, given = QuestionKind(row["kind"]), QuestionAnswer(row["answer"]) if row["answer"] else None
    question = Question(row["pipeline"], kind, row["topic_id"], row["question"], row["details"], row["batch_id"])
    return AskedQuestion(row["decision_id"], question, row["dag_id"], row["run_id"], given)

"""Questions of a run and the answers of people: each is kept in the transaction that acts on it."""

from dataclasses import dataclass
from typing import Any

from offset_ledger.base.units import counted
from offset_ledger.model.batch import Origin, current_origin
from offset_ledger.model.questions import Question, QuestionAnswer, QuestionKind
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import BatchKind, State
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import batches, decisions, staging
from offset_ledger.postgres.ledger.database import open_ledger, transaction
from offset_ledger.postgres.ledger.staging import StagingTables
from offset_ledger.steps.decide.accept_topic import accept_schema, accept_topic, schema_question
from offset_ledger.steps.decide.losses import loss_question, skip_lost
from offset_ledger.steps.decide.tombstones import approve_tombstones
from offset_ledger.steps.report.consumer_group import mirror

_REASONS, _EXAMPLES = 5, 3  # of a rejected batch: how many reasons a question shows, and records with each
_AFTER = {QuestionAnswer.APPROVE: State.VALIDATED, QuestionAnswer.ABANDON: State.ABANDONED}


@dataclass(frozen=True, slots=True)
class Settled:
    """The result of settling a question: a line for people, and the members of --json."""

    message: str
    data: dict[str, Any]


def settle(
    pipeline: Pipeline, question: Question | None, origin: Origin, why: str, decision_id: int | None = None
) -> Settled:
    """Skip or accept exactly what the question before staging is about, whoever decides and however.

    Raises:
        StateConflict: what was asked about has changed meanwhile.
        ConfigurationError, TerminalError: there is no question; the message says why nothing is skipped.
    """
    match question.kind if question else None:
        case QuestionKind.UNREAD_TOMBSTONES:
            batch = approve_tombstones(pipeline, origin, why, question, decision_id)
            message = f"approved {batch}; the next run goes on with it"
            return Settled(message, {"batch_id": batch.batch_id, "state": batch.state})
        case QuestionKind.CHANGED_SCHEMA:
            return settle_schema(pipeline, question, origin, why, decision_id)
        case QuestionKind.RECREATED_TOPIC | QuestionKind.TRUNCATED_LOG | QuestionKind.TOPIC_GONE:
            return settle_topic(pipeline, question, origin, why, decision_id)
    ranges = [OffsetRange(*r) for r in question.details["ranges"]] if question else None
    done = skip_lost(pipeline, origin, why, ranges, decision_id)
    mirror(pipeline)
    skipped, lost = done.total.skipped, ", ".join(map(str, done.batch.ranges))
    message = f"batch {done.batch.batch_id} records {counted(skipped, 'lost offset')} as skipped: {lost}"
    return Settled(message, {"batch_id": done.batch.batch_id, "skipped": skipped})


def settle_topic(
    pipeline: Pipeline, question: Question | None, origin: Origin, why: str, decision_id: int | None = None
) -> Settled:
    """Continue with the log as it is, or as the question showed it; the errors are those of :func:`accept_topic`."""
    change = accept_topic(pipeline, origin, why, question, decision_id)
    if change.starts:
        mirror(pipeline, backwards=True)
    return Settled(f"{pipeline.name} accepted {change}", {"log_id": change.log_id, "starts": change.starts})


def settle_schema(
    pipeline: Pipeline, question: Question | None, origin: Origin, why: str, decision_id: int | None = None
) -> Settled:
    """Leave the columns as they are; the errors are those of :func:`accept_schema`."""
    accepted = list(map(str, accept_schema(pipeline, origin, why, question, decision_id)))
    message = f"{pipeline.name} goes on with its columns; accepted: {'; '.join(accepted)}"
    return Settled(message, {"accepted": accepted})


def record_question(pipeline: Pipeline, question: Question) -> int:
    """Record a question of this run and return its id."""
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        return decisions.ask(cursor, question, current_origin())


def question_before_staging(pipeline: Pipeline) -> Question | None:
    """Return the decision that staging the next batch waits for: about a loss, or a changed schema."""
    return loss_question(pipeline) or schema_question(pipeline)


def batch_question(pipeline: Pipeline, batch_id: int) -> Question | None:
    """Return the question whether to commit a rejected batch; None if it is not, or no longer, rejected.

    It has places and reasons of the refused records, but no values: not all who read questions may read them.
    """
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        batch = batches.read_batch(cursor, batch_id)
        if batch.state is not State.REJECTED:
            return None
        tables = StagingTables(batch.attempt)
        refused = staging.refused_by_reason(cursor, tables, _EXAMPLES) if staging.are_there(cursor, tables) else []
    text = f"Commit batch {batch_id} of {pipeline.name}? The quality gate rejected it: {batch.reasons}."
    details = {
        "kind": None if batch.kind is BatchKind.HEAD else str(batch.kind),
        "ranges": [[r.partition, r.from_offset, r.until_offset] for r in batch.ranges],
        "rows": batch.rows,
        "refused": batch.refused,
        "reasons": batch.reasons,
        "samples": [
            (", ".join(row["examples"]), f"{row['code']} at {row['path']} ({counted(row['records'], 'record')})")
            for row in refused[:_REASONS]
        ],
    }
    return Question(pipeline.name, QuestionKind.REJECTED_BATCH, batch.topic_id, text, details, batch_id)


def answer_question(
    pipeline: Pipeline, decision_id: int, given: QuestionAnswer, origin: Origin, why: str
) -> QuestionAnswer:
    """Answer a question that was recorded; an approval skips, accepts or commits exactly what was asked about.

    Returns the answer that counts: an earlier one, if somebody has already decided elsewhere.

    Raises:
        StateConflict: what was asked about has changed meanwhile.
    """
    approves = given is QuestionAnswer.APPROVE
    with open_ledger(pipeline) as session:
        with transaction(session) as cursor:
            question = decisions.read_question(cursor, decision_id).question
        of_batch = question.batch_id if question.kind is QuestionKind.REJECTED_BATCH else None
        # Somebody may have solved it while the run waited.
        solved = of_batch is None and approves and question_before_staging(pipeline) is None
        with transaction(session) as cursor:
            if of_batch is not None:
                batches.read_batch(cursor, of_batch, lock=True)  # first, in the same order as every other way to decide
            if earlier := decisions.read_question(cursor, decision_id, lock=True).answer:
                return earlier
            if of_batch is not None or solved or not approves:
                decisions.answer(cursor, decision_id, given, origin, why)
                if of_batch is not None and given in _AFTER:
                    decisions.decide_batch(cursor, of_batch, _AFTER[given], origin, why)
                return given
    settle(pipeline, question, origin, why, decision_id)
    return given

"""Questions of a run, about offsets that retention deleted unread among them, and the answers of people.

Each answer is kept in the transaction that acts on it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from offset_ledger.base.units import counted
from offset_ledger.errors import ConfigurationError, StateConflict, TerminalError
from offset_ledger.model.balance_sheet import Dispositions
from offset_ledger.model.batch import Batch, Origin, current_origin
from offset_ledger.model.questions import Question, QuestionAnswer, QuestionKind
from offset_ledger.model.ranges import OffsetRange, total_width
from offset_ledger.model.snapshot import Boundary, Cursors, TopicSnapshot, check_identity
from offset_ledger.model.states import BatchKind, State
from offset_ledger.outside.connections import get_connection
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.pipeline_file.source import OnExpired
from offset_ledger.postgres.ledger import batches, decisions, pipelines, staging
from offset_ledger.postgres.ledger.completeness import check_not_whole, is_whole
from offset_ledger.postgres.ledger.database import Cursor, open_ledger, transaction
from offset_ledger.postgres.ledger.staging import StagingTables
from offset_ledger.steps.commit.step import Committed, commit_sheet
from offset_ledger.steps.decide.accept_topic import accept_schema, accept_topic, find_log_change, schema_question
from offset_ledger.steps.decide.tombstones import approve_tombstones, tombstone_question
from offset_ledger.steps.plan.step import checked_snapshot
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


def lost_ranges(cursors: Cursors, snapshot: TopicSnapshot) -> tuple[OffsetRange, ...]:
    """Return for each partition the offsets from the cursor to the log start, if that is above the cursor.

    A partition that was added later and never planned starts at its first offset.
    """
    added = 0 if cursors.next_offsets else None
    positions = ((p, cursors.next_offsets.get(p.partition, added)) for p in snapshot.partitions)
    return tuple(
        OffsetRange(p.partition, cursor, p.log_start)
        for p, cursor in positions
        if cursor is not None and cursor < p.log_start
    )


def loss_question(pipeline: Pipeline) -> Question | None:
    """Return the question that a person has to answer before the pipeline can go on; None if nothing is lost.

    A head batch that is completely staged needs no offset of the topic any more: then only its tombstones are in
    question. With ``on_expired: fail`` the pipeline file has already refused expired offsets and tombstones.

    Raises:
        UnknownTopic: the topic does not exist, and is none of several that can be retired.
        BrokerUnavailable, DatabaseUnavailable: a server is unavailable.
    """
    fails = pipeline.source.on_expired is OnExpired.FAIL
    connection = get_connection(pipeline.source.connection)
    with connect_kafka(connection) as kafka, open_ledger(pipeline) as session:
        with transaction(session) as cursor:
            head = batches.open_head(cursor, pipeline.name)
            if head and is_whole(cursor, head):  # it is committed first
                return None if fails else tombstone_question(head)
        change, snapshot = find_log_change(kafka, session, pipeline)
        if change:
            return change.question
        if fails or snapshot is None:
            return None
        with transaction(session) as cursor:
            cursors = pipelines.read_cursors(cursor, pipeline.name)
    if not cursors or not (ranges := lost_ranges(cursors, snapshot)):
        return tombstone_question(head)
    offsets, lost = counted(total_width(ranges), "offset"), "; ".join(r.in_words for r in ranges)
    text = f"Skip {offsets} of topic {snapshot.topic} that retention deleted before they were read: {lost}?"
    details: dict[str, Any] = {"ranges": [[r.partition, r.from_offset, r.until_offset] for r in ranges]}
    if head:
        text += f" Then batch {head.batch_id} is abandoned, because it would read them."
        details["abandons"] = head.batch_id
    return Question(pipeline.name, QuestionKind.LOST_RANGE, snapshot.topic_id, text, details)


def skip_lost(
    pipeline: Pipeline,
    origin: Origin,
    why: str,
    approved: Sequence[OffsetRange] | None = None,
    decision_id: int | None = None,
) -> Committed:
    """Commit the lost ranges as skipped: a head batch without rows, kept with who approved it and why.

    ``approved`` are the ranges that the person saw; no others are skipped. An open head batch that still has to be
    read is abandoned.

    Raises:
        ConfigurationError: the pipeline file says ``on_expired: fail``.
        StateConflict: a staged or validated head batch is still to be committed, or the loss is no longer the one that
            was approved.
        TopicRecreated, LogTruncated: the log has changed, and that has to be accepted first.
        TerminalError: nothing is lost.
    """
    if pipeline.source.on_expired is OnExpired.FAIL:
        raise ConfigurationError(
            f"pipeline {pipeline.name} says on_expired: fail, so lost offsets are not skipped; "
            "set source.on_expired to earliest_after_approval to let a person approve the loss"
        )
    with open_ledger(pipeline) as session:
        snapshot = checked_snapshot(session, pipeline)
        with transaction(session) as cursor:
            pipelines.lock_pipeline(cursor, pipeline.name)
            cursors = pipelines.read_cursors(cursor, pipeline.name)
            check_identity(cursors, snapshot)  # again: somebody may have accepted a log change meanwhile
            lost = lost_ranges(cursors, snapshot) if cursors else ()
            if not cursors or not lost:
                nothing = "no offset is lost; every cursor is at or above its log start"
                raise TerminalError(f"pipeline {pipeline.name}: {nothing}")
            ranges = lost if approved is None else tuple(approved)
            by_partition = {r.partition: r for r in lost}
            for r in ranges:
                now = by_partition.get(r.partition)
                if now is None or now.from_offset != r.from_offset or now.until_offset < r.until_offset:
                    change = f"but the loss is {now or 'none'} now"
                    raise StateConflict(f"range {r} was approved, {change}; nothing was skipped")
            new = [Boundary(r.partition, r.from_offset) for r in ranges if r.partition not in cursors.next_offsets]
            pipelines.record_start_offsets(cursor, pipeline.name, cursors.log_id, new)
            if head := batches.open_head(cursor, pipeline.name):
                _abandon(cursor, head, origin, why)
            done = _commit_skipped(cursor, pipeline, snapshot, ranges, origin, why)
            for asked in decisions.answered_by(cursor, pipeline.name, QuestionKind.LOST_RANGE, decision_id):
                decisions.answer(cursor, asked, QuestionAnswer.APPROVE, origin, why, done.batch.batch_id)
            return done


def _abandon(cursor: Cursor, head: Batch, origin: Origin, why: str) -> None:
    head = batches.read_batch(cursor, head.batch_id, lock=True)
    if head.judged:
        raise StateConflict(
            f"{head} is validated and needs no offset of the topic any more; approve and commit it, or abandon it, "
            "before a loss is approved"
        )
    check_not_whole(cursor, head)
    decisions.decide_batch(cursor, head.batch_id, State.ABANDONED, origin, f"it would read lost offsets: {why}")


def _commit_skipped(
    cursor: Cursor, pipeline: Pipeline, snapshot: TopicSnapshot, ranges: Sequence[OffsetRange], origin: Origin, why: str
) -> Committed:
    batch_id = batches.insert_batch(cursor, pipeline, BatchKind.HEAD, snapshot, ranges, origin, why)
    attempt, now = batches.claim(cursor, batch_id, origin), datetime.now(UTC)
    lost = total_width(ranges)
    batches.move(
        cursor, attempt, State.STAGING, State.STAGED, origin, why=why,
        slices_expected=0, rows=0, refused=0, skipped=lost, staged_at=now,
    )  # fmt: skip
    verdict = {"success": True, "reasons": [], "notes": [f"{lost} lost offsets skipped by {origin.who}: {why}"]}
    batches.move(cursor, attempt, State.STAGED, State.VALIDATED, origin, why=why, verdict=verdict, validated_at=now)
    batch = batches.read_batch(cursor, batch_id)
    sheet = {r.partition: Dispositions(skipped=r.width) for r in ranges}
    commit_sheet(cursor, batch, StagingTables(attempt), sheet, origin)
    return Committed(batches.read_batch(cursor, batch_id), sheet)

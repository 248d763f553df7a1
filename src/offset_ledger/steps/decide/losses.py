"""Losses: offsets that retention deleted before they were read; a person decides whether to skip them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from offset_ledger.base.units import counted
from offset_ledger.errors import ConfigurationError, StateConflict, TerminalError
from offset_ledger.model.balance_sheet import Dispositions
from offset_ledger.model.batch import Batch, Origin
from offset_ledger.model.log_checks import Boundary, check_identity
from offset_ledger.model.questions import Question, QuestionAnswer, QuestionKind
from offset_ledger.model.ranges import OffsetRange, total_width
from offset_ledger.model.snapshot import Cursors, TopicSnapshot
from offset_ledger.model.states import BatchKind, State
from offset_ledger.outside.connections import get_connection
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.pipeline_file.source import OnExpired
from offset_ledger.postgres.ledger import batches, decisions, pipelines
from offset_ledger.postgres.ledger.completeness import check_not_whole, is_whole
from offset_ledger.postgres.ledger.database import Cursor, open_ledger, transaction
from offset_ledger.postgres.ledger.staging import StagingTables
from offset_ledger.steps.commit.step import Committed, commit_sheet
from offset_ledger.steps.decide.accept_topic import find_log_change
from offset_ledger.steps.decide.tombstones import tombstone_question
from offset_ledger.steps.plan.step import checked_snapshot


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

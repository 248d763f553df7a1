"""Losses: what a person decides when retention deleted offsets that are still needed, or the topic was recreated."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from offset_ledger import broker
from offset_ledger.connections import get_connection
from offset_ledger.core.balance import Dispositions
from offset_ledger.core.planning import Cursors, TopicSnapshot, check_identity
from offset_ledger.core.questions import Answer, Question, QuestionKind
from offset_ledger.core.ranges import OffsetRange, total_width
from offset_ledger.core.states import Kind, State
from offset_ledger.errors import ConfigurationError, StateConflict, TerminalError
from offset_ledger.ledger import batches, decisions
from offset_ledger.ledger.batches import Origin
from offset_ledger.ledger.database import Cursor, connect, transaction
from offset_ledger.ledger.migrate import check_migrated
from offset_ledger.ledger.staging import StagingTables
from offset_ledger.pipeline.model import OnExpired, Pipeline
from offset_ledger.steps.commit import Committed, commit_sheet


def lost_ranges(cursors: Cursors, snapshot: TopicSnapshot) -> tuple[OffsetRange, ...]:
    """Per partition the offsets from the cursor to the log start, where the log starts above the cursor."""
    places = ((p, cursors.next_offsets.get(p.partition)) for p in snapshot.partitions)
    return tuple(
        OffsetRange(p.partition, cursor, p.log_start)
        for p, cursor in places
        if cursor is not None and cursor < p.log_start
    )


def loss_question(pipeline: Pipeline) -> Question | None:
    """What a person has to be asked before the pipeline can go on; None where nothing is lost.

    A pipeline file with ``on_expired: fail`` asks nothing about expired offsets: it has said no.
    """
    with broker.connect(get_connection(pipeline.source.connection)) as kafka:
        snapshot = kafka.snapshot(pipeline.source.topic)
    with connect(get_connection(pipeline.target.connection)) as session, transaction(session) as cursor:
        cursors = batches.read_cursors(cursor, pipeline.name)
    if cursors is None:
        return None
    if (cursors.cluster_id, cursors.topic_id) != (snapshot.cluster_id, snapshot.topic_id):
        return _recreated(pipeline, cursors, snapshot)
    ranges = lost_ranges(cursors, snapshot)
    if not ranges or pipeline.source.on_expired is OnExpired.FAIL:
        return None
    lost = ", ".join(map(str, ranges))
    text = f"skip {total_width(ranges):,} offsets of topic {snapshot.topic} that retention deleted unread: {lost}?"
    details = {"ranges": [[r.partition, r.from_offset, r.until_offset] for r in ranges]}
    return Question(pipeline.name, QuestionKind.LOST_RANGE, snapshot.topic_id, text, details)


def _recreated(pipeline: Pipeline, cursors: Cursors, snapshot: TopicSnapshot) -> Question:
    text = (
        f"topic {snapshot.topic} is another one now (id {snapshot.topic_id} on cluster {snapshot.cluster_id}) than the "
        f"cursors belong to (id {cursors.topic_id} on cluster {cursors.cluster_id}): go on with the new topic from the "
        "start of its log?"
    )
    details = {
        "topic_id": [cursors.topic_id, snapshot.topic_id],
        "cluster_id": [cursors.cluster_id, snapshot.cluster_id],
        "cursors": {str(p): offset for p, offset in cursors.next_offsets.items()},
        "log": {str(p.partition): [p.log_start, p.last_stable] for p in snapshot.partitions},
    }
    return Question(pipeline.name, QuestionKind.RECREATED_TOPIC, snapshot.topic_id, text, details)


def skip_lost(
    pipeline: Pipeline,
    origin: Origin,
    why: str,
    approved: Sequence[OffsetRange] | None = None,
    decision_id: int | None = None,
) -> Committed:
    """Commit the lost ranges as skipped: a head batch without rows, kept with who approved it and why.

    ``approved`` are the ranges that the person saw; more than these is never skipped.

    Raises:
        ConfigurationError: the pipeline file says ``on_expired: fail``.
        StateConflict: a head batch is open, or an approved range is no longer the loss.
        TerminalError: nothing is lost.
    """
    if pipeline.source.on_expired is OnExpired.FAIL:
        raise ConfigurationError(
            f"pipeline {pipeline.name} says on_expired: fail, so lost offsets are not skipped; "
            "set source.on_expired to earliest_after_approval to let a person approve the loss"
        )
    with broker.connect(get_connection(pipeline.source.connection)) as kafka:
        snapshot = kafka.snapshot(pipeline.source.topic)
    with connect(get_connection(pipeline.target.connection)) as session:
        check_migrated(session)
        with transaction(session) as cursor:
            batches.lock_pipeline(cursor, pipeline.name)
            ranges = _approved(cursor, pipeline, snapshot, approved)
            done = _skip(cursor, pipeline, snapshot, ranges, origin, why)
            for asked in _answered_by_this(cursor, pipeline, QuestionKind.LOST_RANGE, decision_id):
                decisions.answer(cursor, asked, Answer.APPROVE, origin, why, done.batch.batch_id)
            return done


def _approved(
    cursor: Cursor, pipeline: Pipeline, snapshot: TopicSnapshot, approved: Sequence[OffsetRange] | None
) -> tuple[OffsetRange, ...]:
    cursors = batches.read_cursors(cursor, pipeline.name)
    check_identity(cursors, snapshot)
    lost = {r.partition: r for r in lost_ranges(cursors, snapshot)} if cursors else {}
    if not lost:
        raise TerminalError(f"pipeline {pipeline.name}: no offset is lost; every cursor is at or above its log start")
    for r in lost.values() if approved is None else approved:
        now = lost.get(r.partition)
        if now is None or now.from_offset != r.from_offset or now.until_offset < r.until_offset:
            raise StateConflict(f"range {r} was approved, but the loss is {now or 'none'} now; nothing was skipped")
    return tuple(lost.values() if approved is None else approved)


def _skip(
    cursor: Cursor,
    pipeline: Pipeline,
    snapshot: TopicSnapshot,
    ranges: Sequence[OffsetRange],
    origin: Origin,
    why: str,
) -> Committed:
    if found := batches.open_head(cursor, pipeline.name):
        raise StateConflict(f"{found} is open; abandon it before a loss is approved: it reads offsets that are gone")
    batch_id = batches.insert_batch(cursor, pipeline, Kind.HEAD, snapshot, ranges, origin, why)
    epoch = batches.claim(cursor, batch_id, origin)
    key, now = (batch_id, epoch), datetime.now(UTC)
    lost = total_width(ranges)
    batches.move(
        cursor, key, State.STAGING, State.STAGED, origin, why=why,
        slices_expected=0, rows=0, refused=0, skipped=lost, staged_at=now,
    )  # fmt: skip
    verdict = {"success": True, "reasons": [], "notes": [f"{lost} lost offsets skipped by {origin.who}: {why}"]}
    batches.move(cursor, key, State.STAGED, State.VALIDATED, origin, why=why, verdict=verdict, validated_at=now)
    batch = batches.read_batch(cursor, batch_id)
    sheet = {r.partition: Dispositions(skipped=r.width) for r in ranges}
    commit_sheet(cursor, batch, StagingTables(batch_id, epoch), sheet, origin)
    return Committed(batches.read_batch(cursor, batch_id), sheet)


def accept_topic(
    pipeline: Pipeline, origin: Origin, why: str, approved: str | None = None, decision_id: int | None = None
) -> TopicSnapshot:
    """Go on with the recreated topic from the start of its log; what the ledger has of the old one stays.

    ``approved`` is the topic id that the person saw. Open batches of the old topic are abandoned: nobody can read
    their ranges any more.

    Raises:
        StateConflict: the topic is again another one than was approved.
        TerminalError: the topic is the one that the cursors belong to.
    """
    with broker.connect(get_connection(pipeline.source.connection)) as kafka:
        snapshot = kafka.snapshot(pipeline.source.topic)
    if approved is not None and approved != snapshot.topic_id:
        raise StateConflict(
            f"topic {snapshot.topic}: id {approved} was approved, but the broker has {snapshot.topic_id} now; "
            "nothing was changed"
        )
    with connect(get_connection(pipeline.target.connection)) as session:
        check_migrated(session)
        with transaction(session) as cursor:
            batches.lock_pipeline(cursor, pipeline.name)
            _accept(cursor, pipeline, snapshot, origin, why, decision_id)
    return snapshot


def _accept(
    cursor: Cursor, pipeline: Pipeline, snapshot: TopicSnapshot, origin: Origin, why: str, decision_id: int | None
) -> None:
    cursors = batches.read_cursors(cursor, pipeline.name)
    if cursors is None or (cursors.cluster_id, cursors.topic_id) == (snapshot.cluster_id, snapshot.topic_id):
        raise TerminalError(f"pipeline {pipeline.name}: topic {snapshot.topic} is the one its cursors belong to")
    cursor.execute(
        "SELECT batch_id FROM offset_ledger.batch WHERE pipeline = %s AND state NOT IN ('committed', 'abandoned')",
        [pipeline.name],
    )
    for (batch_id,) in cursor.fetchall():
        decisions.decide_batch(cursor, batch_id, State.ABANDONED, origin, f"its topic was recreated: {why}")
    asked = _answered_by_this(cursor, pipeline, QuestionKind.RECREATED_TOPIC, decision_id)
    for each in asked or [decisions.ask(cursor, _recreated(pipeline, cursors, snapshot), origin)]:
        decisions.answer(cursor, each, Answer.APPROVE, origin, why)
    cursor.execute(
        "UPDATE offset_ledger.pipeline SET topic_id = %s, cluster_id = %s, updated_at = now() WHERE pipeline = %s",
        [snapshot.topic_id, snapshot.cluster_id, pipeline.name],
    )
    known = batches.read_cursors(cursor, pipeline.name)
    begun = set(known.next_offsets) if known else set()
    starts = {p.partition: p.log_start for p in snapshot.partitions if p.partition not in begun}
    batches.record_beginnings(cursor, pipeline.name, snapshot.topic_id, starts)


def _answered_by_this(cursor: Cursor, pipeline: Pipeline, kind: QuestionKind, decision_id: int | None) -> list[int]:
    """The question that was answered; without one, those that runs wait with while somebody decides by another way."""
    if decision_id is not None:
        return [decision_id]
    return [asked.decision_id for asked in decisions.open_questions(cursor, pipeline.name, kind)]

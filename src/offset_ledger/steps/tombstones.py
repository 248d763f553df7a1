"""Tombstones that nobody read: whether compaction may have removed some from a batch, and what a person says to it.

A tombstone is kept for ``delete.retention.ms`` from the first cleaning on that meets it (KIP-534), so at least that
long after it was written. What is read within that time, and what lacks no offset, lacks no tombstone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from offset_ledger import broker
from offset_ledger.connections import get_connection
from offset_ledger.core.planning import TopicSnapshot
from offset_ledger.core.questions import Answer, Question, QuestionKind
from offset_ledger.core.states import Kind, State
from offset_ledger.core.tombstones import Late, Wait, in_words, kept_of, late_ranges, shortest
from offset_ledger.errors import StateConflict, TombstonesMayBeGone
from offset_ledger.ledger import batches, decisions, pipelines
from offset_ledger.ledger.batches import Batch, Origin
from offset_ledger.ledger.completeness import is_whole
from offset_ledger.ledger.database import Cursor, clock, connect, named_sql, transaction
from offset_ledger.pipeline.model import Pipeline, Tombstone
from offset_ledger.topics.units import kafka_span, show_span

_OFTEN = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Kept:
    """For how long the topic keeps tombstones as it is now; None where it is not compacted."""

    span: timedelta | None


def kept(pipeline: Pipeline, batch: Batch, *looks: TopicSnapshot) -> Kept | None:
    """What the topic said before and after the read; None where no tombstone can be missed.

    Only a head batch can miss one: what other batches read again, a head batch has read before or will read yet.
    """
    if batch.kind is not Kind.HEAD or pipeline.record.tombstone is not Tombstone.DELETE:
        return None
    spans = [kafka_span(str(s.delete_retention_ms)) for s in looks if s.compacted or pipeline.source.compacted]
    return Kept(min(spans, default=None))


def find_late(cursor: Cursor, batch: Batch, missing: Mapping[int, int], today: Kept) -> tuple[Late, ...]:
    """The ranges, read just now, from which compaction may have removed tombstones, and that nobody has approved."""
    if not any(missing.values()):
        return ()
    cursor.execute(named_sql("unread_tombstones"), {"batch_id": batch.batch_id})
    waits = {row["partition"]: Wait(row["waited"], shortest(row["kept_ms"], today.span)) for row in cursor.fetchall()}
    given = decisions.approved(cursor, batch.batch_id, QuestionKind.UNREAD_TOMBSTONES)
    return late_ranges(batch.ranges, missing, waits, [details["missing"] for details in given])


def refusal(batch: Batch, late: tuple[Late, ...]) -> TombstonesMayBeGone:
    """The error that names them."""
    return TombstonesMayBeGone(
        f"batch {batch.batch_id} of {batch.pipeline}, {in_words(late)}, but tombstones are kept for "
        f"only {show_span(kept_of(late))} (delete.retention.ms): compaction may have removed some before they were "
        "read, and their rows would stay; nothing was committed; look for rows whose key has no record in the topic "
        "(offset-ledger verify PIPELINE --deep --against-topic), then go on with: "
        "offset-ledger skip PIPELINE --why ..."
    )


def remember(pipeline: Pipeline) -> None:
    """Record how far the log is stable, for who looks without planning; a look of the last minutes is enough."""
    if pipeline.record.tombstone is not Tombstone.DELETE:
        return
    with connect(get_connection(pipeline.target.connection)) as session:
        with transaction(session) as cursor:
            cursor.execute(
                "SELECT FROM offset_ledger.topic_look WHERE pipeline = %s AND seen_at > clock_timestamp() - %s",
                [pipeline.name, _OFTEN],
            )
            if cursor.rowcount:
                return
            seen_at = clock(cursor)
        with broker.connect(get_connection(pipeline.source.connection)) as kafka:
            snapshot = kafka.snapshot(pipeline.source.topic)
        with transaction(session) as cursor:
            cursors = pipelines.read_cursors(cursor, pipeline.name)
            if cursors and (cursors.cluster_id, cursors.topic_id) == (snapshot.cluster_id, snapshot.topic_id):
                pipelines.record_look(cursor, pipeline.name, cursors.log_id, seen_at, snapshot, cursors.next_offsets)


def question(head: Batch | None) -> Question | None:
    """What a person has to be asked about the open head batch; None where nothing was read too late."""
    if head is None or head.state is not State.STAGING or head.late is None:
        return None
    missing = sum(head.late["missing"].values())
    text = (
        f"commit {head} although compaction may have removed tombstones of it unread: {missing:,} of its offsets gave "
        f"no record, and they may have waited {head.late['waited']} while tombstones are kept for {head.late['kept']}?"
    )
    return Question(head.pipeline, QuestionKind.UNREAD_TOMBSTONES, head.topic_id, text, dict(head.late), head.batch_id)


def approve(
    pipeline: Pipeline, origin: Origin, why: str, asked: Question | None = None, decision_id: int | None = None
) -> Batch:
    """Let the open head batch go on with what was staged, kept with who approved it and why.

    ``asked`` is what the person saw. Where staging has gone meanwhile the batch is read again, and goes on if it
    lacks no more offsets than were approved.

    Raises:
        StateConflict: no batch waits for this, or another one than was asked about.
    """
    with connect(get_connection(pipeline.target.connection)) as session, transaction(session) as cursor:
        pipelines.lock_pipeline(cursor, pipeline.name)
        head = batches.open_head(cursor, pipeline.name)
        head = batches.read_batch(cursor, head.batch_id, lock=True) if head else None
        now = question(head)
        if head is None or now is None or (asked and (asked.batch_id, asked.details) != (now.batch_id, now.details)):
            raise StateConflict(
                f"pipeline {pipeline.name}: {now.text if now else 'no batch waits with tombstones that may be gone'}; "
                "that is not what was approved, and nothing was changed"
            )
        if is_whole(cursor, head):
            key = (head.batch_id, head.epoch)
            batches.move(cursor, key, State.STAGING, State.STAGED, origin, why=why, staged_at=datetime.now(UTC))
        waiting = decisions.answered_by(cursor, pipeline.name, now.kind, decision_id)
        for each in waiting or [decisions.ask(cursor, now, origin)]:
            decisions.answer(cursor, each, Answer.APPROVE, origin, why)
        return batches.read_batch(cursor, head.batch_id)

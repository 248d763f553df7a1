"""Tombstones that compaction may have removed unread: the question for a person, and the approval."""

from datetime import UTC, datetime, timedelta

from offset_ledger.errors import StateConflict
from offset_ledger.model.batch import Batch, Origin
from offset_ledger.model.questions import Question, QuestionKind
from offset_ledger.model.states import State
from offset_ledger.outside.connections import get_connection
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.pipeline_file.pipeline import Pipeline, Tombstone
from offset_ledger.postgres.ledger import batches, decisions, pipelines
from offset_ledger.postgres.ledger.completeness import is_whole
from offset_ledger.postgres.ledger.database import clock, open_ledger, transaction

_INTERVAL = timedelta(minutes=5)


def record_stable_offsets(pipeline: Pipeline) -> None:
    """Record up to where the log is stable when no batch is planned, at most once every few minutes."""
    if pipeline.record.tombstone is not Tombstone.DELETE:
        return
    with open_ledger(pipeline) as session:
        with transaction(session) as cursor:
            if pipelines.has_snapshot_since(cursor, pipeline.name, _INTERVAL):
                return
            seen_at = clock(cursor)
        with connect_kafka(get_connection(pipeline.source.connection)) as kafka:
            snapshot = kafka.snapshot(pipeline.source.topic)
        with transaction(session) as cursor:
            cursors = pipelines.read_cursors(cursor, pipeline.name)
            if cursors and (cursors.cluster_id, cursors.topic_id) == (snapshot.cluster_id, snapshot.topic_id):
                log_id, next_offsets = cursors.log_id, cursors.next_offsets
                pipelines.record_snapshot(cursor, pipeline.name, log_id, seen_at, snapshot, next_offsets)


def tombstone_question(head: Batch | None) -> Question | None:
    """The question that a person has to answer about the open head batch; None if nothing was read too late."""
    if head is None or head.state is not State.STAGING or head.late is None:
        return None
    missing = sum(head.late["missing"].values())
    details = {name: head.late[name] for name in ("ranges", "missing", "waited", "kept")}  # jsonb keeps no order
    text = (
        f"Commit batch {head.batch_id} of {head.pipeline}, although compaction may have removed tombstones before they "
        f"were read? {missing:,} of its offsets gave no record. They may have waited {head.late['waited']}, and "
        f"tombstones are kept for {head.late['kept']}."
    )
    return Question(head.pipeline, QuestionKind.UNREAD_TOMBSTONES, head.topic_id, text, details, head.batch_id)


def approve_tombstones(
    pipeline: Pipeline, origin: Origin, why: str, asked: Question | None = None, decision_id: int | None = None
) -> Batch:
    """Let the open head batch go on with what was staged; keep who approved it and why.

    ``asked`` is the question that the person saw. If staging is gone meanwhile, the batch is read again, and goes on
    if no more offsets are missing than were approved.

    Raises:
        StateConflict: no batch needs this approval, or not the one that was asked about.
    """
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        pipelines.lock_pipeline(cursor, pipeline.name)
        head = batches.open_head(cursor, pipeline.name)
        head = batches.read_batch(cursor, head.batch_id, lock=True) if head else None
        now = tombstone_question(head)
        if head is None or now is None or (asked and (asked.batch_id, asked.details) != (now.batch_id, now.details)):
            raise StateConflict(
                f"pipeline {pipeline.name}: {now.text if now else 'no batch waits with tombstones that may be gone'}; "
                "that is not what was approved, and nothing was changed"
            )
        if is_whole(cursor, head):
            now_at = datetime.now(UTC)
            batches.move(cursor, head.attempt, State.STAGING, State.STAGED, origin, why=why, staged_at=now_at)
        decisions.approve(cursor, now, decision_id, origin, why)
        return batches.read_batch(cursor, head.batch_id)

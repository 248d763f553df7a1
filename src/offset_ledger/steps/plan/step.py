"""Plan: one snapshot of the topic, compared with the cursors, becomes a batch and its ranges."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from offset_ledger.base.extras import require
from offset_ledger.base.failpoints import Failpoint, reach
from offset_ledger.base.retry import retrying
from offset_ledger.base.units import counted
from offset_ledger.errors import BatchRejected, ConfigurationError, LogEndBelowCursor, PartitionVanished, UnknownTopic
from offset_ledger.model.batch import Batch, Origin
from offset_ledger.model.ranges import OffsetRange, total_width
from offset_ledger.model.request import Request, RunAction
from offset_ledger.model.snapshot import Cursors, TopicSnapshot, check_identity, check_replay, check_truncation
from offset_ledger.model.states import BatchKind, State
from offset_ledger.outside.connections import get_connection
from offset_ledger.outside.kafka.client import KafkaClient, connect_kafka
from offset_ledger.pipeline_file.pipeline import Pipeline, Tombstone
from offset_ledger.pipeline_file.source import StartAt
from offset_ledger.postgres.ledger import batches, followed_columns, pipelines, staging
from offset_ledger.postgres.ledger.database import Cursor, Session, clock, open_ledger, transaction
from offset_ledger.postgres.table.change import ensure_target
from offset_ledger.steps.plan.head import backlogs, boundaries, nothing_new, plan_head, start_offsets


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """The result of planning: a batch, or nothing new. ``waiting`` are offsets left for later batches."""

    batch: Batch | None
    resumed: bool
    waiting: int
    message: str


def plan(
    pipeline: Pipeline,
    origin: Origin,
    limit: int | None = None,
    take_rejected: bool = False,
    session: Session | None = None,
) -> PlannedBatch:
    """Plan the next head batch, or resume the one that is open: a rerun reads the same ranges.

    ``limit`` bounds its offsets below the pipeline file's own limit. With ``take_rejected`` a rejected batch is resumed
    too, by a caller that asks for approval before the commit.

    A log end below the cursor, or a partition that is missing, is checked again for a while: after a leader change
    an answer may be an old one.

    Raises:
        ConfigurationError: the pipeline has a suite, and Great Expectations is not installed.
        BatchRejected: the open head batch needs approval.
        LostRange: the log no longer has what the cursors need.
        UnknownTopic: the topic does not exist, and nobody has settled that it is gone.
        TargetMismatch: the target table does not fit the pipeline file.
        BrokerUnavailable, DatabaseUnavailable: a server is unavailable.
    """
    check_suite(pipeline)
    planned = _retried(pipeline, lambda: _plan(session, pipeline, origin, limit, take_rejected))
    reach(Failpoint.AFTER_PLAN)
    return planned


def plan_ahead(
    pipeline: Pipeline, origin: Origin, limit: int | None = None, session: Session | None = None
) -> PlannedBatch:
    """Plan the head batch after the open one, from the ends of that, or resume it; it can be staged, and then waits.

    Without a batch, the message says why: the open one is not staged yet or changes columns, or fewer offsets wait than
    the batch may have. Planned later it would have more.

    Raises:
        LostRange, UnknownTopic, TargetMismatch, BrokerUnavailable, DatabaseUnavailable: as :func:`plan`.
    """
    planned = _retried(pipeline, lambda: _plan(session, pipeline, origin, limit, ahead=True))
    reach(Failpoint.AFTER_PLAN_AHEAD)
    return planned


def _retried(pipeline: Pipeline, planning: Callable[[], PlannedBatch]) -> PlannedBatch:
    retries = retrying(
        lambda error: isinstance(error, LogEndBelowCursor | PartitionVanished),
        f"the leaders of {pipeline.source.topic} to know their ends",
        max_seconds=10,
    )
    planned: PlannedBatch = retries(planning)
    return planned


def _plan(
    session: Session | None,
    pipeline: Pipeline,
    origin: Origin,
    limit: int | None,
    take_rejected: bool = False,
    ahead: bool = False,
) -> PlannedBatch:
    with open_ledger(pipeline, session) as session:
        staging.drop_rejected(session, pipeline.name, pipeline.quality.keep_rejected_days)
        with transaction(session) as cursor:
            before = pipelines.read_cursors(cursor, pipeline.name)
            seen_at = clock(cursor)
            # Before any lock: a paused commit of this very batch may have it, and only the next claim ends that.
            instead, after = _look_for_open(cursor, pipeline, origin, take_rejected, ahead)
            if instead:
                return instead
        try:
            snapshot, at_timestamp = snapshot_topic(pipeline, before.past(after) if before and after else before)
        except UnknownTopic:
            with transaction(session) as cursor:
                retired = pipelines.retirements(cursor, [pipeline.name]).get(pipeline.name)
            if retired is None:
                raise
            return PlannedBatch(None, False, 0, f"nothing new: {retired}")
        with transaction(session) as cursor:
            pipelines.register(cursor, pipeline, snapshot)
            pipelines.lock_pipeline(cursor, pipeline.name)
            seen = after
            instead, after = _look_for_open(cursor, pipeline, origin, take_rejected, ahead)
            if instead:  # another plan came first, perhaps of another file
                return instead
            if seen and after and seen.attempt != after.attempt:  # another batch than the log was compared with
                return PlannedBatch(None, False, 0, f"no batch is planned ahead: {seen} has moved on")
            if any(start < end for start, end in snapshot.bounds.values()) or not pipeline.record.sampled:
                ensure_target(cursor, pipeline)
            return _plan_next(cursor, pipeline, snapshot, at_timestamp, origin, limit, seen_at, after)


def _look_for_open(
    cursor: Cursor, pipeline: Pipeline, origin: Origin, take_rejected: bool, ahead: bool
) -> tuple[PlannedBatch | None, Batch | None]:
    """Return what to do instead of planning a batch, if anything; and the open batch that a batch ahead follows.

    That one is locked, because its ends are final only until another claim.
    """
    head = batches.open_head(cursor, pipeline.name)
    if not ahead:
        return (resume(cursor, head, origin, take_rejected) if head else None), None
    if waiting := batches.batch_ahead(cursor, pipeline.name):
        return resume(cursor, waiting, origin), None
    head = batches.read_batch(cursor, head.batch_id, lock=True) if head else None
    if head is None or head.state not in (State.STAGED, State.VALIDATED):
        return PlannedBatch(None, False, 0, "no batch is planned ahead: there is no staged one before it"), None
    if followed_columns.may_change(cursor, head.batch_id):
        return PlannedBatch(None, False, 0, f"no batch is planned ahead: {head} may change the columns"), None
    return None, head


def check_suite(pipeline: Pipeline) -> None:
    """Check before a batch is planned that the pipeline's suite, if it has one, can judge it here."""
    if pipeline.quality.suite:
        require("gx", "a suite")


def checked_snapshot(session: Session, pipeline: Pipeline) -> TopicSnapshot:
    """A snapshot of the topic, checked as by :func:`snapshot_topic` against the cursors as they are before it."""
    with transaction(session) as cursor:
        cursors = pipelines.read_cursors(cursor, pipeline.name)
    return snapshot_topic(pipeline, cursors)[0]


def snapshot_topic(pipeline: Pipeline, cursors: Cursors | None) -> tuple[TopicSnapshot, dict[int, int | None]]:
    """A snapshot of the topic, checked against the ledger's cursors, and where the start timestamp lies.

    Raises:
        TopicRecreated, LogTruncated: the offsets of the cursors are other records now.
        ConfigurationError: nothing was planned yet, and the brokers are too old.
    """
    source = pipeline.source
    with connect_kafka(get_connection(source.connection)) as kafka:
        if cursors is None:
            kafka.check_version()
        try:
            snapshot = kafka.snapshot(source.topic, read_before=cursors is not None)
        except UnknownTopic as error:
            if cursors is None:
                raise
            accept = f": offset-ledger accept topic {pipeline.name} --why ..."
            gone = accept if pipeline.of_several else f", remove {pipeline.path}"
            raise UnknownTopic(f"{error}; if it was deleted for good{gone}") from None
        check_identity(cursors, snapshot)
        if pipeline.quality.dead_letter_topic:
            dead_letter_snapshot(kafka, pipeline, pipeline.quality.dead_letter_topic)
        if cursors:
            ends = kafka.epoch_ends(source.topic, cursors.leader_epochs)
            check_truncation(source.topic, cursors.next_offsets, cursors.leader_epochs, ends, "passed")
        if source.start is StartAt.TIMESTAMP and source.start_timestamp is not None:
            return snapshot, kafka.offsets_at(source.topic, source.start_timestamp)
    return snapshot, {}


def resume(cursor: Cursor, batch: Batch, origin: Origin, take_rejected: bool = False) -> PlannedBatch:
    """Go on with an open batch, as a batch of this run from now on.

    Raises:
        BatchRejected: it needs approval, and this run does not ask for it.
    """
    if batch.state is State.REJECTED and not take_rejected:
        reasons = batch.reasons or "see its report"
        raise BatchRejected(
            f"batch {batch.batch_id} of {batch.pipeline} is rejected ({reasons}) and needs approval: "
            f"offset-ledger batch approve {batch.batch_id} --why ..., or "
            f"offset-ledger batch abandon {batch.batch_id} --why ..."
        )
    batches.take_over(cursor, batch.batch_id, origin)
    return PlannedBatch(batch, True, 0, f"resuming {batch}: {describe(batch.ranges)}")


def _plan_next(
    cursor: Cursor,
    pipeline: Pipeline,
    snapshot: TopicSnapshot,
    at_timestamp: dict[int, int | None],
    origin: Origin,
    limit: int | None,
    seen_at: datetime,
    after: Batch | None,
) -> PlannedBatch:
    cursors = pipelines.read_cursors(cursor, pipeline.name)
    assert cursors is not None
    check_identity(cursors, snapshot)  # again: another log may have been accepted since the snapshot
    new = start_offsets(cursors, snapshot, first_start(cursor, pipeline), at_timestamp)
    pipelines.record_start_offsets(cursor, pipeline.name, cursors.log_id, boundaries(new, snapshot))
    next_offsets = {**cursors.next_offsets, **new}
    starts = {**next_offsets, **cursors.past(after).next_offsets} if after else next_offsets
    waiting = backlogs(starts, snapshot)
    if pipeline.record.tombstone is Tombstone.DELETE:
        pipelines.record_snapshot(cursor, pipeline.name, cursors.log_id, seen_at, snapshot, next_offsets)
    heads = batches.count_heads(cursor, pipeline.name)  # says which partition has its turn, too
    most = batch_limit(pipeline, limit)
    ranges = plan_head(waiting, most, heads)
    if after and (wide := total_width(ranges)) < most:
        return PlannedBatch(None, False, 0, f"no batch is planned ahead: {counted(wide, 'offset')} wait, of {most:,}")
    if not ranges:
        why = nothing_new(next_offsets, snapshot, heads == 0)
        return PlannedBatch(None, False, 0, f"nothing new in {pipeline.source.topic}: {why}")
    batch_id = batches.insert_batch(cursor, pipeline, BatchKind.HEAD, snapshot, ranges, origin, after=after)
    left = sum(b.width for b in waiting) - total_width(ranges)
    batch = batches.read_batch(cursor, batch_id)
    message = f"planned {batch}: {describe(ranges)}, {counted(left, 'offset')} left for later"
    return PlannedBatch(batch, False, left, message)


def first_start(cursor: Cursor, pipeline: Pipeline) -> StartAt:
    """Return where a topic without offsets in the ledger starts; a topic matched later starts at its first offset."""
    return StartAt.EARLIEST if pipelines.matched_later(cursor, pipeline) else pipeline.source.start


def batch_limit(pipeline: Pipeline, limit: int | None) -> int:
    """The offsets that one head batch may have."""
    return min(pipeline.limits.records_per_batch, limit or pipeline.limits.records_per_batch)


def describe(ranges: Sequence[OffsetRange]) -> str:
    """Offsets and partitions in words."""
    return f"{counted(total_width(ranges), 'offset')} in {counted(len(ranges), 'partition')}"


def dead_letter_snapshot(kafka: KafkaClient, pipeline: Pipeline, topic: str) -> TopicSnapshot:
    """Return the dead letter topic as it is now; raises ConfigurationError where it does not exist."""
    try:
        return kafka.snapshot(topic)
    except UnknownTopic:
        raise ConfigurationError(
            f"pipeline {pipeline.name}: the dead letter topic {topic!r} does not exist; create it, or correct "
            "quality.dead_letter_topic in the pipeline file"
        ) from None


def plan_replay(
    pipeline: Pipeline,
    wanted: Sequence[OffsetRange],
    origin: Origin,
    kind: BatchKind = BatchKind.REPLAY,
    why: str | None = None,
    request: Mapping[str, Any] | None = None,
) -> PlannedBatch:
    """Plan a batch that reads offset ranges again; cursors do not move and the merge order keeps newer rows.

    ``request`` is what the run was asked for, by default these ranges, kept so that a rerun of it resumes the batch
    that an earlier attempt left open.

    Raises:
        ConfigurationError: as :func:`plan`.
        BatchRejected: that open batch needs approval.
        OffsetExpired: a range begins below the log start.
        TerminalError: a range ends beyond the last stable offset, or names an unknown partition.
    """
    check_suite(pipeline)
    with connect_kafka(get_connection(pipeline.source.connection)) as kafka:
        snapshot = kafka.snapshot(pipeline.source.topic)
        if pipeline.quality.dead_letter_topic:
            dead_letter_snapshot(kafka, pipeline, pipeline.quality.dead_letter_topic)
    key = request or Request(RunAction.RANGES, ranges=tuple(wanted)).key
    with open_ledger(pipeline) as session:
        with transaction(session) as cursor:
            # Before any lock, as in _plan.
            if open_batch := batches.open_request(cursor, pipeline.name, kind, origin, key):
                return resume(cursor, open_batch, origin)
        with transaction(session) as cursor:
            check_identity(pipelines.read_cursors(cursor, pipeline.name), snapshot)
            check_replay(wanted, snapshot)
            pipelines.register(cursor, pipeline, snapshot)
            pipelines.lock_pipeline(cursor, pipeline.name)
            if open_batch := batches.open_request(cursor, pipeline.name, kind, origin, key):
                return resume(cursor, open_batch, origin)
            ensure_target(cursor, pipeline)
            batch_id = batches.insert_batch(cursor, pipeline, kind, snapshot, wanted, origin, why, key)
            batch = batches.read_batch(cursor, batch_id)
            return PlannedBatch(batch, False, 0, f"planned {batch}: {describe(wanted)}")

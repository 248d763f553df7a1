"""Plan: one snapshot of the topic, compared with the cursors, becomes a batch and its ranges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from offset_ledger import broker
from offset_ledger.connections import get_connection
from offset_ledger.core.planning import (
    Cursors,
    TopicSnapshot,
    backlogs,
    beginnings,
    check_identity,
    check_replay,
    check_truncation,
    plan_head,
)
from offset_ledger.core.ranges import OffsetRange, total_width
from offset_ledger.core.states import Kind, State
from offset_ledger.errors import BatchRejected, ConfigurationError, LogEndBelowCursor, PartitionVanished
from offset_ledger.failpoints import Failpoint, reach
from offset_ledger.ledger import batches
from offset_ledger.ledger.batches import Batch, Origin
from offset_ledger.ledger.database import Cursor, connect, transaction
from offset_ledger.ledger.migrate import check_migrated
from offset_ledger.ledger.planned import open_twin
from offset_ledger.ledger.target import ensure_target
from offset_ledger.patience import retrying
from offset_ledger.pipeline.model import Pipeline, StartAt


@dataclass(frozen=True, slots=True)
class Planned:
    """What planning came to: a batch, or nothing new. ``waiting`` are offsets left for later batches."""

    batch: Batch | None
    resumed: bool
    waiting: int
    message: str


def plan(pipeline: Pipeline, origin: Origin) -> Planned:
    """Plan the next head batch, or resume the one that is open: a rerun reads the same ranges.

    A log end below the cursor, or a partition that is missing, is looked at again for a while: after a leader change
    an answer may be an old one.

    Raises:
        BatchRejected: the open head batch waits for a person.
        LostRange: the log no longer holds what the cursors need.
        TargetMismatch: the target table does not fit the pipeline file.
        BrokerUnavailable, DatabaseUnavailable: a server is away.
    """
    waiting = retrying(_may_be_stale, f"the leaders of {pipeline.source.topic} to know their ends", most=10)
    planned = waiting(lambda: _plan(pipeline, origin))
    reach(Failpoint.AFTER_PLAN)
    return planned


def _may_be_stale(error: BaseException) -> bool:
    return isinstance(error, LogEndBelowCursor | PartitionVanished)


def _plan(pipeline: Pipeline, origin: Origin) -> Planned:
    with connect(get_connection(pipeline.target.connection)) as session:
        check_migrated(session)
        with transaction(session) as cursor:
            before = batches.read_cursors(cursor, pipeline.name)
            # Before any lock: a paused commit of this very batch may hold it, and only the next claim ends that.
            if resumed := _resume(cursor, pipeline):
                return resumed
        snapshot, at_timestamp = _look(pipeline, before)
        with transaction(session) as cursor:
            batches.register(cursor, pipeline, snapshot)
            batches.lock_pipeline(cursor, pipeline.name)
            ensure_target(cursor, pipeline)
            return _resume(cursor, pipeline) or _plan_next(cursor, pipeline, snapshot, at_timestamp, origin)


def _look(pipeline: Pipeline, cursors: Cursors | None) -> tuple[TopicSnapshot, dict[int, int | None]]:
    """The topic as it is now, held against the ledger's cursors, and where the start timestamp lies."""
    source = pipeline.source
    with broker.connect(get_connection(source.connection)) as kafka:
        snapshot = kafka.snapshot(source.topic)
        check_identity(cursors, snapshot)
        if cursors:
            ends = kafka.epoch_ends(source.topic, cursors.leader_epochs)
            check_truncation(source.topic, cursors.next_offsets, cursors.leader_epochs, ends, "committed")
        if source.start is StartAt.TIMESTAMP and source.start_timestamp is not None:
            return snapshot, kafka.offsets_at(source.topic, source.start_timestamp)
    return snapshot, {}


def _resume(cursor: Cursor, pipeline: Pipeline) -> Planned | None:
    found = batches.open_head(cursor, pipeline.name)
    return _resumed(found, pipeline) if found else None


def _resumed(found: Batch, pipeline: Pipeline) -> Planned:
    if found.state is State.REJECTED:
        reasons = found.reasons or "see its report"
        raise BatchRejected(
            f"batch {found.batch_id} of {pipeline.name} is rejected ({reasons}) and waits for a person: "
            f"offset-ledger approve {found.batch_id} --why ..., or offset-ledger abandon {found.batch_id} --why ..."
        )
    return Planned(found, True, 0, f"resuming {found}: {_describe(found.ranges)}")


def _plan_next(
    cursor: Cursor,
    pipeline: Pipeline,
    snapshot: TopicSnapshot,
    at_timestamp: dict[int, int | None],
    origin: Origin,
) -> Planned:
    cursors = batches.read_cursors(cursor, pipeline.name)
    new = beginnings(cursors, snapshot, pipeline.source.start, at_timestamp)
    batches.record_beginnings(cursor, pipeline.name, snapshot.topic_id, new)
    waiting = backlogs({**(cursors.next_offsets if cursors else {}), **new}, snapshot)
    ranges = plan_head(waiting, pipeline.limits.records_per_batch, _turn(cursor, pipeline))
    if not ranges:
        return Planned(
            None, False, 0, f"nothing new in {pipeline.source.topic}: every cursor is at the last stable offset"
        )
    batch_id = batches.insert_batch(cursor, pipeline, Kind.HEAD, snapshot, ranges, origin)
    left = sum(b.width for b in waiting) - total_width(ranges)
    batch = batches.read_batch(cursor, batch_id)
    return Planned(batch, False, left, f"planned {batch}: {_describe(ranges)}, {left:,} offsets left for later")


def _turn(cursor: Cursor, pipeline: Pipeline) -> int:
    cursor.execute("SELECT count(*) FROM offset_ledger.batch WHERE pipeline = %s AND kind = 'head'", [pipeline.name])
    return int(cursor.one()[0])


def _describe(ranges: Sequence[OffsetRange]) -> str:
    return f"{total_width(ranges):,} offsets in {len(ranges)} partitions"


def plan_replay(
    pipeline: Pipeline, wanted: Sequence[OffsetRange], origin: Origin, kind: Kind = Kind.REPLAY, why: str | None = None
) -> Planned:
    """Plan a batch that reads offset ranges again; cursors do not move and the merge order keeps newer rows.

    An open batch of this kind with the very same ranges is resumed: it is one that an earlier attempt left behind.

    Raises:
        BatchRejected: that open batch waits for a person.
        OffsetExpired: a range begins below the log start.
        TerminalError: a range ends beyond the last stable offset, or names an unknown partition.
    """
    with broker.connect(get_connection(pipeline.source.connection)) as kafka:
        snapshot = kafka.snapshot(pipeline.source.topic)
    with connect(get_connection(pipeline.target.connection)) as session:
        check_migrated(session)
        with transaction(session) as cursor:
            if found := open_twin(cursor, pipeline.name, kind, wanted):  # before any lock, as in _plan
                return _resumed(found, pipeline)
        with transaction(session) as cursor:
            check_identity(batches.read_cursors(cursor, pipeline.name), snapshot)
            check_replay(wanted, snapshot)
            batches.register(cursor, pipeline, snapshot)
            batches.lock_pipeline(cursor, pipeline.name)
            ensure_target(cursor, pipeline)
            if found := open_twin(cursor, pipeline.name, kind, wanted):
                return _resumed(found, pipeline)
            batch_id = batches.insert_batch(cursor, pipeline, kind, snapshot, wanted, origin, why)
            batch = batches.read_batch(cursor, batch_id)
            return Planned(batch, False, 0, f"planned {batch}: {_describe(wanted)}")


def window(pipeline: Pipeline, since: datetime, until: datetime) -> tuple[OffsetRange, ...]:
    """The offset ranges of the record timestamps ``[since, until)``, up to the last stable offset."""
    topic = pipeline.source.topic
    with broker.connect(get_connection(pipeline.source.connection)) as kafka:
        starts, ends = kafka.offsets_at(topic, since), kafka.offsets_at(topic, until)
        snapshot = kafka.snapshot(topic)
    found = []
    for p in snapshot.partitions:
        start, end = starts.get(p.partition), ends.get(p.partition)
        until_offset = p.last_stable if end is None else min(end, p.last_stable)
        if start is not None and start < until_offset:
            found.append(OffsetRange(p.partition, start, until_offset))
    if not found:
        raise ConfigurationError(f"topic {topic} has no record between {since.isoformat()} and {until.isoformat()}")
    return tuple(found)

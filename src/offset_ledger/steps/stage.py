"""Stage: claim the batch, read exactly its ranges with Spark, and COPY them slice by slice into staging."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from psycopg2 import sql

from offset_ledger import broker
from offset_ledger.connections import Connection, get_connection
from offset_ledger.core.balance import StagedCounts, check_gap, gap_reason
from offset_ledger.core.planning import TopicSnapshot
from offset_ledger.core.states import State
from offset_ledger.errors import (
    IncompleteStaging,
    LostRange,
    OffsetExpired,
    StateConflict,
    TopicRecreated,
)
from offset_ledger.failpoints import Failpoint, reach
from offset_ledger.ledger import batches, staging
from offset_ledger.ledger.batches import Batch, Origin
from offset_ledger.ledger.database import Cursor, Session, application_name, connect, transaction
from offset_ledger.ledger.staging import StagingTables
from offset_ledger.ledger.target import ensure_target
from offset_ledger.pipeline.model import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Staged:
    """What one epoch staged, in records; ``done`` when there was nothing to stage: the batch is
    committed already, or a person approved what was judged.
    """

    batch_id: int
    epoch: int
    counts: StagedCounts
    done: bool = False


def stage(spark: SparkSession, pipeline: Pipeline, batch_id: int, origin: Origin) -> Staged:
    """Stage the batch under a new epoch.

    Raises:
        StateConflict: it is rejected or abandoned.
        LostRange: the topic no longer holds the planned records, before or after the read.
        Fenced: a newer attempt took over on the way.
        IncompleteStaging, SparkFailed, BrokerUnavailable, DatabaseUnavailable: worth another try.
    """
    from offset_ledger.spark.reader import read_ranges, run_slices
    from offset_ledger.spark.slices import SliceTask

    database = get_connection(pipeline.target.connection)
    kafka = get_connection(pipeline.source.connection)

    def read(batch: Batch, tables: StagingTables) -> Written:
        before = _hold(kafka, batch, pipeline)
        records = read_ranges(spark, kafka, pipeline, batch.ranges)
        slices = run_slices(spark, records, SliceTask(database, pipeline.record, pipeline.limits, tables))
        _hold(kafka, batch, pipeline)
        return Written(slices, gap_reason(before.compacted, pipeline.source.transactional))

    return stage_with(read, pipeline, batch_id, origin)


@dataclass(frozen=True, slots=True)
class Written:
    """How many slices were written, and why offsets of the ranges may lack a record; None where they may not."""

    slices: int
    gaps_are: str | None = None


def stage_with(
    write: Callable[[Batch, StagingTables], Written], pipeline: Pipeline, batch_id: int, origin: Origin
) -> Staged:
    """Claim the batch, let ``write`` write its slices into the tables of the new epoch, and seal it.

    Raises:
        StateConflict, Fenced, IncompleteStaging, DatabaseUnavailable: as :func:`stage`.
    """
    with connect(get_connection(pipeline.target.connection)) as session:
        batch = _batch(session, batch_id)
        if batch.state is State.COMMITTED or batch.approved:
            return _done(batch)
        try:
            tables = claim(session, pipeline, batch_id, origin)
        except StateConflict:
            if (batch := _batch(session, batch_id)).state is State.COMMITTED:  # while the claim waited
                return _done(batch)
            raise
        reach(Failpoint.AFTER_CLAIM)
        log.info("claimed batch %d as epoch %d", batch_id, tables.epoch)
        written = write(batch, tables)
        counts = seal(session, batch, tables, written.slices, written.gaps_are, origin)
    reach(Failpoint.AFTER_STAGE)
    return Staged(batch_id, tables.epoch, counts)


def settled(pipeline: Pipeline, batch_id: int) -> Batch | None:
    """The batch, if it needs no staging any more: it is judged, by the gate or by a person, or it is committed."""
    with connect(get_connection(pipeline.target.connection)) as session:
        batch = _batch(session, batch_id)
    return batch if batch.approved or batch.state in (State.REJECTED, State.COMMITTED) else None


def _done(batch: Batch) -> Staged:
    counts = StagedCounts(batch.rows or 0, batch.refused or 0, batch.skipped or 0)
    return Staged(batch.batch_id, batch.epoch, counts, done=True)


def _batch(session: Session, batch_id: int) -> Batch:
    with transaction(session) as cursor:
        return batches.read_batch(cursor, batch_id)


def claim(session: Session, pipeline: Pipeline, batch_id: int, origin: Origin) -> StagingTables:
    """Take the batch under a new epoch, end the sessions of older ones, and make its staging tables.

    Their sessions are ended first, because a paused process may hold the very lock that the claim needs, and once more
    afterwards, because they may have begun another one meanwhile.
    """
    with transaction(session) as cursor:
        before = batches.read_batch(cursor, batch_id).epoch
        _end_lower(cursor, batch_id, before + 1)
    with transaction(session) as cursor:
        epoch = batches.claim(cursor, batch_id, origin)
        tables = StagingTables(batch_id, epoch)
        staging.create(cursor, tables, pipeline.record)
        ensure_target(cursor, pipeline)  # the pipeline file may have changed since the batch was planned
        cursor.execute("SELECT set_config('application_name', %s, false)", [application_name(batch_id, epoch, "stage")])
    with transaction(session) as cursor:
        _end_lower(cursor, batch_id, epoch)
    staging.drop_older(session, batch_id, epoch)
    return tables


def _end_lower(cursor: Cursor, batch_id: int, epoch: int) -> None:
    if ended := staging.end_lower_epochs(cursor, batch_id, epoch):
        log.warning("ended %d database sessions of older attempts at batch %d", len(ended), batch_id)


def _hold(connection: Connection, batch: Batch, pipeline: Pipeline) -> TopicSnapshot:
    """Hold that the topic still has the planned ranges: Spark itself would read a recreated topic silently."""
    with broker.connect(connection) as kafka:
        snapshot = kafka.snapshot(pipeline.source.topic)
    check_ranges(batch, snapshot)
    return snapshot


def check_ranges(batch: Batch, snapshot: TopicSnapshot) -> None:
    """Compare the planned ranges with a later snapshot.

    Raises:
        TopicRecreated, OffsetExpired, LostRange: what was planned is no longer there.
    """
    if batch.topic_id != snapshot.topic_id:
        raise TopicRecreated(
            f"topic {snapshot.topic} was recreated since batch {batch.batch_id} was planned: topic id {batch.topic_id} "
            f"then, {snapshot.topic_id} now; nothing was committed; abandon the batch"
        )
    found = {p.partition: p for p in snapshot.partitions}
    for r in batch.ranges:
        at = found.get(r.partition)
        if at is None or at.last_stable < r.until_offset:
            end = "is missing" if at is None else f"is stable only up to {at.last_stable}"
            raise LostRange(
                f"topic {snapshot.topic}: range {r} was planned, but the partition {end}; the log was cut off after "
                f"batch {batch.batch_id} was planned; nothing was committed"
            )
        if at.log_start > r.from_offset:
            raise OffsetExpired(
                f"topic {snapshot.topic} partition {r.partition}: range {r} was planned, but the log starts at "
                f"{at.log_start} now; {min(at.log_start, r.until_offset) - r.from_offset} offsets are gone; nothing "
                "was committed; abandon the batch and plan again"
            )


def seal(
    session: Session, batch: Batch, tables: StagingTables, slices: int, gaps_are: str | None, origin: Origin
) -> StagedCounts:
    """Hold that every slice is there and every gap is legal, then move the batch to staged."""
    with transaction(session) as cursor:
        found, by_partition = staging.manifest(cursor, tables)
        if found != slices:
            raise IncompleteStaging(
                f"batch {batch.batch_id} epoch {tables.epoch}: {slices} slices were written, the manifest has "
                f"{found}; nothing was committed; stage the batch again"
            )
        for r in batch.ranges:
            check_gap(r, r.width - by_partition.get(r.partition, StagedCounts()).total, gaps_are)
        cursor.execute(sql.SQL("ANALYZE {}").format(tables.identifier(tables.rows)))
        counts = StagedCounts(
            sum(c.rows for c in by_partition.values()),
            sum(c.refused for c in by_partition.values()),
            sum(c.skipped for c in by_partition.values()),
        )
        batches.move(
            cursor,
            (tables.batch_id, tables.epoch),
            State.STAGING,
            State.STAGED,
            origin,
            slices_expected=slices,
            gap_reason=gaps_are,
            rows=counts.rows,
            refused=counts.refused,
            skipped=counts.skipped,
            staged_at=datetime.now(UTC),
        )
    return counts

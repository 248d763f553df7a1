"""Stage: claim the batch, read exactly its ranges with Spark, and COPY them slice by slice into staging."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from psycopg2 import sql

from offset_ledger import broker
from offset_ledger.connections import Connection, get_connection
from offset_ledger.core.balance import StagedCounts, check_gap, gap_reason
from offset_ledger.core.ranges import OffsetRange
from offset_ledger.core.states import State
from offset_ledger.errors import (
    IncompleteStaging,
    LostRange,
    SparkFailed,
    StateConflict,
    UnknownTopic,
    UnreadableTimestamp,
)
from offset_ledger.failpoints import Failpoint, reach
from offset_ledger.ledger import batches, staging
from offset_ledger.ledger.batches import Batch, Origin
from offset_ledger.ledger.database import Cursor, Session, application_name, connect, transaction
from offset_ledger.ledger.decisions import judged_stands
from offset_ledger.ledger.pipelines import planned_epochs
from offset_ledger.ledger.staging import StagingTables
from offset_ledger.ledger.target import ensure_target
from offset_ledger.pipeline.model import Pipeline
from offset_ledger.steps.hold import hold

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from offset_ledger.spark.slices import SliceTask

log = logging.getLogger(__name__)

# Milliseconds: Postgres has none before, and Spark, which counts microseconds, none after.
_EARLIEST, _LATEST = -210_866_803_200_000, (2**63 - 1) // 1000


@dataclass(frozen=True, slots=True)
class Staged:
    """What one epoch staged, in records; ``done`` when there was nothing to stage: the batch is
    committed already, or a person approved what was judged and it is still there.
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
        UnreadableTimestamp: a record of them has one that Spark or Postgres cannot hold.
        Fenced: a newer attempt took over on the way.
        IncompleteStaging, SparkFailed, BrokerUnavailable, DatabaseUnavailable: worth another try.
    """
    from offset_ledger.spark.slices import SliceTask

    database = get_connection(pipeline.target.connection)
    kafka = get_connection(pipeline.source.connection)

    def read(batch: Batch, tables: StagingTables) -> Written:
        with connect(database) as session, transaction(session) as cursor:
            epochs = planned_epochs(cursor, batch_id)
        before = hold(kafka, pipeline.source.topic, batch, epochs)
        task = SliceTask(database, pipeline.record, pipeline.limits, tables)
        slices = _run(spark, kafka, batch, epochs, pipeline, task)
        hold(kafka, pipeline.source.topic, batch, epochs)
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
        batch, approved = _read(session, pipeline, batch_id)
        if batch.state is State.COMMITTED or approved:
            return _done(batch)
        try:
            tables = claim(session, pipeline, batch_id, origin)
        except StateConflict:
            if (batch := _read(session, pipeline, batch_id)[0]).state is State.COMMITTED:  # while the claim waited
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
        batch, approved = _read(session, pipeline, batch_id)
    return batch if approved or batch.state in (State.REJECTED, State.COMMITTED) else None


def _run(
    spark: SparkSession,
    kafka: Connection,
    batch: Batch,
    epochs: Mapping[int, int],
    pipeline: Pipeline,
    task: SliceTask,
) -> int:
    """Stage every slice and return how many there were; a loss that Spark reports is looked at before it is believed.

    Spark says so too when a leader was away for longer than its patience, or answered from an old log.
    """
    from offset_ledger.spark.reader import read_ranges, run_slices

    try:
        return run_slices(spark, read_ranges(spark, kafka, pipeline, batch.ranges), task)
    except UnreadableTimestamp as told:
        raise UnreadableTimestamp(f"{told}; {_far(kafka, pipeline.source.topic, batch.ranges)}") from told
    except (LostRange, UnknownTopic) as told:
        hold(kafka, pipeline.source.topic, batch, epochs)
        raise SparkFailed(
            f"{told}; the topic has every planned range, so a broker was away or answered from an old log; "
            "stage the batch again"
        ) from told


def _far(kafka: Connection, topic: str, ranges: Sequence[OffsetRange]) -> str:
    """The first of these records whose timestamp nobody can hold."""
    for each in ranges:
        for record in broker.records(kafka, topic, each, "read_uncommitted"):
            if not _EARLIEST <= record.timestamp <= _LATEST:
                where = f"{each.partition}:{record.offset} has {record.timestamp}"
                return f"{where}, expected milliseconds since 1970; see UnreadableTimestamp in docs/runbook.md"
    return "no record in them has such a timestamp any more"


def _done(batch: Batch) -> Staged:
    counts = StagedCounts(batch.rows or 0, batch.refused or 0, batch.skipped or 0)
    return Staged(batch.batch_id, batch.epoch, counts, done=True)


def _read(session: Session, pipeline: Pipeline, batch_id: int) -> tuple[Batch, bool]:
    """The batch, and whether it is approved with all that was judged still there, in today's columns."""
    with transaction(session) as cursor:
        batch = batches.read_batch_of(cursor, pipeline.name, batch_id)
        tables = StagingTables(batch_id, batch.epoch)
        kept = batch.approved and judged_stands(cursor, batch) and staging.fits(cursor, tables, pipeline.record)
    if batch.approved and not kept:
        log.warning("staging of the approved batch %d cannot be used any more; it is staged and judged again", batch_id)
    return batch, kept


def claim(session: Session, pipeline: Pipeline, batch_id: int, origin: Origin) -> StagingTables:
    """Take the batch under a new epoch, end the sessions of older ones, and make its staging tables.

    Their sessions are ended first, because a paused process may hold the very lock that the claim needs, and once more
    afterwards, because they may have begun another one meanwhile.
    """
    with transaction(session) as cursor:
        before = batches.read_batch(cursor, batch_id).epoch
        _end_lower(cursor, batch_id, before + 1)
    with transaction(session) as cursor:
        ensure_target(cursor, pipeline)  # the pipeline file may have changed since the batch was planned
        epoch = batches.claim(cursor, batch_id, origin)
        cursor.execute("SELECT claimed_at FROM offset_ledger.batch WHERE batch_id = %s", [batch_id])
        tables = StagingTables(batch_id, epoch, cursor.one()["claimed_at"])
        staging.create(cursor, tables, pipeline.record)
        cursor.execute("SELECT set_config('application_name', %s, false)", [application_name(batch_id, epoch, "stage")])
    with transaction(session) as cursor:
        _end_lower(cursor, batch_id, epoch)
    staging.drop_older(session, batch_id, epoch)
    return tables


def _end_lower(cursor: Cursor, batch_id: int, epoch: int) -> None:
    if ended := staging.end_lower_epochs(cursor, batch_id, epoch):
        log.warning("ended %d database sessions of older attempts at batch %d", len(ended), batch_id)


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

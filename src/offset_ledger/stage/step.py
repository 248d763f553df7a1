"""Stage: claim the batch, read exactly its ranges, and COPY them slice by slice into staging.

By Spark, or without it: ``spark`` of the pipeline file says which batches are for Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import get_connection
from offset_ledger.errors import StateConflict, UnreadableRecord
from offset_ledger.failpoints import Failpoint, reach
from offset_ledger.ledger import batches, fencing
from offset_ledger.ledger.database import Session, connect, transaction
from offset_ledger.ledger.open import open_ledger
from offset_ledger.ledger.staging import StagingTables
from offset_ledger.model.attempt import Attempt
from offset_ledger.model.balance_sheet import StagedCounts
from offset_ledger.model.batch import Batch, Origin
from offset_ledger.model.states import CLAIMABLE, State
from offset_ledger.stage import tombstones, without_spark
from offset_ledger.stage.claim import Written, claim, seal
from offset_ledger.stage.following import end_at_boundaries
from offset_ledger.stage.kept_staging import KeptStaging, is_last_copy, read_kept
from offset_ledger.stage.spark_read import read_slices, reason_of_gaps
from offset_ledger.stage.topic_check import topic_checks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """What one attempt staged, in records; ``done`` when there was nothing to stage: the batch is
    committed already, or all that an earlier attempt staged of it is still there.
    """

    attempt: Attempt
    counts: StagedCounts
    done: bool = False


def stage(spark: SparkSession | None, pipeline: Pipeline, batch_id: int, origin: Origin) -> StagedBatch:
    """Stage the batch under a new epoch, unless its staging is whole; without a Spark session in this process.

    Raises:
        StateConflict: it is rejected or abandoned.
        LostRange: the topic no longer has the planned records, before or after the read; if before, then nothing has
            changed: neither the epoch nor what was staged.
        UnreadableTimestamp: a record of them has one that Spark or Postgres cannot represent.
        UnreadableRecord: a record of them is one that only Spark can read.
        UndecidedSchema: it begins with a schema that a person has to decide about.
        Fenced: a newer attempt took over on the way.
        IncompleteStaging, SparkFailed, BrokerUnavailable, DatabaseUnavailable: worth another try.
    """
    from offset_ledger.stage.slices import SliceTask

    database = get_connection(pipeline.target.connection)
    kafka = get_connection(pipeline.source.connection)

    def write(batch: Batch, tables: StagingTables) -> Written:
        before = topic.recent(batch)  # the claim may have waited for a lock
        task = SliceTask.of(pipeline, database, tables, batch.kind)
        if spark is None:
            slices = without_spark.read_slices(kafka, batch, topic.check, pipeline, task)
        else:
            slices = read_slices(spark, kafka, batch, topic.check, pipeline, task)
        after = topic.check(batch, read=reason_of_gaps(pipeline, before) is None)
        retention = tombstones.tombstone_retention(pipeline, batch, before, after)
        return Written(slices, reason_of_gaps(pipeline, before, after), retention)

    with topic_checks(kafka, pipeline.source.topic) as topic:
        return stage_with(write, pipeline, batch_id, origin, topic.check)


def stage_with(
    write: Callable[[Batch, StagingTables], Written],
    pipeline: Pipeline,
    batch_id: int,
    origin: Origin,
    check_topic: Callable[[Batch], object] = lambda _: None,
) -> StagedBatch:
    """Claim the batch, let ``write`` write its slices into the tables of the new attempt, and seal it.

    Before anything is dropped for that, ``check_topic`` raises where the records can no longer be read. Where it meets
    a schema that needs other columns, it is claimed and staged once more, up to there or with these columns.

    Raises:
        StateConflict, LostRange, UndecidedSchema, Fenced, IncompleteStaging, DatabaseUnavailable: as :func:`stage`.
    """
    database = get_connection(pipeline.target.connection)
    with connect(database) as session:
        batch, kept = read_kept(session, pipeline, batch_id)
        if kept is KeptStaging.USABLE or (batch.state in CLAIMABLE and is_last_copy(batch, kept, check_topic)):
            return _done(batch)
        staged = None
        while staged is None:
            try:
                tables = claim(session, pipeline, batch_id, origin)
            except StateConflict:
                if (batch := read_kept(session, pipeline, batch_id)[0]).state is State.COMMITTED:  # while it waited
                    return _done(batch)
                raise
            log.info("claimed %s", tables.attempt)
            staged = _stage_claimed(write, session, pipeline, tables, origin)
    reach(Failpoint.AFTER_STAGE)
    return staged


def _stage_claimed(
    write: Callable[[Batch, StagingTables], Written],
    session: Session,
    pipeline: Pipeline,
    tables: StagingTables,
    origin: Origin,
) -> StagedBatch | None:
    """The batch, staged; None if it met a schema that needs other columns, and has to be staged again."""
    with fencing.fenced(get_connection(pipeline.target.connection), tables.attempt):
        reach(Failpoint.AFTER_CLAIM)
        with transaction(session) as cursor:
            batch = batches.read_batch(cursor, tables.batch_id)  # an attempt before may have ended it earlier
        written = write(batch, tables)
        if end_at_boundaries(session, pipeline, batch, tables):
            reach(Failpoint.AFTER_BOUNDARY)
            return None
        return StagedBatch(tables.attempt, seal(session, batch, tables, written, origin))


def stage_without_spark(pipeline: Pipeline, batch_id: int, origin: Origin) -> StagedBatch | None:
    """The batch, staged, if that takes no Spark; None if it does.

    It takes none if it is small, or needs no staging any more: its staging is whole, it needs approval, or it is
    committed.

    Raises:
        OffsetLedgerError: as :func:`stage`.
    """
    with open_ledger(pipeline) as session:
        batch, kept = read_kept(session, pipeline, batch_id)
    if kept is KeptStaging.USABLE or batch.state is State.REJECTED:
        return _done(batch)
    if without_spark.takes_spark(pipeline, batch):
        return None
    try:
        return stage(None, pipeline, batch_id, origin)
    except UnreadableRecord as error:
        log.warning("%s; Spark is asked to read it", error)
        return None


def _done(batch: Batch) -> StagedBatch:
    counts = StagedCounts(batch.rows or 0, batch.refused or 0, batch.skipped or 0)
    return StagedBatch(batch.attempt, counts, done=True)

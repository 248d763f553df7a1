"""Stage: claim the batch, read exactly its ranges with Spark, and COPY them slice by slice into staging."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum, auto
from typing import TYPE_CHECKING

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import Connection, get_connection
from offset_ledger.errors import (
    LostRange,
    SparkFailed,
    StateConflict,
    UnknownTopic,
    UnreadableTimestamp,
)
from offset_ledger.failpoints import Failpoint, reach
from offset_ledger.kafka import broker
from offset_ledger.ledger import batches, fencing, staging
from offset_ledger.ledger.completeness import check_manifest, is_whole
from offset_ledger.ledger.database import Cursor, Session, application_name, connect, rename_session, transaction
from offset_ledger.ledger.open import open_ledger
from offset_ledger.ledger.pipelines import planned_epochs
from offset_ledger.ledger.staging import StagingTables
from offset_ledger.model.attempt import Attempt
from offset_ledger.model.balance_sheet import StagedCounts, gap_reason
from offset_ledger.model.batch import Batch, Origin
from offset_ledger.model.manifest import by_partition
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.snapshot import TopicSnapshot
from offset_ledger.model.states import CLAIMABLE, State
from offset_ledger.model.tombstones import as_json
from offset_ledger.stage import tombstones
from offset_ledger.stage.topic_check import check_readable
from offset_ledger.target.table import ensure_target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from offset_ledger.stage.slices import SliceTask

log = logging.getLogger(__name__)

# Milliseconds: Postgres has none before, and Spark, which counts microseconds, none after.
_EARLIEST, _LATEST = -210_866_803_200_000, (2**63 - 1) // 1000


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """What one epoch staged, in records; ``done`` when there was nothing to stage: the batch is
    committed already, or all that an earlier attempt staged of it is still there.
    """

    attempt: Attempt
    counts: StagedCounts
    done: bool = False


def stage(spark: SparkSession, pipeline: Pipeline, batch_id: int, origin: Origin) -> StagedBatch:
    """Stage the batch under a new epoch, unless its staging is whole.

    Raises:
        StateConflict: it is rejected or abandoned.
        LostRange: the topic no longer holds the planned records, before or after the read; if before, then nothing has
            changed: neither the epoch nor what was staged.
        UnreadableTimestamp: a record of them has one that Spark or Postgres cannot hold.
        Fenced: a newer attempt took over on the way.
        IncompleteStaging, SparkFailed, BrokerUnavailable, DatabaseUnavailable: worth another try.
    """
    from offset_ledger.stage.slices import SliceTask

    database = get_connection(pipeline.target.connection)
    kafka = get_connection(pipeline.source.connection)

    def look(batch: Batch, read: bool = False) -> TopicSnapshot:
        with connect(database) as session, transaction(session) as cursor:
            epochs = planned_epochs(cursor, batch_id)
        return check_readable(kafka, pipeline.source.topic, batch, epochs, read)

    def read(batch: Batch, tables: StagingTables) -> Written:
        before = look(batch)  # again: the claim may have waited for a lock
        task = SliceTask(database, pipeline.record, pipeline.limits, tables)
        slices = _run(spark, kafka, batch, look, pipeline, task)
        after = look(batch, read=_why_gaps(pipeline, before) is None)
        gaps_are = _why_gaps(pipeline, before, after)
        return Written(slices, gaps_are, tombstones.tombstone_retention(pipeline, batch, before, after))

    return stage_with(read, pipeline, batch_id, origin, look)


def _why_gaps(pipeline: Pipeline, *looks: TopicSnapshot) -> str | None:
    compacted = pipeline.source.compacted or any(snapshot.compacted for snapshot in looks)
    return gap_reason(compacted, pipeline.source.transactional)


@dataclass(frozen=True, slots=True)
class Written:
    """How many slices were written, and why offsets of the ranges may lack a record; None where they may not.

    ``kept`` is for how long the topic keeps tombstones; None where a missing offset cannot be one that matters.
    """

    slices: int
    gaps_are: str | None = None
    kept: tombstones.TombstoneRetention | None = None


def stage_with(
    write: Callable[[Batch, StagingTables], Written],
    pipeline: Pipeline,
    batch_id: int,
    origin: Origin,
    look: Callable[[Batch], object] = lambda _: None,
) -> StagedBatch:
    """Claim the batch, let ``write`` write its slices into the tables of the new epoch, and seal it.

    Before anything is dropped for that, ``look`` raises where the records can no longer be read.

    Raises:
        StateConflict, LostRange, Fenced, IncompleteStaging, DatabaseUnavailable: as :func:`stage`.
    """
    database = get_connection(pipeline.target.connection)
    with connect(database) as session:
        batch, kept = _read(session, pipeline, batch_id)
        if kept is KeptStaging.USABLE or (batch.state in CLAIMABLE and _last_copy(batch, kept, look)):
            return _done(batch)
        try:
            tables = claim(session, pipeline, batch_id, origin)
        except StateConflict:
            if (batch := _read(session, pipeline, batch_id)[0]).state is State.COMMITTED:  # while the claim waited
                return _done(batch)
            raise
        reach(Failpoint.AFTER_CLAIM)
        log.info("claimed %s", tables.attempt)
        with fencing.fenced(database, tables.attempt):
            written = write(batch, tables)
            counts = seal(session, batch, tables, written.slices, written.gaps_are, origin, written.kept)
    reach(Failpoint.AFTER_STAGE)
    return StagedBatch(tables.attempt, counts)


def already_staged(pipeline: Pipeline, batch_id: int) -> StagedBatch | None:
    """The batch, if it needs no staging any more: its staging is whole, a person decides on it, or it is committed."""
    with open_ledger(pipeline) as session:
        batch, kept = _read(session, pipeline, batch_id)
    return _done(batch) if kept is KeptStaging.USABLE or batch.state is State.REJECTED else None


class KeptStaging(Enum):
    """What earlier attempts have left of a batch."""

    NOTHING = auto()  # that could be used
    OTHER_COLUMNS = auto()  # all of it, and the pipeline file declares other columns now
    OTHER_FILE = auto()  # all of it, and the pipeline file has changed otherwise
    USABLE = auto()


def _last_copy(batch: Batch, kept: KeptStaging, look: Callable[[Batch], object]) -> bool:
    """Whether what was staged by an earlier pipeline file has to do, because the topic has the records no longer.

    Raises:
        LostRange: the topic does not have them, and there is no staging to go on with.
    """
    try:
        look(batch)
    except LostRange as lost:
        if kept is KeptStaging.NOTHING:
            raise
        gone = str(lost).split("; nothing was committed")[0]  # without its advice to abandon the batch
        if kept is KeptStaging.OTHER_COLUMNS:
            raise type(lost)(
                f"{gone}. All of it is staged, with other columns than the pipeline file declares now: restore them in "
                f"the file to commit batch {batch.batch_id}; nothing was committed"
            ) from lost
        log.warning("%s. All of it is staged, by an earlier pipeline file: %s goes on with that", gone, batch)
        return True
    return False


def _run(
    spark: SparkSession,
    kafka: Connection,
    batch: Batch,
    look: Callable[[Batch], object],
    pipeline: Pipeline,
    task: SliceTask,
) -> int:
    """Stage every slice and return how many there were; a loss that Spark reports is looked at before it is believed.

    Spark says so too when a leader was away for longer than its patience, or answered from an old log.
    """
    from offset_ledger.stage.reader import read_ranges, run_slices

    try:
        return run_slices(spark, read_ranges(spark, kafka, pipeline, batch.ranges), task)
    except UnreadableTimestamp as told:
        raise UnreadableTimestamp(f"{told}; {_far(kafka, pipeline.source.topic, batch.ranges)}") from told
    except (LostRange, UnknownTopic) as told:
        look(batch)
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


def _done(batch: Batch) -> StagedBatch:
    counts = StagedCounts(batch.rows or 0, batch.refused or 0, batch.skipped or 0)
    return StagedBatch(batch.attempt, counts, done=True)


def _read(session: Session, pipeline: Pipeline, batch_id: int) -> tuple[Batch, KeptStaging]:
    """The batch, and what is left of its staging; all of it, without a look, if it is committed."""
    with transaction(session) as cursor:
        batch = batches.read_batch_of(cursor, pipeline.name, batch_id)
        kept = KeptStaging.USABLE if batch.state is State.COMMITTED else _kept(cursor, pipeline, batch)
    if (batch.approved or batch.late_approved) and kept is not KeptStaging.USABLE:
        log.warning("staging of the approved batch %d cannot be used any more; it is staged and judged again", batch_id)
    return batch, kept


def _kept(cursor: Cursor, pipeline: Pipeline, batch: Batch) -> KeptStaging:
    if batch.state not in (State.STAGED, State.VALIDATED) or not is_whole(cursor, batch):
        return KeptStaging.NOTHING
    if not staging.fits(cursor, StagingTables(batch.attempt), pipeline.record):
        return KeptStaging.OTHER_COLUMNS
    # What a person approved was judged by whatever file there was.
    same = batch.approved or batch.config_hash == pipeline.config_hash
    return KeptStaging.USABLE if same else KeptStaging.OTHER_FILE


def claim(session: Session, pipeline: Pipeline, batch_id: int, origin: Origin) -> StagingTables:
    """Take the batch under a new epoch, end the sessions of older ones, and make its staging tables.

    Their sessions are ended first, because a paused process may hold the very lock that the claim needs, and once more
    afterwards, because they may have begun another one meanwhile.
    """
    with transaction(session) as cursor:
        fencing.begin_claim(cursor, batch_id)
        before = batches.read_batch(cursor, batch_id)
        others = fencing.end_lower_epochs(cursor, Attempt(batch_id, before.epoch + 1))
        with fencing.alongside_lower_epochs(cursor, batch_id, others):
            ensure_target(cursor, pipeline)  # the pipeline file may have changed since the batch was planned
            attempt = batches.claim(cursor, batch_id, origin)
            batches.note_file(cursor, batch_id, pipeline)
            tables = StagingTables(attempt, batches.claimed_at(cursor, batch_id))
            staging.create(cursor, tables, pipeline.record)
        rename_session(cursor, application_name(attempt, "stage"))
    with transaction(session) as cursor:
        fencing.end_lower_epochs(cursor, attempt)
    staging.drop_older(session, attempt)
    return tables


def seal(
    session: Session,
    batch: Batch,
    tables: StagingTables,
    slices: int,
    gaps_are: str | None,
    origin: Origin,
    kept: tombstones.TombstoneRetention | None = None,
) -> StagedCounts:
    """Check that the slices are the planned offsets, each once, and every gap is legal; then move it to staged.

    Raises:
        IncompleteStaging, UnexplainedGap, Fenced: it is not so.
        TombstonesMayBeGone: a gap may hide tombstones; what was staged waits for a person.
    """
    with transaction(session) as cursor:
        found = staging.manifest(cursor, tables)
        check_manifest(replace(batch, epoch=tables.attempt.epoch), found, slices, gaps_are)
        counted = by_partition(found)
        missing = {r.partition: r.width - counted.get(r.partition, StagedCounts()).total for r in batch.ranges}
        late = tombstones.find_late(cursor, batch, missing, kept) if kept else ()
        staging.analyze(cursor, tables)
        counts = sum((each.counts for each in found), StagedCounts())
        batches.move(
            cursor,
            tables.attempt,
            State.STAGING,
            State.STAGING if late else State.STAGED,
            origin,
            slices_expected=slices,
            gap_reason=gaps_are,
            rows=counts.rows,
            refused=counts.refused,
            skipped=counts.skipped,
            staged_at=None if late else datetime.now(UTC),
            late=as_json(late) if late else None,
        )
    if late:
        raise tombstones.refusal(batch, late)
    return counts

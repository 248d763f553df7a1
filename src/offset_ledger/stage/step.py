"""Stage: claim the batch, read exactly its ranges, and COPY them slice by slice into staging.

By tasks of Spark or by this process: ``stage`` of the pipeline file says which.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Protocol

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import Connection, get_connection
from offset_ledger.errors import LostRange, StateConflict, TransientError
from offset_ledger.extras import is_installed
from offset_ledger.failpoints import Failpoint, reach
from offset_ledger.ledger import batches, fencing, staging
from offset_ledger.ledger.completeness import is_whole
from offset_ledger.ledger.database import Cursor, Session, connect, open_ledger, transaction
from offset_ledger.ledger.followed_columns import with_columns
from offset_ledger.ledger.staging import StagingTables
from offset_ledger.model.balance_sheet import StagedCounts, gap_reason
from offset_ledger.model.batch import Attempt, Batch, Origin
from offset_ledger.model.engine import EngineChoice, choose
from offset_ledger.model.ranges import total_width
from offset_ledger.model.snapshot import TopicSnapshot
from offset_ledger.model.states import CLAIMABLE, State
from offset_ledger.stage.claim import Written, claim, seal, tombstone_retention
from offset_ledger.stage.schemas import end_at_boundaries
from offset_ledger.stage.topic_check import losses_checked, topic_checks

if TYPE_CHECKING:
    from offset_ledger.stage.slices import SliceTask


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """What one attempt staged, in records; ``done`` when there was nothing to stage: the batch is
    committed already, or all that an earlier attempt staged of it is still there.
    """

    attempt: Attempt
    counts: StagedCounts
    done: bool = False


class Reader(Protocol):
    """An engine, ready to stage slices."""

    @property
    def choice(self) -> EngineChoice:
        """Which engine it is, and why it was chosen."""

    @property
    def transient(self) -> type[TransientError]:
        """What a read is to raise that failed although the topic has every planned range."""

    def read(self, kafka: Connection, batch: Batch, pipeline: Pipeline, task: SliceTask) -> int:
        """Stage every slice of the batch and return how many there were."""


def next_stage(pipeline: Pipeline, batch_id: int) -> StagedBatch | EngineChoice:
    """The engine that is to stage the batch; or the batch itself, if it needs no staging any more.

    That is so where its staging is whole, it needs approval, or it is committed.

    Raises:
        UnknownBatch: the pipeline has no such batch.
        DatabaseUnavailable: worth another try.
    """
    with open_ledger(pipeline) as session:
        batch, kept = read_kept(session, pipeline, batch_id)
    if kept is KeptStaging.USABLE or batch.state is State.REJECTED:
        return _done(batch)
    asked = pipeline.stage
    return choose(asked.engine, total_width(batch.ranges), is_installed("spark"), asked.process_below)


def stage(reader: Reader, pipeline: Pipeline, batch_id: int, origin: Origin) -> StagedBatch:
    """Let the reader stage the batch under a new epoch, unless its staging is whole.

    Raises:
        StateConflict: it is rejected or abandoned.
        LostRange: the topic no longer has the planned records, before or after the read; if before, then nothing has
            changed: neither the epoch nor what was staged.
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
        with losses_checked(partial(topic.check, batch), reader.transient):
            slices = reader.read(kafka, batch, pipeline, task)
        after = topic.check(batch, read=_reason_of_gaps(pipeline, before) is None)
        retention = tombstone_retention(pipeline, batch, before, after)
        return Written(slices, _reason_of_gaps(pipeline, before, after), retention)

    with topic_checks(kafka, pipeline.source.topic) as topic:
        return stage_with(write, pipeline, batch_id, origin, reader.choice, topic.check)


def _reason_of_gaps(pipeline: Pipeline, *snapshots: TopicSnapshot) -> str | None:
    """Why offsets of the topic may lack a record, by the pipeline file and these snapshots."""
    compacted = pipeline.source.compacted or any(snapshot.compacted for snapshot in snapshots)
    return gap_reason(compacted, pipeline.source.transactional)


def stage_with(
    write: Callable[[Batch, StagingTables], Written],
    pipeline: Pipeline,
    batch_id: int,
    origin: Origin,
    choice: EngineChoice,
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
            log.info("claimed %s, to be staged %s", tables.attempt, choice)
            staged = _stage_claimed(write, session, pipeline, tables, origin, choice)
    reach(Failpoint.AFTER_STAGE)
    return staged


def _stage_claimed(
    write: Callable[[Batch, StagingTables], Written],
    session: Session,
    pipeline: Pipeline,
    tables: StagingTables,
    origin: Origin,
    choice: EngineChoice,
) -> StagedBatch | None:
    """The batch, staged; None if it met a schema that needs other columns, and has to be staged again."""
    with fencing.fenced(get_connection(pipeline.target.connection), tables.attempt):
        reach(Failpoint.AFTER_CLAIM)
        with transaction(session) as cursor:
            batches.note_engine(cursor, tables.attempt, choice)
            batch = batches.read_batch(cursor, tables.batch_id)  # an attempt before may have ended it earlier
        written = write(batch, tables)
        if end_at_boundaries(session, pipeline, batch, tables):
            reach(Failpoint.AFTER_BOUNDARY)
            return None
        return StagedBatch(tables.attempt, seal(session, batch, tables, written, origin))


def _done(batch: Batch) -> StagedBatch:
    counts = StagedCounts(batch.rows or 0, batch.refused or 0, batch.skipped or 0)
    return StagedBatch(batch.attempt, counts, done=True)


class KeptStaging(Enum):
    """What earlier attempts have left of a batch."""

    NOTHING = auto()  # that could be used
    OTHER_COLUMNS = auto()  # all of it, and the pipeline file declares other columns now
    OTHER_FILE = auto()  # all of it, and the pipeline file has changed otherwise
    USABLE = auto()


def read_kept(session: Session, pipeline: Pipeline, batch_id: int) -> tuple[Batch, KeptStaging]:
    """The batch, and what is left of its staging: all of it, unchecked, if the batch is committed."""
    with transaction(session) as cursor:
        batch = batches.read_batch_of(cursor, pipeline.name, batch_id)
        kept = KeptStaging.USABLE if batch.state is State.COMMITTED else _kept(cursor, pipeline, batch)
    if (batch.approved or batch.late_approved) and kept is not KeptStaging.USABLE:
        log.warning(
            "staging of the approved batch %d cannot be used any more; it is staged and validated again", batch_id
        )
    return batch, kept


def is_last_copy(batch: Batch, kept: KeptStaging, check_topic: Callable[[Batch], object]) -> bool:
    """Whether the batch goes on with what an earlier pipeline file staged, because the topic no longer has the records.

    Raises:
        LostRange: the topic does not have them, and no staging can be used.
    """
    try:
        check_topic(batch)
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


def _kept(cursor: Cursor, pipeline: Pipeline, batch: Batch) -> KeptStaging:
    if batch.state not in (State.STAGED, State.VALIDATED) or not is_whole(cursor, batch):
        return KeptStaging.NOTHING
    if not staging.fits(cursor, StagingTables(batch.attempt), with_columns(cursor, pipeline, batch.batch_id).record):
        return KeptStaging.OTHER_COLUMNS
    # An approved batch was validated with the file of that time.
    same = batch.approved or batch.config_hash == pipeline.config_hash
    return KeptStaging.USABLE if same else KeptStaging.OTHER_FILE

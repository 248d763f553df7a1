"""Stage: claim the batch, read exactly its ranges, and COPY them slice by slice into staging.

By tasks of Spark or by this process: ``stage`` of the pipeline file says which.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import Connection, get_connection
from offset_ledger.errors import LostRange, StateConflict, TransientError, UnknownTopic
from offset_ledger.extras import is_installed
from offset_ledger.failpoints import Failpoint, reach
from offset_ledger.ledger import batches, fencing, staging
from offset_ledger.ledger.completeness import is_whole
from offset_ledger.ledger.database import Cursor, Session, open_ledger, transaction
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
from offset_ledger.stage.topic_check import TopicChecks

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
    """An engine, ready to stage slices of a topic."""

    @property
    def choice(self) -> EngineChoice:
        """Which engine it is, and why it was chosen."""

    @property
    def transient(self) -> type[TransientError]:
        """The error of a read that failed although the topic has every planned range."""

    def read(self, kafka: Connection, batch: Batch, pipeline: Pipeline, task: SliceTask) -> int:
        """Stage every slice of the batch and return how many there were."""


class Stager(Protocol):
    """Stages the slices of a batch that has been claimed."""

    @property
    def choice(self) -> EngineChoice:
        """Which engine stages them, and why it was chosen."""

    def check(self, batch: Batch) -> object:
        """Check that the records of the batch can still be read.

        Raises:
            LostRange: they cannot.
        """

    def stage(self, session: Session, batch: Batch, tables: StagingTables) -> Written:
        """Stage every slice of the batch into these tables."""


def next_stage(session: Session, pipeline: Pipeline, batch_id: int) -> StagedBatch | EngineChoice:
    """Return the engine that is to stage the batch; or the batch itself, if it needs no staging any more.

    That is so where its staging is whole, it needs approval, or it is committed.

    Raises:
        UnknownBatch: the pipeline has no such batch.
    """
    batch, kept = _read_kept(session, pipeline, batch_id)
    if kept is _KeptStaging.USABLE or batch.state is State.REJECTED:
        return _done(batch)
    asked = pipeline.stage
    return choose(asked.engine, total_width(batch.ranges), is_installed("spark"), asked.process_below)


def stage(
    reader: Reader, pipeline: Pipeline, batch_id: int, origin: Origin, session: Session | None = None
) -> StagedBatch:
    """Let the reader stage the batch under a new epoch, unless its staging is whole.

    Raises:
        StateConflict: it is rejected or abandoned.
        LostRange: the topic no longer has the planned records, before or after the read; if before, then nothing has
            changed: neither the epoch nor what was staged.
        UndecidedSchema: it begins with a schema that a person has to decide about.
        Fenced: a newer attempt took over on the way.
        IncompleteStaging, SparkFailed, BrokerUnavailable, DatabaseUnavailable: worth another try.
    """
    with TopicChecks(get_connection(pipeline.source.connection), pipeline.source.topic) as topic:
        return stage_with(TopicStager(reader, pipeline, topic), pipeline, batch_id, origin, session)


@dataclass(frozen=True, slots=True)
class TopicStager:
    """Lets a reader stage slices of the topic, which is checked before and after."""

    reader: Reader
    pipeline: Pipeline
    topic: TopicChecks

    @property
    def choice(self) -> EngineChoice:
        """The engine of the reader."""
        return self.reader.choice

    def check(self, batch: Batch) -> TopicSnapshot:
        """Check that the topic still has the planned ranges."""
        return self.topic.check(batch)

    def stage(self, session: Session, batch: Batch, tables: StagingTables) -> Written:
        """Stage the slices, and check the topic again.

        A read reports a loss also where a leader was away for longer than its timeout, or answered from an old log: if
        the topic has every planned range, the error is the transient one of the reader.
        """
        from offset_ledger.stage.slices import SliceTask

        before = self.topic.recent(batch)  # the claim may have waited for a lock
        task = SliceTask.of(session, self.pipeline, tables, batch.kind)
        try:
            slices = self.reader.read(self.topic.connection, batch, self.pipeline, task)
        except (LostRange, UnknownTopic) as error:
            self.topic.check(batch)
            raise self.reader.transient(
                f"{error}; the topic has every planned range, so a broker was away or answered from an old log; "
                "stage the batch again"
            ) from error
        after = self.topic.check(batch, read=self._gap_reason(before) is None)
        retention = tombstone_retention(self.pipeline, batch, before, after)
        return Written(slices, self._gap_reason(before, after), retention)

    def _gap_reason(self, *snapshots: TopicSnapshot) -> str | None:
        """Return why offsets of the topic may lack a record, by the pipeline file and these snapshots."""
        source = self.pipeline.source
        return gap_reason(source.compacted or any(each.compacted for each in snapshots), source.transactional)


def stage_with(
    stager: Stager, pipeline: Pipeline, batch_id: int, origin: Origin, session: Session | None = None
) -> StagedBatch:
    """Claim the batch, let the stager stage its slices into the tables of the new attempt, and seal it.

    Before anything is dropped for that, the stager checks that the records can still be read. Where it meets a schema
    that needs other columns, it is claimed and staged once more, up to there or with these columns.

    Raises:
        StateConflict, LostRange, UndecidedSchema, Fenced, IncompleteStaging, DatabaseUnavailable: as :func:`stage`.
    """
    with open_ledger(pipeline, session) as session:
        batch, kept = _read_kept(session, pipeline, batch_id)
        if kept is _KeptStaging.USABLE or (batch.state in CLAIMABLE and _is_last_copy(batch, kept, stager)):
            return _done(batch)
        while True:
            try:
                tables = claim(session, pipeline, batch_id, origin)
            except StateConflict:
                batch, _ = _read_kept(session, pipeline, batch_id)
                if batch.state is State.COMMITTED:  # while it waited
                    return _done(batch)
                raise
            log.info("claimed %s, to be staged %s", tables.attempt, stager.choice)
            with fencing.fenced(get_connection(pipeline.target.connection), tables.attempt):
                reach(Failpoint.AFTER_CLAIM)
                with transaction(session) as cursor:
                    batches.note_engine(cursor, tables.attempt, stager.choice)
                    batch = batches.read_batch(cursor, batch_id)  # an attempt before may have ended it earlier
                written = stager.stage(session, batch, tables)
                if not end_at_boundaries(session, pipeline, batch, tables):
                    counts = seal(session, batch, tables, written, origin)
                    break
                reach(Failpoint.AFTER_BOUNDARY)
    reach(Failpoint.AFTER_STAGE)
    return StagedBatch(tables.attempt, counts)


def _done(batch: Batch) -> StagedBatch:
    counts = StagedCounts(batch.rows or 0, batch.refused or 0, batch.skipped or 0)
    return StagedBatch(batch.attempt, counts, done=True)


class _KeptStaging(Enum):
    """What earlier attempts have left of a batch."""

    NOTHING = auto()  # that could be used
    OTHER_COLUMNS = auto()  # all of it, and the pipeline file declares other columns now
    OTHER_FILE = auto()  # all of it, and the pipeline file has changed otherwise
    USABLE = auto()


def _read_kept(session: Session, pipeline: Pipeline, batch_id: int) -> tuple[Batch, _KeptStaging]:
    """Return the batch, and what is left of its staging: all of it, unchecked, if the batch is committed."""
    with transaction(session) as cursor:
        batch = batches.read_batch_of(cursor, pipeline.name, batch_id)
        kept = _KeptStaging.USABLE if batch.state is State.COMMITTED else _kept(cursor, pipeline, batch)
    if (batch.approved or batch.late_approved) and kept is not _KeptStaging.USABLE:
        log.warning(
            "staging of the approved batch %d cannot be used any more; it is staged and validated again", batch_id
        )
    return batch, kept


def _kept(cursor: Cursor, pipeline: Pipeline, batch: Batch) -> _KeptStaging:
    if batch.state not in (State.STAGED, State.VALIDATED) or not is_whole(cursor, batch):
        return _KeptStaging.NOTHING
    if not staging.fits(cursor, StagingTables(batch.attempt), with_columns(cursor, pipeline, batch.batch_id).record):
        return _KeptStaging.OTHER_COLUMNS
    # An approved batch was validated with the file of that time.
    same = batch.approved or batch.config_hash == pipeline.config_hash
    return _KeptStaging.USABLE if same else _KeptStaging.OTHER_FILE


def _is_last_copy(batch: Batch, kept: _KeptStaging, stager: Stager) -> bool:
    """Return whether the batch goes on with what an earlier pipeline file staged, because the records are gone.

    Raises:
        LostRange: the topic does not have them, and no staging can be used.
    """
    try:
        stager.check(batch)
    except LostRange as lost:
        if kept is _KeptStaging.NOTHING:
            raise
        gone = str(lost).split("; nothing was committed")[0]  # without its advice to abandon the batch
        if kept is _KeptStaging.OTHER_COLUMNS:
            raise type(lost)(
                f"{gone}. All of it is staged, with other columns than the pipeline file declares now: restore them in "
                f"the file to commit batch {batch.batch_id}; nothing was committed"
            ) from lost
        log.warning("%s. All of it is staged, by an earlier pipeline file: %s goes on with that", gone, batch)
        return True
    return False

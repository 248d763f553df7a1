"""Stage: claim the batch, read exactly its ranges, and COPY them slice by slice into staging.

By tasks of Spark or by this process: ``stage`` of the pipeline file says which.
"""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from offset_ledger.base.extras import is_installed
from offset_ledger.base.failpoints import Failpoint, reach
from offset_ledger.base.retry import retrying
from offset_ledger.errors import LostRange, OffsetExpired, StateConflict, TopicRecreated, TransientError, UnknownTopic
from offset_ledger.model.balance_sheet import StagedCounts, gap_reason, with_gaps
from offset_ledger.model.batch import Attempt, Batch, EngineChoice, Origin, choose
from offset_ledger.model.ranges import total_width
from offset_ledger.model.snapshot import TopicSnapshot, check_truncation, topic_of
from offset_ledger.model.states import CLAIMABLE, State
from offset_ledger.outside.connections import Connection, get_connection
from offset_ledger.outside.kafka.client import KafkaClient, connect_kafka
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import batches, fencing, staging
from offset_ledger.postgres.ledger.completeness import is_whole
from offset_ledger.postgres.ledger.database import Session, open_ledger, transaction
from offset_ledger.postgres.ledger.followed_columns import with_columns
from offset_ledger.postgres.ledger.staging import StagingTables
from offset_ledger.steps.stage.claim import Written, claim, seal, tombstone_retention
from offset_ledger.steps.stage.schemas import end_at_boundaries

if TYPE_CHECKING:
    from offset_ledger.steps.stage.slices import SliceTask

log = logging.getLogger(__name__)

_RECENT_SECONDS = 5.0  # a client that was idle for longer may have lost its connections


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """The records that one attempt staged; ``done`` if it had nothing to stage, as all was committed or staged."""

    attempt: Attempt
    counts: StagedCounts
    done: bool = False


class Reader(Protocol):
    """An engine, ready to stage slices of a topic."""

    @property
    def choice(self) -> EngineChoice:
        """The engine, and why it was chosen."""

    @property
    def transient(self) -> type[TransientError]:
        """The error of a read that failed although the topic has every planned range."""

    def read(self, kafka: Connection, batch: Batch, pipeline: Pipeline, task: SliceTask) -> int:
        """Stage every slice of the batch and return how many there were."""


class Stager(Protocol):
    """The stager of the slices of a claimed batch."""

    @property
    def choice(self) -> EngineChoice:
        """The engine that stages them, and why it was chosen."""

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
    """Have the reader stage the batch under a new epoch, unless its staging is whole.

    Raises:
        StateConflict: it is rejected or abandoned.
        LostRange: the topic no longer has the planned records, before or after the read; if before, then nothing has
            changed: neither the epoch nor what was staged.
        UndecidedSchema: it begins with a schema that a person has to decide about.
        Fenced: a newer attempt took over on the way.
        IncompleteStaging, SparkFailed, BrokerUnavailable, DatabaseUnavailable: worth another try.
    """
    with closing(TopicStager(reader, pipeline)) as stager:
        return stage_with(stager, pipeline, batch_id, origin, session)


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
    """The staging that earlier attempts have left of a batch."""

    NOTHING = auto()  # that could be used
    OTHER_COLUMNS = auto()  # all of it, and the pipeline file declares other columns now
    OTHER_FILE = auto()  # all of it, and the pipeline file has changed otherwise
    USABLE = auto()


def _read_kept(session: Session, pipeline: Pipeline, batch_id: int) -> tuple[Batch, _KeptStaging]:
    """Return the batch, and what is left of its staging: all of it, unchecked, if the batch is committed."""
    with transaction(session) as cursor:
        batch = batches.read_batch_of(cursor, pipeline.name, batch_id)
        if batch.state is State.COMMITTED:
            kept = _KeptStaging.USABLE
        elif batch.state not in (State.STAGED, State.VALIDATED) or not is_whole(cursor, batch):
            kept = _KeptStaging.NOTHING
        elif not staging.fits(cursor, StagingTables(batch.attempt), with_columns(cursor, pipeline, batch_id).record):
            kept = _KeptStaging.OTHER_COLUMNS
        else:  # an approved batch was validated with the file of that time
            same = batch.approved or batch.config_hash == pipeline.config_hash
            kept = _KeptStaging.USABLE if same else _KeptStaging.OTHER_FILE
    if (batch.approved or batch.late_approved) and kept is not _KeptStaging.USABLE:
        log.warning(
            "staging of the approved batch %d cannot be used any more; it is staged and validated again", batch_id
        )
    return batch, kept


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


class TopicStager:
    """The stager of slices of the topic, which is checked before and after.

    A check within :data:`_RECENT_SECONDS` of the last one uses its client again, until the stager is closed.
    """

    def __init__(self, reader: Reader, pipeline: Pipeline) -> None:
        self.choice = reader.choice
        self._reader, self._pipeline, self._topic = reader, pipeline, pipeline.source.topic
        self._connection = get_connection(pipeline.source.connection)
        self._opened = ExitStack()
        self._kafka: KafkaClient | None = None
        self._last: tuple[float, TopicSnapshot] | None = None

    def close(self) -> None:
        """Close the client."""
        self._opened.close()

    def check(self, batch: Batch, read: bool = False) -> TopicSnapshot:
        """Check that the topic still has the planned ranges: a reader by itself reads a recreated topic silently.

        A range that seems to end too early is checked again for a while: after a leader change an answer may be an old
        one. Of ranges that were ``read``, where every missing offset shows, the log may start later now: what retention
        deletes after the read is no loss.

        Raises:
            TopicRecreated, OffsetExpired, LogTruncated, LostRange: what was planned is no longer there.
            BrokerUnavailable: no answer in time.
        """
        if self._kafka is None or not self._is_recent():
            self._opened.close()
            self._kafka = self._opened.enter_context(connect_kafka(self._connection))
        kafka, waiting_for = self._kafka, f"the leaders of {self._topic} to know the planned ranges"

        def check() -> TopicSnapshot:
            snapshot = kafka.snapshot(self._topic)
            check_topic(batch, snapshot)
            needed = {r.partition: r.until_offset for r in batch.ranges}
            epoch_ends = kafka.epoch_ends(self._topic, batch.epochs)
            check_truncation(self._topic, needed, batch.epochs, epoch_ends, "planned")
            check_ranges(batch, snapshot, read)
            return snapshot

        snapshot: TopicSnapshot = retrying(lambda error: type(error) is LostRange, waiting_for, max_seconds=10)(check)
        self._last = time.monotonic(), snapshot
        return snapshot

    def stage(self, session: Session, batch: Batch, tables: StagingTables) -> Written:
        """Stage the slices, and check the topic again.

        A read reports a loss also where a leader was away for longer than its timeout, or answered from an old log: if
        the topic has every planned range, the error is the transient one of the reader.
        """
        from offset_ledger.steps.stage.slices import SliceTask

        # The claim may have waited for a lock.
        before = self._last[1] if self._last and self._is_recent() else self.check(batch)
        task = SliceTask.of(session, self._pipeline, tables, batch.kind)
        try:
            slices = self._reader.read(self._connection, batch, self._pipeline, task)
        except (LostRange, UnknownTopic) as error:
            self.check(batch)
            raise self._reader.transient(
                f"{error}; the topic has every planned range, so a broker was away or answered from an old log; "
                "stage the batch again"
            ) from error
        after = self.check(batch, read=self._gap_reason(before) is None)
        reason = self._gap_reason(before, after)
        if reason is None and self._pipeline.source.transactional is None:
            with transaction(session) as cursor:
                gaps = with_gaps(batch.ranges, staging.manifest(cursor, tables))
            if gaps:
                self.check(batch)  # offsets deleted by retention would look like a gap of transactions
                assert self._kafka is not None
                reason = gap_reason(False, all(self._kafka.has_transaction(self._topic, each) for each in gaps))
        return Written(slices, reason, tombstone_retention(self._pipeline, batch, before, after))

    def _is_recent(self) -> bool:
        return self._last is not None and time.monotonic() - self._last[0] < _RECENT_SECONDS

    def _gap_reason(self, *snapshots: TopicSnapshot) -> str | None:
        """Return why offsets of the topic may lack a record, by the pipeline file and these snapshots."""
        source = self._pipeline.source
        compacted = source.compacted or any(each.compacted for each in snapshots)
        return gap_reason(compacted, source.transactional is True)


def check_topic(batch: Batch, snapshot: TopicSnapshot) -> None:
    """Compare the topic of a batch with the one that is there now.

    Raises:
        TopicRecreated: it is another one of the same name.
    """
    planned, _ = topic_of(batch.topic_id)
    if planned != snapshot.topic_id:
        raise TopicRecreated(
            f"topic {snapshot.topic} was recreated since batch {batch.batch_id} was planned: topic id {planned} "
            f"then, {snapshot.topic_id} now; nothing was committed; abandon the batch"
        )


def check_ranges(batch: Batch, snapshot: TopicSnapshot, read: bool = False) -> None:
    """Compare the planned ranges with a later snapshot; without the log start where they were ``read``.

    Raises:
        OffsetExpired, LostRange: what was planned is no longer there.
    """
    partitions = {p.partition: p for p in snapshot.partitions}
    for r in batch.ranges:
        at = partitions.get(r.partition)
        if at is None or at.last_stable < r.until_offset:
            end = "is missing" if at is None else f"is stable only up to {at.last_stable}"
            raise LostRange(
                f"topic {snapshot.topic}: range {r} was planned, but the partition {end}; the log was cut off after "
                f"batch {batch.batch_id} was planned; nothing was committed"
            )
        if at.log_start > r.from_offset and not read:
            raise OffsetExpired(
                f"topic {snapshot.topic} partition {r.partition}: range {r} was planned, but the log starts at "
                f"{at.log_start} now; {min(at.log_start, r.until_offset) - r.from_offset} offsets are gone; nothing "
                "was committed; abandon the batch and plan again"
            )

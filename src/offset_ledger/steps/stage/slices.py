"""Slices: decode the records of one and COPY them, with its manifest row, in one transaction.

Spark's tasks do this on the executors, and the process engine and a redrive in their own process.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain, islice
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import errors as pg
from psycopg2.extras import Json

from offset_ledger.base.failpoints import Failpoint, reach
from offset_ledger.base.progress import OnProgress
from offset_ledger.base.retry import retry_seconds, retrying_for
from offset_ledger.decoding.arrow import DecodedColumns, decode_batch
from offset_ledger.decoding.formats import compile_decoder, no_schemas
from offset_ledger.decoding.kafka_columns import moment_of, timestamps
from offset_ledger.decoding.schemas import Remembered
from offset_ledger.errors import Fenced, IncompleteStaging
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import BatchKind
from offset_ledger.outside.connections import Connection, get_connection
from offset_ledger.pipeline_file.pipeline import Limits, Pipeline, RecordShape
from offset_ledger.pipeline_file.source import Source
from offset_ledger.postgres.ledger.database import (
    Cursor,
    Session,
    application_name,
    connect,
    named_sql,
    set_local,
    transaction,
)
from offset_ledger.postgres.ledger.fencing import fenced, kept_awake
from offset_ledger.postgres.ledger.followed_columns import with_columns
from offset_ledger.postgres.ledger.staging import StagingTables
from offset_ledger.steps.stage.copy_rows import copy_decoded
from offset_ledger.steps.stage.record_batches import SliceReader
from offset_ledger.steps.stage.runs import SharedSlices
from offset_ledger.steps.stage.schemas import SchemaLookup
from offset_ledger.steps.stage.unread_fields import UnreadFields


@dataclass(frozen=True, slots=True)
class SliceTask:
    """The whole input of a task; it is pickled into the closure, so that no secret stands in a Spark property.

    ``retry_seconds`` are those of the process that makes the task: a worker has the environment of when Spark started.
    """

    database: Connection
    source: Source
    record: RecordShape
    limits: Limits
    tables: StagingTables
    retry_seconds: float
    lookup: SchemaLookup | None = None

    @classmethod
    def of(cls, session: Session, pipeline: Pipeline, tables: StagingTables, kind: BatchKind = BatchKind.HEAD) -> Self:
        """A task of this pipeline and a batch of that kind, with the columns of that batch."""
        database, lookup = get_connection(pipeline.target.connection), SchemaLookup.of(pipeline, kind)
        if pipeline.has_more_columns:
            with transaction(session) as cursor:
                pipeline = with_columns(cursor, pipeline, tables.batch_id)
        return cls(database, pipeline.source, pipeline.record, pipeline.limits, tables, retry_seconds(), lookup)


@dataclass(slots=True)
class _Tally:
    rows: int = 0
    refused: int = 0
    skipped: int = 0
    partition: int | None = None
    offsets: tuple[int, int] | None = None
    timestamps: tuple[int, int] | None = None  # microseconds since 1970: Kafka's may lie outside of a datetime
    unread: UnreadFields | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Note which offsets and timestamps the batch has.

        Raises:
            IncompleteStaging: the offsets of the slice do not ascend, or are of two partitions.
        """
        offsets, partitions = batch.column("offset"), pc.unique(batch.column("partition")).to_pylist()
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        if len({self.partition, *partitions} - {None}) > 1:
            raise _unreadable(f"records of partitions {[self.partition, *partitions]} came in one slice")
        ascending = pc.all(pc.greater(offsets[1:], offsets[:-1]), min_count=0).as_py()
        if not ascending or (self.offsets and first <= self.offsets[1]):
            raise _unreadable(f"records of partition {partitions[0]} came twice or out of order, up to offset {last}")
        self.partition = partitions[0]
        self.offsets = (self.offsets[0] if self.offsets else first, last)
        span = pc.min_max(timestamps(batch).cast(pa.int64()))
        if span["min"].is_valid:
            both = [*(self.timestamps or ()), span["min"].as_py(), span["max"].as_py()]
            self.timestamps = (min(both), max(both))


def _unreadable(what: str) -> IncompleteStaging:
    return IncompleteStaging(f"{what}, expected ascending offsets of one; nothing was committed; stage the batch again")


def stage_slices(task: SliceTask, reader: SliceReader, slices: SharedSlices, advance: OnProgress) -> None:
    """Stage slices through one session; ``advance`` is called with how many offsets were staged.

    The session is of the thread that stages them: nobody else may close it.
    """
    with slice_writer(task) as writer:
        for slice_no, wanted in slices:
            writer.write(slice_no, _counted(reader.read(wanted, slices.following), wanted, advance))


def _counted(batches: Iterable[pa.RecordBatch], wanted: OffsetRange, advance: OnProgress) -> Iterator[pa.RecordBatch]:
    """The batches, each counted when the next one is asked for: then its records are decoded and copied."""
    position = wanted.from_offset
    for batch in batches:
        yield batch
        after = batch.column("offset")[-1].as_py() + 1
        advance(after - position)
        position = after
    advance(wanted.until_offset - position)


@dataclass(frozen=True, slots=True)
class SliceWriter:
    """The writer of slices through one session, each in a transaction of its own."""

    task: SliceTask
    session: Session

    def write(self, slice_no: int, batches: Iterable[pa.RecordBatch]) -> int:
        """Stage the slice of that number, which has these records, and return how many they are.

        The batches have Spark's columns key, value, partition, offset and timestamp, and ``headers`` of the type
        HEADERS. A task that runs twice (retry, speculation) fails on the manifest's key, which means that the
        concurrent task has committed the very same records: done.
        """
        task, session, tables, tally = self.task, self.session, self.task.tables, _Tally()
        into = tables.identifier(tables.rows), tables.identifier(tables.refused)
        try:
            decoded = kept_awake(session, _decode_all(task, tally, batches))
            first = list(islice(decoded, 1))  # no transaction is open while Kafka is waited for the first time
            with transaction(session) as cursor:
                # No wait for disk or standbys: a crash empties the UNLOGGED rows anyway, and the seal, later in the
                # write-ahead log, makes every slice durable.
                set_local(cursor, "synchronous_commit", "off")
                claim = {**asdict(tables.attempt), "claimed_at": tables.claimed_at}
                cursor.run("staging/begin_slice", **claim, slice_no=slice_no)
                if cursor.rowcount == 0:
                    raise Fenced(
                        f"slice {slice_no} of {tables.attempt}: this epoch is no longer the one being staged; a newer "
                        "attempt has claimed the batch"
                    )
                for staged in chain(first, decoded):
                    refusals = copy_decoded(cursor, into, task.record, staged.rows, staged.refusals)
                    tally.rows += staged.rows.num_rows + staged.refusals.num_rows - refusals.num_rows
                    tally.refused += refusals.num_rows
                _finish(cursor, tables, slice_no, tally)
                reach(Failpoint.SLICE_COPIED)
            reach(Failpoint.SLICE_COMMITTED)
        except pg.UniqueViolation:
            return 0
        return tally.rows + tally.refused + tally.skipped


@contextmanager
def slice_writer(task: SliceTask) -> Iterator[SliceWriter]:
    """A writer with a session of its own.

    Raises:
        Fenced: a newer attempt has claimed the batch.
    """
    attempt, retries = task.tables.attempt, retrying_for(task.retry_seconds)
    named = application_name(attempt, "slices")
    with retries, fenced(task.database, attempt), connect(task.database, named) as session:
        yield SliceWriter(task, session)


def _decode_all(task: SliceTask, tally: _Tally, batches: Iterable[pa.RecordBatch]) -> Iterator[DecodedColumns]:
    lookup = Remembered(task.lookup or no_schemas)
    tally.unread = unread = UnreadFields(task.source, task.record, lookup.schemas)
    decoder = compile_decoder(task.source, task.record, task.limits, lookup)
    for batch in filter(len, batches):
        tally.add(batch)
        staged = decode_batch(decoder, batch)
        tally.skipped += staged.skipped
        unread.add(staged.rows, staged.framed)
        yield staged


def _finish(cursor: Cursor, tables: StagingTables, slice_no: int, tally: _Tally) -> None:
    first, last = tally.offsets or (None, None)
    earliest, latest = map(moment_of, tally.timestamps) if tally.timestamps else (None, None)
    counts = {"rows": tally.rows, "refused": tally.refused, "skipped": tally.skipped}
    offsets = {"partition": tally.partition, "min_offset": first, "max_offset": last}
    times = {"min_timestamp": earliest, "max_timestamp": latest}
    unread = Json(tally.unread.result().to_json()) if tally.unread else None
    cursor.execute(
        named_sql("staging/finish_slice"),
        {**asdict(tables.attempt), "slice_no": slice_no, **counts, **offsets, **times, "unread": unread},
    )

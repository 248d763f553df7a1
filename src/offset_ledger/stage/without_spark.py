"""The read of a small batch: by the process of the task itself, one slice for each range."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import Connection, get_connection
from offset_ledger.errors import BrokerUnavailable, UnreadableRecord
from offset_ledger.kafka.connection import reads_by_librdkafka
from offset_ledger.model.batch import Batch
from offset_ledger.model.ranges import OffsetRange, total_width
from offset_ledger.progress import OnProgress, progress
from offset_ledger.stage.record_batches import MAX_BYTES, MAX_RECORDS, chunks, record_batch
from offset_ledger.stage.timestamps import check_exact
from offset_ledger.stage.topic_check import losses_checked

if TYPE_CHECKING:
    import pyarrow as pa

    from offset_ledger.stage.slices import SliceTask

# confluent-kafka returns a result although it has failed: the bytecode of a plain call may not notice, this call does.
_read_headers = methodcaller("headers")
_THREADS = 2  # one decodes while the other waits for Postgres


def takes_spark(pipeline: Pipeline, batch: Batch) -> bool:
    """Whether the batch is too large for this process, or librdkafka cannot log in."""
    too_large = total_width(batch.ranges) >= pipeline.spark.min_offsets
    return too_large or not reads_by_librdkafka(get_connection(pipeline.source.connection))


def read_slices(
    kafka: Connection, topic: str, batch: Batch, check_topic: Callable[[Batch], object], task: SliceTask
) -> int:
    """Stage every slice and return how many there were.

    Raises:
        LostRange: the topic does not have the ranges any more.
        UnreadableTimestamp: a record has one that Postgres cannot represent.
        UnreadableRecord: Spark may read it.
        BrokerUnavailable: worth another try.
    """
    numbered = list(enumerate(batch.ranges))
    with (
        progress(total_width(batch.ranges), "staged", unit="offsets") as advance,
        ThreadPoolExecutor(_THREADS) as pool,
        losses_checked(partial(check_topic, batch), BrokerUnavailable),
    ):
        parts = [pool.submit(_write, kafka, topic, numbered[n::_THREADS], task, advance) for n in range(_THREADS)]
        for part in parts:
            part.result()
    return len(numbered)


def _write(
    kafka: Connection, topic: str, ranges: Sequence[tuple[int, OffsetRange]], task: SliceTask, advance: OnProgress
) -> None:
    from offset_ledger.kafka.bulk_reader import bulk_reader
    from offset_ledger.stage.slices import write_slice

    with bulk_reader(kafka) as read:
        for slice_no, wanted in ranges:
            lists = _counted(read(topic, wanted), wanted, advance)
            list(write_slice(task, slice_no, _record_batches(wanted.partition, lists)))


def _counted(lists: Iterable[Sequence[Any]], wanted: OffsetRange, advance: OnProgress) -> Iterator[Sequence[Any]]:
    """The lists, each counted when the next one is asked for: then its records are decoded and copied."""
    position = wanted.from_offset
    for records in lists:
        yield records
        after = records[-1].offset() + 1
        advance(after - position)
        position = after
    advance(wanted.until_offset - position)


def _record_batches(partition: int, lists: Iterable[Sequence[Any]]) -> Iterator[pa.RecordBatch]:
    records = (record for each in lists for record in each)
    for chunk in chunks(records, len, MAX_RECORDS, MAX_BYTES):
        yield _record_batch(partition, chunk)


def _record_batch(partition: int, records: Sequence[Any]) -> pa.RecordBatch:
    """Records of librdkafka, all of one partition."""
    offsets, timestamps = [each.offset() for each in records], [each.timestamp()[1] for each in records]
    for extreme in (min(timestamps), max(timestamps)):
        check_exact(partition, offsets[timestamps.index(extreme)], extreme)
    return record_batch(
        partition,
        offsets=offsets,
        keys=[each.key() for each in records],
        values=[each.value() for each in records],
        microseconds=[1000 * timestamp for timestamp in timestamps],
        headers=[_headers(partition, each) for each in records],
    )


def _headers(partition: int, record: Any) -> list[tuple[str, bytes | None]] | None:
    try:
        headers: list[tuple[str, bytes | None]] | None = _read_headers(record)
    except (UnicodeDecodeError, SystemError) as error:
        raise UnreadableRecord(
            f"record {partition}:{record.offset()} has a header whose name is not UTF-8; nothing was committed"
        ) from error
    return headers

"""Slices read and written by this process, one after the other, with librdkafka."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from offset_ledger.connections import Connection
from offset_ledger.errors import UnreadableRecord
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.progress import OnProgress
from offset_ledger.stage.record_batches import MAX_BYTES, MAX_RECORDS, chunks, record_batch
from offset_ledger.stage.runs import Slices
from offset_ledger.stage.timestamps import check_exact

if TYPE_CHECKING:
    import pyarrow as pa

    from offset_ledger.stage.slices import SliceTask

WriteSlices = Callable[[Slices], None]
"""Stages these slices, one after the other."""

# confluent-kafka returns a result although it has failed: the bytecode of a plain call may not notice, this call does.
_read_headers = methodcaller("headers")


@contextmanager
def slice_reader(kafka: Connection, topic: str, task: SliceTask, advance: OnProgress) -> Iterator[WriteSlices]:
    """What stages slices through one consumer and one session; ``advance`` is called with how many offsets were staged.

    The session is of the thread that stages them: nobody else may close it.
    """
    from offset_ledger.kafka.bulk_reader import bulk_reader
    from offset_ledger.stage.slices import slice_session

    with bulk_reader(kafka) as read:

        def write_all(slices: Slices) -> None:
            with slice_session(task) as write:
                for slice_no, wanted in slices:
                    lists = _counted(read(topic, wanted, slices.following), wanted, advance)
                    write(slice_no, _record_batches(wanted.partition, lists))

        yield write_all


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
    for records in lists:
        small = sum(map(len, records)) <= MAX_BYTES
        for chunk in [records] if small else chunks(records, len, MAX_RECORDS, MAX_BYTES):
            yield _record_batch(partition, chunk)


def _record_batch(partition: int, records: Sequence[Any]) -> pa.RecordBatch:
    """Records of librdkafka, all of one partition."""
    from offset_ledger.kafka.bulk_reader import Message

    offsets: list[Any] = list(map(Message.offset, records))
    timestamps = [at for _, at in map(Message.timestamp, records)]
    for extreme in (min(timestamps), max(timestamps)):
        check_exact(partition, offsets[timestamps.index(extreme)], extreme)
    return record_batch(
        partition,
        offsets=offsets,
        keys=list(map(Message.key, records)),
        values=list(map(Message.value, records)),
        microseconds=[1000 * timestamp for timestamp in timestamps],
        headers=_headers(partition, records),
    )


def _headers(partition: int, records: Sequence[Any]) -> list[list[tuple[str, bytes | None]] | None]:
    headers: list[list[tuple[str, bytes | None]] | None] = []
    try:
        headers.extend(map(_read_headers, records))
    except (UnicodeDecodeError, SystemError) as error:
        raise UnreadableRecord(
            f"record {partition}:{records[len(headers)].offset()} has a header whose name is not UTF-8; nothing was "
            "committed"
        ) from error
    return headers

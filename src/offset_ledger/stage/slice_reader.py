"""Slices read and written by one worker, one after the other: a thread of the task, or a task of Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from offset_ledger.connections import Connection
from offset_ledger.kafka.connection import reads_by_librdkafka
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.progress import OnProgress
from offset_ledger.stage.record_batches import MAX_BYTES, MAX_RECORDS, chunks, kafka_python_batch, record_batch
from offset_ledger.stage.runs import Slices

if TYPE_CHECKING:
    import pyarrow as pa

    from offset_ledger.kafka.bulk_reader import Next, ReadLists
    from offset_ledger.stage.slices import SliceTask

WriteSlices = Callable[[Slices], None]
"""Stages these slices, one after the other."""

# confluent-kafka returns a result although it has failed: the bytecode of a plain call may not notice, this call does.
_read_headers = methodcaller("headers")


@contextmanager
def slice_reader(kafka: Connection, topic: str, task: SliceTask, advance: OnProgress) -> Iterator[WriteSlices]:
    """What stages slices through one consumer and one session; ``advance`` is called with how many offsets were staged.

    librdkafka reads them, or kafka-python where librdkafka cannot log in. The session is of the thread that stages
    them: nobody else may close it.
    """
    from offset_ledger.stage.slices import slice_session

    with ExitStack() as opened:
        reader = (_Librdkafka if reads_by_librdkafka(kafka) else _KafkaPython)(kafka, topic, opened)

        def write_all(slices: Slices) -> None:
            with slice_session(task) as write:
                for slice_no, wanted in slices:
                    write(slice_no, _counted(reader.read(wanted, slices.following), wanted, advance))

        yield write_all


def _counted(batches: Iterable[pa.RecordBatch], wanted: OffsetRange, advance: OnProgress) -> Iterator[pa.RecordBatch]:
    """The batches, each counted when the next one is asked for: then its records are decoded and copied."""
    position = wanted.from_offset
    for batch in batches:
        yield batch
        after = batch.column("offset")[-1].as_py() + 1
        advance(after - position)
        position = after
    advance(wanted.until_offset - position)


class _KafkaPython:
    def __init__(self, kafka: Connection, topic: str, opened: ExitStack) -> None:
        self._kafka, self._topic, self._opened = kafka, topic, opened
        self._read: ReadLists | None = None

    def read(self, wanted: OffsetRange, _: Next | None = None) -> Iterator[pa.RecordBatch]:
        if self._read is None:
            from offset_ledger.kafka.records import record_reader  # takes 0.3 s of CPU, and librdkafka seldom needs it

            self._read = self._opened.enter_context(record_reader(self._kafka))
        for records in self._read(self._topic, wanted):
            for chunk in _of_limited_size(records, lambda record: len(record.value or b"")):
                yield kafka_python_batch(chunk)


class _Librdkafka:
    def __init__(self, kafka: Connection, topic: str, opened: ExitStack) -> None:
        from offset_ledger.kafka.bulk_reader import bulk_reader

        self._topic, self._read = topic, opened.enter_context(bulk_reader(kafka))
        self._kafka_python = _KafkaPython(kafka, topic, opened)

    def read(self, wanted: OffsetRange, then: Next) -> Iterator[pa.RecordBatch]:
        for records in self._read(self._topic, wanted, then):
            for chunk in _of_limited_size(records, len):
                if (headers := _headers(chunk)) is not None:
                    yield _record_batch(wanted.partition, chunk, headers)
                else:  # of each list with such a name: a producer that writes one writes many
                    again = OffsetRange(wanted.partition, chunk[0].offset(), chunk[-1].offset() + 1)
                    yield from self._kafka_python.read(again)


def _of_limited_size(records: Sequence[Any], size_of: Callable[[Any], int]) -> Iterable[Sequence[Any]]:
    small = sum(map(size_of, records)) <= MAX_BYTES
    return [records] if small else chunks(records, size_of, MAX_RECORDS, MAX_BYTES)


def _headers(records: Sequence[Any]) -> list[list[tuple[str, bytes | None]] | None] | None:
    """Those of each record; None if a name among them is not UTF-8, which librdkafka's Python client does not give."""
    try:
        return list(map(_read_headers, records))
    except (UnicodeDecodeError, SystemError):
        return None


def _record_batch(
    partition: int, records: Sequence[Any], headers: Sequence[list[tuple[str, bytes | None]] | None]
) -> pa.RecordBatch:
    """Records of librdkafka, all of one partition."""
    from offset_ledger.kafka.bulk_reader import Message

    offsets: list[Any] = list(map(Message.offset, records))
    return record_batch(
        partition,
        offsets=offsets,
        keys=list(map(Message.key, records)),
        values=list(map(Message.value, records)),
        timestamps=[timestamp for _, timestamp in map(Message.timestamp, records)],
        headers=headers,
    )

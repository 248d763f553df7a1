"""The records of slices as Arrow batches, read by one consumer for each thread of the step, or each task of Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Protocol

from offset_ledger.connections import Connection
from offset_ledger.kafka.connection import reads_by_librdkafka
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.stage.record_batches import MAX_BYTES, MAX_RECORDS, chunks, kafka_python_batch, record_batch

if TYPE_CHECKING:
    import pyarrow as pa

    from offset_ledger.kafka.bulk_reader import Next, ReadLists

# confluent-kafka returns a result although it has failed: the bytecode of a plain call may not notice, this call does.
_read_headers = methodcaller("headers")


class SliceReader(Protocol):
    """Reads slices of a topic, one after the other, through one consumer."""

    def read(self, wanted: OffsetRange, then: Next) -> Iterator[pa.RecordBatch]:
        """The records of the range; ``then`` says, before the last of them, which range is read next."""


def slice_reader(kafka: Connection, topic: str, opened: ExitStack) -> SliceReader:
    """Return a reader, which is closed with ``opened``: librdkafka, or kafka-python where librdkafka cannot log in."""
    return (_Librdkafka if reads_by_librdkafka(kafka) else _KafkaPython)(kafka, topic, opened)


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
        from offset_ledger.kafka.bulk_reader import Message, bulk_reader

        self._message: Any = Message
        self._topic, self._read = topic, opened.enter_context(bulk_reader(kafka))
        self._kafka_python = _KafkaPython(kafka, topic, opened)

    def read(self, wanted: OffsetRange, then: Next) -> Iterator[pa.RecordBatch]:
        for records in self._read(self._topic, wanted, then):
            for chunk in _of_limited_size(records, len):
                if (headers := _headers(chunk)) is not None:
                    yield record_batch(
                        wanted.partition,
                        offsets=list(map(self._message.offset, chunk)),
                        keys=list(map(self._message.key, chunk)),
                        values=list(map(self._message.value, chunk)),
                        timestamps=[timestamp for _, timestamp in map(self._message.timestamp, chunk)],
                        headers=headers,
                    )
                else:  # of each list with such a name: a producer that writes one writes many
                    again = OffsetRange(wanted.partition, chunk[0].offset(), chunk[-1].offset() + 1)
                    yield from self._kafka_python.read(again)


def _of_limited_size(records: Sequence[Any], size_of: Callable[[Any], int]) -> Iterable[Sequence[Any]]:
    small = sum(map(size_of, records)) <= MAX_BYTES
    return [records] if small else chunks(records, size_of, MAX_RECORDS, MAX_BYTES)


def _headers(records: Sequence[Any]) -> list[list[tuple[str, bytes | None]] | None] | None:
    """Return those of each record; None if a name is not UTF-8, which librdkafka's Python client does not give."""
    try:
        return list(map(_read_headers, records))
    except (UnicodeDecodeError, SystemError):
        return None

"""Kafka records as Arrow batches of one column for each of their fields, in chunks of a limited number and size.

Slices are read by one consumer for each thread of the step, or each task of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from offset_ledger.model.moments import known_timestamp
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.kafka.connection import reads_by_librdkafka

if TYPE_CHECKING:
    import pyarrow as pa

    from offset_ledger.outside.kafka.bulk_reader import Next, ReadLists

MAX_RECORDS = 20_000
MAX_BYTES = 32 * 1024 * 1024
T = TypeVar("T")
# confluent-kafka returns a result although it has failed: the bytecode of a plain call may not notice, this call does.
_read_headers = methodcaller("headers")


def chunks(records: Iterable[T], size_of: Callable[[T], int], max_records: int, max_bytes: int) -> Iterator[list[T]]:
    """The records in lists that end at ``max_records`` or as soon as they have more than ``max_bytes``."""
    chunk: list[T] = []
    size = 0
    for record in records:
        chunk.append(record)
        size += size_of(record)
        if len(chunk) == max_records or size > max_bytes:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def kafka_python_batch(records: Sequence[Any]) -> pa.RecordBatch:
    """Records of kafka-python, at least one and all of one partition."""
    return record_batch(
        records[0].partition,
        offsets=[record.offset for record in records],
        keys=[record.key for record in records],
        values=[record.value for record in records],
        timestamps=[known_timestamp(record.timestamp) for record in records],
        headers=[record.headers or None for record in records],
    )


def record_batch(
    partition: int,
    offsets: Sequence[int],
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    timestamps: Sequence[int | None],
    headers: Sequence[Sequence[tuple[str, bytes | None]] | None],
) -> pa.RecordBatch:
    """Records of one partition, one sequence for each of their fields; timestamps are in milliseconds since 1970."""
    import pyarrow as pa

    from offset_ledger.decoding.headers import HEADERS
    from offset_ledger.decoding.kafka_columns import TIMESTAMP

    pairs = pa.nulls(len(headers), HEADERS) if not any(headers) else pa.array(map(_pairs, headers), HEADERS)
    columns = {
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "partition": pa.array([partition] * len(offsets), pa.int32()),
        "offset": pa.array(offsets, pa.int64()),
        "timestamp": pa.array(timestamps, pa.int64()).cast(TIMESTAMP),
        "headers": pairs,
    }
    return pa.RecordBatch.from_pydict(columns)


def _pairs(headers: Sequence[tuple[str, bytes | None]] | None) -> list[dict[str, Any]] | None:
    return None if headers is None else [{"key": name.encode(), "value": value} for name, value in headers]


class SliceReader(Protocol):
    """The reader of slices of a topic, one after the other, through one consumer."""

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
            from offset_ledger.outside.kafka.records import (
                record_reader,  # takes 0.3 s of CPU, and librdkafka seldom needs it
            )

            self._read = self._opened.enter_context(record_reader(self._kafka))
        for records in self._read(self._topic, wanted):
            for chunk in _of_limited_size(records, lambda record: len(record.value or b"")):
                yield kafka_python_batch(chunk)


class _Librdkafka:
    def __init__(self, kafka: Connection, topic: str, opened: ExitStack) -> None:
        from offset_ledger.outside.kafka.bulk_reader import Message, bulk_reader

        self._message: Any = Message
        self._topic, self._read = topic, opened.enter_context(bulk_reader(kafka))
        self._kafka_python = _KafkaPython(kafka, topic, opened)

    def read(self, wanted: OffsetRange, then: Next) -> Iterator[pa.RecordBatch]:
        for records in self._read(self._topic, wanted, then):
            for chunk in _of_limited_size(records, len):
                try:
                    headers = list(map(_read_headers, chunk))
                except (UnicodeDecodeError, SystemError):  # a name that is not UTF-8: the client gives none
                    headers = None
                if headers is not None:
                    yield record_batch(
                        wanted.partition,
                        offsets=list(map(self._message.offset, chunk)),
                        keys=list(map(self._message.key, chunk)),
                        values=list(map(self._message.value, chunk)),
                        # For the oldest message format it gives 0, and says that there is none.
                        timestamps=[at if kind else None for kind, at in map(self._message.timestamp, chunk)],
                        headers=headers,
                    )
                else:  # for each list with such a name: a producer that writes one writes many
                    again = OffsetRange(wanted.partition, chunk[0].offset(), chunk[-1].offset() + 1)
                    yield from self._kafka_python.read(again)


def _of_limited_size(records: Sequence[Any], size_of: Callable[[Any], int]) -> Iterable[Sequence[Any]]:
    small = sum(map(size_of, records)) <= MAX_BYTES
    return [records] if small else chunks(records, size_of, MAX_RECORDS, MAX_BYTES)

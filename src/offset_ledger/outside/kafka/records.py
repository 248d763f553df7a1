"""The records of offset ranges, by kafka-python: it logs in everywhere, and gives header names of any bytes.

It also gives the timestamp of a range's first or last record alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors

from offset_ledger.base.retry import retry_seconds
from offset_ledger.errors import BrokerUnavailable, LostRange, error_line
from offset_ledger.model.moments import known_timestamp, moment
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.kafka.connection import bootstrap_servers
from offset_ledger.outside.kafka.errors import unavailable
from offset_ledger.outside.kafka.python_client import connect_consumer

if TYPE_CHECKING:
    from offset_ledger.outside.kafka.bulk_reader import Next, ReadLists

_MAX_RECORDS = 20_000
_POLL_MS = 500
_TIMESTAMP_SECONDS, _TIMESTAMP_POLL_MS = 10.0, 200
_LOST = (kafka_errors.OffsetOutOfRangeError, kafka_errors.LogTruncationError)


def record_offsets(connection: Connection, topic: str, wanted: OffsetRange, isolation: str) -> Iterator[int]:
    """The offsets in the range that hold a record for a reader of this isolation level, in order.

    Raises:
        LostRange, BrokerUnavailable, AccessDenied: as :func:`record_reader`.
    """
    return (record.offset for record in read_records(connection, topic, wanted, isolation))


def read_records(connection: Connection, topic: str, wanted: OffsetRange, isolation: str) -> Iterator[Any]:
    """The records in the range for a reader of this isolation level, in order, as kafka-python has them.

    ``read_committed`` leaves out aborted records; no reader sees control records.

    Raises:
        LostRange, BrokerUnavailable, AccessDenied: as :func:`record_reader`.
    """
    with record_reader(connection, isolation) as read:
        for records in read(topic, wanted):
            yield from records


@contextmanager
def record_reader(connection: Connection, isolation: str = "read_committed") -> Iterator[ReadLists]:
    """A reader of ranges, one after the other through one consumer, in lists of at most 20,000 records in order.

    It fetches nothing ahead. It raises LostRange if the log does not have a range, AccessDenied, and BrokerUnavailable
    if a read came no further for :func:`~offset_ledger.base.retry.retry_seconds`.
    """
    with closing(_RecordReader(connection, isolation)) as reader:
        yield reader.read


class _RecordReader:
    def __init__(self, connection: Connection, isolation: str) -> None:
        self._connection, self._isolation = connection, isolation
        self._consumer: KafkaConsumer | None = None
        self._next: tuple[TopicPartition, int] | None = None  # the consumer's next position

    def close(self) -> None:
        if self._consumer:
            self._consumer.close()

    def read(self, topic: str, wanted: OffsetRange, then: Next = lambda: None) -> Iterator[list[Any]]:  # noqa: ARG002
        place, position, timeout = TopicPartition(topic, wanted.partition), wanted.from_offset, retry_seconds()
        try:
            if not self._consumer:
                settings = {"isolation_level": self._isolation, "auto_offset_reset": "none"}
                self._consumer = connect_consumer(self._connection, **settings)
            consumer = self._consumer
            if self._next != (place, position):
                consumer.assign([place])
                consumer.seek(place, position)
            self._next = None
            deadline = time.monotonic() + timeout
            while position < wanted.until_offset:
                limit = min(_MAX_RECORDS, wanted.until_offset - position)
                records = consumer.poll(timeout_ms=_POLL_MS, max_records=limit).get(place, [])
                before, position = position, consumer.position(place)
                if inside := [each for each in records if each.offset < wanted.until_offset]:
                    yield inside
                if position > before:
                    deadline = time.monotonic() + timeout
                elif time.monotonic() > deadline:
                    raise BrokerUnavailable(
                        f"topic {topic}: range {wanted} was read up to {position} and no further within {timeout:.0f} "
                        "s; check that the brokers run"
                    )
            self._next = (place, position)
        except _LOST as error:
            raise LostRange(
                f"topic {topic}: the log does not have range {wanted} any more ({error_line(error)})"
            ) from error
        except kafka_errors.KafkaError as error:
            raise unavailable(bootstrap_servers(self._connection), error) from error


Ranges = Mapping[int, tuple[int, int]]
"""By partition, from the first offset up to the second, which is left out."""
Timestamps = dict[int, datetime]
"""By partition; absent where the range has no record with a timestamp from 1970 on, or none was read in time.

Retention counts no earlier one: what has no other goes by the age of its file.
"""


def first_timestamps(connection: Connection, topic: str, ranges: Ranges) -> Timestamps:
    """The timestamp of the first record of each range, whatever became of its transaction."""
    return _timestamps(connection, topic, ranges, last=False)


def last_timestamps(connection: Connection, topic: str, ranges: Ranges) -> Timestamps:
    """The timestamp of the last record of each range, whatever became of its transaction."""
    return _timestamps(connection, topic, ranges, last=True)


def _timestamps(connection: Connection, topic: str, ranges: Ranges, last: bool) -> Timestamps:
    """Read with a consumer of its own: one that paused partitions and then seeks back leaves out some of many."""
    wanted = {TopicPartition(topic, p): (start, end) for p, (start, end) in ranges.items() if start < end}
    if not wanted:
        return {}
    try:
        consumer = connect_consumer(connection, max_partition_fetch_bytes=65_536, auto_offset_reset="earliest")
    except kafka_errors.KafkaError:
        return {}
    timestamps: dict[TopicPartition, int] = {}
    with closing(consumer):
        consumer.assign(list(wanted))
        for tp, (start, _) in wanted.items():
            consumer.seek(tp, start)
        deadline, waiting = time.monotonic() + _TIMESTAMP_SECONDS, set(wanted)
        while waiting and time.monotonic() < deadline:
            for tp, records in consumer.poll(timeout_ms=_TIMESTAMP_POLL_MS).items():
                known = (known_timestamp(each.timestamp) for each in records if each.offset < wanted[tp][1])
                inside = [each for each in known if each is not None and each >= 0]
                if inside and (last or tp not in timestamps):
                    timestamps[tp] = inside[-1 if last else 0]
            done = {tp for tp in waiting if consumer.position(tp) >= wanted[tp][1] or (tp in timestamps and not last)}
            if done:
                consumer.pause(*done)
                waiting -= done
    return {tp.partition: moment(timestamp) for tp, timestamp in timestamps.items()}

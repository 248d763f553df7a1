"""The loop of read, process, produce: records written and position read change in one transaction, or not at all."""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from offset_ledger.errors import OffsetLedgerError
from offset_ledger.outside.kafka.errors import is_transient, unavailable
from offset_ledger.outside.producer.clients import as_kafka_error, group_consumer
from offset_ledger.outside.producer.publisher import Publisher
from offset_ledger.outside.producer.record import Record

RECORDS_PER_TRANSACTION = 10_000
_POLL_SECONDS = 0.5
_AWAY_SECONDS = 30.0


class Consumed(NamedTuple):
    """One record as it was read."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int


class Processed(NamedTuple):
    """Counts of one call."""

    read: int
    published: int
    transactions: int


Transform = Callable[[Consumed], Iterable[Record]]
"""The records that come of one record; none, one or more, to any topics."""


def process(
    extra: Mapping[str, str],
    source: str,
    target: str,
    transform: Transform,
    *,
    group: str,
    transactional_id: str,
    records_per_transaction: int = RECORDS_PER_TRANSACTION,
    stop: Callable[[], bool] | None = None,
    **options: Any,
) -> Processed:
    """Transform the records of one topic into those of another, each committed record exactly once.

    Ends when the assigned partitions are read to their ends, or, if ``stop`` is given, when it says so. Each instance
    of a group has a transactional id of its own, the same after each restart. A call that failed is simply made again.

    Raises:
        ProducerFenced: a newer instance has the transactional id.
        PublishFailed, TransactionOutcomeUnknown, BrokerUnavailable: run it again; the group's offsets say where.
    """
    done = Processed(0, 0, 0)
    with closing(_Reader(extra, source, group, stop)) as reader:
        while True:
            with Publisher(extra, target, transactional_id=transactional_id, **options) as publisher:
                # Only now: the new producer has ended what an earlier one kept from this group.
                batch = reader.take(records_per_transaction)
                if not batch.records:
                    return done
                for read in batch.records:
                    for record in transform(read):
                        publisher.send(record)
                offsets = [TopicPartition(source, *place) for place in batch.positions.items()]
                publisher.send_offsets(offsets, batch.membership)
                publisher.finish()
            published = done.published + publisher.summary.records
            done = Processed(done.read + len(batch.records), published, done.transactions + 1)


@dataclass(slots=True)
class _Batch:
    """Records, the next offset of each of their partitions, and the group's membership when they were read.

    If that has changed, the broker refuses the offsets.
    """

    records: list[Consumed] = field(default_factory=list)
    positions: dict[int, int] = field(default_factory=dict)
    membership: Any = None


class _Reader:
    """A member of a consumer group that reads one topic, and knows which of its partitions it has read to the end."""

    def __init__(self, extra: Mapping[str, str], source: str, group: str, stop: Callable[[], bool] | None) -> None:
        self._servers = extra.get("bootstrap.servers", "")
        self._stop = stop
        self._at_end: set[int] = set()
        self._revoked = False
        self._away: float | None = None  # since when no broker answers
        settings = {"auto.offset.reset": "earliest", "enable.partition.eof": True, "error_cb": self._note}
        self._consumer = group_consumer(extra, group, **settings)
        self._consumer.subscribe([source], on_assign=lambda *_: self._at_end.clear(), on_revoke=self._revoke)

    def close(self) -> None:
        self._consumer.close()

    def _note(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._away = self._away or time.monotonic()

    def _revoke(self, _consumer: object, _partitions: object) -> None:
        self._revoked = True

    def take(self, limit: int) -> _Batch:
        """Return up to ``limit`` records; fewer when the assigned partitions have no more now, none at the end."""
        batch = _Batch()
        while len(batch.records) < limit and not (self._stop and self._stop()):
            before, membership = len(batch.records), self._consumer.consumer_group_metadata()
            self._revoked = False
            for message in self._consumer.consume(limit - before, _POLL_SECONDS):
                self._accept(message, batch)
            if batch.records and batch.membership is None:
                # Where partitions were taken away meanwhile, some of these records may be another member's now.
                batch.membership = membership if self._revoked else self._consumer.consumer_group_metadata()
            if len(batch.records) == before:
                assigned = {each.partition for each in self._consumer.assignment()}
                if batch.records or (self._stop is None and assigned and assigned <= self._at_end):
                    break
            if self._away and time.monotonic() > self._away + _AWAY_SECONDS:
                raise self._unavailable(KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN)))
        return batch

    def _accept(self, message: Any, batch: _Batch) -> None:
        error, partition = message.error(), message.partition()
        if error is None:
            self._away = None
            self._at_end.discard(partition)
            headers = tuple((name, bytes(value or b"")) for name, value in message.headers() or ())
            key, value, (_, timestamp_ms) = message.key(), message.value(), message.timestamp()
            read = Consumed(message.topic(), partition, message.offset(), key, value, headers, timestamp_ms)
            batch.records.append(read)
            batch.positions[partition] = message.offset() + 1
        elif error.code() == KafkaError._PARTITION_EOF:
            self._away = None
            self._at_end.add(partition)
            if partition in batch.positions:
                batch.positions[partition] = message.offset()  # behind the markers of transactions
        elif not is_transient(as_kafka_error(KafkaException(error))):
            raise self._unavailable(KafkaException(error))

    def _unavailable(self, error: KafkaException) -> OffsetLedgerError:
        return unavailable(self._servers, as_kafka_error(error))

"""Read, process, produce: the records written and how far was read change in one transaction, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from typing import Any, NamedTuple

from kafka import KafkaConsumer
from kafka import errors as kafka_errors
from kafka.structs import OffsetAndMetadata

from offset_ledger.kafka.errors import unavailable
from offset_ledger.reliability.publishing.clients import BOOTSTRAP_SECONDS, client_arguments
from offset_ledger.reliability.publishing.producer import Publisher
from offset_ledger.reliability.publishing.record import Record

RECORDS_PER_TRANSACTION = 10_000
_POLL_MS = 500


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
    try:
        with closing(_consumer(extra, source, group)) as consumer:
            while True:
                with Publisher(extra, target, transactional_id=transactional_id, **options) as publisher:
                    # Only now: the new producer has ended what an earlier one kept from this group.
                    batch = _take(consumer, records_per_transaction, stop)
                    if not batch.records:
                        return done
                    _publish(publisher, batch, transform, _positions(consumer))
                now = len(batch.records), publisher.summary.records, 1
                done = Processed(*(before + more for before, more in zip(done, now, strict=True)))
    except kafka_errors.KafkaError as error:
        raise unavailable(extra["bootstrap.servers"], error) from error


class _Batch(NamedTuple):
    """Records, and the group's membership when they were read: if it has changed, the broker refuses the offsets."""

    records: list[Consumed]
    membership: Any


def _publish(
    publisher: Publisher, batch: _Batch, transform: Transform, positions: Mapping[Any, OffsetAndMetadata]
) -> None:
    for read in batch.records:
        for record in transform(read):
            publisher.send(record)
    publisher.send_offsets(positions, batch.membership)
    publisher.finish()


def _consumer(extra: Mapping[str, str], source: str, group: str) -> KafkaConsumer:
    consumer = KafkaConsumer(
        **client_arguments(extra),
        group_id=group,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        bootstrap_timeout_ms=int(BOOTSTRAP_SECONDS * 1000),
    )
    consumer.subscribe([source])
    return consumer


def _take(consumer: KafkaConsumer, limit: int, stop: Callable[[], bool] | None) -> _Batch:
    """Up to ``limit`` records; fewer when the assigned partitions have no more now, none at the end."""
    taken: list[Consumed] = []
    membership = None
    while len(taken) < limit and not (stop and stop()):
        polled = consumer.poll(_POLL_MS, max_records=limit - len(taken))
        membership = membership or (consumer.group_metadata() if polled else None)
        taken += [_consumed(each) for records in polled.values() for each in records]
        if not polled and (taken or (stop is None and _at_end(consumer))):
            break
    return _Batch(taken, membership)


def _at_end(consumer: KafkaConsumer) -> bool:
    assigned = list(consumer.assignment())
    ends = consumer.end_offsets(assigned) if assigned else {}
    return bool(assigned) and all(consumer.position(place) >= ends[place] for place in assigned)


def _positions(consumer: KafkaConsumer) -> dict[Any, OffsetAndMetadata]:
    return {place: OffsetAndMetadata(consumer.position(place), "", -1) for place in consumer.assignment()}


def _consumed(each: Any) -> Consumed:
    headers = tuple((name, bytes(value or b"")) for name, value in each.headers)
    return Consumed(each.topic, each.partition, each.offset, each.key, each.value, headers, each.timestamp)

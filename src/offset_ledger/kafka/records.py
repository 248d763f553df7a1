"""The records of an offset range."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors

from offset_ledger.connections import Connection
from offset_ledger.errors import BrokerUnavailable, OffsetLedgerError, UnreadableRecord
from offset_ledger.kafka.connection import bootstrap_servers
from offset_ledger.kafka.errors import unavailable
from offset_ledger.kafka.python_client import kafka_python_arguments
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.retry import retry_seconds

_POLL_MS = 500


def record_offsets(connection: Connection, topic: str, wanted: OffsetRange, isolation: str) -> Iterator[int]:
    """The offsets in the range that hold a record for a reader of this isolation level, in order.

    Raises:
        BrokerUnavailable, UnreadableRecord: as :func:`read_records`.
    """
    return (record.offset for record in read_records(connection, topic, wanted, isolation))


def read_records(connection: Connection, topic: str, wanted: OffsetRange, isolation: str) -> Iterator[Any]:
    """The records in the range for a reader of this isolation level, in order, as kafka-python has them.

    ``read_committed`` leaves out aborted records; no reader sees control records.

    Raises:
        BrokerUnavailable: no record came for :func:`~offset_ledger.retry.retry_seconds` before the range was read.
        UnreadableRecord: the name of a header is not UTF-8.
    """
    arguments = {
        **kafka_python_arguments(connection),
        "isolation_level": isolation,
        "enable_auto_commit": False,
        "group_id": None,
        "auto_offset_reset": "none",
    }
    try:
        with closing(KafkaConsumer(**arguments)) as consumer:
            yield from _poll_range(consumer, topic, wanted)
    except kafka_errors.KafkaError as error:
        raise _failure(bootstrap_servers(connection), topic, wanted, error) from error


def _poll_range(consumer: KafkaConsumer, topic: str, wanted: OffsetRange) -> Iterator[Any]:
    place, timeout = TopicPartition(topic, wanted.partition), retry_seconds()
    consumer.assign([place])
    consumer.seek(place, wanted.from_offset)
    deadline = time.monotonic() + timeout
    while consumer.position(place) < wanted.until_offset:
        for record in consumer.poll(timeout_ms=_POLL_MS).get(place, ()):
            deadline = time.monotonic() + timeout
            if record.offset < wanted.until_offset:
                yield record
        if time.monotonic() > deadline:
            raise BrokerUnavailable(
                f"topic {topic}: range {wanted} was read up to {consumer.position(place)} and no further within "
                f"{timeout:.0f} s; check that the brokers run"
            )


def _failure(servers: str, topic: str, wanted: OffsetRange, error: kafka_errors.KafkaError) -> OffsetLedgerError:
    if isinstance(error, kafka_errors.CorruptRecordError) and "UnicodeDecodeError" in str(error):
        return UnreadableRecord(
            f"topic {topic}: a record of {wanted} has a header whose name is not UTF-8, and this client reads none "
            "behind it; nothing was changed; wait until retention has deleted it, or read a range without it"
        )
    return unavailable(servers, error)

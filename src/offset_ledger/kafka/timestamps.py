"""The timestamps of single records: the first or the last one of an offset range."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from datetime import datetime

from kafka import TopicPartition
from kafka import errors as kafka_errors

from offset_ledger.connections import Connection
from offset_ledger.kafka.python_client import connect_consumer
from offset_ledger.model.moments import moment

_SECONDS = 10.0
_POLL_MS = 200

Ranges = Mapping[int, tuple[int, int]]
"""By partition, from the first offset up to the second, which is left out."""
Timestamps = dict[int, datetime]
"""By partition; absent where the range has no record with a timestamp, or none was read in time."""


def first_timestamps(connection: Connection, topic: str, ranges: Ranges) -> Timestamps:
    """The timestamp of the first record of each range, whatever became of its transaction."""
    return _read(connection, topic, ranges, last=False)


def last_timestamps(connection: Connection, topic: str, ranges: Ranges) -> Timestamps:
    """The timestamp of the last record of each range, whatever became of its transaction."""
    return _read(connection, topic, ranges, last=True)


def _read(connection: Connection, topic: str, ranges: Ranges, last: bool) -> Timestamps:
    """With a consumer of its own: one that paused partitions and then seeks back leaves out some of many."""
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
        deadline, waiting = time.monotonic() + _SECONDS, set(wanted)
        while waiting and time.monotonic() < deadline:
            for tp, records in consumer.poll(timeout_ms=_POLL_MS).items():
                inside = [each.timestamp for each in records if each.offset < wanted[tp][1] and each.timestamp >= 0]
                if inside and (last or tp not in timestamps):
                    timestamps[tp] = inside[-1 if last else 0]
            done = {tp for tp in waiting if consumer.position(tp) >= wanted[tp][1] or (tp in timestamps and not last)}
            if done:
                consumer.pause(*done)
                waiting -= done
    return {tp.partition: moment(timestamp) for tp, timestamp in timestamps.items()}

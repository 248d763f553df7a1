"""The timestamps of single records: the first, the last and the first unread one of each partition."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime

from kafka import KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors

from offset_ledger.connections import Connection, kafka_python_arguments
from offset_ledger.core.windows import moment

_SECONDS = 10.0
Offsets = Mapping[TopicPartition, int]
Moments = dict[TopicPartition, datetime]


@dataclass(frozen=True, slots=True)
class Samples:
    """By partition; absent where there is no such record, or none was read in time."""

    first: Moments
    unread: Moments
    last: Moments


def sample(connection: Connection, starts: Offsets, unread: Offsets, stable: Offsets, ends: Offsets) -> Samples:
    """Read these records, whatever their transaction came to."""
    arguments = {**kafka_python_arguments(connection), "group_id": None, "enable_auto_commit": False}
    try:
        reader = KafkaConsumer(**arguments, max_partition_fetch_bytes=65_536, auto_offset_reset="earliest")
    except kafka_errors.KafkaError:
        return Samples({}, {}, {})
    with closing(reader):
        # The last offset of a transaction is a control record: the one before it is a record.
        tails = {tp: max(starts[tp], end - 2) for tp, end in ends.items()}
        return Samples(
            first=_read(reader, starts, ends),
            unread=_read(reader, unread, stable),
            last=_read(reader, tails, ends, to_the_end=True),
        )


def _read(reader: KafkaConsumer, starts: Offsets, ends: Offsets, to_the_end: bool = False) -> Moments:
    """The timestamp of the first record in each range, or of its last."""
    places = {tp: start for tp, start in starts.items() if start < ends[tp]}
    found: Moments = {}
    if not places:
        return found
    reader.assign(list(places))
    reader.resume(*places)
    for tp, start in places.items():
        reader.seek(tp, start)
    deadline = time.monotonic() + _SECONDS
    waiting = set(places)
    while waiting and time.monotonic() < deadline:
        for tp, records in reader.poll(timeout_ms=200).items():
            inside = [record for record in records if record.offset < ends[tp] and record.timestamp >= 0]
            if inside and (to_the_end or tp not in found):
                found[tp] = moment(inside[-1 if to_the_end else 0].timestamp)
        done = {tp for tp in waiting if reader.position(tp) >= ends[tp] or (tp in found and not to_the_end)}
        if done:
            reader.pause(*done)
            waiting -= done
    return found

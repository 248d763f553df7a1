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
from offset_ledger.model.moments import moment

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
    # The last offset of a transaction is a control record: the one before it is a record.
    tails = {tp: max(starts[tp], end - 2) for tp, end in ends.items()}
    return Samples(
        first=_sampled(connection, starts, ends),
        unread=_sampled(connection, unread, stable),
        last=_sampled(connection, tails, ends, to_the_end=True),
    )


def _sampled(connection: Connection, starts: Offsets, ends: Offsets, to_the_end: bool = False) -> Moments:
    """The timestamp of the first record in each range, or of its last.

    With a consumer of its own: one that paused partitions and then seeks back leaves out some of many.
    """
    places = {tp: start for tp, start in starts.items() if start < ends[tp]}
    if not places:
        return {}
    arguments = {**kafka_python_arguments(connection), "group_id": None, "enable_auto_commit": False}
    try:
        reader = KafkaConsumer(**arguments, max_partition_fetch_bytes=65_536, auto_offset_reset="earliest")
    except kafka_errors.KafkaError:
        return {}
    with closing(reader):
        return _read(reader, places, ends, to_the_end)


def _read(reader: KafkaConsumer, places: Offsets, ends: Offsets, to_the_end: bool) -> Moments:
    found: Moments = {}
    reader.assign(list(places))
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

"""A sample of a topic: the first and the last records of each partition, read without a group and without a cursor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Any

from offset_ledger.connections import Connection
from offset_ledger.decoding.kafka_columns import timestamp_of
from offset_ledger.decoding.outcome import Reason
from offset_ledger.kafka.client import connect_kafka
from offset_ledger.kafka.records import read_records
from offset_ledger.model.ranges import OffsetRange


@dataclass(frozen=True, slots=True)
class SampledRecord:
    """What a record carries; the timestamp may be none that a column holds."""

    key: bytes | None
    value: bytes | None
    timestamp: datetime | Reason


@dataclass(frozen=True, slots=True)
class Sample:
    """Records of a topic; ``gaps``: there were offsets without a record, and the topic is not compacted."""

    topic: str
    records: tuple[SampledRecord, ...]
    compacted: bool = False
    gaps: bool = False

    @property
    def values(self) -> tuple[bytes, ...]:
        """The values of those that have one."""
        return tuple(record.value for record in self.records if record.value is not None)

    @property
    def tombstones(self) -> int:
        """How many have none."""
        return len(self.records) - len(self.values)


def sample_ranges(bounds: Mapping[int, tuple[int, int]], wanted: int) -> tuple[OffsetRange, ...]:
    """The offset ranges at the beginning and at the end of each partition, of so many offsets together."""
    filled = {partition: (start, end) for partition, (start, end) in sorted(bounds.items()) if start < end}
    each = max(1, wanted // max(1, len(filled)))
    ranges: list[OffsetRange] = []
    for partition, (start, end) in list(filled.items())[:wanted]:
        if end - start <= each:
            ranges.append(OffsetRange(partition, start, end))
            continue
        first, last = each // 2, ceil(each / 2)
        ranges += [OffsetRange(partition, start, start + first)] if first else []
        ranges.append(OffsetRange(partition, end - last, end))
    return tuple(ranges)


def read_sample(connection: Connection, topic: str, wanted: int) -> Sample:
    """About ``wanted`` records of the topic, none of an open or an aborted transaction.

    Raises:
        UnknownTopic: the cluster has no such topic.
        BrokerUnavailable: no broker answered, or they answered no more.
    """
    with connect_kafka(connection) as kafka:
        snapshot = kafka.snapshot(topic)
    ranges = sample_ranges(snapshot.bounds, wanted)
    records = [_sampled(each) for part in ranges for each in read_records(connection, topic, part, "read_committed")]
    gaps = len(records) < sum(part.width for part in ranges)
    return Sample(topic, tuple(records), snapshot.compacted, gaps and not snapshot.compacted)


def _sampled(record: Any) -> SampledRecord:
    timestamp = timestamp_of(None if record.timestamp < 0 else record.timestamp * 1000)
    return SampledRecord(record.key, record.value, timestamp)

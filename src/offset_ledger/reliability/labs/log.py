"""Reading a lab's topic to its end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import closing

from kafka import KafkaConsumer, TopicPartition

_SECONDS = 30.0


def read_values(extra: Mapping[str, str], topic: str, isolation: str = "read_uncommitted") -> list[bytes]:
    """The values of every record of a topic of one partition that readers are given now, in the order of the log.

    The end is the high watermark that comes with the records: a leader that has just taken over, and whose copies are
    fewer than min.insync.replicas, does not answer a request for the end (OffsetNotAvailable).
    """
    place = TopicPartition(topic, 0)
    reader = KafkaConsumer(
        bootstrap_servers=extra["bootstrap.servers"].split(","),
        group_id=None,
        auto_offset_reset="earliest",
        isolation_level=isolation,
    )
    values: list[bytes] = []
    with closing(reader):
        reader.assign([place])
        reader.seek(place, 0)
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            values += [bytes(record.value) for record in reader.poll(500).get(place, ())]
            end = reader.highwater(place)
            if end is not None and reader.position(place) >= end:
                break
    return values


def read_ends(extra: Mapping[str, str], topics: Iterable[str]) -> list[int]:
    """The high watermark of each of these topics of one partition."""
    places = [TopicPartition(topic, 0) for topic in topics]
    with closing(KafkaConsumer(bootstrap_servers=extra["bootstrap.servers"].split(","), group_id=None)) as reader:
        ends = reader.end_offsets(places)
    return [int(ends[place]) for place in places]

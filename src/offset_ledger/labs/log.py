"""Reading a lab's topic to its end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing

from kafka import KafkaConsumer, TopicPartition

_SECONDS = 30.0


def read_values(extra: Mapping[str, str], topic: str, partitions: int = 1) -> list[bytes]:
    """The values of every record that a reader of committed data is given now, in the order of each partition."""
    reader = KafkaConsumer(
        bootstrap_servers=extra["bootstrap.servers"].split(","),
        group_id=None,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    found: list[bytes] = []
    with closing(reader):
        places = [TopicPartition(topic, partition) for partition in range(partitions)]
        reader.assign(places)
        reader.seek_to_beginning(*places)
        ends = reader.end_offsets(places)
        deadline = time.monotonic() + _SECONDS
        while any(reader.position(place) < ends[place] for place in places) and time.monotonic() < deadline:
            for records in reader.poll(500).values():
                found += [bytes(record.value) for record in records]
    return found

"""Which partition a key belongs to."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from kafka.partitioner import DefaultPartitioner
from kafka.partitioner.default import murmur2

_hash = lru_cache(maxsize=100_000)(murmur2)


class KeyHash(DefaultPartitioner):  # type: ignore[misc]
    """The Java client's choice of partition (murmur2 of the key), with recent keys' hashes remembered."""

    def partition(
        self,
        topic: str,
        key: object,
        serialized_key: bytes | None,
        value: object,
        serialized_value: object,
        cluster: Any,
    ) -> int:
        """The partition of ``serialized_key``; any available one where there is no key."""
        known = cluster.partitions_for_topic(topic)
        if serialized_key is None or not known:
            return int(super().partition(topic, key, serialized_key, value, serialized_value, cluster))
        return int(_hash(serialized_key) & 0x7FFFFFFF) % len(known)

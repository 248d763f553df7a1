"""Which partition a record goes to."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

from kafka.partitioner import Partitioner, StickyPartitioner

from offset_ledger.errors import ConfigurationError

Choose = Callable[[bytes | None, int], int]
"""A partitioner of one's own: the key's bytes and the number of partitions to a partition from 0."""

_SEED, _M, _MASK = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32 bits that the Java client hashes a key to."""
    length = len(data)
    words = length >> 2
    h = _SEED ^ length
    for k in struct.unpack_from(f"<{words}I", data):
        k = k * _M & _MASK
        h = h * _M & _MASK ^ ((k ^ k >> 24) * _M & _MASK)
    if length & 3:
        h = (h ^ int.from_bytes(data[words << 2 :], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


_hash = lru_cache(maxsize=100_000)(murmur2)


class KeyHash(StickyPartitioner):  # type: ignore[misc]
    """The Java client's choice: the hash of the key, and without a key one partition for each batch (KIP-480)."""

    def partition(
        self,
        topic: str,
        key: object,
        serialized_key: bytes | None,
        value: object,
        serialized_value: object,
        cluster: Any,
    ) -> int:
        """The partition of ``serialized_key``; without one that of the batch being filled."""
        known = cluster.partitions_for_topic(topic)
        if serialized_key is not None and known:
            return int(_hash(serialized_key) & 0x7FFFFFFF) % len(known)
        if known and self._sticky.get(topic) in known:
            return int(self._sticky[topic])
        return int(super().partition(topic, key, serialized_key, value, serialized_value, cluster))


class _Choosing(Partitioner, ABC):  # type: ignore[misc]
    """A partitioner that goes by topic, key and cluster."""

    def partition(
        self, topic: str, _key: object, serialized_key: bytes | None, _value: object, _bytes: object, cluster: Any
    ) -> int:
        """As kafka-python asks."""
        return self.choose(topic, serialized_key, cluster)

    @abstractmethod
    def choose(self, topic: str, key: bytes | None, cluster: Any) -> int:
        """The partition."""


class RoundRobin(_Choosing):
    """Each record to the next partition, whatever its key: even, and without order by key."""

    def __init__(self) -> None:
        self._next: defaultdict[str, int] = defaultdict(int)

    def choose(self, topic: str, key: bytes | None, cluster: Any) -> int:  # noqa: ARG002 - that is the point of it
        """The next partition; one without a leader is passed over."""
        choices = sorted(cluster.available_partitions_for_topic(topic) or cluster.partitions_for_topic(topic))
        turn = self._next[topic]
        self._next[topic] = turn + 1
        return int(choices[turn % len(choices)])

    def on_new_batch(self, topic: str, _cluster: Any, _previous: int) -> None:
        """The producer asks again for the same record: that must not cost a turn (KAFKA-9965)."""
        self._next[topic] -= 1


class Custom(_Choosing):
    """What a function of key and number of partitions says, such as one country or customer a partition."""

    def __init__(self, function: Choose) -> None:
        self._function = function

    def choose(self, topic: str, key: bytes | None, cluster: Any) -> int:
        """The function's partition.

        Raises:
            ValueError: the topic has no such partition.
        """
        return self.among(topic, key, len(cluster.partitions_for_topic(topic)))

    def among(self, topic: str, key: bytes | None, count: int) -> int:
        """The same of a topic that has so many partitions.

        Raises:
            ValueError: it has no such partition.
        """
        chosen = self._function(key, count)
        if type(chosen) is not int or not 0 <= chosen < count:
            raise ValueError(f"the partitioner chose {chosen!r} for the key {key!r} and {topic} has {count} partitions")
        return chosen


def find_partitioner(name: str) -> Partitioner:
    """``key-hash``, ``round-robin``, or the function that ``module:function`` names.

    Raises:
        ConfigurationError: there is no such function.
    """
    if name in _NAMED:
        return _NAMED[name]()
    module, _, function = name.partition(":")
    try:
        return Custom(getattr(import_module(module), function))
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"partitioner {name!r} should be key-hash, round-robin or module:function ({error})"
        ) from None


_NAMED: dict[str, Callable[[], Partitioner]] = {"key-hash": KeyHash, "round-robin": RoundRobin}

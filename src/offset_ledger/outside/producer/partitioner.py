"""Partitioners beside librdkafka's own, which hashes keys as the Java client does."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import count

from offset_ledger.errors import ConfigurationError

Choose = Callable[[bytes | None, int], int]
"""A partitioner of one's own: the key's bytes and the number of partitions to a partition from 0."""


class Partitioner(ABC):
    """A choice of one partition for each record."""

    @abstractmethod
    def choose(self, topic: str, key: bytes | None, count: int, led: Sequence[int]) -> int:
        """Return one of the topic's ``count`` partitions, of which ``led`` have a leader."""


class RoundRobin(Partitioner):
    """The partitioner that sends each record to the next partition, whatever its key: even, no order by key."""

    def __init__(self) -> None:
        self._turns: defaultdict[str, Iterator[int]] = defaultdict(count)

    def choose(self, topic: str, key: bytes | None, count: int, led: Sequence[int]) -> int:  # noqa: ARG002 - that is the point of it
        """Return the next partition; one without a leader is passed over."""
        return led[next(self._turns[topic]) % len(led)]


@dataclass(frozen=True, slots=True)
class Custom(Partitioner):
    """A function's choice by key and number of partitions, such as one country or customer a partition."""

    function: Choose

    def choose(self, topic: str, key: bytes | None, count: int, led: Sequence[int]) -> int:  # noqa: ARG002 - also without a leader
        """Return the function's partition.

        Raises:
            ValueError: the topic has no such partition.
        """
        chosen = self.function(key, count)
        if type(chosen) is not int or not 0 <= chosen < count:
            raise ValueError(f"the partitioner chose {chosen!r} for the key {key!r} and {topic} has {count} partitions")
        return chosen


def find_partitioner(name: str) -> Partitioner | None:
    """Return ``round-robin``, or the function that ``module:function`` names; None for ``key-hash``, the client's own.

    Raises:
        ConfigurationError: there is no such function.
    """
    if name == "key-hash":
        return None
    if name == "round-robin":
        return RoundRobin()
    module, _, function = name.partition(":")
    try:
        return Custom(getattr(import_module(module), function))
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"partitioner {name!r} should be key-hash, round-robin or module:function ({error})"
        ) from None

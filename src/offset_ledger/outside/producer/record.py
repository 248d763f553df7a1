"""A Kafka record before it has an offset, and how large it may be: for its topic, and for its readers."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Self

import msgspec

from offset_ledger.errors import ConfigurationError
from offset_ledger.outside.producer.settings import Danger, ProducerSettings

_BATCH_BYTES = 61
_RECORD_BYTES = 7


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record to publish. ``partition=None``: the partitioner decides. ``topic=None``: the publisher's topic.

    A msgspec Struct and not a dataclass: a million of them are made, and it takes a quarter of the time.
    """

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = None
    partition: int | None = None
    topic: str | None = None


def min_batch_bytes(record: Record) -> int:
    """Return the uncompressed bytes of a batch of this record alone, without a few bytes of lengths."""
    headers = sum(len(name) + len(value) for name, value in record.headers)
    return _BATCH_BYTES + _RECORD_BYTES + len(record.key or b"") + len(record.value or b"") + headers


FETCH_BYTES = 1024 * 1024
"""The bytes that a consumer fetches of one partition at once, unless ``max.partition.fetch.bytes`` says otherwise."""


class RecordTooLarge(Exception):
    """An error: topic or producer refuse this record for its size, or its readers fetch less at once."""


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """Bytes that one record's batch may take, uncompressed.

    ``topic_bytes`` is the topic's max.message.bytes, ``request_bytes`` the producer's max.request.size.
    """

    topic_bytes: int | None = None
    fetch_bytes: int = FETCH_BYTES
    allow: Collection[str] = ()
    request_bytes: int = 2**31

    def of(self, settings: ProducerSettings) -> Self:
        """Return these with the producer's own; without the others if it compresses: only the broker knows the rest."""
        if settings.compression_type != "none":
            return replace(self, topic_bytes=None, fetch_bytes=2**31, request_bytes=settings.max_request_size)
        return replace(self, request_bytes=settings.max_request_size)

    @property
    def smallest(self) -> int:
        """The limit that is met first."""
        return min(self.fetch_bytes, self.topic_bytes or self.fetch_bytes, self.request_bytes)

    def check(self, record: Record) -> None:
        """Return if the record may be sent.

        Raises:
            RecordTooLarge: it may not; the message says why, what can happen and what to do.
        """
        size = min_batch_bytes(record)
        problems = []
        if self.topic_bytes is not None and size > self.topic_bytes:
            problems.append(
                f"loss: a record takes {size} bytes and the topic's max.message.bytes is {self.topic_bytes}, so every "
                "broker refuses it; raise that, send less, or compress"
            )
        if size > self.request_bytes:
            problems.append(
                f"loss: a record takes {size} bytes and max.request.size is {self.request_bytes}, so the producer "
                "refuses it; raise that, or message.max.bytes, in this connection"
            )
        if size > self.fetch_bytes and Danger.BLOCKING not in self.allow:
            problems.append(
                f"blocking: a record takes {size} bytes and its readers fetch {self.fetch_bytes} at once: an old one "
                "stops there, a new one needs the memory; raise max.partition.fetch.bytes of the readers and "
                "of this connection, or --allow blocking"
            )
        if problems:
            raise RecordTooLarge("; ".join(problems))


def fetch_bytes(extra: Mapping[str, str]) -> int:
    """Return the bytes that readers with this connection fetch of one partition at once.

    Raises:
        ConfigurationError: max.partition.fetch.bytes is no number.
    """
    text = extra.get("max.partition.fetch.bytes", str(FETCH_BYTES))
    if not text.isdecimal():
        raise ConfigurationError(f"max.partition.fetch.bytes should be a number of bytes, found {text!r}")
    return int(text)

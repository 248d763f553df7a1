"""From what somebody wants of a topic to its settings. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from offset_ledger.reliability.topics.settings import DAY, TopicSettings

_DEFAULT_MESSAGE = 1_048_588
_BATCH_OVERHEAD = 1_024
_MEBIBYTE = 2**20
_SEGMENT = 2**30
_SMALLEST_SEGMENT = 16 * _MEBIBYTE
_USUAL_COPIES = 3


class Durability(StrEnum):
    """What may fail: ``development`` nothing; ``usual`` one broker without a stop; ``strict`` waits for every copy."""

    DEVELOPMENT = "development"
    USUAL = "usual"
    STRICT = "strict"


@dataclass(frozen=True, slots=True)
class TopicRequirements:
    """What is wanted: ``bytes_a_day`` of the whole topic, ``record_bytes`` of its largest record."""

    brokers: int
    partitions: int = 6
    durability: Durability = Durability.USUAL
    bytes_a_day: int = 10**9
    record_bytes: int = 1_000
    retention: timedelta | None = 7 * DAY


def plan(wish: TopicRequirements) -> TopicSettings:
    """The settings that give what is wanted on that many brokers; see ``topics.explain``."""
    factor = 1 if wish.durability is Durability.DEVELOPMENT else min(_USUAL_COPIES, wish.brokers)
    return TopicSettings(
        brokers=wish.brokers,
        partitions=wish.partitions,
        replication_factor=factor,
        min_insync=factor if wish.durability is Durability.STRICT else min(2, factor),
        retention=wish.retention,
        retention_bytes=None,  # two limits surprise: the first one reached deletes
        segment_bytes=_segment_bytes(wish),
        segment_time=_segment_time(wish),
        max_message_bytes=_message_bytes(wish.record_bytes),
        bytes_a_day=wish.bytes_a_day,
    )


def _segment_bytes(wish: TopicRequirements) -> int:
    """A tenth of what a partition keeps, between 16 MiB and 1 GiB, so that records go about when their time is over."""
    if wish.retention is None:
        return _SEGMENT
    kept = wish.bytes_a_day * (wish.retention / DAY) / wish.partitions
    whole = int(kept / 10 // _MEBIBYTE) * _MEBIBYTE
    return min(_SEGMENT, max(_SMALLEST_SEGMENT, whole))


def _segment_time(wish: TopicRequirements) -> timedelta:
    """A tenth of the retention, between an hour and a week: it bounds the stay where little is written."""
    if wish.retention is None:
        return 7 * DAY
    return min(7 * DAY, max(timedelta(hours=1), wish.retention / 10))


def _message_bytes(record: int) -> int:
    """Kafka's default where the largest record fits into it, else the next whole MiB."""
    if record + _BATCH_OVERHEAD <= _DEFAULT_MESSAGE:
        return _DEFAULT_MESSAGE
    return -(-(record + _BATCH_OVERHEAD) // _MEBIBYTE) * _MEBIBYTE

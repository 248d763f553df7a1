"""Plan the settings of a topic from what it is for. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from offset_ledger.topics.settings import DAY, TopicSettings

_DEFAULT_MESSAGE = 1_048_588
_BATCH_OVERHEAD = 1_024
_MEBIBYTE = 2**20
_SEGMENT = 2**30
_SMALLEST_SEGMENT = 16 * _MEBIBYTE
_USUAL_COPIES = 3


class Durability(StrEnum):
    """The failures that it survives: ``development`` none; ``usual`` one broker; ``strict`` waits for every copy."""

    DEVELOPMENT = "development"
    USUAL = "usual"
    STRICT = "strict"


@dataclass(frozen=True, slots=True)
class TopicRequirements:
    """The purpose of a topic: ``bytes_a_day`` of the whole topic, ``record_bytes`` of its largest record."""

    brokers: int
    partitions: int = 6
    durability: Durability = Durability.USUAL
    bytes_a_day: int = 10**9
    record_bytes: int = 1_000
    retention: timedelta | None = 7 * DAY


def plan(requirements: TopicRequirements) -> TopicSettings:
    """The settings that meet the requirements; see ``topics.explain``."""
    factor = 1 if requirements.durability is Durability.DEVELOPMENT else min(_USUAL_COPIES, requirements.brokers)
    return TopicSettings(
        brokers=requirements.brokers,
        partitions=requirements.partitions,
        replication_factor=factor,
        min_insync=factor if requirements.durability is Durability.STRICT else min(2, factor),
        retention=requirements.retention,
        retention_bytes=None,  # with two limits the first one reached deletes, which surprises
        segment_bytes=_segment_bytes(requirements),
        segment_time=_segment_time(requirements),
        max_message_bytes=_message_bytes(requirements.record_bytes),
        bytes_a_day=requirements.bytes_a_day,
    )


def _segment_bytes(requirements: TopicRequirements) -> int:
    """A tenth of what a partition keeps, between 16 MiB and 1 GiB, so that records go about when their time is over."""
    if requirements.retention is None:
        return _SEGMENT
    kept = requirements.bytes_a_day * (requirements.retention / DAY) / requirements.partitions
    whole = int(kept / 10 // _MEBIBYTE) * _MEBIBYTE
    return min(_SEGMENT, max(_SMALLEST_SEGMENT, whole))


def _segment_time(requirements: TopicRequirements) -> timedelta:
    """A tenth of the retention, between an hour and a week: it bounds the stay where little is written."""
    if requirements.retention is None:
        return 7 * DAY
    return min(7 * DAY, max(timedelta(hours=1), requirements.retention / 10))


def _message_bytes(record: int) -> int:
    """Kafka's default where the largest record fits into it, else the next whole MiB."""
    if record + _BATCH_OVERHEAD <= _DEFAULT_MESSAGE:
        return _DEFAULT_MESSAGE
    return -(-(record + _BATCH_OVERHEAD) // _MEBIBYTE) * _MEBIBYTE

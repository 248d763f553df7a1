"""The settings of a topic: planned from its purpose, with their consequences and the effect of each. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Self

from offset_ledger.base.units import kafka_span, show_size, show_span
from offset_ledger.model.retention import Retention

DAY = timedelta(days=1)
_DEFAULT_MESSAGE = 1_048_588
_BATCH_OVERHEAD = 1_024
_MEBIBYTE = 2**20
_SEGMENT = 2**30
_SMALLEST_SEGMENT = 16 * _MEBIBYTE
_USUAL_COPIES = 3


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The settings of a topic that decide what it survives and how long records stay.

    ``retention`` and ``retention_bytes`` (of a partition) are None where they delete nothing; ``bytes_a_day`` is the
    volume of the whole topic, None if it is not known.
    """

    brokers: int
    partitions: int
    replication_factor: int
    min_insync: int
    retention: timedelta | None
    retention_bytes: int | None
    segment_bytes: int
    segment_time: timedelta
    max_message_bytes: int
    cleanup_policy: str = "delete"
    bytes_a_day: int | None = None

    @classmethod
    def read(
        cls,
        brokers: int,
        partitions: int,
        replication_factor: int,
        configs: Mapping[str, str],
        bytes_a_day: int | None = None,
    ) -> Self:
        """Return it from the settings as Kafka names them."""
        kept = Retention.from_settings(configs)
        return cls(
            brokers=brokers,
            partitions=partitions,
            replication_factor=replication_factor,
            min_insync=int(configs["min.insync.replicas"]),
            retention=kept.age,
            retention_bytes=kept.bytes,
            segment_bytes=int(configs["segment.bytes"]),
            segment_time=kafka_span(configs["segment.ms"]),
            max_message_bytes=int(configs["max.message.bytes"]),
            cleanup_policy=configs["cleanup.policy"],
            bytes_a_day=bytes_a_day,
        )

    @property
    def copies_to_lose(self) -> int:
        """The number of copies of a partition that may be lost for good without losing a record, while all are in sync.

        What is acknowledged while some are not is on ``min_insync`` copies at least.
        """
        return self.replication_factor - 1

    @property
    def away_for_writing(self) -> int:
        """The number of brokers that may be unavailable while acks=all is acknowledged; below 0 there are too few."""
        return self.replication_factor - self.min_insync

    @property
    def segment_open(self) -> timedelta:
        """The time for which a segment takes new records, at most: until it is full, or until its time is over."""
        if not self.bytes_a_day:
            return self.segment_time
        fills = DAY * (self.segment_bytes * self.partitions / self.bytes_a_day)
        return min(fills, self.segment_time)

    @property
    def longest_stay(self) -> timedelta | None:
        """The time for which a record may stay: its segment goes when the newest record in it is past the retention."""
        return None if self.retention is None else self.retention + self.segment_open

    @property
    def disk_bytes(self) -> int | None:
        """Disk of the whole topic with all copies, when records stay their longest; None if that is not bounded."""
        stay, day = self.longest_stay, self.bytes_a_day
        by_time = int(day * (stay / DAY)) if stay is not None and day else None
        by_size = None
        if self.retention_bytes is not None:
            by_size = (self.retention_bytes + self.segment_bytes) * self.partitions
        known = [each for each in (by_time, by_size) if each is not None]
        return min(known) * self.replication_factor if known else None

    def configs(self) -> dict[str, str]:
        """Return them as Kafka names them."""
        return {
            "cleanup.policy": self.cleanup_policy,
            "max.message.bytes": str(self.max_message_bytes),
            "min.insync.replicas": str(self.min_insync),
            "retention.bytes": str(-1 if self.retention_bytes is None else self.retention_bytes),
            "retention.ms": str(-1 if self.retention is None else _milliseconds(self.retention)),
            "segment.bytes": str(self.segment_bytes),
            "segment.ms": str(_milliseconds(self.segment_time)),
            "unclean.leader.election.enable": "false",
        }


def _milliseconds(span: timedelta) -> int:
    return round(span.total_seconds() * 1000)


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
    """The settings that meet the requirements; see :func:`explain`."""
    factor = 1 if requirements.durability is Durability.DEVELOPMENT else min(_USUAL_COPIES, requirements.brokers)
    segment_bytes, segment_time, retention = _SEGMENT, 7 * DAY, requirements.retention
    if retention is not None:
        # A tenth of a partition's retained bytes, between 16 MiB and 1 GiB, so that records go soon after their time,
        # and a tenth of the retention, between an hour and a week: it bounds the stay where little is written.
        tenth = requirements.bytes_a_day * (retention / DAY) / requirements.partitions / 10
        segment_bytes = min(_SEGMENT, max(_SMALLEST_SEGMENT, int(tenth // _MEBIBYTE) * _MEBIBYTE))
        segment_time = min(7 * DAY, max(timedelta(hours=1), retention / 10))
    message_bytes = _DEFAULT_MESSAGE
    if (needed := requirements.record_bytes + _BATCH_OVERHEAD) > _DEFAULT_MESSAGE:
        message_bytes = -(-needed // _MEBIBYTE) * _MEBIBYTE  # the next whole MiB
    return TopicSettings(
        brokers=requirements.brokers,
        partitions=requirements.partitions,
        replication_factor=factor,
        min_insync=factor if requirements.durability is Durability.STRICT else min(2, factor),
        retention=retention,
        retention_bytes=None,  # with two limits the first one reached deletes, which surprises
        segment_bytes=segment_bytes,
        segment_time=segment_time,
        max_message_bytes=message_bytes,
        bytes_a_day=requirements.bytes_a_day,
    )


def explain(topic: TopicSettings) -> list[tuple[str, str, str]]:
    """Explain every setting, its value and what it gives: what survives, how long it stays, how large it may be."""
    counts = {"partitions": str(topic.partitions), "replication.factor": str(topic.replication_factor)}
    values = counts | topic.configs()
    largest = show_size(topic.max_message_bytes)
    filled = "the open one goes last"
    if topic.bytes_a_day:
        filled = f"at {show_size(topic.bytes_a_day)} a day one is open for {show_span(topic.segment_open)}"
    cleanup = "segments past the retention are deleted"
    if "compact" in topic.cleanup_policy:
        both = f", and {cleanup}" if "delete" in topic.cleanup_policy else ""
        cleanup = f"of each key the record written last stays: the key has to be the event id{both}"
    gives = {
        "partitions": "equal keys keep their order within one of them",
        "replication.factor": _copies(topic),
        "min.insync.replicas": _writing(topic),
        "retention.ms": _time(topic),
        "retention.bytes": _size(topic),
        "segment.bytes": f"retention deletes whole segments of {show_size(topic.segment_bytes)}; {filled}",
        "segment.ms": f"a segment is closed after {show_span(topic.segment_time)}",
        "max.message.bytes": f"larger batches are refused (MessageSizeTooLarge above {largest}, compressed)",
        "cleanup.policy": cleanup,
    }
    return [(name, values[name], text) for name, text in gives.items()]


def _copies(topic: TopicSettings) -> str:
    if topic.replication_factor == 1:
        return "the only copy: its disk lost is its records lost; good for development"
    text = (
        f"{_count(topic.copies_to_lose, 'copy', 'copies')} can be lost without losing a record, while all are in sync"
    )
    missing = topic.replication_factor - topic.brokers
    return text if missing <= 0 else f"{text}, had the cluster {missing} more brokers"


def _writing(topic: TopicSettings) -> str:
    away = topic.away_for_writing
    reading = f"below the high watermark, reading goes on while one of {topic.replication_factor} copies lives"
    if away < 0:
        return (
            f"more than there are copies, so taken for {topic.replication_factor}: one broker away stops writing with "
            f"acks=all (NotEnoughReplicas), and before Kafka 3.7 it never goes; {reading}"
        )
    if away == 0 and topic.replication_factor > 1:
        return f"one broker away stops writing with acks=all (NotEnoughReplicas); {reading}"
    if topic.min_insync == 1 and topic.replication_factor > 1:
        return f"with the others away acks=all means the leader alone, and its loss loses records; {reading}"
    acknowledged = f"what acks=all acknowledged is on {_count(topic.min_insync, 'copy', 'copies')} or more"
    return f"{acknowledged}, and {_count(away, 'broker', 'brokers')} may be away for writing; {reading}"


def _time(topic: TopicSettings) -> str:
    if topic.retention is None:
        return "time deletes nothing"
    stay = topic.longest_stay
    assert stay is not None
    return (
        f"a record stays at least {show_span(topic.retention)} and up to {show_span(stay)}: its segment takes records "
        f"for {show_span(topic.segment_open)} and goes when the newest of them is past the retention"
    )


def _size(topic: TopicSettings) -> str:
    if topic.retention_bytes is None:
        disk = f"; all copies take up to {show_size(topic.disk_bytes)}" if topic.disk_bytes else ""
        return f"size deletes nothing{disk}"
    text = f"each partition keeps {show_size(topic.retention_bytes)} and the open segment"
    if topic.retention is not None:
        return f"{text}; with retention.ms too, whichever is reached first deletes: a busy day cuts the time short"
    return text


def _count(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"

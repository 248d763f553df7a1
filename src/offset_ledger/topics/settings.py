"""The settings of a topic, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from offset_ledger.model.retention import Retention
from offset_ledger.units import kafka_span

DAY = timedelta(days=1)


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
    ) -> TopicSettings:
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
        """The number of brokers that may be away while acks=all is still acknowledged; below 0 there are too few."""
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

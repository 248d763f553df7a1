"""Retention: when the broker deletes records by a topic's settings, and when the oldest unread record goes. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from offset_ledger.base.units import kept_for

SETTINGS = ("cleanup.policy", "retention.ms", "retention.bytes", "delete.retention.ms")
_TOMBSTONES_MS = "86400000"  # Kafka's default, where a broker leaves the setting out
_SOONEST = timedelta(seconds=1)
_LATEST = timedelta(days=36_500)


@dataclass(frozen=True, slots=True)
class Retention:
    """The time until the broker deletes records; None: never. ``tombstones``: how long compaction keeps them."""

    age: timedelta | None = None
    bytes: int | None = None
    tombstones: timedelta | None = None

    @classmethod
    def from_settings(cls, settings: Mapping[str, str]) -> Self:
        """Return the retention by ``cleanup.policy`` and the topic's settings of time, size and tombstones."""
        policy, size = settings["cleanup.policy"], int(settings["retention.bytes"])
        tombstones = kept_for(settings.get("delete.retention.ms", _TOMBSTONES_MS)) if "compact" in policy else None
        if "delete" not in policy:
            return cls(tombstones=tombstones)
        return cls(kept_for(settings["retention.ms"]), size if size >= 0 else None, tombstones)

    @property
    def deletes(self) -> bool:
        """Return whether it deletes any record, by its age or by the size of the log."""
        return self.age is not None or self.bytes is not None


@dataclass(frozen=True, slots=True)
class Deadline:
    """The time when the oldest unread record may be deleted, and the setting of the topic by which it is."""

    at: datetime
    setting: str


@dataclass(frozen=True, slots=True)
class SizedLog:
    """The log of a partition: its size in bytes and the timestamp of its first record, None where it is not known."""

    size: int | None = None
    first_at: datetime | None = None


UNSIZED = SizedLog()


@dataclass(frozen=True, slots=True)
class UnreadLog:
    """A partition with unread records: the timestamp of the first of them, and their share of its log's offsets."""

    unread_at: datetime | None
    log: SizedLog = UNSIZED
    unread_share: float = 0.0


def earliest(logs: Iterable[UnreadLog], kept: Retention, now: datetime) -> Deadline | None:
    """Return the first deadline of these partitions, by ``retention.ms`` or by ``retention.bytes``."""
    deadlines = []
    for unread in logs:
        if unread.unread_at and kept.age is not None:
            deadlines.append(Deadline(unread.unread_at + kept.age, "retention.ms"))
        size, first_at = unread.log.size, unread.log.first_at
        if first_at and size and kept.bytes is not None:
            room = max(0.0, kept.bytes - size * unread.unread_share)
            # The time until the log has grown by that much, at its average rate since the first record.
            seconds = max(_SOONEST, now - first_at).total_seconds() * (room / size)
            until = timedelta(seconds=min(seconds, _LATEST.total_seconds()))
            deadlines.append(Deadline(now + until, "retention.bytes"))
    return min(deadlines, key=lambda each: each.at, default=None)

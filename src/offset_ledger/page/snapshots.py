"""What a broker says about a topic: its log, and when retention and compaction delete from it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from offset_ledger.model.snapshot import TopicSnapshot
from offset_ledger.units import kept_for


@dataclass(frozen=True, slots=True)
class Retention:
    """When the broker deletes records; None is without limit. ``tombstones``: how long compaction keeps them."""

    age: timedelta | None = None
    bytes: int | None = None
    tombstones: timedelta | None = None

    @classmethod
    def from_settings(cls, settings: Mapping[str, str]) -> Retention:
        """From ``cleanup.policy``, ``retention.ms``, ``retention.bytes`` and ``delete.retention.ms`` of the topic."""
        policy, size = settings["cleanup.policy"], int(settings["retention.bytes"])
        tombstones = kept_for(settings["delete.retention.ms"]) if "compact" in policy else None
        if "delete" not in policy:
            return cls(tombstones=tombstones)
        return cls(kept_for(settings["retention.ms"]), size if size >= 0 else None, tombstones)


@dataclass(frozen=True, slots=True)
class BrokerSnapshot:
    """A topic as the broker described it, and when."""

    snapshot: TopicSnapshot
    retention: Retention
    taken_at: datetime

"""What a broker says about a topic: its log, and when retention and compaction delete from it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from offset_ledger.model.retention import Retention, SizedLog
from offset_ledger.model.snapshot import TopicSnapshot


@dataclass(frozen=True, slots=True)
class BrokerSnapshot:
    """A topic as the broker described it, and when; ``logs`` by partition, where the size of the log matters."""

    snapshot: TopicSnapshot
    retention: Retention
    taken_at: datetime
    logs: Mapping[int, SizedLog] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BrokerAnswer:
    """What is known of a topic now: a snapshot, or why there is none; ``gone`` where it does not exist."""

    snapshot: BrokerSnapshot | None = None
    problem: str | None = None
    gone: bool = False

"""What ledger and broker may say of a pipeline, for tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from offset_ledger.model.retention import Retention
from offset_ledger.model.snapshot import PartitionSnapshot, TopicSnapshot
from offset_ledger.operations.status.pipeline import (
    BrokerAnswer,
    BrokerSnapshot,
    LedgerPartition,
)

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
WEEK = Retention(timedelta(days=7))


def a_snapshot(*partitions: PartitionSnapshot, retention: Retention = WEEK, topic_id: str = "t1") -> BrokerSnapshot:
    return BrokerSnapshot(TopicSnapshot("cluster", "events", topic_id, False, partitions), retention, NOW)


BEHIND = LedgerPartition(0, 100, 0, 100, 100, NOW - 2 * HOUR, NOW - 3 * HOUR)
CAUGHT_UP = a_snapshot(PartitionSnapshot(0, 0, 100, 100, 1))
LAGGING = a_snapshot(PartitionSnapshot(0, 0, 150, 150, 1))
ROW: dict[str, Any] = {
    "pipeline": "orders", "topic_id": "t1", "batch_id": None, "state": None, "late": None, "planned_at": None,
    "question": None, "silent_since": None,
    "quarantined": 0, "judged_batch": 6, "judged_share": 0.0, "judged_committed": True, "judged_approved": False,
}  # fmt: skip
AWAY = BrokerAnswer(problem="Kafka at x did not answer")

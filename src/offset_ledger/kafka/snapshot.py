"""A topic at one moment: its id, its settings that matter, and the offsets of every partition."""

from __future__ import annotations

from offset_ledger.kafka.admin import Admin
from offset_ledger.kafka.brokers import cluster_id
from offset_ledger.kafka.offsets import high_watermarks, last_stable, log_starts
from offset_ledger.kafka.settings import topic_settings
from offset_ledger.kafka.topics import describe_available_topic, partition_numbers, topic_id
from offset_ledger.model.snapshot import PartitionSnapshot, TopicSnapshot


def take_snapshot(admin: Admin, topic: str) -> TopicSnapshot:
    """One snapshot of the topic, its ends being last stable offsets."""
    described = describe_available_topic(admin, topic)
    partitions = partition_numbers(described)
    # Starts before ends: a start that moves between the two answers is caught by the read, not hidden by it.
    starts = log_starts(admin, topic, partitions)
    # The leader answers with its epoch: that of the description may be older than the records below this offset.
    stable = last_stable(admin, topic, partitions)
    ends = high_watermarks(admin, topic, partitions)
    settings = topic_settings(admin, topic)
    return TopicSnapshot(
        cluster_id=cluster_id(admin),
        topic=topic,
        topic_id=topic_id(described, admin.servers),
        compacted="compact" in settings["cleanup.policy"],
        partitions=tuple(
            PartitionSnapshot(p, starts[p], stable[p].offset, ends[p], stable[p].leader_epoch) for p in partitions
        ),
        delete_retention_ms=int(settings["delete.retention.ms"]),
    )

"""A real topic as the settings that :mod:`offset_ledger.topics.explain` explains. Pure."""

from __future__ import annotations

from datetime import timedelta

from offset_ledger.audit.facts import TopicFacts
from offset_ledger.topics.settings import TopicSettings


def described(facts: TopicFacts, bytes_a_day: int | None = None) -> TopicSettings:
    """The settings of the topic; its volume a day as given, else not known."""
    return TopicSettings(
        brokers=len(facts.brokers),
        partitions=len(facts.partitions),
        replication_factor=facts.replication_factor,
        min_insync=facts.min_insync,
        retention=facts.retention,
        retention_bytes=facts.retention_bytes,
        segment_bytes=int(facts.settings["segment.bytes"]),
        segment_time=timedelta(milliseconds=int(facts.settings["segment.ms"])),
        max_message_bytes=int(facts.settings["max.message.bytes"]),
        cleanup_policy=facts.settings["cleanup.policy"],
        bytes_a_day=bytes_a_day,
    )

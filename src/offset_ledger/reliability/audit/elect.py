"""Bringing leaders back to their preferred brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from offset_ledger.kafka.brokers import elect_preferred_leaders
from offset_ledger.kafka.client import KafkaClient

_SECONDS = 10.0


def elect_preferred(kafka: KafkaClient, topic: str) -> tuple[int, ...]:
    """Ask the controller for it, wait until it is so, and return the partitions whose leader is still another one.

    A partition whose preferred broker is away or not in sync stays where it is.

    Raises:
        UnknownTopic: the cluster has no such topic.
        BrokerUnavailable: no answer in time.
    """
    moved = _moved(kafka, topic)
    if not moved:
        return ()
    electable = sorted(partition for partition, p in moved.items() if p["replica_nodes"][0] in p["isr_nodes"])
    if electable:
        kafka.ask(lambda admin: elect_preferred_leaders(admin, topic, electable))
    waiting = Retrying(
        retry=retry_if_result(lambda left: bool(set(electable) & set(left))),
        stop=stop_after_delay(_SECONDS),
        wait=wait_fixed(0.1),
    )
    try:
        return tuple(waiting(_moved, kafka, topic))
    except RetryError as late:
        return tuple(late.last_attempt.result())


def _moved(kafka: KafkaClient, topic: str) -> dict[int, Mapping[str, Any]]:
    described = kafka.describe(topic)
    return {
        p["partition_index"]: p
        for p in described["partitions"]
        if p["leader_id"] >= 0 and p["leader_id"] != p["replica_nodes"][0]
    }

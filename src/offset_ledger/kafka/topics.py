"""Topics as their metadata describes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from kafka import errors as kafka_errors

from offset_ledger.errors import ConfigurationError, UnknownTopic
from offset_ledger.kafka.python_client import Admin


def user_topics(admin: Admin) -> tuple[str, ...]:
    """The names of the topics that this login may see, without Kafka's internal ones."""
    described = admin.client.describe_topics()
    return tuple(sorted(str(topic["name"]) for topic in described if not topic["is_internal"]))


def describe_topic(admin: Admin, topic: str) -> Mapping[str, Any]:
    """The topic's metadata; a partition may be without a leader, its error code says so.

    Raises:
        UnknownTopic: the cluster has no such topic.
    """
    (described,) = admin.client.describe_topics([topic])
    error = kafka_errors.for_code(described["error_code"])
    if error in (kafka_errors.UnknownTopicOrPartitionError, kafka_errors.InvalidTopicError):
        raise UnknownTopic(
            f"topic {topic!r} does not exist on {admin.servers}; create it, or correct its name (source.topic in a "
            "pipeline file, or leave it out of topics or topic_pattern); if it was deleted, remove the file of a "
            "pipeline that reads no other topic; later runs leave out one of several after offset-ledger accept-topic "
            "PIPELINE@TOPIC --why ..."
        )
    if error is not kafka_errors.NoError:
        raise error(f"topic {topic}")
    return dict(described)


def describe_available_topic(admin: Admin, topic: str) -> Mapping[str, Any]:
    """The topic's metadata, every partition having a leader; the error of a partition is raised."""
    described = describe_topic(admin, topic)
    for partition in described["partitions"]:
        if partition["error_code"]:
            raise kafka_errors.for_code(partition["error_code"])(f"{topic} {partition['partition_index']}")
    return described


def allowed_operations(admin: Admin, topic: str) -> frozenset[str]:
    """What the login may do with the topic, in words of Kafka's ACLs; everything where there is no authorizer."""
    return frozenset(map(str, describe_topic(admin, topic)["authorized_operations"]))


def topic_id(described: Mapping[str, Any], servers: str) -> str:
    """The id of a described topic, which a recreated topic does not have.

    Raises:
        ConfigurationError: the brokers are too old to give topics ids.
    """
    id_ = described.get("topic_id")
    if id_ is None or UUID(str(id_)).int == 0:
        raise ConfigurationError(
            f"Kafka at {servers} gives topic {described['name']!r} no id, so a recreated topic could not be detected; "
            "brokers of Kafka 3.6 or newer are needed, with their metadata upgraded to that version"
        )
    return str(id_)


def partition_numbers(described: Mapping[str, Any]) -> list[int]:
    """The partitions of a described topic, in order."""
    return sorted(int(partition["partition_index"]) for partition in described["partitions"])


def leaders(described: Mapping[str, Any]) -> dict[int, int]:
    """The broker that leads each partition of a described topic; absent where none does."""
    return {int(p["partition_index"]): int(p["leader_id"]) for p in described["partitions"] if p["leader_id"] >= 0}

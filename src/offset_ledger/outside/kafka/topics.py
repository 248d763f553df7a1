"""Topics and brokers as their metadata and their settings describe them, and the election of leaders."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any
from uuid import UUID

from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.protocol.admin import DescribeClusterRequest

from offset_ledger.errors import ConfigurationError, UnknownTopic
from offset_ledger.outside.kafka.errors import does_not_answer
from offset_ledger.outside.kafka.python_client import Admin

OLDEST = (3, 6)
"""The oldest release of Kafka whose brokers are new enough."""
_DEFAULTS = {"delete.retention.ms": "86400000"}  # not every broker that speaks the protocol has it in its answer
_OF_THE_TOPIC = "DYNAMIC_TOPIC_CONFIG"
_PREFERRED = 0  # the election that lets the preferred replica lead


def describe_topic(admin: Admin, topic: str) -> Mapping[str, Any]:
    """The topic's metadata; a partition may be without a leader, its error code says so.

    Raises:
        UnknownTopic: the cluster has no such topic.
    """
    (described,) = admin.client.describe_topics([topic])
    error = kafka_errors.for_code(described["error_code"])
    if error in (kafka_errors.UnknownTopicOrPartitionError, kafka_errors.InvalidTopicError):
        try:
            close = get_close_matches(topic, user_topics(admin), n=1)
        except kafka_errors.KafkaError:
            close = []
        question = f"; did you mean {close[0]}?" if close else ""
        raise UnknownTopic(
            f"topic {topic!r} does not exist on {admin.servers}{question}; create it, or correct its name"
        )
    if error is not kafka_errors.NoError:
        raise error(f"topic {topic}")
    return dict(described)


def user_topics(admin: Admin) -> list[str]:
    """Return the names of the topics that this login may see, without Kafka's internal ones."""
    return sorted(str(each["name"]) for each in admin.client.describe_topics() if not each["is_internal"])


def describe_available_topic(admin: Admin, topic: str) -> Mapping[str, Any]:
    """The topic's metadata, every partition having a leader; the error of a partition is raised."""
    described = describe_topic(admin, topic)
    for partition in described["partitions"]:
        if partition["error_code"]:
            raise kafka_errors.for_code(partition["error_code"])(f"{topic} {partition['partition_index']}")
    return described


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


@dataclass(frozen=True, slots=True)
class TopicConfigs:
    """The settings of a topic as text; ``own`` names those that are set on the topic itself."""

    values: Mapping[str, str]
    own: frozenset[str]


def topic_configs(admin: Admin, topic: str, *names: str) -> TopicConfigs:
    """Return the settings of these names, or all if none is given; none if this login may not read them."""
    asked = ConfigResource(ConfigResourceType.TOPIC, topic, list(names) or None)
    configs = describe_configs(admin, [asked])[topic]
    own = frozenset(name for name, config in configs.items() if config["config_source"] == _OF_THE_TOPIC)
    values = {name: str(config["value"]) for name, config in configs.items() if config["value"] is not None}
    return TopicConfigs(values, own)


def topic_settings(admin: Admin, topic: str, *names: str) -> dict[str, str]:
    """Return these settings of the topic, with Kafka's default for what the broker leaves out.

    Raises:
        ConfigurationError: the broker leaves one out whose default says nothing about this topic.
    """
    settings = {**_DEFAULTS, **topic_configs(admin, topic, *names).values}
    if missing := [name for name in names if name not in settings]:
        raise unanswered(admin, topic, missing)
    return settings


def unanswered(admin: Admin, topic: str, names: Sequence[str]) -> Exception:
    """Return why these settings are not in an answer: kafka-python leaves out those that this login may not read."""
    request = admin.client._describe_configs_request([ConfigResource(ConfigResourceType.TOPIC, topic, list(names))])
    (answer,) = admin.send(request).results
    if answer.error_code:
        error: Exception = kafka_errors.for_code(answer.error_code)(f"the settings of topic {topic}")
        return error
    return does_not_answer(admin.servers, f"DescribeConfigs with {', '.join(names)} of topic {topic!r}")


def describe_configs(admin: Admin, resources: list[ConfigResource]) -> dict[str, dict[str, Any]]:
    """The settings of each of these by its name, each as the broker describes it."""
    (by_name,) = admin.client.describe_configs(resources, config_filter="all").values()
    return dict(by_name)


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """A broker that is up."""

    node: int
    rack: str | None


def describe_cluster(admin: Admin) -> dict[str, Any]:
    """The cluster's id, its brokers, and which of them is the controller."""
    try:
        return dict(admin.client.describe_cluster())
    except KeyError:  # kafka-python reads a field that brokers before 3.7 do not send
        answer = admin.send(DescribeClusterRequest())
    if answer.error_code:
        raise kafka_errors.for_code(answer.error_code)(answer.error_message)
    return dict(answer.to_dict())


def live_brokers(admin: Admin) -> tuple[LiveBroker, ...]:
    """The brokers that are not fenced, by node id."""
    brokers = [
        LiveBroker(int(each["broker_id"]), each["rack"])
        for each in describe_cluster(admin)["brokers"]
        if not each.get("is_fenced")
    ]
    return tuple(sorted(brokers, key=lambda broker: broker.node))


def elect_preferred_leaders(admin: Admin, topic: str, partitions: Iterable[int]) -> None:
    """Ask the controller to let the preferred replica of each partition lead, where it is in sync."""
    try:
        admin.client.elect_leaders(_PREFERRED, {topic: list(partitions)})
    except kafka_errors.PreferredLeaderNotAvailableError:
        return  # it fell out of sync meanwhile


def broker_settings(admin: Admin, nodes: Iterable[int], names: Iterable[str]) -> dict[int, dict[str, str]]:
    """Return these settings of these brokers; one that a broker does not have is left out."""
    wanted = list(names)
    resources = {node: ConfigResource(ConfigResourceType.BROKER, str(node), dict.fromkeys(wanted)) for node in nodes}
    configs = describe_configs(admin, list(resources.values()))
    return {
        node: {name: str(config["value"]) for name, config in configs[str(node)].items() if config["value"] is not None}
        for node in resources
    }

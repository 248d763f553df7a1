"""The brokers of a cluster: which there are, their settings, and the election of leaders among them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.protocol.admin import DescribeClusterRequest

from offset_ledger.kafka.python_client import Admin
from offset_ledger.kafka.topics import describe_configs

OLDEST = (3, 6)
_PREFERRED = 0


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
    """These settings of these brokers; one that a broker does not have is left out."""
    wanted = list(names)
    resources = {node: ConfigResource(ConfigResourceType.BROKER, str(node), dict.fromkeys(wanted)) for node in nodes}
    configs = describe_configs(admin, list(resources.values()))
    return {
        node: {name: str(config["value"]) for name, config in configs[str(node)].items() if config["value"] is not None}
        for node in resources
    }

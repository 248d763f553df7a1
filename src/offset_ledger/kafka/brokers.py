"""The brokers of a cluster, and the election of leaders among them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kafka import errors as kafka_errors
from kafka.protocol.admin import DescribeClusterRequest

from offset_ledger.errors import ConfigurationError
from offset_ledger.kafka.python_client import Admin

OLDEST = (3, 6)
_PREFERRED = 0


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """A broker that is up."""

    node: int
    rack: str | None


def cluster_id(admin: Admin) -> str:
    """The id of the cluster."""
    return str(_described(admin)["cluster_id"])


def protocol_version(admin: Admin) -> tuple[int, ...]:
    """The release of Kafka whose protocol the brokers speak, such as (4, 2)."""
    return tuple(admin.client._manager.broker_version_data.broker_version)


def check_version(admin: Admin) -> None:
    """Check that the brokers are new enough.

    Raises:
        ConfigurationError: they are not.
    """
    version = protocol_version(admin)
    if version[:2] < OLDEST:
        raise ConfigurationError(
            f"Kafka {_dotted(OLDEST)} or newer is needed, found brokers at {admin.servers} that speak the protocol of "
            f"{_dotted(version)}; upgrade the brokers, or use others"
        )


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def count_brokers(admin: Admin) -> int:
    """How many brokers the cluster lists."""
    return len(_described(admin)["brokers"])


def live_brokers(admin: Admin) -> tuple[LiveBroker, ...]:
    """The brokers that are not fenced, by node id."""
    brokers = [
        LiveBroker(int(each["broker_id"]), each["rack"])
        for each in _described(admin)["brokers"]
        if not each.get("is_fenced")
    ]
    return tuple(sorted(brokers, key=lambda broker: broker.node))


def elect_preferred_leaders(admin: Admin, topic: str, partitions: Iterable[int]) -> None:
    """Ask the controller to let the preferred replica of each partition lead, where it is in sync."""
    try:
        admin.client.elect_leaders(_PREFERRED, {topic: list(partitions)})
    except kafka_errors.PreferredLeaderNotAvailableError:
        return  # it fell out of sync meanwhile


def _described(admin: Admin) -> dict[str, Any]:
    try:
        return dict(admin.client.describe_cluster())
    except KeyError:  # kafka-python reads a field that brokers before 3.7 do not send
        answer = admin.send(DescribeClusterRequest())
    if answer.error_code:
        raise kafka_errors.for_code(answer.error_code)(answer.error_message)
    return dict(answer.to_dict())

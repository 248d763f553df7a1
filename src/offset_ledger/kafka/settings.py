"""The settings of topics and of brokers, defaults included."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.admin import ConfigResource, ConfigResourceType

from offset_ledger.kafka.python_client import Admin

_DEFAULTS = {"delete.retention.ms": "86400000"}  # not every broker that speaks the protocol has it in its answer
_OF_THE_TOPIC = "DYNAMIC_TOPIC_CONFIG"


@dataclass(frozen=True, slots=True)
class TopicConfigs:
    """The settings of a topic as text; ``own`` names those that are set on the topic itself."""

    values: Mapping[str, str]
    own: frozenset[str]


def topic_configs(admin: Admin, topic: str) -> TopicConfigs:
    """All settings; none where this login may not read them."""
    configs = _describe(admin, [ConfigResource(ConfigResourceType.TOPIC, topic)])[topic]
    own = frozenset(name for name, config in configs.items() if config["config_source"] == _OF_THE_TOPIC)
    return TopicConfigs({name: str(config["value"]) for name, config in configs.items()}, own)


def topic_settings(admin: Admin, topic: str) -> dict[str, str]:
    """All settings of the topic, with Kafka's default for what the broker leaves out."""
    return {**_DEFAULTS, **topic_configs(admin, topic).values}


def broker_settings(admin: Admin, nodes: Iterable[int], names: Iterable[str]) -> dict[int, dict[str, str]]:
    """These settings of these brokers; one that a broker does not have is left out."""
    wanted = list(names)
    resources = {node: ConfigResource(ConfigResourceType.BROKER, str(node), dict.fromkeys(wanted)) for node in nodes}
    configs = _describe(admin, list(resources.values()))
    return {
        node: {name: str(config["value"]) for name, config in configs[str(node)].items() if config["value"] is not None}
        for node in resources
    }


def _describe(admin: Admin, resources: list[ConfigResource]) -> dict[str, dict[str, Any]]:
    (by_name,) = admin.client.describe_configs(resources, config_filter="all").values()
    return dict(by_name)

"""``kafka topic``: topics planned, created and described."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from offset_ledger.base.units import parse_size, parse_span
from offset_ledger.errors import ConfigurationError
from offset_ledger.interfaces.cli.completer import complete_topics
from offset_ledger.interfaces.cli.verbs import Option, Outcome, connection, from_1, name_and_value, verb
from offset_ledger.outside.connections import get_connection

if TYPE_CHECKING:
    from offset_ledger_kit.topics.settings import TopicSettings


@verb(
    Option("action", choices=["plan", "create", "describe"], help="describe shows one that exists"),
    Option("topic", metavar="TOPIC", help="the Kafka topic", complete=complete_topics),
    connection("kafka_default"),
    Option("--brokers", type=from_1, help="plan for that many (default: ask the cluster)"),
    Option("--partitions", type=from_1, default=6, help="partitions (6)"),
    Option("--durability", choices=["development", "usual", "strict"], default="usual", help="what may fail (usual)"),
    Option("--volume", metavar="SIZE", help="bytes a day of the whole topic, such as 100MB (plan: 1GB)"),
    Option("--record-size", default="1kB", metavar="SIZE", help="of the largest record (1kB)"),
    Option("--retention", default="7d", metavar="SPAN", help="such as 36h or 7d, or forever (7d)"),
    Option("--replication-factor", type=from_1, help="instead of the planned one"),
    Option("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of your own; repeat"),
    example="offset-ledger kafka topic plan shop.orders --volume 2GB --retention 14d",
)
def run_topic(arguments: Namespace) -> Outcome:
    """Plan, create or describe a topic, with the effect of each setting."""
    from offset_ledger_kit.publishing.topics import create_topic

    name = arguments.topic
    if arguments.action == "describe":
        return _explained(name, _existing(arguments), f"topic {name}:")
    planned, configs = _planned(arguments)
    if arguments.action == "plan":
        return _explained(name, planned, f"plan of topic {name}:")
    extra = get_connection(arguments.connection).extra
    if create_topic(extra, name, planned.partitions, planned.replication_factor, configs):
        return _explained(name, planned, f"created topic {name}:")
    return _explained(name, _existing(arguments), f"topic {name} exists already, with these settings:")


def _existing(arguments: Namespace) -> TopicSettings:
    """The settings that the topic has."""
    from offset_ledger.operations.audit.run import read_facts
    from offset_ledger_kit.topics.settings import TopicSettings

    facts = read_facts(get_connection(arguments.connection), arguments.topic)
    copies, partitions = facts.replication_factor, len(facts.partitions)
    return TopicSettings.read(len(facts.brokers), partitions, copies, facts.settings, _volume(arguments))


def _planned(arguments: Namespace) -> tuple[TopicSettings, dict[str, str]]:
    """The plan with the caller's own settings, and the same as Kafka's configuration."""
    from offset_ledger.outside.kafka.client import connect_kafka
    from offset_ledger_kit.topics.settings import Durability, TopicRequirements, TopicSettings, plan

    volume, brokers = _volume(arguments), arguments.brokers
    if not brokers:
        with connect_kafka(get_connection(arguments.connection)) as kafka:
            brokers = kafka.count_brokers()
    requirements = TopicRequirements(
        brokers=brokers,
        partitions=arguments.partitions,
        durability=Durability(arguments.durability),
        bytes_a_day=10**9 if volume is None else volume,
        record_bytes=parse_size(arguments.record_size),
        retention=None if arguments.retention == "forever" else parse_span(arguments.retention),
    )
    planned = plan(requirements)
    configs = planned.configs() | dict(map(name_and_value, arguments.set))
    factor = arguments.replication_factor or planned.replication_factor
    try:
        settings = TopicSettings.read(brokers, planned.partitions, factor, configs, requirements.bytes_a_day)
        return settings, configs
    except ValueError as error:
        raise ConfigurationError(f"--set: expected a whole number ({error})") from None


def _volume(arguments: Namespace) -> int | None:
    return parse_size(arguments.volume) if arguments.volume else None


def _explained(name: str, settings: TopicSettings, head: str) -> Outcome:
    from tabulate import tabulate

    from offset_ledger_kit.topics.settings import explain

    rows = explain(settings)
    data = [{"setting": setting, "value": value, "buys": gives} for setting, value, gives in rows]
    table = tabulate(rows, maxcolwidths=[None, None, 84], tablefmt="plain")
    return Outcome({"topic": name, "settings": data}, f"{head}\n\n{table}")

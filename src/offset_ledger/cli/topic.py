"""``topic``: a topic planned, created or described, with what each setting gives."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from offset_ledger.cli.completer import complete_topics
from offset_ledger.cli.verbs import Outcome, Verbs, add_connection, from_1, name_and_value
from offset_ledger.errors import ConfigurationError

if TYPE_CHECKING:
    from offset_ledger.reliability.topics.plan import TopicRequirements
    from offset_ledger.reliability.topics.settings import TopicSettings


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    verb = verbs.add(
        "topic",
        "plan, create or describe a topic, with the effect of each setting",
        run,
        example="offset-ledger topic plan shop.orders --volume 2GB --retention 14d",
    )
    verb.add_argument("action", choices=["plan", "create", "describe"], help="describe shows one that exists")
    complete_topics(verb.add_argument("topic", metavar="TOPIC", help="the Kafka topic"))
    add_connection(verb, "kafka_default")
    verb.add_argument("--brokers", type=from_1, help="plan for that many (default: ask the cluster)")
    verb.add_argument("--partitions", type=from_1, default=6, help="partitions (6)")
    durabilities = ["development", "usual", "strict"]
    verb.add_argument("--durability", choices=durabilities, default="usual", help="what may fail (usual)")
    verb.add_argument("--volume", metavar="SIZE", help="bytes a day of the whole topic, such as 100MB (plan: 1GB)")
    verb.add_argument("--record-size", default="1kB", metavar="SIZE", help="of the largest record (1kB)")
    verb.add_argument("--retention", default="7d", metavar="SPAN", help="such as 36h or 7d, or forever (7d)")
    verb.add_argument("--replication-factor", type=from_1, help="instead of the planned one")
    verb.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of your own; repeat")


def run(arguments: Namespace) -> Outcome:
    """Plan, create or describe a topic."""
    name = arguments.topic
    if arguments.action == "describe":
        return _explained(name, _existing(arguments), f"topic {name}:")
    planned, configs = _planned(arguments)
    if arguments.action == "plan":
        return _explained(name, planned, f"topic {name}, planned:")
    if _create(arguments, planned, configs):
        return _explained(name, planned, f"topic {name} is made:")
    return _explained(name, _existing(arguments), f"topic {name} was there before, with these settings:")


def _create(arguments: Namespace, planned: TopicSettings, configs: dict[str, str]) -> bool:
    from offset_ledger.connections import get_connection
    from offset_ledger.reliability.publishing.topics import create_topic

    extra = get_connection(arguments.connection).extra
    return create_topic(extra, arguments.topic, planned.partitions, planned.replication_factor, configs)


def _existing(arguments: Namespace) -> TopicSettings:
    """The settings that the topic has."""
    from offset_ledger.connections import get_connection
    from offset_ledger.reliability.audit.gather import read_facts
    from offset_ledger.reliability.topics.settings import TopicSettings

    facts = read_facts(get_connection(arguments.connection), arguments.topic)
    copies, partitions = facts.replication_factor, len(facts.partitions)
    return TopicSettings.read(len(facts.brokers), partitions, copies, facts.settings, _volume(arguments))


def _planned(arguments: Namespace) -> tuple[TopicSettings, dict[str, str]]:
    """The plan with the caller's own settings, and the same as Kafka's configuration."""
    from offset_ledger.reliability.topics.plan import plan
    from offset_ledger.reliability.topics.settings import TopicSettings

    requirements = _requirements(arguments)
    planned = plan(requirements)
    configs = planned.configs() | dict(map(name_and_value, arguments.set))
    factor = arguments.replication_factor or planned.replication_factor
    brokers, volume = requirements.brokers, requirements.bytes_a_day
    try:
        return TopicSettings.read(brokers, planned.partitions, factor, configs, volume), configs
    except ValueError as error:
        raise ConfigurationError(f"--set: expected a whole number ({error})") from None


def _requirements(arguments: Namespace) -> TopicRequirements:
    from offset_ledger.reliability.topics.plan import Durability, TopicRequirements
    from offset_ledger.units import parse_size, parse_span

    volume = _volume(arguments)
    return TopicRequirements(
        brokers=arguments.brokers or _count_brokers(arguments),
        partitions=arguments.partitions,
        durability=Durability(arguments.durability),
        bytes_a_day=10**9 if volume is None else volume,
        record_bytes=parse_size(arguments.record_size),
        retention=None if arguments.retention == "forever" else parse_span(arguments.retention),
    )


def _count_brokers(arguments: Namespace) -> int:
    from offset_ledger.connections import get_connection
    from offset_ledger.kafka.client import connect_kafka

    with connect_kafka(get_connection(arguments.connection)) as kafka:
        return kafka.count_brokers()


def _volume(arguments: Namespace) -> int | None:
    from offset_ledger.units import parse_size

    return parse_size(arguments.volume) if arguments.volume else None


def _explained(name: str, settings: TopicSettings, head: str) -> Outcome:
    from tabulate import tabulate

    from offset_ledger.reliability.topics.explain import explain

    rows = explain(settings)
    data = [{"setting": e.setting, "value": e.value, "buys": e.gives} for e in rows]
    table = tabulate([(e.setting, e.value, e.gives) for e in rows], maxcolwidths=[None, None, 84], tablefmt="plain")
    return Outcome({"topic": name, "settings": data}, f"{head}\n\n{table}")

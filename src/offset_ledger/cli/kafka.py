"""The verbs about topics: ``audit``, ``topic`` and ``lab``."""

from __future__ import annotations

import time
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from offset_ledger.cli.completer import complete_topics
from offset_ledger.cli.verbs import (
    Option,
    Outcome,
    connection,
    from_1,
    name_and_value,
    optional_pipeline,
    pipeline_of,
    say,
    verb,
)
from offset_ledger.connections import get_connection
from offset_ledger.errors import ConfigurationError
from offset_ledger.extras import require
from offset_ledger.units import parse_size, parse_span

if TYPE_CHECKING:
    from offset_ledger.labs.trial import Report
    from offset_ledger.topics.settings import TopicSettings


@verb(
    optional_pipeline("the pipeline whose topic and cursors are audited: "),
    Option("--topic", help="a topic, instead of a pipeline", complete=complete_topics),
    Option("--connection", default="kafka_default", help="Airflow connection id of --topic (kafka_default)"),
    Option("--ledger", help="Airflow connection id of the database that keeps the result of --topic"),
    Option("--elect", action="store_true", help="first bring leaders back to their preferred brokers"),
    Option("--fail-on", choices=["error", "warning"], default="error", help="exit 1 from here on (error)"),
    example="offset-ledger kafka audit flights --fail-on warning",
)
def run_audit(arguments: Namespace) -> Outcome:
    """Check a topic against the reliability rules."""
    from tabulate import tabulate

    from offset_ledger.audit.finding import Severity
    from offset_ledger.audit.run import audit_pipeline, audit_topic

    if (arguments.pipeline is None) == (arguments.topic is None):
        raise ConfigurationError("audit takes a PIPELINE or --topic TOPIC, one of the two")
    if arguments.pipeline:
        audit = audit_pipeline(pipeline_of(arguments), arguments.elect)
    else:
        ledger = get_connection(arguments.ledger) if arguments.ledger else None
        audit = audit_topic(get_connection(arguments.connection), arguments.topic, ledger, arguments.elect)
    data = asdict(audit) | {"changes": [{**asdict(change), "change": change.word} for change in audit.changes]}
    rows = [(finding.severity, finding.rule, finding.found) for finding in audit.findings]
    headers = ["severity", "rule", "found"]
    lines = [f"topic {audit.topic}:\n", tabulate(rows, headers=headers, maxcolwidths=[None, None, 90])]
    for finding in audit.findings:
        if finding.remedy:
            remedy = finding.remedy.replace("\n", f"\n{'':10}")
            lines.append(f"\n{finding.severity} {finding.rule}\n  risk:   {finding.risk}\n  remedy: {remedy}")
    if audit.previous_at:
        lines.append(f"\nsince the audit of {audit.previous_at:%Y-%m-%d %H:%M} UTC:")
        lines += [f"  {change}" for change in audit.changes] or ["  nothing was found then, nothing is now"]
    return Outcome(data, "\n".join(lines), 1 if audit.failing(Severity(arguments.fail_on)) else 0)


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
    from offset_ledger.publishing.topics import create_topic

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
    from offset_ledger.audit.run import read_facts
    from offset_ledger.topics.settings import TopicSettings

    facts = read_facts(get_connection(arguments.connection), arguments.topic)
    copies, partitions = facts.replication_factor, len(facts.partitions)
    return TopicSettings.read(len(facts.brokers), partitions, copies, facts.settings, _volume(arguments))


def _planned(arguments: Namespace) -> tuple[TopicSettings, dict[str, str]]:
    """The plan with the caller's own settings, and the same as Kafka's configuration."""
    from offset_ledger.kafka.client import connect_kafka
    from offset_ledger.topics.settings import Durability, TopicRequirements, TopicSettings, plan

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

    from offset_ledger.topics.settings import explain

    rows = explain(settings)
    data = [{"setting": setting, "value": value, "buys": gives} for setting, value, gives in rows]
    table = tabulate(rows, maxcolwidths=[None, None, 84], tablefmt="plain")
    return Outcome({"topic": name, "settings": data}, f"{head}\n\n{table}")


def _semantics(folder: Path, seed: int) -> Report:
    from offset_ledger.labs.semantics import Bench, SemanticsPlan, report, semantics
    from offset_ledger.sandbox import stack as local
    from offset_ledger.sandbox.layout import PortChoice

    plan = SemanticsPlan.draw(seed)
    stack = local.up(brokers=1, ports=PortChoice.any_free(), home=folder / "stack", project=folder, say=say)
    try:
        kafka, postgres, _ = stack.connections()
        return report(plan, semantics(Bench(kafka, postgres, stack.environment(), folder, "lab.semantics", say), plan))
    finally:
        local.down(folder / "stack")


def _replication(folder: Path, seed: int) -> Report:
    from offset_ledger.labs.replication import replication
    from offset_ledger.labs.trial import TrialPlan, report

    plan = TrialPlan.draw(seed)
    return report(plan, replication(plan, folder, say))


def _ordering(folder: Path, seed: int) -> Report:
    from offset_ledger.labs.ordering import OrderingPlan, ordering, report

    plan = OrderingPlan.draw(seed)
    return report(plan, ordering(plan, folder, say))


_LABS = {"semantics": _semantics, "replication": _replication, "ordering": _ordering}


@verb(
    Option("name", choices=list(_LABS), metavar="LAB", help=f"one of {', '.join(_LABS)}"),
    Option("--seed", type=int, default=1, help="draws where things break (1)"),
    example="offset-ledger kafka lab semantics --seed 7",
)
def run_lab(arguments: Namespace) -> Outcome:
    """Measure delivery guarantees on real servers that fail on purpose."""
    require("local", "a lab")
    import tempfile

    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="offset-ledger-lab-") as folder:
        report = _LABS[arguments.name](Path(folder).resolve(), arguments.seed)
    seconds = time.monotonic() - began
    data = {"lab": arguments.name, "seed": arguments.seed, "plan": report.plan, "rows": report.rows}
    text = f"{report.text}\n\n{arguments.name}, seed {arguments.seed}: {seconds:.0f} s"
    return Outcome(data | {"seconds": round(seconds, 1)}, text)

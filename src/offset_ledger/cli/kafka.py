"""The verbs about Kafka itself: topics, audit and the labs."""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabulate import tabulate

from offset_ledger.cli.verbs import Outcome, Verbs, from_1, say
from offset_ledger.errors import ConfigurationError

if TYPE_CHECKING:
    from offset_ledger.reliability.audit.run import Audit
    from offset_ledger.reliability.labs.report import Report
    from offset_ledger.reliability.topics.settings import TopicSettings


def add_verbs(verbs: Verbs) -> None:
    """Add the verbs of this module to the command line."""
    made = verbs.add("audit", "hold a topic against the rules of reliability", audit)
    made.add_argument("pipeline", metavar="PIPELINE", nargs="?", help="a pipeline, whose topic and cursors are audited")
    made.add_argument("--topic", help="a topic, instead of a pipeline")
    made.add_argument("--connection", default="kafka_default", help="Airflow connection id of --topic (kafka_default)")
    made.add_argument("--ledger", help="Airflow connection id of the database that keeps the result of --topic")
    made.add_argument("--elect", action="store_true", help="first bring leaders back to their preferred brokers")
    made.add_argument("--fail-on", choices=["error", "warning"], default="error", help="exit 1 from here on (error)")

    made = verbs.add("topic", "plan, create or describe a topic, and say what each setting buys", topic)
    made.add_argument("action", choices=["plan", "create", "describe"])
    made.add_argument("topic", metavar="TOPIC")
    made.add_argument("--connection", default="kafka_default", help="Airflow connection id (kafka_default)")
    made.add_argument("--brokers", type=from_1, help="plan for that many (default: ask the cluster)")
    made.add_argument("--partitions", type=from_1, default=6, help="partitions (6)")
    durabilities = ["development", "usual", "strict"]
    made.add_argument("--durability", choices=durabilities, default="usual", help="what may fail (usual)")
    made.add_argument("--volume", metavar="SIZE", help="bytes a day of the whole topic, such as 100MB (plan: 1GB)")
    made.add_argument("--record-size", default="1kB", metavar="SIZE", help="of the largest record (1kB)")
    made.add_argument("--retention", default="7d", metavar="SPAN", help="such as 36h or 7d, or forever (7d)")
    made.add_argument("--replication-factor", type=from_1, help="instead of the planned one")
    made.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of your own; repeat")

    made = verbs.add("lab", "show delivery semantics, replication or ordering on real servers that break", lab)
    made.add_argument("name", choices=["semantics", "replication", "ordering"], metavar="LAB")
    made.add_argument("--seed", type=int, default=1, help="draws where things break (1)")


def topic(arguments: Namespace) -> Outcome:
    """Plan, create or describe a topic."""
    from offset_ledger.connections import get_connection
    from offset_ledger.reliability.publishing.topics import create_topic

    name = arguments.topic
    if arguments.action == "describe":
        return _explained(name, _found(arguments), f"topic {name}:")
    planned, configs = _planned(arguments)
    if arguments.action == "plan":
        return _explained(name, planned, f"topic {name}, planned:")
    extra = get_connection(arguments.connection).extra
    if create_topic(extra, name, planned.partitions, planned.replication_factor, configs):
        return _explained(name, planned, f"topic {name} is made:")
    return _explained(name, _found(arguments), f"topic {name} was there before, with these settings:")


def _found(arguments: Namespace) -> TopicSettings:
    """The real topic's settings."""
    from offset_ledger.connections import get_connection
    from offset_ledger.reliability.audit.gather import read_facts
    from offset_ledger.reliability.topics.settings import TopicSettings

    facts = read_facts(get_connection(arguments.connection), arguments.topic)
    copies, partitions = facts.replication_factor, len(facts.partitions)
    return TopicSettings.read(len(facts.brokers), partitions, copies, facts.settings, _volume(arguments))


def _volume(arguments: Namespace) -> int | None:
    from offset_ledger.units import parse_size

    return parse_size(arguments.volume) if arguments.volume else None


def _planned(arguments: Namespace) -> tuple[TopicSettings, dict[str, str]]:
    """The plan with what the caller sets himself, and as Kafka's settings."""
    from offset_ledger.connections import get_connection
    from offset_ledger.kafka.client import connect_kafka
    from offset_ledger.reliability.topics.plan import Durability, TopicRequirements, plan
    from offset_ledger.reliability.topics.settings import TopicSettings
    from offset_ledger.units import parse_size, parse_span

    brokers = arguments.brokers
    if brokers is None:
        with connect_kafka(get_connection(arguments.connection)) as kafka:
            brokers = kafka.count_brokers()
    volume = _volume(arguments)
    wish = TopicRequirements(
        brokers=brokers,
        partitions=arguments.partitions,
        durability=Durability(arguments.durability),
        bytes_a_day=10**9 if volume is None else volume,
        record_bytes=parse_size(arguments.record_size),
        retention=None if arguments.retention == "forever" else parse_span(arguments.retention),
    )
    planned = plan(wish)
    configs = planned.configs() | dict(_setting(each) for each in arguments.set)
    factor = arguments.replication_factor or planned.replication_factor
    try:
        return TopicSettings.read(brokers, planned.partitions, factor, configs, wish.bytes_a_day), configs
    except ValueError as error:
        raise ConfigurationError(f"--set: expected a whole number ({error})") from None


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigurationError(f"--set: expected NAME=VALUE, found {text!r}")
    return name, value


def _explained(name: str, found: TopicSettings, head: str) -> Outcome:
    from offset_ledger.reliability.topics.explain import explain

    rows = explain(found)
    table = tabulate([(e.setting, e.value, e.buys) for e in rows], maxcolwidths=[None, None, 84], tablefmt="plain")
    return Outcome({"topic": name, "settings": [asdict(each) for each in rows]}, f"{head}\n\n{table}")


def audit(arguments: Namespace) -> Outcome:
    """Hold a topic against every rule."""
    from offset_ledger.reliability.audit.finding import Severity

    done = _audit(arguments)
    data = asdict(done) | {"changes": [{**asdict(change), "change": change.word} for change in done.changes]}
    return Outcome(data, _audit_text(done), 1 if done.failing(Severity(arguments.fail_on)) else 0)


def _audit(arguments: Namespace) -> Audit:
    from offset_ledger.config.parse import find_pipeline, parse_pipeline
    from offset_ledger.connections import get_connection
    from offset_ledger.reliability.audit.run import audit_pipeline, audit_topic

    if (arguments.pipeline is None) == (arguments.topic is None):
        raise ConfigurationError("audit takes a PIPELINE or --topic TOPIC, one of the two")
    if arguments.pipeline:
        return audit_pipeline(parse_pipeline(find_pipeline(arguments.pipeline)), arguments.elect)
    ledger = get_connection(arguments.ledger) if arguments.ledger else None
    return audit_topic(get_connection(arguments.connection), arguments.topic, ledger, arguments.elect)


def _audit_text(done: Audit) -> str:
    rows: list[tuple[Any, ...]] = [(f.severity, f.rule, f.found) for f in done.findings]
    lines = [
        f"topic {done.topic}:\n",
        tabulate(rows, headers=["severity", "rule", "found"], maxcolwidths=[None, None, 90]),
    ]
    for finding in done.findings:
        if finding.remedy:
            remedy = finding.remedy.replace("\n", f"\n{'':10}")
            lines.append(f"\n{finding.severity} {finding.rule}\n  risk:   {finding.risk}\n  remedy: {remedy}")
    if done.previous_at:
        lines.append(f"\nsince the audit of {done.previous_at:%Y-%m-%d %H:%M} UTC:")
        lines += [f"  {change}" for change in done.changes] or ["  nothing was found then, nothing is now"]
    return "\n".join(lines)


def lab(arguments: Namespace) -> Outcome:
    """Run one lab in a folder of its own and show its table."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="offset-ledger-lab-") as name:
        found = _LABS[arguments.name](Path(name).resolve(), arguments.seed)
    seconds = time.monotonic() - began
    data = {"lab": arguments.name, "seed": arguments.seed, "plan": found.plan, "rows": found.rows}
    text = f"{found.text}\n\n{arguments.name}, seed {arguments.seed}: {seconds:.0f} s"
    return Outcome(data | {"seconds": round(seconds, 1)}, text)


def _semantics(folder: Path, seed: int) -> Report:
    from offset_ledger.local import stack as local
    from offset_ledger.local.layout import PortChoice
    from offset_ledger.reliability.labs.semantics import Bench, SemanticsPlan, report, semantics

    plan = SemanticsPlan.draw(seed)
    stack = local.up(brokers=1, ports=PortChoice.any_free(), home=folder / "stack", project=folder, say=say)
    try:
        kafka, postgres, _ = stack.connections()
        return report(plan, semantics(Bench(kafka, postgres, stack.environment(), folder, "lab.semantics", say), plan))
    finally:
        local.down(folder / "stack")


def _replication(folder: Path, seed: int) -> Report:
    from offset_ledger.reliability.labs.replication import replication
    from offset_ledger.reliability.labs.trial import TrialPlan, report

    plan = TrialPlan.draw(seed)
    return report(plan, replication(plan, folder, say))


def _ordering(folder: Path, seed: int) -> Report:
    from offset_ledger.reliability.labs.ordering import OrderingPlan, ordering, report

    plan = OrderingPlan.draw(seed)
    return report(plan, ordering(plan, folder, say))


_LABS = {"semantics": _semantics, "replication": _replication, "ordering": _ordering}

"""The verbs about Kafka itself: topics, audit and the labs."""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tabulate import tabulate

from offset_ledger.commands import Outcome
from offset_ledger.errors import ConfigurationError

if TYPE_CHECKING:
    from offset_ledger.audit.run import Audit

Verb = Callable[[str, str, Callable[[Namespace], Outcome]], argparse.ArgumentParser]


def add_verbs(verb: Verb) -> None:
    """Add the verbs of this module to the command line."""
    made = verb("audit", "hold a topic against the rules of reliability", audit)
    made.add_argument("pipeline", metavar="PIPELINE", nargs="?", help="a pipeline, whose topic and cursors are audited")
    made.add_argument("--topic", help="a topic, instead of a pipeline")
    made.add_argument("--connection", default="kafka_default", help="Airflow connection id of --topic (kafka_default)")
    made.add_argument("--ledger", help="Airflow connection id of the database that keeps the result of --topic")
    made.add_argument("--elect", action="store_true", help="first bring leaders back to their preferred brokers")
    made.add_argument("--fail-on", choices=["error", "warning"], default="error", help="exit 1 from here on (error)")


def audit(arguments: Namespace) -> Outcome:
    """Hold a topic against every rule."""
    from offset_ledger.audit.finding import Severity

    done = _audit(arguments)
    data = asdict(done) | {"changes": [{**asdict(change), "change": change.word} for change in done.changes]}
    return Outcome(data, _audit_text(done), 1 if done.failing(Severity(arguments.fail_on)) else 0)


def _audit(arguments: Namespace) -> Audit:
    from offset_ledger.audit.run import audit_pipeline, audit_topic
    from offset_ledger.connections import get_connection
    from offset_ledger.pipeline.parse import find_pipeline, parse_pipeline

    if (arguments.pipeline is None) == (arguments.topic is None):
        raise ConfigurationError("audit takes a PIPELINE or --topic TOPIC, one of the two")
    if arguments.pipeline:
        return audit_pipeline(parse_pipeline(find_pipeline(arguments.pipeline)), arguments.elect)
    ledger = get_connection(arguments.ledger) if arguments.ledger else None
    return audit_topic(get_connection(arguments.connection), arguments.topic, ledger, arguments.elect)


def _audit_text(done: Audit) -> str:
    rows: list[tuple[Any, ...]] = [(f.severity, f.rule, f.found) for f in done.findings]
    lines = [tabulate(rows, headers=["severity", "rule", "found"], maxcolwidths=[None, None, 90])]
    for finding in done.findings:
        if finding.remedy:
            lines.append(f"\n{finding.severity} {finding.rule}\n  risk:   {finding.risk}\n  remedy: {finding.remedy}")
    lines += ["", *(f"since the last audit, {change}" for change in done.changes)]
    return "\n".join(lines).rstrip()

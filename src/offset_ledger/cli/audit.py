"""``audit``: a topic checked against the rules of reliability."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING

from offset_ledger.cli.completer import complete_topics
from offset_ledger.cli.verbs import Outcome, Topics, Verbs, add_pipeline, pipeline_of
from offset_ledger.errors import ConfigurationError

if TYPE_CHECKING:
    from offset_ledger.reliability.audit.run import Audit


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    verb = verbs.add(
        "audit",
        "check a topic against the reliability rules",
        run,
        example="offset-ledger audit flights --fail-on warning",
    )
    verb.set_defaults(topics=Topics.EACH)
    add_pipeline(verb, "the pipeline whose topic and cursors are audited: ", nargs="?")
    complete_topics(verb.add_argument("--topic", help="a topic, instead of a pipeline"))
    verb.add_argument("--connection", default="kafka_default", help="Airflow connection id of --topic (kafka_default)")
    verb.add_argument("--ledger", help="Airflow connection id of the database that keeps the result of --topic")
    verb.add_argument("--elect", action="store_true", help="first bring leaders back to their preferred brokers")
    verb.add_argument("--fail-on", choices=["error", "warning"], default="error", help="exit 1 from here on (error)")


def run(arguments: Namespace) -> Outcome:
    """Check a topic against every rule."""
    from offset_ledger.reliability.audit.finding import Severity

    audit = _audit(arguments)
    data = asdict(audit) | {"changes": [{**asdict(change), "change": change.word} for change in audit.changes]}
    return Outcome(data, _text(audit), 1 if audit.failing(Severity(arguments.fail_on)) else 0)


def _audit(arguments: Namespace) -> Audit:
    from offset_ledger.connections import get_connection
    from offset_ledger.reliability.audit.run import audit_pipeline, audit_topic

    if (arguments.pipeline is None) == (arguments.topic is None):
        raise ConfigurationError("audit takes a PIPELINE or --topic TOPIC, one of the two")
    if arguments.pipeline:
        return audit_pipeline(pipeline_of(arguments), arguments.elect)
    ledger = get_connection(arguments.ledger) if arguments.ledger else None
    return audit_topic(get_connection(arguments.connection), arguments.topic, ledger, arguments.elect)


def _text(audit: Audit) -> str:
    from tabulate import tabulate

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
    return "\n".join(lines)

"""``kafka audit``: a topic against the rules."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict

from offset_ledger.errors import ConfigurationError
from offset_ledger.interfaces.cli.completer import complete_topics
from offset_ledger.interfaces.cli.verbs import Option, Outcome, optional_pipeline, pipeline_of, verb
from offset_ledger.outside.connections import get_connection


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

    from offset_ledger.operations.audit.finding import Severity
    from offset_ledger.operations.audit.run import audit_pipeline, audit_topic

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

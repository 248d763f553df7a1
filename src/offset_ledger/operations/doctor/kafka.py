"""A cluster and the topics in it: versions, rights, and what the audit finds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import get_connection
from offset_ledger.errors import AccessDenied, UnknownTopic
from offset_ledger.ids import consumer_group
from offset_ledger.kafka.brokers import OLDEST
from offset_ledger.kafka.client import connect_kafka
from offset_ledger.ledger.pipelines import read_retirement
from offset_ledger.operations.doctor.finding import Finding, Level, ok, problem, warning
from offset_ledger.plan.topics import known_pipelines
from offset_ledger.reliability.audit.finding import AuditFinding, Severity, counted
from offset_ledger.reliability.audit.run import examine

_ON_TOPIC = ("READ", "DESCRIBE", "DESCRIBE_CONFIGS")
_RIGHTS = "grant them as in docs/production.md#rights-in-kafka"
_LEVELS = {Severity.ERROR: Level.PROBLEM, Severity.WARNING: Level.WARNING}


def check_kafka(conn_id: str) -> Iterator[Finding]:
    """Whether the cluster answers, and with a version that is supported."""
    with connect_kafka(get_connection(conn_id)) as kafka:
        yield supported(f"Kafka {conn_id}", kafka.version(), kafka.count_brokers())


def supported(subject: str, version: tuple[int, ...], brokers: int) -> Finding:
    """Whether brokers of this version are supported."""
    text = f"{counted(brokers, 'broker')} that speak the protocol of {'.'.join(map(str, version))}"
    if version[:2] < OLDEST:
        return problem(subject, text, f"upgrade the brokers to {'.'.join(map(str, OLDEST))} or newer")
    return ok(subject, text)


def check_topics(pipeline: Pipeline) -> Iterator[Finding]:
    """Whether the login may read each topic of the pipeline and keep its group, and what the audit finds."""
    for each in known_pipelines(pipeline):
        topic, group = each.source.topic, consumer_group(each.name)
        subject = f"{each.name}: topic {topic}"
        with connect_kafka(get_connection(each.source.connection)) as kafka:
            try:
                allowed = kafka.allowed_operations(topic)
            except UnknownTopic:
                if retired := read_retirement(each):
                    yield ok(subject, str(retired))
                    continue
                raise
            yield _may_read(f"{subject}: rights", allowed)
            try:
                kafka.group_offsets(group, topic)
            except AccessDenied:
                text = f"no right to read group {group}, which mirrors the cursors for lag monitors"
                yield warning(f"{subject}: consumer group", text, _RIGHTS)
        yield from _audited(subject, examine(each).findings)


def _may_read(subject: str, allowed: frozenset[str]) -> Finding:
    missing = [right for right in _ON_TOPIC if right not in allowed]
    if missing:
        return problem(subject, f"missing: {', '.join(missing)}", _RIGHTS)
    return ok(subject, "the login may read the topic and its settings")


def _audited(subject: str, findings: Iterable[AuditFinding]) -> Iterator[Finding]:
    every = list(findings)
    bad = [each for each in every if each.severity in _LEVELS]
    for each in bad:
        remedy = each.remedy or "offset-ledger audit has more about it"
        yield Finding(f"{subject}: {each.rule}", _LEVELS[each.severity], each.found, remedy)
    if not bad:
        yield ok(subject, f"all {len(every)} rules of the audit hold")

"""Checks of a cluster with its topics, and of a database: that they answer, their versions, and the rights."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from offset_ledger.base.ids import consumer_group
from offset_ledger.base.units import counted, show_duration
from offset_ledger.errors import AccessDenied, ConfigurationError, UnknownTopic
from offset_ledger.operations.audit.finding import Severity, listed
from offset_ledger.operations.audit.run import audit_pipeline
from offset_ledger.operations.doctor.finding import Finding, Level, ok, problem, warning
from offset_ledger.outside.connections import get_connection
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.outside.kafka.topics import OLDEST as OLDEST_KAFKA
from offset_ledger.pipeline_file.pipeline import Deletes, Pipeline
from offset_ledger.postgres.connection import postgres_arguments
from offset_ledger.postgres.ledger import database
from offset_ledger.postgres.ledger.database import Session, named_sql, read_only, rows, transaction
from offset_ledger.postgres.ledger.pipelines import read_retirement
from offset_ledger.postgres.ledger.sessions import sent_settings
from offset_ledger.steps.plan.topics import known_pipelines

_ON_TOPIC = ("READ", "DESCRIBE", "DESCRIBE_CONFIGS")
_RIGHTS = "grant them as in docs/production.md#rights-in-kafka"
_LEVELS = {Severity.ERROR: Level.PROBLEM, Severity.WARNING: Level.WARNING}


def check_kafka(conn_id: str) -> Iterator[Finding]:
    """Return whether the cluster answers, and with a version that is supported."""
    with connect_kafka(get_connection(conn_id)) as kafka:
        yield supported(f"Kafka {conn_id}", kafka.version(), kafka.count_brokers())


def supported(subject: str, version: tuple[int, ...], brokers: int) -> Finding:
    """Return whether brokers of this version are supported."""
    text = f"{counted(brokers, 'broker')} that speak the protocol of {'.'.join(map(str, version))}"
    if version[:2] < OLDEST_KAFKA:
        return problem(subject, text, f"upgrade the brokers to {'.'.join(map(str, OLDEST_KAFKA))} or newer")
    return ok(subject, text)


def check_topics(pipeline: Pipeline) -> Iterator[Finding]:
    """Check that the login may read each topic of the pipeline and keep its group, and audit the topic."""
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
            if allowed is None:
                yield warning(f"{subject}: rights", "the brokers do not say what the login may do", _RIGHTS)
            elif missing := [right for right in _ON_TOPIC if right not in allowed]:
                yield problem(f"{subject}: rights", f"missing: {', '.join(missing)}", _RIGHTS)
            else:
                yield ok(f"{subject}: rights", "the login may read the topic and its settings")
            try:
                kafka.group_offsets(group, topic)
            except AccessDenied:
                text = f"no right to read group {group}, which mirrors the cursors for lag monitors"
                yield warning(f"{subject}: consumer group", text, _RIGHTS)
        findings = audit_pipeline(each, write=False).findings
        bad = [finding for finding in findings if finding.severity in _LEVELS]
        for finding in bad:
            remedy = finding.remedy or "offset-ledger kafka audit has more about it"
            yield Finding(f"{subject}: {finding.rule}", _LEVELS[finding.severity], finding.found, remedy)
        if not bad:
            yield ok(subject, f"all {len(findings)} rules of the audit hold")


_SKEW = timedelta(seconds=2)
_LARGE_SKEW = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Server:
    """A Postgres server as the session sees it; ``ahead`` is its clock compared with that of this machine."""

    version: int
    encoding: str
    in_recovery: bool
    pooled: bool
    ahead: timedelta


def check_postgres(conn_id: str, pipelines: Sequence[Pipeline]) -> Iterator[Finding]:
    """Return the findings about the database of a connection, and about what these pipelines need in it."""
    subject = f"Postgres {conn_id}"
    connection = get_connection(conn_id)
    with database.connect(connection) as session:
        yield from judge(subject, _server(session))
        if other := _other_settings(session, sent_settings(postgres_arguments(connection))):
            remedy = "let the pooler in between pass `options` on, or set them by ALTER ROLE"
            yield warning(f"{subject}: settings", other, remedy)
        try:
            database.check_migrated(session)
        except ConfigurationError as error:
            text, _, remedy = str(error).partition("; ")
            yield problem(f"{subject}: ledger", text, remedy)
        else:
            yield ok(f"{subject}: ledger", "every migration is applied")
        for pipeline in pipelines:
            target = pipeline.target
            with transaction(session) as cursor:
                read_only(cursor)
                hard = target.deletes is Deletes.HARD and pipeline.record.deletes
                place = {"schema": target.schema, "table": target.table, "file": pipeline.file}
                cursor.run("doctor/missing_rights", **place, hard=hard, beside=pipeline.bookkeeping is not pipeline)
                missing = [row[0] for row in cursor.fetchall()]
            name = f"{subject}: rights for {target.name}"
            if missing:
                remedy = "grant them as in docs/production.md#rights-in-postgres"
                yield problem(name, f"missing: {listed(missing)}", remedy)
            else:
                yield ok(name, "all that the login needs")


def _server(session: Session) -> Server:
    began, before = datetime.now(UTC), time.monotonic()
    ((encoding, in_recovery, backend, now),) = rows(session, named_sql("doctor/server"))
    half_way = timedelta(seconds=(time.monotonic() - before) / 2)
    return Server(
        session.server_version,
        encoding,
        in_recovery,
        pooled=backend != session.info.backend_pid,
        ahead=now - (began + half_way),
    )


def _other_settings(session: Session, sent: Mapping[str, str]) -> str:
    with transaction(session) as cursor:
        cursor.run("doctor/other_settings", names=[*sent], values=[*sent.values()])
        return "; ".join(f"{row[0]} is {row[1]} and was sent as {row[2]}" for row in cursor)


def judge(subject: str, server: Server) -> Iterator[Finding]:
    """Return the findings about a server."""
    version = f"PostgreSQL {server.version // 10_000}.{server.version % 10_000}"
    if server.version < database.OLDEST * 10_000:
        old = f"{version}, expected {database.OLDEST} or newer"
        yield problem(subject, old, "upgrade the server, or use another one")
    else:
        yield ok(subject, version)
    if server.encoding != "UTF8":
        remedy = "create a database with ENCODING 'UTF8'"
        yield problem(f"{subject}: encoding", f"{server.encoding}, which cannot hold every text", remedy)
    if server.in_recovery:
        yield problem(f"{subject}: role", "a standby, which only reads", "let the connection name the primary")
    if server.pooled:
        yield ok(f"{subject}: pooler", "a pooler such as PgBouncer is in between, and pools sessions")
    name, skew = f"{subject}: clock", abs(server.ahead)
    if skew < _SKEW:
        yield ok(name, f"within {show_duration(_SKEW.total_seconds())} of that of this machine")
        return
    direction = "ahead of" if server.ahead > timedelta(0) else "behind"
    text = f"{show_duration(skew.total_seconds())} {direction} that of this machine"
    yield (problem if skew >= _LARGE_SKEW else warning)(name, text, "let NTP set the clocks of both machines")

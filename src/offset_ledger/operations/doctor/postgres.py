"""A database: whether it answers, is one that the ledger can be in, and lets the login do what it has to."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import get_connection
from offset_ledger.errors import ConfigurationError
from offset_ledger.ledger.database import (
    OLDEST,
    Session,
    check_migrated,
    connect,
    migrations,
    named_sql,
    read_only,
    rows,
    transaction,
)
from offset_ledger.operations.doctor.finding import Finding, ok, problem, warning
from offset_ledger.reliability.audit.finding import listed
from offset_ledger.units import show_duration

_SKEW = timedelta(seconds=2)
_LARGE_SKEW = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Server:
    """A Postgres server as the session sees it; ``ahead`` is its clock compared with that of this machine."""

    version: int
    encoding: str
    in_recovery: bool
    pooled: bool
    one_backend: bool
    ahead: timedelta


def check_postgres(conn_id: str, pipelines: Sequence[Pipeline]) -> Iterator[Finding]:
    """The findings about the database of a connection, and what these pipelines need in it."""
    subject = f"Postgres {conn_id}"
    with connect(get_connection(conn_id)) as session:
        yield from judge(subject, _server(session))
        yield from _ledger(subject, session)
        for pipeline in pipelines:
            yield from _rights(subject, session, pipeline)


def _server(session: Session) -> Server:
    began, before = datetime.now(UTC), time.monotonic()
    ((encoding, in_recovery, backend, now),) = rows(session, named_sql("doctor/server"))
    half_way = timedelta(seconds=(time.monotonic() - before) / 2)
    ((_, _, later, _),) = rows(session, named_sql("doctor/server"))
    return Server(
        session.server_version,
        encoding,
        in_recovery,
        pooled=backend != session.info.backend_pid,
        one_backend=backend == later,
        ahead=now - (began + half_way),
    )


def judge(subject: str, server: Server) -> Iterator[Finding]:
    """What is to be said about a server."""
    version = f"PostgreSQL {server.version // 10_000}.{server.version % 10_000}"
    if server.version < OLDEST * 10_000:
        yield problem(subject, f"{version}, expected {OLDEST} or newer", "upgrade the server, or use another one")
    else:
        yield ok(subject, version)
    if server.encoding != "UTF8":
        remedy = "create a database with ENCODING 'UTF8'"
        yield problem(f"{subject}: encoding", f"{server.encoding}, which cannot hold every text", remedy)
    if server.in_recovery:
        yield problem(f"{subject}: role", "a standby, which only reads", "let the connection name the primary")
    yield from _pooler(subject, server)
    yield _clock(subject, server.ahead)


def _pooler(subject: str, server: Server) -> Iterator[Finding]:
    remedy = "connect to Postgres itself, or set pool_mode = session (docs/production.md#connections)"
    if not server.one_backend:
        yield problem(f"{subject}: pooler", "two transactions of one session had different backends", remedy)
    elif server.pooled:
        yield warning(f"{subject}: pooler", "a pooler such as PgBouncer is in between", remedy)


def _clock(subject: str, ahead: timedelta) -> Finding:
    name, skew = f"{subject}: clock", abs(ahead)
    direction = "ahead of" if ahead > timedelta(0) else "behind"
    text = f"{show_duration(skew.total_seconds())} {direction} that of this machine"
    if skew < _SKEW:
        return ok(name, f"within {show_duration(_SKEW.total_seconds())} of that of this machine")
    remedy = "let NTP set the clocks of both machines"
    return problem(name, text, remedy) if skew >= _LARGE_SKEW else warning(name, text, remedy)


def _ledger(subject: str, session: Session) -> Iterator[Finding]:
    name = f"{subject}: ledger"
    try:
        check_migrated(session)
    except ConfigurationError as error:
        text, _, _ = str(error).partition("; ")
        yield problem(name, text, "as the login that owns the ledger run: offset-ledger migrate")
    else:
        yield ok(name, f"all {len(migrations())} migrations are applied")


def _rights(subject: str, session: Session, pipeline: Pipeline) -> Iterator[Finding]:
    target = pipeline.target
    with transaction(session) as cursor:
        read_only(cursor)
        cursor.execute(named_sql("doctor/missing_rights"), {"schema": target.schema, "table": target.table})
        missing = [row[0] for row in cursor.fetchall()]
    name = f"{subject}: rights for {target.schema}.{target.table}"
    if missing:
        yield problem(name, f"missing: {listed(missing)}", "grant them as in docs/production.md#rights-in-postgres")
    else:
        yield ok(name, "all that the login needs")

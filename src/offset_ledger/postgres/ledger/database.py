"""Sessions with the database of ledger and target tables, the package's named SQL, and numbered migrations."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from functools import cache
from importlib.resources import files
from math import inf
from typing import Any, Self

import psycopg2
from psycopg2 import errors as pg
from psycopg2.extras import DictCursor
from psycopg2.sql import Composable, Composed, Identifier, Literal

from offset_ledger.base.listeners import POSTGRES, TLS, listener_at
from offset_ledger.base.retry import retrying
from offset_ledger.errors import AccessDenied, ConfigurationError, DatabaseUnavailable, OffsetLedgerError, one_line
from offset_ledger.model.batch import Attempt
from offset_ledger.outside.connections import Connection, get_connection
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.sessions import READ_COMMITTED, open_session, session_arguments
from offset_ledger.postgres.ledger.sessions import Session as Session
from offset_ledger.postgres.ledger.sqlstates import explained

SESSION_NAME = "offset-ledger"
ONE_SNAPSHOT = "ISOLATION LEVEL REPEATABLE READ READ ONLY"


class Cursor(DictCursor):
    """A cursor with rows by name and by place; typed, unlike psycopg2's own, and execute returns it as in psycopg 3."""

    def execute(  # type: ignore[override]
        self, query: str | bytes | Composable, arguments: Mapping[str, Any] | Sequence[Any] | None = None
    ) -> Self:
        """Execute the query and return the cursor, so that a call can be chained."""
        if arguments is not None and isinstance(query, Composable):
            query = _with_percents(query)
        super().execute(query, arguments)  # type: ignore[no-untyped-call]
        return self

    def run(self, name: str, /, **arguments: Any) -> Self:
        """Execute the statement of ``sql/<name>.sql`` with these arguments."""
        return self.execute(named_sql(name), arguments)

    def one(self) -> Any:
        """The row of a query that always has one."""
        row = self.fetchone()
        assert row is not None
        return row


def _with_percents(query: Composable) -> Composable:
    """Return the query with each % of a name or a text escaped, as it has arguments."""
    if isinstance(query, Composed):
        return Composed(map(_with_percents, query.seq))
    if isinstance(query, Literal) and isinstance(query.wrapped, str):
        return Literal(query.wrapped.replace("%", "%%"))
    if isinstance(query, Identifier):
        return Identifier(*(name.replace("%", "%%") for name in query.strings))
    return query


def clock(cursor: Cursor) -> datetime:
    """The time by the database's clock."""
    now: datetime = cursor.execute("SELECT clock_timestamp()").one()[0]
    return now


def transaction_id(cursor: Cursor) -> str:
    """The id of the transaction, which gets one by this."""
    return str(cursor.execute("SELECT pg_current_xact_id()::text").one()[0])


def set_local(cursor: Cursor, name: str, value: str) -> None:
    """Set a parameter of the server for the rest of the transaction."""
    cursor.execute("SELECT set_config(%s, %s, true)", [name, value])


def sample_little(cursor: Cursor) -> None:
    """Have ANALYZE read 3,000 rows of a table, not 30,000, for the rest of the transaction: they tell enough here."""
    set_local(cursor, "default_statistics_target", "10")


def read_only(cursor: Cursor) -> None:
    """Forbid writes for the rest of the transaction, before its first query."""
    cursor.execute("SET TRANSACTION READ ONLY")


def rename_session(cursor: Cursor, name: str) -> None:
    """Give the session another application_name."""
    cursor.execute("SELECT set_config('application_name', %s, false)", [name])


@cache
def named_sql(name: str) -> str:
    """The text of ``sql/<name>.sql``; with a package before the name, ``package:name``, of its folder ``sql``."""
    package, _, file = name.rpartition(":")
    return files(package or "offset_ledger.postgres").joinpath("sql", f"{file}.sql").read_text().rstrip()


def application_name(attempt: Attempt, step: str) -> str:
    """The name of a session that works for an attempt; a later claim finds and ends it by this."""
    return f"{SESSION_NAME} b{attempt.batch_id} e{attempt.epoch} {step}"


_REFUSED_LOGIN = re.compile(
    r"FATAL:.*(authentication|no pg_hba\.conf entry|permission denied|is not permitted|role .* does not exist"
    r"|no such user|login rejected)"
    r"|no password supplied"
)

_TLS = re.compile(
    r"root certificate file .* does not exist|certificate verify failed|does not match host name"
    r"|server does not support SSL|SSL required|could not read root certificate file"
    r"|private key file .* (has|must)|certificate file"
)

_MISSING = re.compile(r"FATAL:.*(does not exist|no such database)")  # a missing role is a refused login

_POOLER = re.compile(r"FATAL:.*(unsupported startup parameter|bouncer config error)")


def _is_away(error: BaseException) -> bool:
    """Return whether waiting may help: refused, starting up, shutting down; no wrong password or missing database."""
    known = any(pattern.search(str(error)) for pattern in (_REFUSED_LOGIN, _MISSING, _TLS, _POOLER))
    return isinstance(error, psycopg2.OperationalError) and not known


@contextmanager
def connect(connection: Connection, name: str = SESSION_NAME, timeout: float = inf) -> Iterator[Session]:
    """A session, closed afterwards; while the server is unavailable it retries, for ``timeout`` seconds at most.

    Raises:
        ConfigurationError: the connection has an option that libpq does not know, its database does not exist, or a
            timeout of it ended a statement.
        DatabaseUnavailable: the server does not answer, ends the session on the way, or only reads.
        DatabaseFull: a disk of the server has no room left.
        AccessDenied: the server refuses the login, or the login lacks a right.
        LedgerViolation, TargetMismatch, TransientError: as the SQLSTATE says.
    """
    arguments = session_arguments(connection, name)
    try:
        retries = retrying(_is_away, f"Postgres of connection {connection.conn_id!r}", max_seconds=timeout)
        session = retries(lambda: _open(connection, arguments))
    except psycopg2.OperationalError as error:
        raise _unavailable(connection, error) from error
    except psycopg2.ProgrammingError as error:  # libpq does not know an option
        message = " ".join(str(error).split())
        raise ConfigurationError(
            f"connection {connection.conn_id!r}: {message}; its extra takes libpq's options only, such as sslmode"
        ) from error
    with closing(session), package_errors(connection):
        yield session


def _open(connection: Connection, arguments: Mapping[str, Any]) -> Session:
    """Return a session; if no Postgres answers, find out at once what does, if the connection names one host."""
    try:
        return open_session(arguments)
    except psycopg2.OperationalError as error:
        host, answered = str(arguments.get("host") or ""), "FATAL:" in str(error)
        if answered or "hostaddr" in arguments or not _is_away(error) or not re.fullmatch(r"[^/,\s]+", host):
            raise
        there = listener_at(_server(connection), host, int(arguments.get("port") or 5432))
        if there is None or there in (POSTGRES, TLS):
            raise
        raise ConfigurationError(
            f"{_server(connection)}: Postgres is expected, and {there.name} is there; correct host and port of the "
            "connection"
        ) from error


@contextmanager
def package_errors(connection: Connection) -> Iterator[None]:
    """Raise the package's errors for those of a session with this database, as :func:`connect` does."""
    try:
        yield
    except psycopg2.Error as error:
        login = f" with login {connection.login!r}" if connection.login else ""
        meant = explained(error, f"{_server(connection)}{login}")
        if meant is None and isinstance(error, (psycopg2.OperationalError, psycopg2.InterfaceError)):  # it was lost
            meant = _unavailable(connection, error)
        if meant is None:
            raise  # a mistake of the statement itself
        raise meant from error


def _server(connection: Connection) -> str:
    return f"Postgres of connection {connection.conn_id!r} at {connection.host}:{connection.port or 5432}"


def _unavailable(connection: Connection, error: psycopg2.Error) -> OffsetLedgerError:
    detail, where = one_line(error, 200), _server(connection)
    if _REFUSED_LOGIN.search(str(error)):
        return AccessDenied(f"{where} refuses the login ({detail}); correct login and password of the connection")
    if _TLS.search(str(error)):
        return ConfigurationError(
            f"{where} cannot be reached as its extra says ({detail}); check sslmode, sslrootcert and sslcert, and that "
            "host is a name of the server's certificate"
        )
    if _MISSING.search(str(error)):
        return ConfigurationError(f"{where} cannot be entered ({detail}); create it, or correct the connection")
    if _POOLER.search(str(error)):
        return ConfigurationError(
            f"{where} is a pooler that lets no session begin ({detail}); correct its configuration, or connect to "
            "Postgres directly (docs/production.md#connections)"
        )
    advice = "check that it runs and that the connection is right"
    return DatabaseUnavailable(f"{where} is not available ({detail}); {advice}")


@contextmanager
def transaction(session: Session, mode: str = READ_COMMITTED) -> Iterator[Cursor]:
    """Open a transaction: committed when the block ends, rolled back when it raises."""
    with session.cursor(cursor_factory=Cursor) as cursor:
        try:
            session.begin(mode)
            yield cursor
        except BaseException:
            with suppress(psycopg2.Error):  # the session may be lost
                session.end("ROLLBACK")
            raise
        session.end("COMMIT")


@contextmanager
def fetched_by_parts(session: Session, name: str) -> Iterator[Cursor]:
    """A cursor in a transaction of its own; its rows stay in the server until they are asked for."""
    # psycopg2 has one in a transaction that it did not begin only if it may outlive that. It is closed before the end.
    with transaction(session), session.cursor(name=name, cursor_factory=Cursor, withhold=True) as cursor:
        yield cursor


@contextmanager
def savepoint(cursor: Cursor) -> Iterator[None]:
    """A part of a transaction, which alone is rolled back when Postgres raises in it."""
    cursor.execute("SAVEPOINT part")
    try:
        yield
    except psycopg2.Error:
        with suppress(psycopg2.Error):  # the session may be lost
            cursor.execute("ROLLBACK TO SAVEPOINT part")
        raise
    cursor.execute("RELEASE SAVEPOINT part")


def timeout_setting(session: Session, name: str) -> float:
    """Seconds that a timeout of the session is set to; 0 where it is off."""
    ((seconds,),) = rows(session, "SELECT extract(epoch FROM current_setting(%s)::interval)", [name])
    return float(seconds)


def rows(session: Session, query: str | Composable, arguments: Mapping[str, Any] | Sequence[Any] = ()) -> list[Any]:
    """Return all rows of one query in a transaction of its own."""
    with transaction(session) as cursor:
        return cursor.execute(query, arguments).fetchall()


_APPLIED = "SELECT number, name FROM offset_ledger.migration"

_LOCK = 0x0FF5E7  # one migration at a time in a database

OLDEST = 15  # the first with UNIQUE NULLS NOT DISTINCT


@cache
def migrations() -> dict[int, tuple[str, str]]:
    """Return (name, SQL) of every migration the package carries by number, in order."""
    folder = files("offset_ledger.postgres").joinpath("sql", "migrations")
    named = sorted((f.name.removesuffix(".sql"), f) for f in folder.iterdir() if f.name.endswith(".sql"))
    return {int(name.split("_")[0]): (name, f.read_text()) for name, f in named}


def migrate(session: Session) -> list[str]:
    """Apply the missing migrations, all in one transaction, and return their names.

    Raises:
        ConfigurationError: Postgres is too old or not in UTF-8, or the ledger has migrations of another version of this
            package.
    """
    check_server(session.server_version)
    known = migrations()
    with transaction(session) as cursor:
        if (encoding := cursor.execute("SHOW server_encoding").one()[0]) != "UTF8":
            raise ConfigurationError(
                f"the database has the encoding {encoding}, which cannot hold every text of a record; create one with "
                "ENCODING 'UTF8'"
            )
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        cursor.execute(named_sql("migrate/bootstrap"))
        missing = _missing({row["number"]: row["name"] for row in cursor.execute(_APPLIED)})
        for number in missing:
            name, text = known[number]
            cursor.execute(text)
            cursor.execute("INSERT INTO offset_ledger.migration (number, name) VALUES (%s, %s)", [number, name])
    return [known[number][0] for number in missing]


def check_server(version: int) -> None:
    """Raise ConfigurationError if the server is too old; ``version`` as libpq has it, 180004 for 18.4."""
    if version < OLDEST * 10_000:
        raise ConfigurationError(
            f"PostgreSQL {OLDEST} or newer is needed, found {version // 10_000}.{version % 10_000}; "
            "upgrade the server, or use another one"
        )


def check_migrated(session: Session) -> None:
    """Check that every migration is applied, and none of another version, by one query.

    Raises:
        ConfigurationError: the ledger is missing or of another version, or the server is too old for it.
    """
    try:
        applied = dict(rows(session, _APPLIED))
    except pg.UndefinedTable:
        applied = {}
    check_applied(applied, session.server_version)


def check_applied(applied: Mapping[int, str], server: int) -> None:
    """Raise ConfigurationError unless these migrations, by their numbers, are all, on a server of this version."""
    if missing := _missing(applied):
        check_server(server)  # on an old server the advice below would fail
        if not applied:
            raise ConfigurationError("the database has no ledger yet; run: offset-ledger migrate")
        raise ConfigurationError(f"the ledger lacks migrations {missing}; run: offset-ledger migrate")


def _missing(applied: Mapping[int, str]) -> list[int]:
    known = {number: name for number, (name, _) in migrations().items()}
    if other := [name for number, name in sorted(applied.items()) if known.get(number) != name]:
        more = f" and {len(other) - 1} more" if other[1:] else ""
        raise ConfigurationError(
            f"the ledger has migrations that this version does not know ({other[0]}{more}; its newest is "
            f"{known[max(known)]}); upgrade offset-ledger; a ledger from before the first release cannot be upgraded: "
            "migrate an empty database"
        )
    return sorted(set(known) - set(applied))


@contextmanager
def open_ledger(pipeline: Pipeline, session: Session | None = None) -> Iterator[Session]:
    """Open a session with the database of the pipeline's target, which holds its ledger; closed afterwards.

    With ``session`` it is that one, which stays open; one that was lost meanwhile is replaced. In both the search_path
    finds the operators of the types that the key has.

    Raises:
        ConfigurationError: the ledger lacks a migration.
        OffsetLedgerError: as :func:`connect`.
    """
    connection = get_connection(pipeline.target.connection)
    if session is None or session.closed:
        with open_ledger_at(connection) as opened:
            _find_operators(opened, pipeline)
            yield opened
    else:
        with package_errors(connection):
            _find_operators(session, pipeline)
            yield session


def _find_operators(session: Session, pipeline: Pipeline) -> None:
    if types := [column.type.sql for column in pipeline.record.key if column.type.judged]:
        with transaction(session) as cursor:
            cursor.run("table/find_operators", types=types)


@contextmanager
def open_ledger_at(connection: Connection, name: str = SESSION_NAME, timeout: float = inf) -> Iterator[Session]:
    """Open the ledger of a connection; while the server is unavailable it retries, for ``timeout`` seconds at most."""
    with connect(connection, name, timeout=timeout) as session:
        check_migrated(session)
        yield session

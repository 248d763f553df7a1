"""Sessions that settings of a database, role or environment do not change, and a check for transaction pooling."""

import re
import select
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from itertools import pairwise
from typing import Any
from uuid import uuid4

import psycopg2
from psycopg2 import DataError
from psycopg2 import errors as pg
from psycopg2.extensions import (
    POLL_OK,
    POLL_READ,
    PYDATE,
    PYDATETIMETZ,
    PYTIME,
    connection,
    new_array_type,
    new_type,
    register_type,
)

from offset_ledger.errors import ConfigurationError
from offset_ledger.outside.connections import Connection
from offset_ledger.postgres.connection import KEEPALIVE, postgres_arguments, takes_token, with_token

Arguments = Mapping[str, Any]

# Settings that change the values read or written, or what a statement sees. The session sets them: PGTZ and
# PGDATESTYLE of the environment win over `options`, and a pooler may not pass those on.
_PINNED = {
    "TimeZone": "UTC",  # else the first and last moments of Python have no local time
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "array_nulls": "on",
    "extra_float_digits": "1",
    "quote_all_identifiers": "off",
    "default_transaction_isolation": "read committed",
}

# A process that was paused inside a transaction, or whose machine is gone, keeps its locks until the server ends it.
# A session that waits for Spark is idle for as long as Spark reads. A session ended inside a statement looks like
# a server that is unavailable.
_TIMEOUTS = {
    "idle_in_transaction_session_timeout": "120s",
    "idle_session_timeout": "0",
    "transaction_timeout": "0",
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "6",
    "tcp_user_timeout": "120s",
}

# psycopg2 keeps how texts are quoted then, and encodes texts of COPY by it. A role's timeouts may be too short for the
# statement that sets others.
_FROM_THE_START = " ".join(
    f"-c {name}={value}"
    for name, value in {"standard_conforming_strings": "on", **_TIMEOUTS}.items()
    if name != "transaction_timeout"  # older servers lack it
)

# Else a statement of a killed process goes on, with its locks. No server on Windows can look after its client.
_INTERVAL = "client_connection_check_interval"
_UNCHECKED = f"current_setting('{_INTERVAL}') = '0' AND version() !~* 'msvc|visual c|mingw'"
_CHECKED = f"CASE WHEN {_UNCHECKED} THEN set_config('{_INTERVAL}', '2s', false) END"

# With `replica`, triggers and foreign keys of the ledger are off; not every login may set it.
_ROLE = "current_setting('session_replication_role')"

# A backend with this mark still has the session's settings. Behind a pooler that gives the backend to others between
# two transactions the mark is gone, or another session's.
_MARK = "offset_ledger.session"
_MARKED = f"current_setting('{_MARK}', true)"

READ_COMMITTED = "ISOLATION LEVEL READ COMMITTED"
_SETTINGS = "; ".join(f"SET LOCAL {name} TO '{value}'" for name, value in _PINNED.items())

_ROUNDS, _ROUND_SECONDS = 5, 2.0
_OPTIONS_REFUSED = "unsupported startup parameter"
_Place = tuple[str, ...]
_without_options = set[_Place]()  # poolers that refuse startup options
_unshared = set[_Place]()  # poolers that leave a session its backend


class Session(connection):
    """A session that begins transactions by itself: psycopg2 would send a plain BEGIN."""

    mark = ""
    _autocommit = False

    def begin(self, mode: str = READ_COMMITTED) -> None:
        """Begin a transaction with all that it needs: settings of the session are trusted in no later one.

        Raises:
            ConfigurationError: a pooler has given the backend of the session to another one; or triggers and foreign
                keys are off, and the login may not change that.
        """
        self._autocommit, self.autocommit = self.autocommit, True
        mark, role = self.ask(f"BEGIN {mode}; {_SETTINGS}; SELECT {_MARKED}, {_ROLE}") or ("", "")
        if mark != self.mark:
            raise _shared(self)
        if role != "origin":
            _set_origin(self, "SET LOCAL", role)

    def end(self, how: str) -> None:
        """End the transaction: COMMIT or ROLLBACK."""
        try:
            self.ask(how)
        finally:
            if not self.closed:
                self.autocommit = self._autocommit

    def ask(self, statement: str, arguments: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """The first row of a statement, if there is one."""
        with self.cursor() as own:
            own.execute(statement, arguments or None)
            return own.fetchone() if own.description else None


def _or_text(read: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Read a value that Python's type has; return the text of any other: infinity, 24:00:00, years before 1."""

    def cast(value: Any, cursor: Any) -> Any:
        if value is not None and (value.endswith("infinity") or value == "24:00:00"):
            return value
        try:
            return read(value, cursor)
        except (ValueError, OverflowError, DataError):
            return value

    return cast


_CALENDAR = [
    (new_type((oid,), name, _or_text(read)), array)
    for oid, array, name, read in (
        (1082, 1182, "DATE", PYDATE),
        (1083, 1183, "TIME", PYTIME),
        (1184, 1185, "TIMESTAMPTZ", PYDATETIMETZ),
    )
]
_READ = [each for type_, array in _CALENDAR for each in (type_, new_array_type((array,), f"{type_.name}[]", type_))]


def session_arguments(connection: Connection, name: str) -> dict[str, Any]:
    """Return the arguments of ``open_session``; the connection's extra may set other timeouts by ``options``.

    A token in it is good for the next minutes: ask again for a later session.
    """
    if takes_token(connection):
        connection = with_token(connection)
    return {"connect_timeout": 10, "application_name": name, **KEEPALIVE, **postgres_arguments(connection)}


def open_session(arguments: Arguments) -> Session:
    """A session as every part of the package needs it; ``arguments`` are those of ``psycopg2.connect``.

    Raises:
        psycopg2.Error: as ``psycopg2.connect``.
        ConfigurationError: a pooler gives the backend of a session to others between two transactions, or takes none of
            the settings that it needs; or triggers and foreign keys are off, and the login may not change that.
    """
    session, settings = _login(arguments)
    for type_ in _READ:
        register_type(type_, session)
    try:
        place = _place(arguments)
        # Behind a pooler nothing is set before: others would get the backend with it.
        if not _set_up(session, settings, anywhere=place in _unshared):
            _prove_unshared(session, arguments)
            _unshared.add(place)
            _set_up(session, settings, anywhere=True)
        session.autocommit = False
    except BaseException:
        session.close()
        raise
    return session


def sent_settings(arguments: Arguments) -> dict[str, str]:
    """The settings that a session with these arguments is to have: ours, and those of the connection's ``options``.

    The server reads there ``-c name=value`` and ``--name=value``, with a backslash before a space of the value.
    """
    text = str(arguments.get("options") or "")
    words = [re.sub(r"\\(.)", r"\1", word) for word in re.findall(r"(?:\\.|\S)+", text)]
    pairs = [word for before, word in pairwise(["", *words]) if before == "-c"]
    pairs += [word[2:] for word in words if word[:2] in ("-c", "--") and "=" in word]
    given = {name.lower().replace("-", "_"): value for name, _, value in (pair.partition("=") for pair in pairs)}
    pinned = {name.lower() for name in _PINNED}
    return {**_TIMEOUTS, **{name: value for name, value in given.items() if name not in pinned}, **_PINNED}


def _login(arguments: Arguments) -> tuple[Session, dict[str, str]]:
    """Return a session, and the settings that it still lacks."""
    settings, place = sent_settings(arguments), _place(arguments)
    given = {"connection_factory": Session, **arguments, "client_encoding": "UTF8"}
    options = "" if place in _without_options else f"{_FROM_THE_START} {arguments.get('options') or ''}"
    try:
        session: Session = psycopg2.connect(**{**given, "options": options})
    except psycopg2.OperationalError as error:
        if _OPTIONS_REFUSED not in str(error) or not options:
            raise
        _without_options.add(place)
        return _login(arguments)
    session.autocommit, session.mark = True, uuid4().hex
    if session.get_parameter_status("standard_conforming_strings") != "on":
        database = session.info.dbname
        session.close()
        raise ConfigurationError(
            f"standard_conforming_strings is off in sessions with database {database}, and a pooler in between "
            f"takes no options that switch it on; run: ALTER DATABASE {database} SET standard_conforming_strings TO on"
        )
    if options:
        settings = {name: value for name, value in settings.items() if name in {**_TIMEOUTS, **_PINNED}}
    if session.server_version < 170_000:
        settings.pop("transaction_timeout")
    return session, settings


def _place(arguments: Arguments) -> _Place:
    return tuple(str(arguments.get(name)) for name in ("host", "port", "dbname", "user", "service", "dsn"))


def _set_up(session: Session, settings: Mapping[str, str], anywhere: bool) -> bool:
    """Set what a session needs; False, and nothing is set, if it has not the backend that the login named.

    A pooler answers a login with a number of its own.
    """
    wanted = {**settings, _MARK: session.mark}
    each = ", ".join(["set_config(%s, %s, false)"] * len(wanted))
    values = [word for pair in wanted.items() for word in pair]
    statement = f"SELECT {_ROLE}, {_CHECKED}, {each} WHERE %s OR pg_backend_pid() = %s"
    row = session.ask(statement, [*values, anywhere, session.info.backend_pid])
    if row and row[0] != "origin":
        _set_origin(session, "SET", row[0])
    return row is not None


def _set_origin(session: Session, how: str, role: str) -> None:
    try:
        session.ask(f"{how} session_replication_role TO origin")
    except pg.InsufficientPrivilege:
        database = session.info.dbname
        raise ConfigurationError(
            f"session_replication_role is {role} in sessions with database {database}, which switches the triggers and "
            "foreign keys of the ledger off, and the login may not set it; nothing was done; as a superuser run: ALTER "
            f"DATABASE {database} RESET session_replication_role, or the same with ALTER ROLE"
        ) from None


def _prove_unshared(session: Session, arguments: Arguments) -> None:
    """Raise ConfigurationError if a pooler gives the backend of this session to another one while it is idle.

    Where another session gets no backend in time, nothing is proven: all of them may be in use.
    """
    session.ask(f"SELECT set_config('{_MARK}', %s, false)", [session.mark])
    given = {**arguments, "async_": True, **({"options": ""} if _place(arguments) in _without_options else {})}
    with suppress(psycopg2.OperationalError, TimeoutError):
        for _ in range(_ROUNDS):
            with closing(psycopg2.connect(**given)) as other:
                until = time.monotonic() + _ROUND_SECONDS
                _wait_for(other, until)
                with other.cursor() as own:
                    own.execute(f"SELECT set_config('{_MARK}', 'of another', false)")
                    _wait_for(other, until)
                for _ in range(2):  # where two backends take turns, the second one has the mark of the other session
                    if session.ask(f"SELECT {_MARKED}") != (session.mark,):
                        raise _shared(session)


def _wait_for(session: connection, until: float) -> None:
    while (state := session.poll()) != POLL_OK:
        waits = ([session], []) if state == POLL_READ else ([], [session])
        if not any(select.select(*waits, [], max(0.0, until - time.monotonic()))):
            raise TimeoutError


def _shared(session: Session) -> ConfigurationError:
    return ConfigurationError(
        f"the pooler at {session.info.host}:{session.info.port} pools transactions or statements, not sessions: "
        "between two of them others get the backend, with what this session has set, created and locked in it; nothing "
        f"was done; set pool_mode = session there for database {session.info.dbname}, or connect to Postgres directly "
        "(docs/production.md#connections)"
    )

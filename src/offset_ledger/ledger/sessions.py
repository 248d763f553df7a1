"""Opening every session alike, so that settings of a database, a role or the environment change nothing."""

from collections.abc import Callable, Mapping
from typing import Any

import psycopg2
from psycopg2 import DataError
from psycopg2 import errors as pg
from psycopg2.extensions import PYDATE, PYDATETIMETZ, PYTIME, connection, new_array_type, new_type, register_type

from offset_ledger.connections import Connection
from offset_ledger.errors import ConfigurationError
from offset_ledger.postgres_connection import KEEPALIVE, postgres_arguments, takes_token, with_token

Arguments = Mapping[str, Any]

# A process that was paused inside a transaction, or whose machine is gone, keeps its locks until the server ends it.
# A session that waits for Spark is idle for as long as Spark reads.
_OPTIONS = " ".join(
    f"-c {name}={value}"
    for name, value in {
        "idle_in_transaction_session_timeout": "120s",
        "idle_session_timeout": 0,
        "tcp_keepalives_idle": 30,
        "tcp_keepalives_interval": 10,
        "tcp_keepalives_count": 6,
        "tcp_user_timeout": "120s",
    }.items()
)

# What changes the values that are read or written, or what a statement sees. Set by the session itself: PGTZ and
# PGDATESTYLE of the environment win over `options`, and a pooler may not pass those on.
_PINNED = "; ".join(
    f"SET {name} TO '{value}'"
    for name, value in {
        "TimeZone": "UTC",  # else the first and last moments of Python have no local time
        "DateStyle": "ISO, MDY",
        "IntervalStyle": "postgres",
        "bytea_output": "hex",
        "extra_float_digits": "1",
        "quote_all_identifiers": "off",
        "default_transaction_isolation": "read committed",
    }.items()
)

# Else a statement of a killed process goes on, with its locks. No server on Windows can look after its client.
_INTERVAL = "client_connection_check_interval"
_UNCHECKED = f"current_setting('{_INTERVAL}') = '0' AND version() !~* 'msvc|visual c|mingw'"
_CHECKED = f"SELECT set_config('{_INTERVAL}', '2s', false) WHERE {_UNCHECKED}"

# Where this is `replica`, triggers and foreign keys of the ledger are off; not every login may set it.
_ROLE = "SELECT current_setting('session_replication_role')"

# What ends the session inside a statement cannot be told from a server that went away. Older servers lack it. All of
# pg_settings costs a millisecond, and is read only where there is something to switch off.
_SET = "coalesce(current_setting('transaction_timeout', true), '0') <> '0'"
_ELSEWHERE = f"name = 'transaction_timeout' AND source <> 'client' AND {_SET}"
_UNLIMITED = f"SELECT set_config(name, '0', false) FROM pg_settings WHERE {_ELSEWHERE}"  # noqa: S608 - two constants


def _or_text(read: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Read a value that Python's type has, and give the text of any other: infinity, 24:00:00, years before 1."""

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
    given = {"connect_timeout": 10, "application_name": name, **KEEPALIVE, **postgres_arguments(connection)}
    return {**given, "options": f"{_OPTIONS} {given.get('options', '')}".strip()}  # of two the later one counts


def open_session(arguments: Arguments) -> connection:
    """A session as every part of the package needs it; ``arguments`` are those of ``psycopg2.connect``.

    Raises:
        psycopg2.Error: as ``psycopg2.connect``.
        ConfigurationError: triggers and foreign keys are off in the session, and it may not change that.
    """
    # From the start, for psycopg2 keeps how texts are quoted then, and encodes texts of COPY by it.
    options = f"{arguments.get('options', '')} -c standard_conforming_strings=on".strip()
    given = {**arguments, "client_encoding": "UTF8", "options": options}
    session: connection = psycopg2.connect(**given)
    for type_ in _READ:
        register_type(type_, session)
    try:
        session.autocommit = True
        with session.cursor() as cursor:
            cursor.execute(f"{_PINNED}; {_UNLIMITED}; {_CHECKED}; {_ROLE}")
            (role,) = cursor.fetchone() or ("",)
            if role != "origin":
                try:
                    cursor.execute("SET session_replication_role TO origin")
                except pg.InsufficientPrivilege:
                    database = session.info.dbname
                    raise ConfigurationError(
                        f"session_replication_role is {role} in sessions with database {database}, which switches the "
                        "triggers and foreign keys of the ledger off, and the login may not set it; nothing was done; "
                        f"as a superuser run: ALTER DATABASE {database} RESET session_replication_role, or the same "
                        "with ALTER ROLE"
                    ) from None
        session.autocommit = False
    except (psycopg2.Error, ConfigurationError):
        session.close()
        raise
    return session

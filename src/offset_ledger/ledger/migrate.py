"""Numbered plain-SQL migrations of the ledger's schema."""

from __future__ import annotations

from collections.abc import Set
from functools import cache
from importlib.resources import files

from psycopg2 import errors as pg

from offset_ledger.errors import ConfigurationError
from offset_ledger.ledger.database import Session, named_sql, rows, transaction

_LOCK = 0x0FF5E7  # one migration at a time in a database

OLDEST = 15  # the first with UNIQUE NULLS NOT DISTINCT


@cache
def migrations() -> dict[int, tuple[str, str]]:
    """number -> (name, SQL) of every migration the package carries, in order."""
    folder = files("offset_ledger.ledger").joinpath("sql", "migrations")
    named = sorted((f.name.removesuffix(".sql"), f) for f in folder.iterdir() if f.name.endswith(".sql"))
    return {int(name.split("_")[0]): (name, f.read_text()) for name, f in named}


def migrate(session: Session) -> list[str]:
    """Apply what is missing, all in one transaction, and return the names applied.

    Raises:
        ConfigurationError: Postgres is too old or not in UTF-8, or the database was migrated by a newer version of this
            package.
    """
    check_server(session.server_version)
    known = migrations()
    with transaction(session) as cursor:
        cursor.execute("SHOW server_encoding")
        if (encoding := cursor.one()[0]) != "UTF8":
            raise ConfigurationError(
                f"the database has the encoding {encoding}, which cannot hold every text of a record; create one with "
                "ENCODING 'UTF8'"
            )
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        cursor.execute(named_sql("migrate/bootstrap"))
        cursor.execute("SELECT number FROM offset_ledger.migration")
        missing = _missing({row["number"] for row in cursor.fetchall()})
        for number in missing:
            name, text = known[number]
            cursor.execute(text)
            cursor.execute("INSERT INTO offset_ledger.migration (number, name) VALUES (%s, %s)", [number, name])
    return [known[number][0] for number in missing]


def check_server(version: int) -> None:
    """Check that the server is new enough; ``version`` as libpq has it, 180004 for 18.4.

    Raises:
        ConfigurationError: it is not.
    """
    if version < OLDEST * 10_000:
        raise ConfigurationError(
            f"PostgreSQL {OLDEST} or newer is needed, found {version // 10_000}.{version % 10_000}; "
            "upgrade the server, or use another one"
        )


def check_migrated(session: Session) -> None:
    """Check that every migration is applied, and none of a newer version, by one query.

    Raises:
        ConfigurationError: the ledger is missing, or older or newer than this version, or the server is too old for it.
    """
    try:
        applied = {row["number"] for row in rows(session, "SELECT number FROM offset_ledger.migration")}
    except pg.UndefinedTable:
        applied = set()
    check_applied(applied, session.server_version)


def check_applied(applied: Set[int], server: int) -> None:
    """Check that these migrations are all, on a server of this version.

    Raises:
        ConfigurationError: as :func:`check_migrated`.
    """
    if missing := _missing(applied):
        check_server(server)  # on an old server the advice below would fail
        raise ConfigurationError(f"the ledger lacks migrations {missing}; run: offset-ledger migrate")


def _missing(applied: Set[int]) -> list[int]:
    known = set(migrations())
    if newer := sorted(applied - known):
        raise ConfigurationError(
            f"the ledger has migrations {newer}, this version knows {max(known)}; upgrade offset-ledger"
        )
    return sorted(known - applied)

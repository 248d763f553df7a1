"""Reading ledgers for those who show them: short read-only transactions, each on one snapshot of the ledger."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from psycopg2 import errors as pg

from offset_ledger.connections import get_connection
from offset_ledger.errors import DatabaseUnavailable
from offset_ledger.ledger.database import Cursor, open_ledger_at, set_local, transaction
from offset_ledger.ledger.pipelines import retirements
from offset_ledger.standing.pipeline import COUNTED, Ledger, LedgerPartition, LedgerRow

_CONNECT_SECONDS = "3"
_STATEMENT_MILLISECONDS = 10_000


@contextmanager
def reading(conn_id: str, name: str = "offset-ledger page") -> Iterator[Cursor]:
    """A read-only cursor on one snapshot; it does not wait for a database that is unavailable.

    ``name`` is the application_name of its session.

    Raises:
        DatabaseUnavailable: the database did not answer at once.
        ConfigurationError: the connection is not defined, or the ledger is not migrated.
    """
    defined = get_connection(conn_id)
    connection = replace(defined, extra={"connect_timeout": _CONNECT_SECONDS, **defined.extra})
    with open_ledger_at(connection, name, timeout=0) as session:
        session.set_session(isolation_level="REPEATABLE READ", readonly=True)
        with transaction(session) as cursor:
            set_local(cursor, "statement_timeout", str(_STATEMENT_MILLISECONDS))
            try:
                yield cursor
            except pg.QueryCanceled as error:  # our own timeout, so there is no setting to correct
                seconds = _STATEMENT_MILLISECONDS // 1000
                raise DatabaseUnavailable(f"the ledger did not answer within {seconds} s; try again") from error


def read_ledger(cursor: Cursor, names: Sequence[str] | None = None) -> Ledger:
    """Return what the ledger knows of these pipelines, or of all that it has."""
    arguments = {"pipelines": None if names is None else list(names), "limit": COUNTED}
    pipelines = {row["pipeline"]: row for row in read_rows(cursor, "standing/pipelines", **arguments)}
    partitions: dict[str, list[LedgerPartition]] = {}
    for row in read_rows(cursor, "standing/partitions", **arguments):
        values = {name: value for name, value in row.items() if name != "pipeline"}
        partitions.setdefault(row["pipeline"], []).append(LedgerPartition(**values))
    retired = retirements(cursor, list(pipelines))
    return Ledger(pipelines, partitions, {name: str(each) for name, each in retired.items()})


def read_rows(cursor: Cursor, query: str, **arguments: object) -> list[LedgerRow]:
    """Return the rows of a query of ``ledger/sql/``."""
    return [dict(row) for row in cursor.run(query, **arguments)]

"""The session that most work begins with: one with the ledger of a pipeline, checked to have every migration."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import Connection, get_connection
from offset_ledger.ledger.database import SESSION_NAME, Session, connect, package_errors
from offset_ledger.ledger.migrate import check_migrated


@contextmanager
def open_ledger(pipeline: Pipeline, session: Session | None = None) -> Iterator[Session]:
    """A session with the database of the pipeline's target, which holds its ledger; closed afterwards.

    With ``session`` it is that one, which stays open; one that was lost meanwhile is replaced.

    Raises:
        ConfigurationError: the ledger lacks a migration.
        OffsetLedgerError: as :func:`offset_ledger.ledger.database.connect`.
    """
    connection = get_connection(pipeline.target.connection)
    if session is None or session.closed:
        with open_ledger_at(connection) as opened:
            yield opened
    else:
        with package_errors(connection):
            yield session


@contextmanager
def open_ledger_at(connection: Connection, name: str = SESSION_NAME, timeout: float = inf) -> Iterator[Session]:
    """The same by connection; while the server is away it retries, for ``timeout`` seconds at most."""
    with connect(connection, name, timeout=timeout) as session:
        check_migrated(session)
        yield session

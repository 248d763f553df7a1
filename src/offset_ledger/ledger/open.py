"""The session that most work begins with: one with the ledger of a pipeline, checked to have every migration."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import Connection, get_connection
from offset_ledger.ledger.database import SESSION_NAME, Session, connect
from offset_ledger.ledger.migrate import check_migrated


@contextmanager
def open_ledger(pipeline: Pipeline, name: str = SESSION_NAME) -> Iterator[Session]:
    """A session with the database of the pipeline's target, which holds its ledger; closed afterwards.

    ``name`` is its application_name.

    Raises:
        ConfigurationError: the ledger lacks a migration.
        OffsetLedgerError: as :func:`offset_ledger.ledger.database.connect`.
    """
    with open_ledger_at(get_connection(pipeline.target.connection), name) as session:
        yield session


@contextmanager
def open_ledger_at(connection: Connection, name: str = SESSION_NAME, most: float = inf) -> Iterator[Session]:
    """The same for a ledger that is known by its connection; a server that is away is waited for ``most`` seconds."""
    with connect(connection, name, most=most) as session:
        check_migrated(session)
        yield session

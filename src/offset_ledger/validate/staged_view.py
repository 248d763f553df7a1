"""The staged rows as Great Expectations sees them: a temporary view, in a read-only session of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psycopg2
import psycopg2.extensions
from psycopg2 import sql

from offset_ledger.errors import DatabaseUnavailable, one_line
from offset_ledger.ledger.database import named_sql
from offset_ledger.ledger.sessions import Arguments, open_session
from offset_ledger.validate import expectations as gx

if TYPE_CHECKING:
    from great_expectations.datasource.fluent.interfaces import Batch
    from great_expectations.datasource.fluent.postgres_datasource import PostgresDatasource

Session = psycopg2.extensions.connection

VIEW = "staged"


def live_rows(session: Session, schema: str, table: str) -> str:
    """The query of the rows to validate: all but the delete markers, whose columns are NULL."""
    return sql.SQL(named_sql("validate/live_rows")).format(staging=sql.Identifier(schema, table)).as_string(session)


@contextmanager
def open_batch(arguments: Arguments, live: str) -> Iterator[tuple[PostgresDatasource, Batch]]:
    """A Great Expectations datasource whose batch is the rows that the query ``live`` selects.

    Raises:
        DatabaseUnavailable: the rows could not be read.
    """
    from great_expectations.datasource.fluent.interfaces import TestConnectionError
    from sqlalchemy.exc import InterfaceError, OperationalError

    sessions: list[Session] = []

    def connect() -> Session:
        sessions.append(_open(arguments, live))
        return sessions[-1]

    try:
        # The creator connects: no password, and no `$` that would be substituted, passes through a configuration.
        source = _ephemeral_context().data_sources.add_postgres(
            "staging",
            connection_string="postgresql+psycopg2://ledger@localhost/ledger",
            create_temp_table=False,
            kwargs={"creator": connect},
        )
        asset = source.add_table_asset(VIEW, table_name=VIEW)
        yield source, asset.add_batch_definition_whole_table(VIEW).get_batch()
    except (TestConnectionError, OperationalError, InterfaceError) as error:
        raise DatabaseUnavailable(f"Great Expectations could not read the staged rows ({one_line(error)})") from error
    finally:
        for session in sessions:
            _close(session)


def _ephemeral_context() -> Any:
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(),
        progress_bars=ProgressBarsConfig(globally=False),
        analytics_enabled=False,
    )
    return gx.load().get_context(mode="ephemeral", project_config=config)


def _open(arguments: Arguments, live: str) -> Session:
    """A read-only session with the live rows as the view that Great Expectations validates.

    A temporary view, and no query asset: for a query asset the failing-row queries of Great Expectations 1.24 are not
    SQL, its column type checks raise, and it takes three times as long.
    """
    session = open_session(arguments)
    with session, session.cursor() as cursor:
        cursor.execute(named_sql("validate/create_view").format(view=VIEW, rows=live))
        cursor.execute(named_sql("validate/find_view_first"))
        cursor.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
    return session


def _close(session: Session) -> None:
    """Drop the view, then close the session.

    The server ends a closed session in its own time, and until then the view would keep the staging table from being
    dropped. A session that was lost has no view any more.
    """
    with closing(session), suppress(psycopg2.OperationalError, psycopg2.InterfaceError):
        session.rollback()
        with session, session.cursor() as cursor:
            cursor.execute("SET TRANSACTION READ WRITE")
            cursor.execute(named_sql("validate/drop_view").format(view=VIEW))

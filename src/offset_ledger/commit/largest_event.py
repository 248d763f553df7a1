"""The record that was too large: found in staging, after the merge has failed."""

from __future__ import annotations

from contextlib import suppress

import psycopg2
from psycopg2 import sql

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import get_connection
from offset_ledger.errors import OffsetLedgerError
from offset_ledger.ledger.database import Cursor, connect, named_sql, transaction
from offset_ledger.ledger.staging import StagingTables

_TOO_LARGE = "54"
_SECONDS = 5


def largest(pipeline: Pipeline, tables: StagingTables, error: psycopg2.Error) -> str:
    """The event with the most bytes in the columns of the index that refused one; empty where none can be named.

    In a session of its own: the transaction of the merge has failed.
    """
    if (error.pgcode or "")[:2] != _TOO_LARGE:
        return ""
    index = (error.diag.schema_name, error.diag.constraint_name)
    with suppress(OffsetLedgerError, psycopg2.Error):
        database = get_connection(pipeline.target.connection)
        with connect(database, most=_SECONDS) as session, transaction(session) as cursor:
            return _largest(cursor, tables, index)
    return ""


def _largest(cursor: Cursor, tables: StagingTables, index: tuple[str | None, str | None]) -> str:
    cursor.execute(named_sql("commit/columns_of_index"), {"schema": index[0], "name": index[1]})
    names = [sql.Identifier("s", row[0]) for row in cursor.fetchall()] or [sql.Identifier("s")]
    sizes = sql.SQL(" + ").join(sql.SQL("coalesce(pg_column_size({}), 0)").format(name) for name in names)
    query = sql.SQL(named_sql("commit/largest_event")).format(staging=tables.identifier(tables.rows), size=sizes)
    cursor.execute(query)
    event_id, partition, offset = cursor.one()
    return f"the largest is event {event_id!r}, record {partition}:{offset}"

"""The changes that a pipeline may make to its table: columns that its file has added, and types that it has widened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg2
from psycopg2 import errors as pg
from psycopg2 import sql

from offset_ledger.config.model import Evolve, Pipeline
from offset_ledger.errors import TargetLocked, TargetMismatch
from offset_ledger.ledger.database import Cursor, named_sql, savepoint
from offset_ledger.target.fit import Misfit

LOCK_TIMEOUT = "10s"  # while a change waits for readers, everybody else waits for the change
_ALLOWED = {
    Evolve.NONE: frozenset[Evolve](),
    Evolve.ADD_COLUMNS: frozenset({Evolve.ADD_COLUMNS}),
    Evolve.WIDEN: frozenset({Evolve.ADD_COLUMNS, Evolve.WIDEN}),
}


def may_change(pipeline: Pipeline, misfit: Misfit) -> bool:
    """Whether the pipeline may make what fixes the misfit, by ``target.evolve``."""
    return misfit.change in _ALLOWED[pipeline.target.evolve]


def change_table(cursor: Cursor, pipeline: Pipeline, batch_id: int, changes: Sequence[Misfit]) -> None:
    """Make the table fit, and enter each change in the ledger, all in the transaction of the cursor.

    Raises:
        TargetLocked: others read or write the table, and did not end in time.
        TargetMismatch: Postgres does not let the column be changed, because a view uses it for example.
    """
    table = sql.Identifier(pipeline.target.schema, pipeline.target.table)
    clauses = sql.SQL(", ").join(sql.SQL(change.clause) for change in changes)
    with _explained(pipeline, changes):
        cursor.execute("SET LOCAL lock_timeout = %s", [LOCK_TIMEOUT])
        # In a subtransaction: its id is in the rows that are rewritten, the transaction's in those of the batch.
        with savepoint(cursor):
            cursor.execute(sql.SQL("ALTER TABLE {} {}").format(table, clauses))
        cursor.execute("SET LOCAL lock_timeout TO DEFAULT")
    for change in changes:
        values = {"pipeline": pipeline.name, "batch_id": batch_id, "found": change.text, "clause": change.clause}
        cursor.execute(named_sql("target/insert_change"), values)


@contextmanager
def _explained(pipeline: Pipeline, changes: Sequence[Misfit]) -> Iterator[None]:
    name = f"{pipeline.target.schema}.{pipeline.target.table}"
    wanted = ", ".join(change.clause for change in changes)
    try:
        yield
    except pg.LockNotAvailable as error:
        raise TargetLocked(
            f"table {name} is in use by others for longer than {LOCK_TIMEOUT}, and needs {wanted}; nothing was "
            "committed; end long transactions on it, or wait for them"
        ) from error
    except (pg.FeatureNotSupported, pg.DependentObjectsStillExist, pg.InsufficientPrivilege) as error:
        raise TargetMismatch(
            f"pipeline {pipeline.name}: Postgres refuses ALTER TABLE {name} {wanted}: {_line(error)}; nothing was "
            "committed; make the change yourself, with what depends on it, or change the pipeline file"
        ) from error


def _line(error: psycopg2.Error) -> str:
    return ", ".join(part for part in (error.diag.message_primary, error.diag.message_detail) if part)

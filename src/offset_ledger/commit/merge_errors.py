"""What Postgres answers to a merge, as an error that says what to do about the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg2
from psycopg2 import errors as pg

from offset_ledger.commit.largest_event import largest
from offset_ledger.config.model import Pipeline
from offset_ledger.errors import IncompleteStaging, LedgerViolation, OffsetLedgerError, TargetMismatch, TransientError
from offset_ledger.ledger.sqlstates import RAISED, REFUSED, in_a_function, meaning, refusal
from offset_ledger.ledger.staging import StagingTables


@contextmanager
def explained(pipeline: Pipeline, tables: StagingTables, triggers: Sequence[str] = ()) -> Iterator[None]:
    """Raise what an error of Postgres in the block means for the table, whose enabled triggers these are.

    Raises:
        TransientError: another writer changed the table at the same time.
        IncompleteStaging: a table is missing.
        LedgerViolation, TargetMismatch: the table, or a trigger of it, refuses a row.
        psycopg2.Error: any other, as it is.
    """
    try:
        yield
    except psycopg2.Error as error:
        meant = _meant(pipeline, tables, error, triggers)
        if meant is None:
            raise
        raise meant from error


def _meant(
    pipeline: Pipeline, tables: StagingTables, error: psycopg2.Error, triggers: Sequence[str]
) -> OffsetLedgerError | None:
    """The error to raise; None where it is not about the table."""
    target = f"{pipeline.target.schema}.{pipeline.target.table}"
    if _is_raised(error, triggers):
        names = f" (triggers: {', '.join(triggers)})" if triggers else ""
        return refusal(RAISED, error, f"table {target}{names}")
    if _is_of_another_writer(error, pipeline):
        return TransientError(
            f"another writer changed {target} during the merge ({type(error).__name__}); nothing was committed; "
            "let only its pipeline write this table, and try again"
        )
    if isinstance(error, pg.UndefinedTable):
        return IncompleteStaging(
            f"{tables.attempt}: a table is missing ({str(error).splitlines()[0]}); nothing was committed; "
            "stage the batch again"
        )
    if error.diag.column_name == "_timestamp":
        return TargetMismatch(
            f"table {target} expects a timestamp of every record, and one has none; nothing was committed; "
            f"run ALTER TABLE {target} ALTER COLUMN _timestamp DROP NOT NULL, and try again"
        )
    known = meaning(error.pgcode, str(error)) or (None if _is_lost(error) else REFUSED)
    if known is None or not issubclass(known.kind, (LedgerViolation, TargetMismatch)):
        return None
    return refusal(known, error, f"table {target}", largest(pipeline, tables, error))


def _is_lost(error: psycopg2.Error) -> bool:
    return isinstance(error, (psycopg2.OperationalError, psycopg2.InterfaceError))


def _is_raised(error: psycopg2.Error, triggers: Sequence[str]) -> bool:
    """Whether a function raised it, whatever its code; what a table with triggers gives a context comes of them."""
    if _is_lost(error) or isinstance(error, pg.InsufficientPrivilege):
        return False
    return in_a_function(error) or bool(triggers and error.diag.context)


def _is_of_another_writer(error: psycopg2.Error, pipeline: Pipeline) -> bool:
    """Whether somebody else wrote the same events at the same time: other unique constraints are the table's own."""
    if not isinstance(error, pg.UniqueViolation):
        return isinstance(error, (pg.SerializationFailure, pg.DeadlockDetected))
    table = (error.diag.schema_name, error.diag.table_name) == (pipeline.target.schema, pipeline.target.table)
    return table and "(event_id)=(" in (error.diag.message_detail or "")

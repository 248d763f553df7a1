"""Sessions that a newer attempt ends: found by their name at the claim, and recognised by the attempt that had them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg2
from psycopg2 import errors as pg

from offset_ledger.connections import Connection
from offset_ledger.errors import AccessDenied, DatabaseUnavailable, IncompleteStaging, OffsetLedgerError
from offset_ledger.ledger import batches
from offset_ledger.ledger.database import SESSION_NAME, Cursor, connect, named_sql, transaction
from offset_ledger.model.attempt import Attempt

log = logging.getLogger(__name__)

_SECONDS = 10  # to reach a database that is away: it has been waited for already
_CLAIM = "hashtextextended('offset-ledger claim', %s)"  # held by claims together, so that a look can wait for them
_LOCK_SECONDS = 150  # a session that is paused inside a transaction is ended by the server after 120


# A claim ends the sessions of older epochs, and then drops their tables.
_LOST = (DatabaseUnavailable, IncompleteStaging, psycopg2.OperationalError, psycopg2.InterfaceError, pg.UndefinedTable)


@contextmanager
def fenced(database: Connection, attempt: Attempt) -> Iterator[None]:
    """A lost session, or a lost staging table, is Fenced where it is a newer claim of the batch that has ended it.

    Raises:
        Fenced: the batch has a higher epoch than the attempt.
    """
    try:
        yield
    except _LOST as lost:
        _raise_if_fenced(database, attempt, lost)
        raise


def _raise_if_fenced(database: Connection, attempt: Attempt, lost: Exception) -> None:
    batch = None
    with suppress(OffsetLedgerError), connect(database, most=_SECONDS) as session, transaction(session) as cursor:
        wait_for_claims(cursor, attempt.batch_id)
        batch = batches.read_batch(cursor, attempt.batch_id)
    if batch and batch.epoch > attempt.epoch:
        raise batches.fenced_by(batch, attempt) from lost


def begin_claim(cursor: Cursor, batch_id: int) -> None:
    """Say for the rest of the transaction that this batch is being claimed; claims do not wait for each other here."""
    cursor.execute(f"SELECT pg_advisory_xact_lock_shared({_CLAIM})", [batch_id])


def wait_for_claims(cursor: Cursor, batch_id: int) -> None:
    """Wait until no claim is under way: it ends the older sessions before it has raised the epoch.

    Raises:
        psycopg2.errors.LockNotAvailable: a claim takes very long.
    """
    cursor.execute(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'")
    cursor.execute(f"SELECT pg_advisory_xact_lock({_CLAIM})", [batch_id])


def end_lower_epochs(cursor: Cursor, attempt: Attempt) -> frozenset[str]:
    """End the sessions of older attempts at the batch; return the logins of those that ours may not end.

    A paused process keeps its locks and may wake up at any time; what it had not committed is rolled back.
    """
    name = f"^{SESSION_NAME} b{attempt.batch_id} e([0-9]{{1,9}}) "
    cursor.execute(named_sql("fencing/end_lower_epochs"), {"name": name, "epoch": attempt.epoch})
    found = cursor.fetchall()
    if ended := [row["pid"] for row in found if row["ended"]]:
        log.warning("ended %d database sessions of older attempts at batch %d", len(ended), attempt.batch_id)
    return frozenset(row["login"] for row in found if not row["ours"])


@contextmanager
def alongside_lower_epochs(cursor: Cursor, batch_id: int, logins: frozenset[str]) -> Iterator[None]:
    """Claim although sessions of these logins cannot be ended: they can commit nothing, but may hold a lock.

    Raises:
        AccessDenied: the claim has waited for a lock in vain.
    """
    if not logins:
        yield
        return
    names = ", ".join(sorted(logins))
    log.warning("sessions of older attempts at batch %d stay: they are of the login %s", batch_id, names)
    cursor.execute("SELECT set_config('lock_timeout', %s, true), current_user", [f"{_LOCK_SECONDS}s"])
    ours = cursor.one()[1]
    try:
        yield
    except pg.LockNotAvailable as error:
        raise AccessDenied(
            f"batch {batch_id}: a lock that this attempt needs is held by another session, and login {ours} may not "
            f"end those of older attempts, which are of login {names}; nothing was changed; GRANT pg_signal_backend TO "
            f"{ours}, or run the pipeline with one login"
        ) from error
    cursor.execute("SELECT set_config('lock_timeout', '0', true)")

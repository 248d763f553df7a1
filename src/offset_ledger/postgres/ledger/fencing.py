"""Sessions that a newer attempt ends: the claim finds them by name, and their own attempt learns why it lost them.

A session that waits inside a transaction keeps itself awake, because a silent one is ended.
"""

import logging
import socket
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC
from math import inf
from time import monotonic, sleep
from typing import TypeVar

import psycopg2
from psycopg2 import errors as pg

from offset_ledger.errors import AccessDenied, BatchInUse, DatabaseUnavailable, IncompleteStaging, OffsetLedgerError
from offset_ledger.model.batch import Attempt, Origin
from offset_ledger.outside.connections import Connection
from offset_ledger.postgres.ledger import batches, database
from offset_ledger.postgres.ledger.database import SESSION_NAME, Cursor, Session, transaction

log = logging.getLogger(__name__)

_SECONDS = 10  # for a database that is unavailable: the step has waited for it already
_CLAIM = "hashtextextended('offset-ledger claim', %s)"  # shared by claims, so that a read can wait for them
_LOCK_SECONDS = 150  # a session that is paused inside a transaction is ended by the server after 120
_BEAT_SECONDS, _SILENT_SECONDS = 3, 30  # of a run that has a batch alone
_GONE_SECONDS = 3  # until the server has ended the sessions of a killed process


# A claim ends the sessions of older epochs, and then drops their tables.
_LOST = (DatabaseUnavailable, IncompleteStaging, psycopg2.OperationalError, psycopg2.InterfaceError, pg.UndefinedTable)


@contextmanager
def fenced(connection: Connection, attempt: Attempt) -> Iterator[None]:
    """Raise Fenced for a lost session, or a lost staging table, that a newer claim of the batch has ended."""
    try:
        yield
    except _LOST as lost:
        batch = None
        away = suppress(OffsetLedgerError)
        with away, database.connect(connection, timeout=_SECONDS) as session, transaction(session) as cursor:
            wait_for_claims(cursor, attempt.batch_id)
            batch = batches.read_batch(cursor, attempt.batch_id)
        if batch and batch.epoch > attempt.epoch:
            raise batches.fenced_by(batch, attempt) from lost
        raise


def begin_claim(cursor: Cursor, batch_id: int) -> None:
    """Show for the rest of the transaction that this batch is being claimed; claims do not wait for each other here."""
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
    sessions = cursor.run("fencing/end_lower_epochs", name=name, epoch=attempt.epoch).fetchall()
    if ended := [row["pid"] for row in sessions if row["ended"]]:
        log.warning("ended %d database sessions of older attempts at batch %d", len(ended), attempt.batch_id)
    return frozenset(row["login"] for row in sessions if not row["ours"])


@contextmanager
def alongside_lower_epochs(cursor: Cursor, batch_id: int, logins: frozenset[str]) -> Iterator[None]:
    """Claim although sessions of these logins cannot be ended: they can commit nothing, but may hold a lock.

    Raises:
        AccessDenied: a lock was not free in time.
    """
    if not logins:
        yield
        return
    names = ", ".join(sorted(logins))
    log.warning("sessions of older attempts at batch %d stay: they are of the login %s", batch_id, names)
    ours = cursor.execute("SELECT set_config('lock_timeout', %s, true), current_user", [f"{_LOCK_SECONDS}s"]).one()[1]
    try:
        yield
    except pg.LockNotAvailable as error:
        raise AccessDenied(
            f"batch {batch_id}: a lock that this attempt needs is held by another session, and login {ours} may not "
            f"end those of older attempts, which are of login {names}; nothing was changed; GRANT pg_signal_backend TO "
            f"{ours}, or run the pipeline with one login"
        ) from error
    cursor.execute("SELECT set_config('lock_timeout', '0', true)")


def wait_for(session: Session, batch_ids: Collection[int], lock: Callable[[Cursor], object]) -> None:
    """Wait until ``lock`` can be taken, and release it.

    A ``lock_timeout`` of the session bounds it. Meanwhile the sessions of other attempts that validate or commit
    one of these batches, and have been idle in a transaction for five seconds, are ended: their process is
    paused or gone. What they had not committed is rolled back.

    Raises:
        psycopg2.errors.LockNotAvailable: after ``lock_timeout``.
    """
    limit, began = database.timeout_setting(session, "lock_timeout") or inf, monotonic()
    while True:
        try:
            with transaction(session) as cursor:
                database.set_local(cursor, "lock_timeout", f"{min(1.0, limit) * 1000:.0f}ms")
                lock(cursor)
            return
        except pg.LockNotAvailable:
            if monotonic() - began >= limit:
                raise
            with transaction(session) as cursor:
                if ended := cursor.run(
                    "fencing/end_stalled",
                    name=f"^{SESSION_NAME} b({'|'.join(map(str, batch_ids))}) e[0-9]+ (validate|commit)$",
                ).fetchall():
                    log.warning("ended %d stalled sessions of other attempts at batches %s", len(ended), batch_ids)


@contextmanager
def alone_at(connection: Connection, batch_id: int, origin: Origin, take_over: bool = False) -> Iterator[None]:
    """Lock out other runs of the batch outside of Airflow; a session shows every few seconds that it is alive.

    A run that Postgres has not heard of for half a minute is paused or its machine is gone: its session is ended. With
    ``take_over`` so are those of runs and attempts that are alive. A task of Airflow only checks for such runs: Airflow
    has declared its own earlier try dead. Nothing rests on it: the epoch fences them.

    Raises:
        BatchInUse: another run has it, or a task of Airflow has claimed it, and is alive.
    """
    with ExitStack() as opened:
        session = opened.enter_context(database.connect(connection))
        ends = monotonic() + _GONE_SECONDS
        while not _takes_alone(session, batch_id, origin, take_over, monotonic() > ends):
            sleep(0.2)
        if origin.run_id:
            opened.close()
        else:
            session.autocommit = True
            opened.enter_context(_pinging(session, _BEAT_SECONDS))
        yield


def _takes_alone(session: Session, batch_id: int, origin: Origin, take_over: bool, last: bool) -> bool:
    name = f"{SESSION_NAME} run b{batch_id}"
    attempts = None if origin.run_id else f"^{SESSION_NAME} b{batch_id} e[0-9]+ "
    names = {"alone": f"^{name} of (.*)", "attempts": attempts}
    with transaction(session) as cursor:
        locked = cursor.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [name]).one()[0]
        given = {"batch_id": batch_id, "silent": _SILENT_SECONDS, "take_over": take_over}
        others = cursor.run("fencing/others_at_batch", **names, **given).fetchall()
        alive = [] if take_over else [each for each in others if each["alive"]]
        if locked and not alive:
            who = origin.who if "@" in origin.who else f"{origin.who}@{socket.gethostname()}"
            database.rename_session(cursor, f"{name} of {who}")
            return True
        if locked:
            cursor.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [name])
    if last and alive:
        one = alive[0]
        where = f" from {one['client_addr']}" if one["client_addr"] else ""
        since = f" since {one['since'].astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if one["since"] else ""
        advice = "wait until that has ended, or take the batch from it with --take-over (in Python take_over=True)"
        if origin.run_id:
            advice = "the next try of the task takes the batch if that has ended or is silent by then"
        raise BatchInUse(
            f"batch {batch_id} of {one['pipeline']} is being ingested by {one['who']}{where}{since}; nothing was "
            f"changed; {advice}"
        )
    if last:
        log.warning("another session has batch %d and cannot be ended; the epoch alone fences it", batch_id)
    return last


T = TypeVar("T")


def kept_awake(session: Session, source: Iterable[T]) -> Iterator[T]:
    """Yield the items of a slow source; an open transaction stays open while the next one is waited for.

    A process that is paused pings no more, so that it loses its session as any other.
    """
    every = database.timeout_setting(session, "idle_in_transaction_session_timeout") / 4
    items = iter(source)
    while True:
        with _pinging(session, every):
            try:
                item = next(items)
            except StopIteration:
                return
        yield item


@contextmanager
def _pinging(session: Session, every: float) -> Iterator[None]:
    """Run a query every ``every`` seconds (0: never), in a transaction if one is open; it ends before the block."""
    over = threading.Event()

    def ping() -> None:
        while not over.wait(every):
            if session.autocommit or session.status == psycopg2.extensions.STATUS_BEGIN:
                try:
                    with session.cursor(cursor_factory=Cursor) as cursor:
                        cursor.execute("SELECT 1")
                except psycopg2.Error:  # the session has ended, which its next statement says
                    return

    thread = threading.Thread(target=ping, daemon=True)
    if every:
        thread.start()
    try:
        yield
    finally:
        over.set()
        if every:
            thread.join()

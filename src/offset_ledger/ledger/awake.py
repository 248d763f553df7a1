"""Waiting within a transaction: a session that waits must not look like that of a paused process."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import psycopg2

from offset_ledger.ledger.database import Cursor, Session, timeout_setting

T = TypeVar("T")


def kept_awake(session: Session, source: Iterable[T]) -> Iterator[T]:
    """The items of a slow source; a transaction that is open while the next one is waited for stays open.

    A process that is paused pings no more, so that it loses its session as any other.
    """
    every = timeout_setting(session, "idle_in_transaction_session_timeout") / 4
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
    """Run a query every so many seconds (0: never) in a transaction that is open; it ends before the block is left."""
    over = threading.Event()

    def ping() -> None:
        while not over.wait(every):
            if session.status == psycopg2.extensions.STATUS_BEGIN:
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

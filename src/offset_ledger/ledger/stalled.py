"""Locks that a paused process keeps, and how the next attempt comes by them without a new claim."""

from __future__ import annotations

import logging
from collections.abc import Callable

from psycopg2 import errors as pg

from offset_ledger.ledger.database import Cursor, Session, named_sql, transaction

log = logging.getLogger(__name__)


def wait_for(session: Session, batch_id: int, lock: Callable[[Cursor], object]) -> None:
    """Wait until ``lock`` can be taken, and release it.

    Meanwhile the sessions of other attempts that judge or commit this batch, and have stood in a transaction for five
    seconds without a statement, are ended: their process is paused or gone. What they had not committed is rolled back.
    """
    while True:
        try:
            with transaction(session) as cursor:
                cursor.execute("SET LOCAL lock_timeout = '1s'")
                lock(cursor)
            return
        except pg.LockNotAvailable:
            with transaction(session) as cursor:
                cursor.execute(
                    named_sql("end_stalled"), {"name": f"^offset-ledger b{batch_id} e[0-9]+ (validate|commit)$"}
                )
                if ended := cursor.fetchall():
                    log.warning("ended %d stalled sessions of other attempts at batch %d", len(ended), batch_id)

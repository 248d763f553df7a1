"""Locks that a paused process keeps, and how another attempt of the same epoch gets them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from math import inf
from time import monotonic

from psycopg2 import errors as pg

from offset_ledger.ledger.database import (
    SESSION_NAME,
    Cursor,
    Session,
    named_sql,
    set_local,
    timeout_setting,
    transaction,
)

log = logging.getLogger(__name__)


def wait_for(session: Session, batch_ids: Collection[int], lock: Callable[[Cursor], object]) -> None:
    """Wait until ``lock`` can be taken, and release it.

    A ``lock_timeout`` of the session bounds it. Meanwhile the sessions of other attempts that validate or commit
    one of these batches, and have been idle in a transaction for five seconds, are ended: their process is
    paused or gone. What they had not committed is rolled back.

    Raises:
        psycopg2.errors.LockNotAvailable: after ``lock_timeout``.
    """
    limit, began = timeout_setting(session, "lock_timeout") or inf, monotonic()
    while True:
        try:
            with transaction(session) as cursor:
                set_local(cursor, "lock_timeout", f"{min(1.0, limit) * 1000:.0f}ms")
                lock(cursor)
            return
        except pg.LockNotAvailable:
            if monotonic() - began >= limit:
                raise
            with transaction(session) as cursor:
                cursor.execute(
                    named_sql("fencing/end_stalled"),
                    {"name": f"^{SESSION_NAME} b({'|'.join(map(str, batch_ids))}) e[0-9]+ (validate|commit)$"},
                )
                if ended := cursor.fetchall():
                    log.warning("ended %d stalled sessions of other attempts at batches %s", len(ended), batch_ids)

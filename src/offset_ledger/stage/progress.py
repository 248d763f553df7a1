"""How far a stage by Spark is, wherever its executors are: each slice that is done stands in the ledger."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from offset_ledger.connections import Connection
from offset_ledger.errors import OffsetLedgerError
from offset_ledger.ledger.database import connect, named_sql, rows
from offset_ledger.model.attempt import Attempt
from offset_ledger.progress import OnProgress, progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
_SECONDS = 2.0


def is_classic(spark: SparkSession) -> bool:
    """Whether the driver is of this process, and not a Spark Connect server."""
    return hasattr(spark, "_jsparkSession")


@contextmanager
def slices_shown(database: Connection, attempt: Attempt, total: int) -> Iterator[None]:
    """Show how many of ``total`` offsets are in slices that have committed, while the block runs."""
    done = threading.Event()
    with progress(total, "staged", unit="offsets") as advance:
        thread = threading.Thread(target=_watch, args=(database, attempt, advance, done), daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join(_SECONDS)  # it may wait for a server that hangs


def _watch(database: Connection, attempt: Attempt, advance: OnProgress, done: threading.Event) -> None:
    """Count until it is done; a short stage is never asked about, and one that cannot be counted goes on uncounted."""
    if done.wait(_SECONDS):
        return
    shown = 0
    try:
        with connect(database, timeout=0) as session:
            while not done.wait(_SECONDS):
                ((staged,),) = rows(session, named_sql("staging/staged_offsets"), asdict(attempt))
                advance(staged - shown)
                shown = staged
    except OffsetLedgerError as error:
        log.debug("progress is not shown any more: %s", error)

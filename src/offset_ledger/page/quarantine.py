"""The queries about quarantined records: pages by key, and of each record only what is shown."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum

from psycopg2.sql import SQL

from offset_ledger.ledger import staging
from offset_ledger.ledger.database import Cursor, named_sql
from offset_ledger.ledger.staging import StagingTables
from offset_ledger.model.attempt import Attempt
from offset_ledger.page.queries import NEWEST, LedgerRow, read_rows
from offset_ledger.page.records import SHOWN_BYTES

FIRST_REFUSED = 5


class RecordState(StrEnum):
    """What has become of a quarantined record."""

    UNRESOLVED = "unresolved"
    DISMISSED = "dismissed"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """The newest ``limit`` records before one of a batch, in this state, that match what is not None."""

    before_batch: int = NEWEST
    before_id: int = NEWEST
    limit: int = 50
    state: RecordState = RecordState.UNRESOLVED
    reason: str | None = None
    partition: int | None = None
    since: datetime | None = None
    until: datetime | None = None


def records(cursor: Cursor, pipeline: str, matching: RecordFilter) -> list[LedgerRow]:
    """Newest first, without their bytes."""
    return read_rows(cursor, "quarantined_records", pipeline=pipeline, **asdict(matching))


def record(cursor: Cursor, pipeline: str, quarantine_id: int) -> LedgerRow | None:
    """One record with the first of its bytes."""
    rows = read_rows(cursor, "quarantined_record", pipeline=pipeline, quarantine_id=quarantine_id, shown=SHOWN_BYTES)
    return rows[0] if rows else None


def first_refused(cursor: Cursor, attempt: Attempt) -> list[LedgerRow]:
    """Some of what an open batch has refused; nothing once its staging tables are dropped."""
    tables = StagingTables(attempt)
    if not staging.are_there(cursor, tables):
        return []
    query = SQL(named_sql("page/refused")).format(refused=tables.identifier(tables.refused))
    cursor.execute(query, {"shown": SHOWN_BYTES, "limit": FIRST_REFUSED})
    return [dict(row) for row in cursor.fetchall()]

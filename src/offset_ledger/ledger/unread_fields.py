"""The fields that nothing reads, as the slices of a batch counted them."""

from __future__ import annotations

from dataclasses import asdict

from offset_ledger.ledger.database import Cursor, named_sql
from offset_ledger.model.batch import Attempt
from offset_ledger.model.unread import Unread, together


def read(cursor: Cursor, attempt: Attempt) -> Unread | None:
    """Those of the rows that the attempt has staged; None where they were not counted."""
    cursor.execute(named_sql("staging/unread"), asdict(attempt))
    return together(Unread.from_json(row[0]) for row in cursor.fetchall())


def latest(cursor: Cursor, pipeline: str) -> tuple[int, Unread] | None:
    """The newest committed batch of the pipeline that has rows, with those of it."""
    cursor.execute(named_sql("staging/newest_counted"), {"pipeline": pipeline})
    if (row := cursor.fetchone()) is None:
        return None
    unread = read(cursor, Attempt(row["batch_id"], row["epoch"]))
    return (row["batch_id"], unread) if unread else None

"""Profiles of batches: measured on staging, kept in the ledger, read back for comparison."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from psycopg2 import sql

from offset_ledger.ledger.database import Cursor, named_sql
from offset_ledger.ledger.staging import StagingTables
from offset_ledger.model.batch import Batch
from offset_ledger.model.profile import Profile


def measure(cursor: Cursor, tables: StagingTables, nullable: Sequence[str]) -> Profile:
    """The profile of what is staged, in one pass over the rows; delete markers are no rows here."""
    nulls = [sql.SQL(", count({})").format(sql.Identifier(column)) for column in nullable]
    query = "SELECT count(*) FILTER (WHERE NOT _deleted), min(publish_at), max(publish_at){} FROM {}"
    cursor.execute(sql.SQL(query).format(sql.Composed(nulls), tables.identifier(tables.rows)))
    rows, first, last, *present = cursor.one()
    cursor.execute(named_sql("profiles/records"), asdict(tables.attempt))
    records, newest = cursor.one()
    missing = {column: rows - count for column, count in zip(nullable, present, strict=True)}
    return Profile(records, rows, missing, newest, first, last)


def keep(cursor: Cursor, tables: StagingTables, profile: Profile) -> None:
    """Write the profile of the batch, over that of an older epoch."""
    kept = {**asdict(profile), "nulls": json.dumps(dict(profile.nulls))}
    cursor.execute(named_sql("profiles/keep"), {**kept, **asdict(tables.attempt)})


def recent(cursor: Cursor, batch: Batch, limit: int) -> list[Profile]:
    """Of the committed head batches before this one of the same topic, newest first."""
    found = {"pipeline": batch.pipeline, "topic_id": batch.topic_id, "batch_id": batch.batch_id, "limit": limit}
    cursor.execute(named_sql("profiles/recent"), found)
    return [Profile(**row) for row in cursor.fetchall()]

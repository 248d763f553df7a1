"""The moment by which rows are ordered: one for all rows of a table, or two clocks would order one event."""

from __future__ import annotations

from psycopg2 import sql

from offset_ledger.config.json_path import format_path
from offset_ledger.config.model import Pipeline, RecordShape
from offset_ledger.errors import TargetMismatch
from offset_ledger.ledger.database import Cursor

KAFKA_TIMESTAMP = "kafka_timestamp"
REMERGE = "offset-ledger remerge PIPELINE --why ..."


def ordered_by(record: RecordShape) -> str:
    """The moment that the pipeline file names, as the ledger writes it."""
    return format_path(record.publish_at) if record.publish_at else KAFKA_TIMESTAMP


def read_order(cursor: Cursor, pipeline: str) -> str | None:
    """The moment by which the pipeline's rows are ordered; None where it was never checked."""
    cursor.execute("SELECT ordered_by FROM offset_ledger.pipeline WHERE pipeline = %s", [pipeline])
    row = cursor.fetchone()
    return row["ordered_by"] if row else None


def write_order(cursor: Cursor, pipeline: str, moment: str) -> None:
    """Record the moment by which the pipeline's rows are ordered from now on."""
    cursor.execute("UPDATE offset_ledger.pipeline SET ordered_by = %s WHERE pipeline = %s", [moment, pipeline])


def has_strays(cursor: Cursor, table: sql.Identifier, record: RecordShape) -> bool:
    """Whether a table of unknown order has rows that cannot be ordered by the moment that the pipeline file names.

    What is unknown was written when delete markers came of tombstones alone, and so had Kafka's timestamp. Markers
    alone do not show what they have won over.
    """
    if record.publish_at:
        return _any(cursor, table, "_deleted")
    if _any(cursor, table, "publish_at <> _timestamp"):
        return True
    return _any(cursor, table, "_deleted") and not _any(cursor, table, "NOT _deleted")


def record_order(cursor: Cursor, pipeline: Pipeline, table: sql.Identifier) -> None:
    """Check the order of the target's rows, and record it.

    Raises:
        TargetMismatch: as :func:`check_order`.
    """
    check_order(cursor, pipeline, table)
    wanted = ordered_by(pipeline.record)
    if read_order(cursor, pipeline.name) != wanted:
        write_order(cursor, pipeline.name, wanted)


def check_order(cursor: Cursor, pipeline: Pipeline, table: sql.Identifier) -> None:
    """Check that all rows of the target are ordered by the moment that the pipeline file names.

    Raises:
        TargetMismatch: they are ordered by another one.
    """
    if not in_order(cursor, pipeline, table):
        raise TargetMismatch(_another(pipeline, ordered_by(pipeline.record), read_order(cursor, pipeline.name)))


def in_order(cursor: Cursor, pipeline: Pipeline, table: sql.Identifier) -> bool:
    """Whether all rows of the target, if it has any, are ordered by the moment that the pipeline file names."""
    known = read_order(cursor, pipeline.name)
    if known is None:
        return not has_strays(cursor, table, pipeline.record)
    return known == ordered_by(pipeline.record) or not _any(cursor, table, "true")


def _any(cursor: Cursor, table: sql.Identifier, condition: str) -> bool:
    cursor.execute("SELECT to_regclass(%s)", [table.as_string(cursor)])
    if cursor.one()[0] is None:
        return False
    cursor.execute(sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE {})").format(table, sql.SQL(condition)))
    return bool(cursor.one()[0])


def _another(pipeline: Pipeline, wanted: str, known: str | None) -> str:
    """What differs, and the way out of it."""
    remerge = REMERGE.replace("PIPELINE", pipeline.name)
    head = f"pipeline {pipeline.name}: the pipeline file says publish_at: {wanted}, and table "
    table = f"{pipeline.target.schema}.{pipeline.target.table}"
    if wanted == KAFKA_TIMESTAMP:
        return (
            f"{head}{table} has rows that are ordered by {known or 'another moment'}; nothing was changed; order all "
            f"of them by Kafka's timestamps with: {remerge}"
        )
    if known is None:
        return (
            f"{head}{table} has delete markers of tombstones, which are ordered by Kafka's timestamps; nothing was "
            f"changed; write publish_at: {KAFKA_TIMESTAMP}, and order all rows by it with: {remerge}"
        )
    return (
        f"{head}{table} has rows that are ordered by {known} and do not have that moment; nothing was changed; write "
        f"publish_at: {known}, or start a pipeline with another name and table"
    )

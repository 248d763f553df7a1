"""The columns of a table that its pipeline has ever written: one that is not declared any more is set to NULL."""

from __future__ import annotations

from offset_ledger.config.model import Pipeline
from offset_ledger.ledger.database import Cursor, named_sql


def record_columns(cursor: Cursor, pipeline: Pipeline) -> None:
    """Record that the pipeline writes the columns that its file declares now."""
    columns = [column.name for column in pipeline.record.columns]
    cursor.execute(named_sql("target/declare_columns"), {"pipeline": pipeline.name, "columns": columns})


def record_upgrade(cursor: Cursor, pipeline: Pipeline) -> None:
    """Take the columns of now for those that were ever written, where batches were committed before this was kept."""
    cursor.execute(named_sql("target/undeclared_commit"), {"pipeline": pipeline.name})
    if cursor.rowcount:
        record_columns(cursor, pipeline)


def no_longer_declared(cursor: Cursor, pipeline: Pipeline) -> list[str]:
    """The columns of the table that the pipeline has written and that its file declares no more."""
    cursor.execute(
        named_sql("target/no_longer_declared"),
        {
            "file": pipeline.file,
            "schema": pipeline.target.schema,
            "table": pipeline.target.table,
            "declared": [column.name for column in pipeline.record.columns],
        },
    )
    return [row["attname"] for row in cursor.fetchall()]


def foreign_columns(cursor: Cursor, pipeline: Pipeline) -> frozenset[str]:
    """The columns of the table, if it exists, that the pipeline has never written."""
    place = {"schema": pipeline.target.schema, "table": pipeline.target.table}
    cursor.execute(named_sql("target/foreign_columns"), {"file": pipeline.file, **place})
    return frozenset(row["attname"] for row in cursor.fetchall())

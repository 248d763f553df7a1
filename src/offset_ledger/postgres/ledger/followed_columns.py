"""The columns that a pipeline has by its records' schemas, or by a sample of them.

Those of an open batch are columns for that batch alone.
"""

from collections.abc import Iterable
from dataclasses import replace

from psycopg2.extras import Json

from offset_ledger.model.followed_columns import FollowedColumn, effective
from offset_ledger.pipeline_file.column_types import parse_type
from offset_ledger.pipeline_file.pipeline import Column, Pipeline
from offset_ledger.postgres.ledger.database import Cursor


def with_columns(cursor: Cursor, pipeline: Pipeline, batch_id: int | None = None) -> Pipeline:
    """Return the pipeline with these columns too, as a batch of it is staged, validated and committed."""
    if not pipeline.has_more_columns:
        return pipeline
    followed = read(cursor, pipeline.name, batch_id)
    return replace(pipeline, record=effective(pipeline.record, [each.column for each in followed]))


def read(cursor: Cursor, pipeline: str, batch_id: int | None = None) -> tuple[FollowedColumn, ...]:
    """The columns of committed batches and of this one, oldest first; each as it was made, and as it was made wider."""
    followed = []
    for row in cursor.run("following/columns", pipeline=pipeline, batch_id=batch_id):
        name, path, kind, encoding, schema_id, brought_by = row
        column = Column(name, parse_type(kind), tuple(path), nullable=True, encoding=encoding)
        followed.append(FollowedColumn(column, schema_id, brought_by))
    return tuple(followed)


def enter(cursor: Cursor, pipeline: str, columns: Iterable[FollowedColumn]) -> None:
    """Enter columns that an open head batch brings, in place of what other attempts have entered."""
    cursor.run("following/drop_pending", pipeline=pipeline)
    for each in columns:
        column = each.column
        said = {"name": column.name, "path": Json(column.path), "type": column.type.sql, "encoding": column.encoding}
        origin = {"pipeline": pipeline, "schema_id": each.schema_id, "batch_id": each.batch_id}
        cursor.run("following/enter_column", **said, **origin)


def may_change(cursor: Cursor, batch_id: int) -> bool:
    """Return whether an open head batch brings columns, or has ended where the next one has to."""
    return bool(cursor.run("following/may_change", batch_id=batch_id).one()[0])


def settle(cursor: Cursor, pipeline: str, batch_id: int) -> None:
    """Add what the batch brings to the columns of the pipeline, in the transaction that commits it."""
    cursor.run("following/settle", pipeline=pipeline, batch_id=batch_id)


def keep(cursor: Cursor, pipeline: str, columns: Iterable[Column]) -> None:
    """Add sampled columns to the columns of the pipeline."""
    enter(cursor, pipeline, map(FollowedColumn, columns))
    settle(cursor, pipeline, 0)

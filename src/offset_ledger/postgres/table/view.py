"""Additions of the pipeline to the table: partitions, comments with the descriptions of its file, and its view."""

from psycopg2 import sql

from offset_ledger.errors import TargetMismatch
from offset_ledger.pipeline_file.pipeline import Pipeline, in_sql
from offset_ledger.postgres.ledger.database import Cursor
from offset_ledger.postgres.ledger.row_order import table_of
from offset_ledger.postgres.table.fit import Misfit
from offset_ledger.postgres.table.partitions import missing_partitions


def to_be_made(cursor: Cursor, pipeline: Pipeline, staging: sql.Composable | None = None) -> list[Misfit]:
    """Return what the next commit makes beside the table's columns: partitions, the view, and comments.

    Raises:
        TargetMismatch: something else has the name of the view.
    """
    target, columns = pipeline.target, (*pipeline.record.key, *pipeline.record.columns)
    made = missing_partitions(cursor, pipeline, staging)
    made += _view(cursor, pipeline, target.view) if target.view else []
    descriptions = {"": pipeline.description} | {column.name: column.description for column in columns}
    texts = {"file": pipeline.file, "names": [*descriptions], "texts": [*descriptions.values()]}
    for row in cursor.run("table/comments", schema=target.schema, table=target.table, **texts):
        text = f"the comment of {row['object']} is not its description"
        made.append(Misfit(text, statement=row["statement"], change=None))
    return made


def drop_view(cursor: Cursor, pipeline: Pipeline) -> list[str]:
    """Drop the view, if there is one, before types of its columns change; the statements that restore its rights."""
    if not pipeline.target.view:
        return []
    place = {"schema": pipeline.target.schema, "view": pipeline.target.view}
    rights = [row[0] for row in cursor.run("table/view_rights", **place)]
    cursor.execute(sql.SQL("DROP VIEW IF EXISTS {}").format(sql.Identifier(*place.values())))
    return rights


def _view(cursor: Cursor, pipeline: Pipeline, name: str) -> list[Misfit]:
    """The view, if it is missing or lacks a column; it keeps those that the file does not declare any more."""
    target = pipeline.target
    key = [column.name for column in pipeline.record.key_columns]
    declared = [column.name for column in pipeline.record.columns if not column.name.startswith("_")]
    view = cursor.run("table/view", file=pipeline.file, schema=target.schema, view=name).fetchone()
    if view and not view["ours"]:
        raise TargetMismatch(
            f"pipeline {pipeline.name}: {in_sql(target.schema, name)} exists and is no view that this pipeline "
            "made; give target.view another name, or rename or drop what has it"
        )
    columns = view["columns"] if view else []
    own = [name for _, name in target.copied] if target.beside else ["publish_at"]
    if not (lacking := [column for column in (*key, *own, *declared) if column not in columns]):
        return []
    names = sql.SQL(", ").join(map(sql.Identifier, [*columns, *lacking]))
    has_markers = not (target.beside or pipeline.record.append)
    rows = "SELECT {} FROM {} WHERE NOT _deleted" if has_markers else "SELECT {} FROM {}"
    query = sql.SQL(rows).format(names, table_of(pipeline))
    statement = sql.SQL("CREATE OR REPLACE VIEW {} AS {}").format(sql.Identifier(target.schema, name), query)
    return [Misfit(f"view {name} lacks {', '.join(lacking)}", statement=statement.as_string(cursor), change=None)]

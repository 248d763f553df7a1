"""The place of a record in the topics of a file: it identifies a row, and orders rows of the same ``publish_at``."""

from __future__ import annotations

from psycopg2 import sql

from offset_ledger.config.model import Pipeline, RecordShape

TOPIC = ("_topic", 'text COLLATE "C"')  # bytewise, as event ids: the merge needs an order, not a language's


def order_formats(record: RecordShape) -> dict[str, sql.Composable]:
    """What statements leave open: ``place`` and ``order`` of a staged row ``s``, and the same of a stored row ``t``."""
    place = (*((TOPIC[0],) if record.topic_names else ()), "_partition", "_offset")
    order = ("publish_at", *place)
    return {
        "place": _of("s", place),
        "order": _of("s", order),
        "stored_place": _of("t", place),
        "stored_order": _of("t", order),
    }


def rows_of(pipeline: Pipeline) -> sql.Composable:
    """The table, or a query for those of its rows that are of the pipeline's topic."""
    table = sql.Identifier(pipeline.target.schema, pipeline.target.table)
    if not pipeline.record.topic_names:
        return table
    query = sql.SQL("(SELECT * FROM {} WHERE {} = {})")
    return query.format(table, sql.Identifier(TOPIC[0]), sql.Literal(pipeline.source.topic))


def _of(alias: str, columns: tuple[str, ...]) -> sql.Composable:
    return sql.SQL(", ").join(sql.Identifier(alias, column) for column in columns)

"""The moment by which rows are ordered: one for all rows of a table, or two clocks would order one event."""

from collections.abc import Iterable, Sequence

from psycopg2 import sql

from offset_ledger.config.json_path import format_path
from offset_ledger.config.model import Pipeline, RecordShape
from offset_ledger.errors import TargetMismatch
from offset_ledger.ledger.database import Cursor, named_sql

KAFKA_TIMESTAMP = "kafka_timestamp"
APPENDED = "append"


def moment_of(record: RecordShape) -> str:
    """The moment that the pipeline file names."""
    return format_path(record.publish_at) if record.publish_at else KAFKA_TIMESTAMP


def ordered_by(record: RecordShape) -> str:
    """The moment that orders the rows, as the ledger writes it; none orders rows that are appended."""
    return APPENDED if record.append else moment_of(record)


def read_orders(cursor: Cursor, pipeline: Pipeline) -> set[str]:
    """The moments by which the rows of the table are ordered, whatever topic of the file they are of.

    Empty where it was never checked; several where an earlier version ordered the rows of one topic alone.
    """
    query = "SELECT ordered_by FROM offset_ledger.pipeline WHERE file = %s AND ordered_by IS NOT NULL"
    return {row["ordered_by"] for row in cursor.execute(query, [pipeline.file])}


def write_order(cursor: Cursor, pipeline: Pipeline, moment: str) -> None:
    """Record the moment by which the rows of the table are ordered from now on."""
    cursor.run("table/write_order", pipeline=pipeline.name, file=pipeline.file, moment=moment)


def has_strays(cursor: Cursor, table: sql.Identifier, record: RecordShape) -> bool:
    """Return whether a table of unknown order has rows that the moment of the pipeline file cannot order.

    What is unknown was written when delete markers came of tombstones alone, and so had Kafka's timestamp. Markers
    alone do not show what they have won over.
    """
    if record.publish_at:
        return _any(cursor, table, "_deleted")
    if _any(cursor, table, "publish_at <> _timestamp"):
        return True
    return _any(cursor, table, "_deleted") and not _any(cursor, table, "NOT _deleted")


def check_appended(cursor: Cursor, pipeline: Pipeline) -> None:
    """Raise TargetMismatch where the table has rows of a key and the file appends, or the other way round."""
    known, append = read_orders(cursor, pipeline), pipeline.record.append
    if known and (APPENDED in known) != append and has_rows(cursor, table_of(pipeline)):
        name = pipeline.target.name
        rows, merge = ("merged by a key", "append") if append else ("appended", str(pipeline.target.merge))
        raise TargetMismatch(
            f"pipeline {pipeline.name}: the pipeline file says merge: {merge}, and the rows of table {name} were "
            f"{rows}; nothing was changed; write merge as it was, or start a pipeline with another name and table"
        )


def check_order(cursor: Cursor, pipeline: Pipeline, table: sql.Identifier) -> None:
    """Raise TargetMismatch unless all rows of the target are ordered by the moment that the pipeline file names."""
    if in_order(cursor, pipeline, table):
        return
    wanted, known = ordered_by(pipeline.record), read_orders(cursor, pipeline)
    moments = " and ".join(sorted(known)) or "another moment"
    remerge = f"offset-ledger remerge {pipeline.file} --why ..."
    rows, change = f"rows that are ordered by {moments}", f"order all of them by Kafka's timestamps with: {remerge}"
    if wanted != KAFKA_TIMESTAMP and len(known) != 1:
        rows = rows if known else "delete markers of tombstones, which are ordered by Kafka's timestamps"
        change = f"write publish_at: {KAFKA_TIMESTAMP}, and order all rows by it with: {remerge}"
    elif wanted != KAFKA_TIMESTAMP:
        rows += " and do not have that moment"
        change = f"write publish_at: {moments}, or start a pipeline with another name and table"
    name = pipeline.target.name
    raise TargetMismatch(
        f"pipeline {pipeline.name}: the pipeline file says publish_at: {wanted}, and table {name} has {rows}; nothing "
        f"was changed; {change}"
    )


def in_order(cursor: Cursor, pipeline: Pipeline, table: sql.Identifier) -> bool:
    """Return whether all rows of the target, if it has any, are ordered by the moment that the pipeline file names."""
    known = read_orders(cursor, pipeline)
    if pipeline.record.append:
        return True
    if not known:
        return not has_strays(cursor, table, pipeline.record)
    return known == {ordered_by(pipeline.record)} or not has_rows(cursor, table)


def has_rows(cursor: Cursor, table: sql.Identifier) -> bool:
    """Return whether the table is there, and not empty."""
    return _any(cursor, table, "true")


def _any(cursor: Cursor, table: sql.Identifier, condition: str) -> bool:
    if cursor.execute("SELECT to_regclass(%s)", [table.as_string(cursor)]).one()[0] is None:
        return False
    cursor.execute(sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE {})").format(table, sql.SQL(condition)))
    return bool(cursor.one()[0])


TOPIC = ("_topic", 'text COLLATE "C"')  # bytewise, as event ids: the merge needs an order, not a language's


def row_formats(record: RecordShape, stored: str = "t") -> dict[str, sql.Composable]:
    """The open parts of statements: key, place and order of rows, of a staged row ``s`` and of a stored row.

    The order is the moment, then the place in Kafka. ``known`` is NULL where there is no stored row, ``event`` is
    the key as text.
    """
    key, order = record.key_names, order_columns(record)
    place = order[1:]
    return {
        "key": _of(None, key),
        "ordering": _of(None, order),
        "staged_key": _of("s", key),
        "stored_key": _of(stored, key),
        "same_key": same_key(record, stored, "s"),
        "known": sql.Identifier(stored, key[0]),
        "event": _event("s", record),
        "stored_event": _event(stored, record),
        "place": _of("s", place),
        "order": _of("s", order),
        "stored_place": _of(stored, place),
        "stored_order": _of(stored, order),
    }


def table_of(pipeline: Pipeline) -> sql.Identifier:
    """The table that the pipeline fills."""
    return sql.Identifier(pipeline.target.schema, pipeline.target.table)


def order_columns(record: RecordShape) -> list[str]:
    """The columns by which rows are ordered."""
    return ["publish_at", *([TOPIC[0]] if record.topic_names else []), "_partition", "_offset"]


def group_order(alias: str, group: str, record: RecordShape) -> sql.Composable:
    """The order of the record that gave a stored row the columns of the group; NULLs where none did."""
    fields = (sql.SQL("({}).{}").format(sql.Identifier(alias, group), sql.Identifier(n)) for n in order_columns(record))
    return sql.SQL(", ").join(fields)


def rows_of(pipeline: Pipeline) -> sql.Composable:
    """The table with the order of each row, or a query of those of the pipeline's topic alone.

    It is empty where rows have no coordinates.
    """
    kept, record = table_of(pipeline.bookkeeping), pipeline.record
    if not record.topic_names and not record.append:
        return kept
    if not pipeline.has_coordinates:
        return sql.SQL(named_sql("append/no_rows"))
    of_topic = sql.SQL("{} = {}").format(sql.Identifier(TOPIC[0]), sql.Literal(pipeline.source.topic))
    return sql.SQL("(SELECT {} FROM {} WHERE {})").format(
        sql.SQL("*, false AS _deleted" if record.append else "*"),
        kept,
        of_topic if record.topic_names else sql.SQL("true"),
    )


def log_at(pipeline: Pipeline, alias: str, batch_id: sql.Composable) -> sql.Composable:
    """The log that a batch of the pipeline has read at the coordinates of a row."""
    names = {name: sql.Identifier(alias, f"_{name}") for name in ("partition", "offset")}
    parts = {"pipeline": sql.Literal(pipeline.name), "batch_id": batch_id, **names}
    return sql.SQL(named_sql("append/log_at")).format(**parts)


def staged_values(record: RecordShape, names: Iterable[str]) -> dict[str, sql.Composable]:
    """These columns of a staged row ``s``; a text that Postgres judges becomes a value of its type."""
    casts = {column.name: sql.SQL(f"::{column.type.sql}") for column in record.columns if column.type.judged}
    return {name: sql.SQL("s.{}{}").format(sql.Identifier(name), casts.get(name, sql.SQL(""))) for name in names}


def have_values(alias: str, columns: Iterable[str]) -> sql.Composable:
    """The condition that any of these columns is not NULL."""
    return sql.SQL("num_nonnulls({}) > 0").format(
        sql.SQL(", ").join([sql.NULL, *(sql.Identifier(alias, name) for name in columns)])
    )


def same_key(record: RecordShape, one: str, other: str) -> sql.Composable:
    """The condition that rows of two aliases have one key."""
    names = ((sql.Identifier(one, name), sql.Identifier(other, name)) for name in record.key_names)
    return sql.SQL(" AND ").join(sql.SQL("{} = {}").format(*pair) for pair in names)


def _event(alias: str, record: RecordShape) -> sql.Composable:
    if record.key_names[0] == "event_id" and len(record.key_names) == 1:
        return sql.Identifier(alias, "event_id")
    return sql.SQL("concat_ws(', ', {})").format(_of(alias, record.key_names))


def _of(alias: str | None, columns: Sequence[str]) -> sql.Composable:
    return sql.SQL(", ").join(sql.Identifier(*filter(None, (alias, column))) for column in columns)

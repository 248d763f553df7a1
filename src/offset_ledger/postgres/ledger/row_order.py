"""The moment by which rows are ordered: one for all rows of a table, or two clocks would order one event."""

from collections.abc import Iterable, Sequence

from psycopg2 import sql

from offset_ledger.errors import TargetMismatch
from offset_ledger.pipeline_file.json_path import format_path
from offset_ledger.pipeline_file.pipeline import Merge, Pipeline, RecordShape
from offset_ledger.postgres.ledger.database import Cursor, named_sql

KAFKA_TIMESTAMP = "kafka_timestamp"
LOG = "log"
APPENDED = "append"
LOG_MOMENTS = ("_at", "_stored_at")
"""The columns that :func:`by_log` adds to staged rows: their moments and the stored ones; a group has its place."""


def moment_of(record: RecordShape) -> str:
    """The moment that the pipeline file names."""
    if record.log_orders:
        return LOG
    if record.publish_at_header is not None:
        return f"{{header: {record.publish_at_header}}}"
    return format_path(record.publish_at) if record.publish_at else KAFKA_TIMESTAMP


def words_for(record: RecordShape) -> str:
    """Return the words for Kafka's order of the rows."""
    return "the log" if record.log_orders else "Kafka's timestamps"


def ordered_by(record: RecordShape) -> str:
    """The moment that orders the rows, as the ledger writes it; none orders rows that are appended."""
    return APPENDED if record.append else moment_of(record)


def read_orders(cursor: Cursor, pipeline: Pipeline) -> set[str]:
    """The moment by which the rows of the table are ordered, one for all topics of the file; none before a check."""
    query = "SELECT ordered_by FROM offset_ledger.pipeline WHERE file = %s AND ordered_by IS NOT NULL"
    return {row["ordered_by"] for row in cursor.execute(query, [pipeline.file])}


def write_order(cursor: Cursor, pipeline: Pipeline, moment: str) -> None:
    """Record the moment by which the rows of the table are ordered from now on."""
    cursor.run("table/write_order", pipeline=pipeline.name, file=pipeline.file, moment=moment)


def has_strays(cursor: Cursor, table: sql.Identifier, record: RecordShape) -> bool:
    """Return whether a table of unknown order has rows that the moment of the pipeline file cannot order.

    Tables of unknown order are from a time when only tombstones made delete markers, which so had Kafka's timestamp.
    Markers alone do not show which rows they replaced.
    """
    if record.publish_at or record.publish_at_header:
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
    moments = next(iter(known), "another moment")
    remerge = f"offset-ledger remerge {pipeline.file} --why ..."
    rows = f"rows that are ordered by {moments}"
    change = f"order all of them by {words_for(pipeline.record)} with: {remerge}"
    if wanted in (KAFKA_TIMESTAMP, LOG):
        pass
    elif not known:
        rows = "delete markers of tombstones, which are ordered by Kafka's timestamps"
        change = f"write publish_at: {KAFKA_TIMESTAMP}, and order all rows by it with: {remerge}"
    else:
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


def has_rows(cursor: Cursor, table: sql.Composable) -> bool:
    """Return whether the table is there, and not empty."""
    return _any(cursor, table, "true")


def _any(cursor: Cursor, table: sql.Composable, condition: str) -> bool:
    if cursor.execute("SELECT to_regclass(%s)", [table.as_string(cursor)]).one()[0] is None:
        return False
    cursor.execute(sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE {})").format(table, sql.SQL(condition)))
    return bool(cursor.one()[0])


TOPIC = ("_topic", 'text COLLATE "C"')  # bytewise, as event ids: the merge needs an order, not a language's


def row_formats(record: RecordShape, stored: str = "t") -> dict[str, sql.Composable]:
    """The open parts of statements: key, place and order of rows, of a staged row ``s`` and of a stored row.

    The order is the moment, then the place in Kafka; where the log orders, staged rows are those of :func:`by_log`.
    ``known`` is NULL where there is no stored row, ``event`` is the key as text.
    """
    key, state = record.key_names, order_columns(record)
    place = state[1:]
    states = {"state": _of("s", state), "stored_state": _of(stored, state)}
    order, stored_order = states.values()
    if record.log_orders:
        moment = sql.SQL("coalesce(s._stored_at, {})").format(sql.Identifier(stored, "publish_at"))
        order = _of("s", [LOG_MOMENTS[0], *place])
        stored_order = sql.SQL(", ").join([moment, _of(stored, place)])
    return {
        **states,
        "key": _of(None, key),
        "ordering": _of(None, state),
        "staged_key": _of("s", key),
        "stored_key": _of(stored, key),
        "same_key": same_key(record, stored, "s"),
        "known": sql.Identifier(stored, key[0]),
        "event": _event("s", record),
        "stored_event": _event(stored, record),
        "place": _of("s", place),
        "order": order,
        "stored_place": _of(stored, place),
        "stored_order": stored_order,
    }


def table_of(pipeline: Pipeline) -> sql.Identifier:
    """The table that the pipeline fills."""
    return sql.Identifier(pipeline.target.schema, pipeline.target.table)


def order_columns(record: RecordShape) -> list[str]:
    """The columns by which rows are ordered."""
    return ["publish_at", *([TOPIC[0]] if record.topic_names else []), "_partition", "_offset"]


def rows_of(pipeline: Pipeline) -> sql.Composable:
    """Return the table with the order of each row, or a query of those of the pipeline's topic alone.

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


def log_at(pipeline: Pipeline, of: sql.Composable, batch_id: sql.Composable) -> sql.Composable:
    """The log that a batch of the pipeline has read at the coordinates of ``of``, a row or the record of a group."""
    return sql.SQL(named_sql("append/log_at")).format(**_coordinates(pipeline, of, batch_id))


def _coordinates(pipeline: Pipeline, of: sql.Composable, batch_id: sql.Composable) -> dict[str, sql.Composable]:
    place = {name: sql.SQL(f"{{}}._{name}").format(of) for name in ("partition", "offset")}
    return {"pipeline": sql.Literal(pipeline.name), "batch_id": batch_id, **place}


def by_log(
    pipeline: Pipeline, staging: sql.Composable, batch_id: sql.Composable, groups: Sequence[str] = ()
) -> sql.Composable:
    """Return a batch's staged rows with the moments by which the log orders them, and the stored rows of their keys.

    The same holds for each of the ``groups`` of columns: the records that have it are ordered, and the one that gave
    it.
    """
    record, first_wins = pipeline.record, pipeline.target.merge is Merge.SKIP_EXISTING
    parts = {
        "staging": staging,
        "target": table_of(pipeline.bookkeeping),
        "same_key": same_key(record, "t", "s"),
        "log": _began(pipeline, batch_id, batch_id, sql.Identifier("s")),
    }
    lists: dict[str, list[sql.Composable]] = {"stored_logs": [], "of_partition": [], "moments": []}
    names = ("stored_moment", "stored_offset", "stored_log", "same", "last_at", "last", "at", "stored_at")
    for suffix, group in [("", ""), *((f"_{place}", group) for place, group in enumerate(groups))]:
        stored = sql.SQL("({})").format(sql.Identifier("t", group)) if group else sql.Identifier("t")
        has = gives_group(group) if group else sql.SQL("true")
        each = {
            **{name: sql.Identifier(f"_{name}{suffix}") for name in names},
            "stored": stored,
            "has": has,
            "key": _of("s", record.key_names),
            "partition": sql.SQL(", ").join([_of("s", [*record.key_names, "_partition"]), *([has] if group else [])]),
            "same_partition": _same_partition(record, stored),
            "direction": sql.SQL("ASC" if first_wins else "DESC"),
            "beyond": sql.SQL("<" if first_wins else ">"),
        }
        log = _stored_log(pipeline, batch_id, stored)
        lists["stored_logs"].append(sql.SQL("{} AS {}").format(log, each["stored_log"]))
        for name in ("of_partition", "moments"):
            lists[name].append(sql.SQL(named_sql(f"log_order/{name}")).format(**each))
    joined = {name: sql.SQL(",\n").join(each) for name, each in lists.items()}
    return sql.SQL(named_sql("log_order/staged")).format(**parts, **joined)


def gives_group(group: str) -> sql.Composable:
    """The condition that a staged row ``s`` has values for the group of columns."""
    return sql.SQL("{} = ANY(s._groups)").format(sql.Literal(group))


def _same_partition(record: RecordShape, stored: sql.Composable) -> sql.Composable:
    """The condition that a staged row and a stored record are of one partition."""
    names = map(sql.Identifier, order_columns(record)[1:-1])
    return sql.SQL(" AND ").join(sql.SQL("s.{} = {}.{}").format(name, stored, name) for name in names)


def _stored_log(pipeline: Pipeline, of_batch: sql.Composable, stored: sql.Composable) -> sql.Composable:
    """Return the SQL of when the ledger began with the log of a stored record, if it is of the batch's topic."""
    began = _began(pipeline, of_batch, sql.SQL("{}._batch_id").format(stored), stored)
    if not pipeline.record.topic_names:
        return began
    of_topic = sql.SQL("CASE WHEN {}._topic = {} THEN {} END")
    return of_topic.format(stored, sql.Literal(pipeline.source.topic), began)


def _began(
    pipeline: Pipeline, of_batch: sql.Composable, batch_id: sql.Composable, of: sql.Composable
) -> sql.Composable:
    parts = _coordinates(pipeline, of, batch_id)
    return sql.SQL(named_sql("log_order/began")).format(
        **parts, of_batch=of_batch, log_at=log_at(pipeline, of, batch_id)
    )


def staged_values(record: RecordShape, names: Iterable[str]) -> dict[str, sql.Composable]:
    """Return these columns of a staged row ``s``; a text that Postgres judges becomes a value of its type."""
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

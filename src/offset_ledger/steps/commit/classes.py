"""The statements of a commit: one decides what becomes of each staged row, the others write what it decided.

The order of each row is in the target table, or in the bookkeeping beside it; that of groups of columns is in columns
of the bookkeeping, each named as its group. So the ways to commit differ in tables and columns alone. Appended rows
need no table to be classified: the ledger knows which offsets were read before.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from psycopg2 import sql

from offset_ledger.pipeline_file.pipeline import Merge, Pipeline, RecordShape
from offset_ledger.postgres.ledger.database import named_sql
from offset_ledger.postgres.ledger.row_order import (
    LOG_MOMENTS,
    by_log,
    gives_group,
    have_values,
    log_at,
    order_columns,
    row_formats,
    same_key,
    staged_values,
    table_of,
)
from offset_ledger.postgres.ledger.staging import StagingTables, row_columns, typed_keys

Formats = Mapping[str, sql.Composable]

_COMMA, _NOTHING = sql.SQL(", "), sql.SQL("")
_ADDED, _KNOWN, _WRITTEN = "s._class = 'i'", "s._class IN ('u', 'f')", "s._class IN ('i', 'u', 'f')"


@dataclass(frozen=True, slots=True)
class Write:
    """A statement that writes one row for each staged row with ``wanted``, or some fewer if not ``exact``.

    ``of_rows`` writes the rows of the user, not the bookkeeping beside them.
    """

    statement: sql.Composable
    wanted: sql.Composable
    of_rows: bool = True
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements that classify the staged rows of an attempt, count the classes, and write the rows, in this order.

    ``find_wrong`` then selects an event that stands otherwise than it was decided, ``find_wrong_known`` one that the
    table had before: what is inserted stands as it was given, unless triggers or foreign keys act. None is not needed,
    or cannot be known.
    """

    classify: sql.Composable | None
    count: sql.Composable
    writes: tuple[Write, ...]
    find_wrong: sql.Composable | None
    find_wrong_known: sql.Composable | None


def statements(
    pipeline: Pipeline, tables: StagingTables, emptied: Sequence[str], fill: bool, again: bool = False
) -> Statements:
    """Return the statements that commit the attempt.

    ``emptied`` are columns that were declared before and are not now. With ``fill`` a record that is in the table
    already is written again if its row has other values now, or none. With ``again``, some of the appended records were
    read before.
    """
    append = pipeline.record.append
    formats = _formats(pipeline, tables, emptied, fill, again)
    writes = (*_of_order(pipeline, tables, emptied, formats), *_of_rows(pipeline, tables, emptied, formats))
    if append and not fill:
        writes = (_of_records(pipeline, tables, formats),)
    counts = (
        sql.SQL(", count(*) FILTER (WHERE {}) AS {}").format(each.wanted, sql.Identifier(f"write_{place}"))
        for place, each in enumerate(writes)
    )
    find_wrong, find_wrong_known = (
        sql.SQL(named_sql("commit/find_wrong")).format(suspects=sql.SQL(which), **formats)
        for which in ("true", f"NOT {_ADDED}" if not pipeline.record.groups else "true")
    )
    return Statements(
        None if append and not fill else sql.SQL(named_sql("commit/classify")).format(**formats),
        sql.SQL(named_sql("commit/count_classes")).format(to_write=_NOTHING.join(counts), **formats),
        writes,
        find_wrong if pipeline.has_coordinates else None,
        None if append else find_wrong_known,
    )


def read_before(tables: StagingTables) -> sql.Composable:
    """Return the query of the offsets that committed batches have read before this one, by partition."""
    return sql.SQL(named_sql("append/read_before")).format(batch_id=_batch_id(tables))


def at_once(parts: Formats) -> sql.Composable:
    """Return one statement that writes all of these, and selects how many rows each wrote."""
    write, count = sql.SQL("{} AS ({} RETURNING true)"), sql.SQL("(SELECT count(*) FROM {})")
    return sql.SQL(named_sql("commit/write_at_once")).format(
        writes=_COMMA.join(write.format(sql.Identifier(name), statement) for name, statement in parts.items()),
        counts=_COMMA.join(count.format(sql.Identifier(name)) for name in parts),
    )


def _formats(pipeline: Pipeline, tables: StagingTables, emptied: Sequence[str], fill: bool, again: bool) -> Formats:
    """Return the open parts: ``s`` is a staged row, ``t`` the stored order, ``t`` or ``u`` (beside) the user's row."""
    record, beside = pipeline.record, pipeline.target.beside
    row, first_wins = "u" if beside else "t", pipeline.target.merge is Merge.SKIP_EXISTING
    moments = [
        f"{name}{suffix}"
        for suffix in ("", *(f"_{place}" for place in range(len(record.groups))))
        for name in LOG_MOMENTS
        if record.log_orders
    ]
    columns = [*(name for name, _ in row_columns(record)), "_deleted", *moments]
    staged = staged_values(record, dict.fromkeys(columns))
    staging = typed_keys(record, tables.identifier(tables.rows))
    in_log_order = by_log(pipeline, staging, _batch_id(tables), record.groups) if record.log_orders else staging
    whole = {name: value for name, value in _values(pipeline).items() if not _group(pipeline, name)}
    formats: dict[str, sql.Composable] = {
        **row_formats(record),
        "classes": tables.identifier(tables.classes),
        "staging": staging,
        "staging_in_order": in_log_order,
        # A record that the log orders has no state in common with another.
        "same_state": sql.SQL("false" if record.log_orders else "s.publish_at = greatest(_newest, t.publish_at)"),
        "target": table_of(pipeline.bookkeeping),
        "batch_id": _batch_id(tables),
        "joined": _NOTHING,
        "row_known": sql.Identifier(row, record.key_names[0]),
        "first_wins": sql.Literal(first_wins),
        "ranked": _COMMA.join(
            sql.SQL("{} AS {}").format(value, sql.Identifier(name)) for name, value in staged.items()
        ),
        "staged": _COMMA.join(sql.Identifier("s", name) for name in staged),
        "by_rule": _by_rule(pipeline, LOG_MOMENTS[0]),
        "differs": _differs(row, whole),
        "emptied": have_values(row, emptied),
    }
    if record.append:
        formats |= _appended(pipeline, tables, formats, fill, again)
    elif beside:
        join = "\nLEFT JOIN {} AS u ON {}"
        formats["joined"] = sql.SQL(join).format(table_of(pipeline), same_key(record, "u", "s"))
    # A row that the table had before the first batch is older than any record: it counts as the first.
    there = "{known} IS NOT NULL OR {row_known} IS NOT NULL" if first_wins else "{known} IS NOT NULL"
    if record.append:  # a redrive adds records from quarantine
        there += " OR {in_quarantine}"
    row_differs = "CASE WHEN s._deleted THEN {row_known} IS NOT NULL ELSE {row_known} IS NULL OR {differs} END"
    parts = {
        "there": there,
        "fills": "NOT s._deleted AND ({row_known} IS NULL OR {differs} OR {emptied})" if fill else "false",
        "newer": f"NOT ({there})" if first_wins else "{known} IS NULL OR ({order}) > ({stored_state})",
        "miswritten": "({state}, {batch_id}) IS DISTINCT FROM ({stored_state}, t._batch_id) OR "
        + (row_differs if beside else "{differs}"),
    }
    formats |= {name: sql.SQL(part).format(**formats) for name, part in parts.items()}
    of_groups = [_of_group(pipeline, place, formats, fill) for place in range(len(record.groups))]
    names = ("first_of_groups", "gives", "group_miswritten")
    return formats | {name: _NOTHING.join(each[name] for each in of_groups) for name in names}


def _appended(pipeline: Pipeline, tables: StagingTables, formats: Formats, fill: bool, again: bool) -> Formats:
    """The parts where each record is a row: it is known by its coordinates in its log, and has no other order."""
    batch_id = _batch_id(tables)
    logs = (log_at(pipeline, sql.Identifier("s"), each) for each in (sql.Identifier("t", "_batch_id"), batch_id))
    parts: dict[str, sql.Composable] = {
        "same_key": sql.SQL("{} AND {} = {}").format(formats["same_key"], *logs),
        **dict.fromkeys(("state", "order"), formats["place"]),
        **dict.fromkeys(("stored_state", "stored_order"), formats["stored_place"]),
        "in_quarantine": sql.SQL(named_sql("append/in_quarantine")).format(batch_id=batch_id),
    }
    if not fill:
        join = sql.SQL("\nLEFT JOIN ({}) AS b ON b.partition = s._partition").format(read_before(tables))
        parts["classes"] = sql.SQL(named_sql("append/classes")).format(
            **formats,
            is_again=sql.SQL("b.offsets @> s._offset" if again else "false"),
            with_again=join if again else _NOTHING,
        )
    return parts


def _of_group(pipeline: Pipeline, place: int, formats: Formats, fill: bool) -> Formats:
    """Return the formats of a group: whether a staged row has its values, is its key's first to, and gives them."""
    record, group = pipeline.record, pipeline.record.groups[place]
    names = ("has", "first", "gives")
    parts = {
        **formats,
        **{name: sql.Identifier("s", f"_{name}_{place}") for name in names},
        **{f"as_{name}": sql.Identifier(f"_{name}_{place}") for name in names},
        "in_groups": gives_group(group),
        "stored_group": _COMMA.join(_stored_of_group(record, group)),
        "group_order": _orders_of_group(pipeline, place)[0],
        "wins": _wins(pipeline, place),
        "by_group_rule": _by_rule(pipeline, f"{LOG_MOMENTS[0]}_{place}"),
        "group_differs": _differs("u", {n: v for n, v in _values(pipeline).items() if _group(pipeline, n) == group}),
    }
    refills = "({state}) = ({stored_group}) AND NOT s._deleted AND ({row_known} IS NULL OR {group_differs})"
    wrong = "({state}) IS DISTINCT FROM ({stored_group}) OR {row_known} IS NOT NULL AND {group_differs}"
    newer = "(({group_order}) > ({stored_group})) IS NOT FALSE"
    first = "count(*) FILTER (WHERE {in_groups}) OVER by_key"
    if record.log_orders:
        first = "row_number() OVER (PARTITION BY {key} ORDER BY {in_groups} DESC, {by_group_rule})"
    texts = {
        "first_of_groups": f", {{in_groups}} AS {{as_has}}, {{in_groups}} AND {first} = 1 AS {{as_first}}",
        "gives": f", {{has}}, {{first}}, {{first}} AND ({{wins}}{f' OR {refills}' if fill else ''}) AS {{as_gives}}",
        "group_miswritten": f" OR {{has}} AND {newer} OR {{gives}} AND ({wrong})",
    }
    return {name: sql.SQL(text).format(**parts) for name, text in texts.items()}


def _wins(pipeline: Pipeline, place: int) -> sql.Composable:
    """Return the condition that a staged row is newer than the record that gave the group, or that none has yet."""
    return sql.SQL("(({}) > ({})) IS NOT FALSE").format(*_orders_of_group(pipeline, place))


def _orders_of_group(pipeline: Pipeline, place: int) -> tuple[sql.Composable, sql.Composable]:
    """The order of a staged row among those that have the group, and that of the record that has given it."""
    record, group = pipeline.record, pipeline.record.groups[place]
    order = [sql.Identifier("s", name) for name in order_columns(record)]
    stored = _stored_of_group(record, group)
    if record.log_orders:
        order[0], stored_at = (sql.Identifier("s", f"{name}_{place}") for name in LOG_MOMENTS)
        stored[0] = sql.SQL("coalesce({}, {})").format(stored_at, stored[0])
    return _COMMA.join(order), _COMMA.join(stored)


def _stored_of_group(record: RecordShape, group: str) -> list[sql.Composable]:
    """The order of the record that gave a stored row the columns of the group; NULLs where none did."""
    names = map(sql.Identifier, order_columns(record))
    return [sql.SQL("({}).{}").format(sql.Identifier("t", group), name) for name in names]


def _by_rule(pipeline: Pipeline, moment: str) -> sql.Composable:
    """The columns that order staged rows, the one that wins first; where the log orders they begin with the moment."""
    record, names = pipeline.record, order_columns(pipeline.record)
    direction = sql.SQL("ASC" if pipeline.target.merge is Merge.SKIP_EXISTING else "DESC")
    names = [moment, *names[1:]] if record.log_orders else names
    return _COMMA.join(sql.SQL("{} {}").format(sql.Identifier(name), direction) for name in names)


def _group(pipeline: Pipeline, name: str) -> str:
    return next((column.group for column in pipeline.record.columns if column.name == name), "")


def _values(pipeline: Pipeline) -> Formats:
    """The values that a staged row has for columns of the user's table, but for its key and the id of the batch."""
    record, target = pipeline.record, pipeline.target
    staged = {name: name for name, _ in row_columns(record)}
    if target.beside:
        staged = {column.name: column.name for column in record.columns}
        staged |= {own: name for name, own in target.copied if name != "_batch_id"}
    return {own: sql.Identifier("s", name) for own, name in staged.items() if own not in record.key_names}


def _differs(row: str, values: Formats) -> sql.Composable:
    """The condition that a row has other values, to the last bit. The key is not among them: equal is not identical."""
    return sql.SQL("ROW({})::record OPERATOR(pg_catalog.*<>) ROW({})::record").format(
        _COMMA.join(sql.Identifier(row, name) for name in values), _COMMA.join(values.values())
    )


def _of_records(pipeline: Pipeline, tables: StagingTables, formats: Formats) -> Write:
    """The write where each record is a row."""
    values = dict(_values(pipeline))
    if own := pipeline.target.name_of("_batch_id"):
        values[own] = _batch_id(tables)
    return _insert(pipeline, formats, values, sql.SQL(_ADDED))


def _of_order(pipeline: Pipeline, tables: StagingTables, emptied: Sequence[str], formats: Formats) -> Iterator[Write]:
    """Return the writes of the table that has the order of each row: the user's, or the bookkeeping beside it."""
    kept, of_rows = pipeline.bookkeeping, not pipeline.target.beside
    batch_id = _batch_id(tables)
    values = {**_values(kept), "_batch_id": batch_id}
    updated, inserted = dict(values), dict(values)
    for place, group in enumerate(pipeline.record.groups):
        inserted[group] = _if_given(place, _group_value(pipeline, batch_id))
        updated[group] = _if_given(place, _group_value(pipeline, batch_id), sql.Identifier("t", group))
    if of_rows:
        updated |= dict.fromkeys(emptied, sql.NULL)
    newer = "s._class = 'u' AND ({order}) > ({stored_order}) OR s._class = 'f' AND ({state}) = ({stored_state})"
    yield _update(kept, formats, updated, sql.SQL(_KNOWN), of_rows, sql.SQL(newer).format(**formats))
    yield _insert(kept, formats, inserted, sql.SQL(_ADDED), of_rows)
    for place, group in enumerate(pipeline.record.groups):
        of_group = _COMMA.join(_stored_of_group(pipeline.record, group))
        parts = {**formats, "wins": _wins(pipeline, place), "stored": of_group}
        still = sql.SQL("{wins} OR ({state}) = ({stored})").format(**parts)
        yield _update(kept, formats, {group: _group_value(pipeline, batch_id)}, _alone(place), of_rows, still)


def _of_rows(pipeline: Pipeline, tables: StagingTables, emptied: Sequence[str], formats: Formats) -> Iterator[Write]:
    """Return the writes of the user's table if its bookkeeping is beside it."""
    target, groups = pipeline.target, pipeline.record.groups
    if not target.beside:
        return
    values = _values(pipeline)
    own = {name: _batch_id(tables) for copied, name in target.copied if copied == "_batch_id"}
    updated, inserted = {**values, **own}, {**values, **own}
    for name, value in values.items():
        if group := _group(pipeline, name):
            inserted[name] = _if_given(groups.index(group), value)
            updated[name] = _if_given(groups.index(group), value, sql.Identifier("t", name))
    updated |= dict.fromkeys(emptied, sql.NULL)
    gone = sql.SQL("s._class IN ('i', 'u') AND s._deleted AND s._known")
    statement = sql.SQL(named_sql("commit/delete_rows"))
    yield Write(statement.format(**{**formats, "table": table_of(pipeline), "wanted": gone}), gone)
    stands = f"{_WRITTEN} AND NOT s._deleted AND {{}}"
    if updated:
        yield _update(pipeline, formats, updated, sql.SQL(stands.format("s._known")))
    yield _insert(pipeline, formats, inserted, sql.SQL(stands.format("NOT s._known")))
    for place, group in enumerate(groups):  # a row that somebody has deleted cannot get them
        given = {name: value for name, value in values.items() if _group(pipeline, name) == group}
        yield _update(pipeline, formats, given, _alone(place), exact=False)


def _if_given(place: int, value: sql.Composable, otherwise: sql.Composable = sql.NULL) -> sql.Composable:
    gives = sql.Identifier("s", f"_gives_{place}")
    return sql.SQL("CASE WHEN {} THEN {} ELSE {} END").format(gives, value, otherwise)


def _batch_id(tables: StagingTables) -> sql.Composable:
    return sql.SQL("{}::bigint").format(sql.Literal(tables.batch_id))


def _group_value(pipeline: Pipeline, batch_id: sql.Composable) -> sql.Composable:
    topic = "s._topic" if pipeline.record.topic_names else "NULL"
    value = f"ROW(s.publish_at, {topic}, s._partition, s._offset, s._timestamp, {{}})::offset_ledger.group_order"
    return sql.SQL(value).format(batch_id)


def _alone(place: int) -> sql.Composable:
    """Return the condition that a staged row gives a group to a row whose other values come from another record."""
    return sql.SQL(f"{{}} AND NOT {_WRITTEN}").format(sql.Identifier("s", f"_gives_{place}"))


def _update(
    pipeline: Pipeline,
    formats: Formats,
    values: Formats,
    wanted: sql.Composable,
    of_rows: bool = True,
    still: sql.Composable | None = None,
    exact: bool = True,
) -> Write:
    """Return an update; ``still`` must hold for the stored row, too: it did when the classes were made."""
    assignments = (sql.SQL("{} = {}").format(sql.Identifier(name), value) for name, value in values.items())
    parts = {
        "table": table_of(pipeline),
        "assignments": _COMMA.join(assignments),
        "wanted": sql.SQL("{} AND ({})").format(wanted, still) if still else wanted,
    }
    return Write(sql.SQL(named_sql("commit/update_rows")).format(**{**formats, **parts}), wanted, of_rows, exact)


def _insert(
    pipeline: Pipeline, formats: Formats, values: Formats, wanted: sql.Composable, of_rows: bool = True
) -> Write:
    key = pipeline.record.key_names if pipeline.has_coordinates else ()
    values = {name: sql.Identifier("s", name) for name in key} | dict(values)
    parts = {
        "table": table_of(pipeline),
        "columns": _COMMA.join(map(sql.Identifier, values)),
        "values": _COMMA.join(values.values()),
        "wanted": wanted,
    }
    return Write(sql.SQL(named_sql("commit/insert_rows")).format(**{**formats, **parts}), wanted, of_rows)

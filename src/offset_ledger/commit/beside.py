"""The rows of a table whose bookkeeping is in another one: written where the merge into that has settled what stands.

Bookkeeping of columns in groups has a row for each group that a record gives, and one for the row as a whole.
"""

from collections.abc import Mapping, Sequence

from psycopg2 import sql

from offset_ledger.config.model import Pipeline
from offset_ledger.ledger.database import Cursor, named_sql
from offset_ledger.ledger.row_order import have_values, row_formats, same_key, staged_values, table_of

_COMMA, _AND = sql.SQL(", "), sql.SQL(" AND ")
_NO_GROUP = ""

Formats = Mapping[str, sql.Composable]


def in_groups(pipeline: Pipeline, staging: sql.Identifier) -> sql.Composable:
    """The staged rows; each of them once for the row as a whole and for each of its groups, where there are any."""
    if not pipeline.record.groups:
        return staging
    query = "(SELECT s.*, _group FROM {} AS s CROSS JOIN unnest(array_prepend('', s._groups)) AS g (_group))"
    return sql.SQL(query).format(staging)


def beside_formats(pipeline: Pipeline, names: Formats, emptied: Sequence[str]) -> dict[str, sql.Composable]:
    """What statements leave open that write the rows ``u`` of a table whose bookkeeping ``t`` is in another one."""
    record, copied = pipeline.record, pipeline.target.copied
    groups = {column.name: column.group for column in record.columns if column.group}
    values = staged_values(record, (column.name for column in record.all_columns))
    staged = [*values, *(name for name, _ in copied if name not in ("_batch_id", *values))]
    values |= {
        own: sql.Placeholder("batch_id") if name == "_batch_id" else sql.Identifier("s", name) for name, own in copied
    }
    assigned = {name: value for name, value in values.items() if name not in record.key_names}
    each = (_NO_GROUP, *record.groups)
    taken = {group: sql.Identifier("s", f"_takes_{place}") for place, group in enumerate(each)}
    if record.groups:
        kept = "CASE WHEN {} THEN {} ELSE {} END"
        assigned = {
            name: sql.SQL(kept).format(taken[groups.get(name, _NO_GROUP)], value, sql.Identifier("u", name))
            for name, value in assigned.items()
        }
    assigned |= dict.fromkeys(emptied, sql.NULL)
    takes = [
        sql.SQL("bool_or(s._group = {}) AS {}").format(sql.Literal(group), sql.Identifier(f"_takes_{place}"))
        for place, group in enumerate(each)
    ]
    pivoted = [
        sql.SQL("offset_ledger.only(s.{0}) FILTER (WHERE s._group = {1}) AS {0}").format(
            sql.Identifier(name), sql.Literal(groups.get(name, _NO_GROUP))
        )
        for name in staged
        if name not in record.key_names
    ]
    key = row_formats(record)["staged_key"]
    return {
        **names,
        "table": table_of(pipeline),
        "same_row": same_key(record, "u", "s"),
        "same_whole": _AND.join([same_key(record, "w", "s"), *([sql.SQL("w._group = ''")] if record.groups else [])]),
        "row_known": sql.Identifier("u", record.key_names[0]),
        "row_key": key,
        "row_columns": _COMMA.join(map(sql.Identifier, values)),
        "row_values": _COMMA.join(values.values()),
        "differs": _differs(values, groups, each),
        "staged_columns": _COMMA.join(sql.Identifier("s", name) for name in staged),
        "pivoted_columns": _COMMA.join([key, *takes, *pivoted]),
        "takes_whole": taken[_NO_GROUP],
        "row_assignments": assignments(assigned),
        "emptied_has_values": have_values("u", emptied),
    }


def assignments(values: Formats) -> sql.Composable:
    """What an UPDATE sets."""
    return _COMMA.join(sql.SQL("{} = {}").format(sql.Identifier(name), value) for name, value in values.items())


def _differs(values: Formats, groups: Mapping[str, str], each: Sequence[str]) -> sql.Composable:
    """The condition that a row of the table has other values than a staged one, in the group that this is about."""
    of_group = {
        group: sql.SQL("ROW({})::record OPERATOR(pg_catalog.*<>) ROW({})::record").format(
            _COMMA.join(sql.Identifier("u", name) for name in values if groups.get(name, _NO_GROUP) == group),
            _COMMA.join(value for name, value in values.items() if groups.get(name, _NO_GROUP) == group),
        )
        for group in each
    }
    if len(each) == 1:
        return of_group[_NO_GROUP]
    cases = (sql.SQL("WHEN {} THEN {}").format(sql.Literal(group), differs) for group, differs in of_group.items())
    return sql.SQL("CASE s._group {} END").format(sql.SQL(" ").join(cases))


def write_rows(cursor: Cursor, pipeline: Pipeline, names: Formats, by: Mapping[str, object]) -> int:
    """Write what the bookkeeping has of the batch into the table beside it; how many rows that were."""
    if pipeline.record.deletes:
        cursor.execute(sql.SQL(named_sql("commit/delete_rows")).format(**names), by)
    statement = named_sql("commit/write_groups") if pipeline.record.groups else named_sql("commit/write_rows")
    return cursor.execute(sql.SQL(statement).format(**names), by).rowcount


def find_unwritten(cursor: Cursor, names: Formats, by: Mapping[str, object]) -> str | None:
    """An event of the batch that does not stand in the table as it was staged, if there is one."""
    event: str | None = cursor.execute(sql.SQL(named_sql("commit/find_unwritten")).format(**names), by).one()[0]
    return event

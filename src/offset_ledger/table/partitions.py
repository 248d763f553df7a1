"""Range partitions of the target table, one for each period of a date or a moment: those that are missing."""

from psycopg2 import sql

from offset_ledger.config.model import Period, Pipeline, Target
from offset_ledger.config.names import POSTGRES_NAME_BYTES
from offset_ledger.ledger.database import Cursor, named_sql
from offset_ledger.table.fit import RANGE_TYPES, Misfit

_SUFFIXES = {Period.DAY: "YYYYMMDD", Period.WEEK: "YYYYMMDD", Period.MONTH: "YYYYMM", Period.YEAR: "YYYY"}


def missing_partitions(cursor: Cursor, pipeline: Pipeline, staging: sql.Identifier | None = None) -> list[Misfit]:
    """Return the partitions that the next commit creates: for the staged rows, and ahead of today.

    A table that is not partitioned as ``target.partitions`` says is left to the fit of the table.
    """
    target, wanted = pipeline.target, pipeline.target.partitions
    if wanted is None:
        return []
    row = cursor.run("table/range_partitions", schema=target.schema, table=target.table).fetchone()
    if row is None or row["type"] not in RANGE_TYPES:
        return []
    is_date, name = row["type"] == "date", sql.Identifier(row["name"])
    utc = sql.SQL("AT TIME ZONE 'UTC'")
    none = sql.SQL("(SELECT {}::{} AS {} LIMIT 0)").format(sql.NULL, sql.SQL(row["type"]), name)
    query = sql.SQL(named_sql("table/missing_periods")).format(
        every=sql.Literal(wanted.every),
        period=sql.SQL("{}::interval").format(sql.Literal(f"1 {wanted.every}")),
        ahead=sql.Literal(wanted.ahead),
        suffix=sql.Literal(_SUFFIXES[wanted.every]),
        name=name,
        local=sql.SQL("::timestamp") if is_date else utc,
        stored=sql.SQL("::date") if is_date else utc,
        covered=sql.SQL(row["covered"]),
        staged=_staged(target, row["name"], staging) if staging else none,
    )
    target_name = sql.Identifier(target.schema, target.table)
    midnight = "" if is_date else " 00:00:00+00"
    made = []
    for suffix, first_day, end_day in cursor.execute(query).fetchall():
        partition = f"{target.table[: POSTGRES_NAME_BYTES - len(suffix) - 2]}_p{suffix}"
        names = {"partition": sql.Identifier(target.schema, partition), "target": target_name}
        bounds = {"first": sql.Literal(first_day + midnight), "end": sql.Literal(end_day + midnight)}
        # Unlike CREATE TABLE ... PARTITION OF, it lets others read and write the table until the COMMIT.
        in_one_line = " ".join(named_sql("table/create_partition").split())
        statement = sql.SQL(in_one_line).format(**names, **bounds)
        text = f"no partition for the {wanted.every} of {first_day}"
        made.append(Misfit(text, statement=statement.as_string(cursor), change=None))
    return made


def _staged(target: Target, name: str, staging: sql.Identifier) -> sql.Composable:
    """The staged rows, with the bookkeeping column of which the partition column is a copy under its name."""
    copied = next((copied for copied, own in target.copied if own == name), None)
    if copied is None:
        return staging
    return sql.SQL("(SELECT {} AS {} FROM {})").format(sql.Identifier(copied), sql.Identifier(name), staging)

"""Range partitions of the target table, one for each period of a date or a moment: those that are missing."""

from psycopg2 import sql

from offset_ledger.errors import TargetMismatch
from offset_ledger.pipeline_file.names import cut_name
from offset_ledger.pipeline_file.pipeline import Period, Pipeline, Target, in_sql
from offset_ledger.postgres.ledger.database import Cursor, named_sql
from offset_ledger.postgres.table.fit import RANGE_TYPES, Misfit

_SUFFIXES = {Period.DAY: "YYYYMMDD", Period.WEEK: "YYYYMMDD", Period.MONTH: "YYYYMM", Period.YEAR: "YYYY"}


def missing_partitions(cursor: Cursor, pipeline: Pipeline, staging: sql.Composable | None = None) -> list[Misfit]:
    """Return the partitions that the next commit creates: for the staged rows, and ahead of today.

    If other partitions have a part of a period, the new ones cover the rest. A table that is not partitioned as
    ``target.partitions`` says is left to the fit of the table.

    Raises:
        TargetMismatch: another table has the name of one.
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
    kind = "daterange" if is_date else "tstzrange"
    query = sql.SQL(named_sql("table/missing_periods")).format(
        type=sql.SQL(row["type"]),
        range=sql.SQL(kind),
        ranges=sql.SQL(kind.replace("range", "multirange")),
        rest=sql.SQL(row["rest"].replace("%", "%%")) if row["rest"] else none,
        every=sql.Literal(wanted.every),
        period=sql.SQL("{}::interval").format(sql.Literal(f"1 {wanted.every}")),
        ahead=sql.Literal(wanted.ahead),
        suffix=sql.Literal(_SUFFIXES[wanted.every]),
        name=name,
        local=sql.SQL("::timestamp") if is_date else utc,
        stored=sql.SQL("::date") if is_date else utc,
        staged=_staged(target, row["name"], staging) if staging else none,
    )
    target_name = sql.Identifier(target.schema, target.table)
    made = []
    for suffix, first_day, first, end in cursor.execute(query, dict(row)).fetchall():
        partition = cut_name(target.table, f"_p{suffix}")
        names = {"partition": sql.Identifier(target.schema, partition), "target": target_name}
        bounds = {"first": sql.Literal(first), "end": sql.Literal(end)}
        if cursor.execute("SELECT to_regclass(%s)", [names["partition"].as_string(cursor)]).one()[0]:
            raise TargetMismatch(
                f"pipeline {pipeline.name}: table {target.name} needs a partition from {first} to "
                f"{end}, and {in_sql(target.schema, partition)} exists and is none of its; nothing was changed; if it "
                "was detached, ATTACH it again, else move it to another schema or rename it"
            )
        # Unlike CREATE TABLE ... PARTITION OF, it lets others read and write the table until the COMMIT.
        in_one_line = " ".join(named_sql("table/create_partition").split())
        statement = sql.SQL(in_one_line).format(**names, **bounds)
        text = f"no partition for the {wanted.every} of {first_day}"
        made.append(Misfit(text, statement=statement.as_string(cursor), change=None))
    return made


def partitions_of_moments(cursor: Cursor, pipeline: Pipeline, moments: sql.Composable) -> list[Misfit]:
    """Return the partitions needed by rows with these moments as ``publish_at``, if that or a copy partitions."""
    target = pipeline.target
    row = cursor.run("table/range_partitions", schema=target.schema, table=target.table).fetchone()
    own = dict(target.copied).get("publish_at") if target.beside else "publish_at"
    return missing_partitions(cursor, pipeline, moments) if row and row["name"] == own else []


def _staged(target: Target, name: str, staging: sql.Composable) -> sql.Composable:
    """Return the staged rows, with the bookkeeping column that the partition column copies under its name."""
    copied = next((copied for copied, own in target.copied if own == name), None)
    if copied is None:
        return staging
    return sql.SQL("(SELECT {} AS {} FROM {} AS s)").format(sql.Identifier(copied), sql.Identifier(name), staging)

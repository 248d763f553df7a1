"""The target table: made where it is missing, checked column by column where it exists."""

from __future__ import annotations

from psycopg2 import sql

from offset_ledger.errors import TargetMismatch
from offset_ledger.ledger.database import Cursor
from offset_ledger.ledger.staging import row_columns
from offset_ledger.pipeline.model import Pipeline, RecordShape, Tombstone


def target_columns(record: RecordShape) -> list[tuple[str, str]]:
    """(name, Postgres type) of every column of the target, in table order."""
    return [*row_columns(record), ("_batch_id", "bigint")]


def ensure_target(cursor: Cursor, pipeline: Pipeline) -> bool:
    """Create the target table, or hold that the one that exists fits; returns whether it was created.

    Raises:
        TargetMismatch: it does not fit; the message names every column that differs.
    """
    target = pipeline.target
    cursor.execute("SELECT to_regclass(%s)", [f'"{target.schema}"."{target.table}"'])
    if cursor.one()[0] is None:
        _create(cursor, pipeline)
        return True
    _check(cursor, pipeline)
    return False


def _create(cursor: Cursor, pipeline: Pipeline) -> None:
    record = pipeline.record
    nullable = {column.name for column in record.columns if column.nullable} | {"_key", "_headers"}
    declared = {column.name for column in record.columns}
    markers = record.tombstone is Tombstone.DELETE
    definitions: list[sql.Composable] = []
    for name, kind in target_columns(record):
        parts = [sql.Identifier(name), sql.SQL(kind)]
        if name == "event_id":
            parts.append(sql.SQL("PRIMARY KEY"))
        elif markers and name in declared - nullable:  # a delete marker keeps only its coordinates
            parts.append(sql.SQL("CHECK (_deleted OR {} IS NOT NULL)").format(sql.Identifier(name)))
        elif name not in nullable:
            parts.append(sql.SQL("NOT NULL"))
        definitions.append(sql.SQL(" ").join(parts))
    cursor.execute("SELECT FROM pg_namespace WHERE nspname = %s", [pipeline.target.schema])
    if not cursor.rowcount:  # IF NOT EXISTS would want the right to create schemas also where there is nothing to do
        cursor.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(pipeline.target.schema)))
    cursor.execute(sql.SQL("CREATE TABLE {} ({})").format(_name(pipeline), sql.SQL(", ").join(definitions)))


def _name(pipeline: Pipeline) -> sql.Identifier:
    return sql.Identifier(pipeline.target.schema, pipeline.target.table)


def _check(cursor: Cursor, pipeline: Pipeline) -> None:
    qualified = _name(pipeline).as_string(cursor)
    cursor.execute(
        "SELECT attname, format_type(atttypid, atttypmod) AS type, attnotnull, atthasdef OR attidentity <> '' AS filled"
        " FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
        [qualified],
    )
    found = {row["attname"]: row for row in cursor.fetchall()}
    problems = []
    nullable = {column.name for column in pipeline.record.columns if column.nullable} | {"_key", "_headers"}
    for name, kind in target_columns(pipeline.record):
        wanted = kind.split(" COLLATE")[0].replace("timestamptz", "timestamp with time zone")
        if name not in found:
            problems.append(f"column {name} {wanted} is missing")
        elif found[name]["type"] != wanted:
            problems.append(f"column {name} is {found[name]['type']}, declared {wanted}")
        elif found[name]["attnotnull"] and name in nullable:
            problems.append(f"column {name} is NOT NULL, declared nullable")
    ours = {name for name, _ in target_columns(pipeline.record)}
    for name, row in found.items():
        if name not in ours and row["attnotnull"] and not row["filled"]:
            problems.append(f"column {name} is NOT NULL without a default and not declared")
    if not _unique_event_id(cursor, qualified):
        problems.append("event_id has no primary key or unique index of its own")
    if problems:
        raise TargetMismatch(
            f"pipeline {pipeline.name}: table {pipeline.target.schema}.{pipeline.target.table} does not fit: "
            f"{'; '.join(problems)}; alter the table or the pipeline file"
        )


def _unique_event_id(cursor: Cursor, qualified: str) -> bool:
    cursor.execute(
        "SELECT count(*) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attname = 'event_id'"
        " WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indpred IS NULL AND i.indnkeyatts = 1"
        " AND i.indkey[0] = a.attnum",
        [qualified],
    )
    return bool(cursor.one()[0])

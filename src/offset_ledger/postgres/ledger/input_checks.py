"""Texts of types that only Postgres can read: its input functions check what was staged, and refuse invalid values.

From 16 on pg_input_is_valid answers. If the server is older, or an input function raises instead of answering, all
texts are read at once, and only if one is refused a function of the ledger catches what is raised for each.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg2
from psycopg2 import sql

from offset_ledger.pipeline_file.pipeline import Column, RecordShape
from offset_ledger.postgres.ledger.database import Cursor, named_sql, savepoint
from offset_ledger.postgres.ledger.staging import refused_types

INPUT_IS_VALID = 160_000
"""The first server with pg_input_is_valid, as libpq has versions."""
_ANSWERS = "CASE WHEN NOT pg_input_is_valid({value}, {type}) THEN (pg_input_error_info({value}, {type})).message END"
_RAISES = "CASE WHEN {value} IS NOT NULL AND {array}::{array_type} IS NULL THEN NULL END"
_CATCHES = "offset_ledger.input_error({value}, {type})"
_RAISED_BY_INPUT = ("0A", "22", "23", "42601", "54", "P0", "XX")  # SQLSTATEs and classes of them, as in input_error
_WORDS, _NUMBER = r"\m(now|today|tomorrow|yesterday)\M", r"^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,4})?$"


@dataclass(frozen=True, slots=True)
class Judged:
    """A column some of whose texts are refused.

    ``error`` is, in SQL over a staged row ``s``, why its text is refused, NULL if it is not. ``coordinates_sql``
    selects ``_partition, _offset`` of each failing row, ``reasons_sql`` also its ``reason``.
    """

    name: str
    type: str
    failing: int
    error: str
    coordinates_sql: str
    reasons_sql: str

    def failing_rows(self, place: int) -> sql.Composable:
        """Return the query of the failing rows, as :func:`move_refused` takes it."""
        return failing_rows(place, self.reasons_sql, sql.SQL("reason"))


def judge(cursor: Cursor, staging: sql.Identifier, record: RecordShape) -> list[Judged]:
    """Have Postgres judge the staged texts; return the columns of which some are refused."""
    judged = (_judge(cursor, staging, column) for column in record.all_columns if column.type.judged)
    return [each for each in judged if each.failing]


def _judge(cursor: Cursor, staging: sql.Identifier, column: Column) -> Judged:
    answers = cursor.connection.server_version >= INPUT_IS_VALID
    for way in (_ANSWERS, _RAISES) if answers else (_RAISES,):
        try:
            with savepoint(cursor):
                return _counted(cursor, staging, column, way)
        except psycopg2.Error as error:
            if not (error.pgcode or "").startswith(_RAISED_BY_INPUT):
                raise
    return _counted(cursor, staging, column, _CATCHES)


def _counted(cursor: Cursor, staging: sql.Identifier, column: Column, way: str) -> Judged:
    place, type_ = sql.Identifier("s", column.name), column.type.sql
    value = sql.SQL("{}::text").format(place)
    # As the element of an array, for a cast cuts a text that is too long.
    array = value if type_.endswith("[]") else sql.SQL("(ARRAY[{}]::text)").format(value)
    array_type = sql.SQL(f"{type_.removesuffix('[]')}[]")
    unlimited, lost = cursor.run("validate/unlimited_type", type=type_).fetchone() or (None, None)
    changed = f" OR {{0}}::{unlimited} IS DISTINCT FROM {{0}}::{type_}::{unlimited}" if unlimited else ""
    changed += " OR {0} ~* {1}" if lost and not column.round else ""
    error = sql.SQL(named_sql("validate/input_error")).format(
        refused=sql.SQL(way).format(value=value, type=sql.Literal(type_), array=array, array_type=array_type),
        value=value,
        read=sql.SQL("{}::{}::text").format(place, sql.SQL(type_)),
        words=sql.Literal(_WORDS),
        number=sql.Literal(_NUMBER),
        changed=sql.SQL(changed).format(value, sql.Literal(lost)),
    )
    names = {"staging": staging, "error": error, "column": sql.Literal(column.name), "type": sql.Literal(type_)}
    coordinates, reasons = (
        sql.SQL(named_sql(f"validate/failing_{of}")).format(**names).as_string(cursor)
        for of in ("coordinates", "inputs")
    )
    cursor.execute(sql.SQL(named_sql("validate/count_failing")).format(failing=sql.SQL(coordinates)))
    return Judged(column.name, type_, cursor.one()[0], error.as_string(cursor), coordinates, reasons)


def failing_rows(place: int, query: str, reason: sql.Composable) -> sql.Composable:
    """Return the query of rows that failed, with their place among others and, in SQL over the query, their reason."""
    return sql.SQL(named_sql("validate/failing_rows")).format(
        place=sql.Literal(place), reason=reason, failing=sql.SQL(query), name=sql.Identifier(f"f{place}")
    )


def move_refused(
    cursor: Cursor,
    record: RecordShape,
    failing: Sequence[sql.Composable],
    staging: sql.Identifier,
    refused: sql.Identifier,
) -> dict[str, int]:
    """Move failing rows to the refusals, each once with all its reasons; returns how many by partition.

    Each query selects ``_partition, _offset, place, reason``; the reasons of a row are in the order of ``place``.
    """
    if not failing:
        return {}
    columns = [name for name in refused_types(record) if name != "reasons"]
    statement = sql.SQL(named_sql("validate/move_to_quarantine")).format(
        failing=sql.SQL(" UNION ALL ").join(failing),
        staging=staging,
        refused=refused,
        columns=sql.SQL(", ").join(map(sql.Identifier, columns)),
        returned=sql.SQL(", ").join(sql.Identifier("s", name) for name in columns),
    )
    return {str(row[0]): row[1] for row in cursor.execute(statement).fetchall()}

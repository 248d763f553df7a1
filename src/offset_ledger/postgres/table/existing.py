"""A table that is there before its pipeline file is: its columns and keys, read for ``init``."""

from dataclasses import dataclass

from offset_ledger.pipeline_file.pipeline import in_sql
from offset_ledger.postgres.ledger.database import Cursor


@dataclass(frozen=True, slots=True)
class ExistingColumn:
    """A column and its type; ``filled`` by a default or an identity, ``always`` if only a key may have another."""

    name: str
    type: str
    nullable: bool
    filled: bool
    always: bool = False


@dataclass(frozen=True, slots=True)
class ExistingTable:
    """The columns that a pipeline may write, in their order, and the columns of each key: the primary key first."""

    name: str
    columns: tuple[ExistingColumn, ...]
    keys: tuple[tuple[str, ...], ...]


def read_existing(cursor: Cursor, schema: str, table: str) -> ExistingTable | None:
    """Read the table; None if there is none."""
    place = {"schema": schema, "table": table}
    columns = tuple(
        ExistingColumn(
            row["name"],
            row["type"],
            not (row["not_null"] or row["domain_not_null"]),
            row["filled"],
            row["always_identity"],
        )
        for row in cursor.run("table/columns", **place, columns=[]).fetchall()
        if not row["generated"]
    )
    keys = tuple(tuple(row["columns"]) for row in cursor.run("table/keys", **place).fetchall())
    return ExistingTable(in_sql(schema, table), columns, keys) if columns else None

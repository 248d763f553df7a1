"""The database as it was at an earlier moment, kept inside of the same Postgres: what a standby or a backup has of it.

Rows of the ledger and of the target, and values of sequences, come back as they were; staging is UNLOGGED, so its
tables come back empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from psycopg2 import sql

from offset_ledger.pipeline_file.pipeline import ROWS_SCHEMA
from offset_ledger.postgres.ledger.staging import SCHEMA
from tests.machine.pipelines import TABLE

LEDGER = "offset_ledger"
_ROWS, _TABLES = "earlier_rows", "earlier_tables"
_COLUMNS = """
SELECT relname AS name, string_agg(quote_ident(attname), ', ') AS columns
FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
WHERE relnamespace = %s::regnamespace AND relkind = 'r' AND relname <> 'migration'
  AND attnum > 0 AND attgenerated = '' AND NOT attisdropped
GROUP BY 1 ORDER BY 1
"""
Query = Callable[..., list[Mapping[str, Any]]]


class Earlier:
    """Copies of the tables: made once for the ledger's, and anew each time for those that come and go."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self._columns = {row["name"]: row["columns"] for row in query(_COLUMNS, [LEDGER])}
        self._sequences: list[Mapping[str, Any]] = []
        if not query("SELECT 1 FROM pg_namespace WHERE nspname = %s", [_ROWS]):
            tables = (f"CREATE TABLE {_ROWS}.{name} (LIKE {LEDGER}.{name})" for name in self._columns)
            query("; ".join((f"CREATE SCHEMA {_ROWS}", *tables)))

    def empty(self) -> None:
        """Let the database be as it was migrated."""
        self._replace_rows()
        self._set_sequences([{**row, "last_value": None} for row in self._read_sequences()])
        self._drop_tables()

    def keep(self) -> None:
        """Copy everything as it is now."""
        copy = f"DELETE FROM {_ROWS}.{{0}}; INSERT INTO {_ROWS}.{{0}} ({{1}}) SELECT {{1}} FROM {LEDGER}.{{0}}"
        self.query("; ".join(copy.format(*table) for table in self._columns.items()))
        self._sequences = self._read_sequences()
        self.query(f"DROP SCHEMA IF EXISTS {_TABLES} CASCADE; CREATE SCHEMA {_TABLES}")
        for schema, name in self._made():
            self._copy_table((schema, name), (_TABLES, name))

    def bring_back(self) -> None:
        """Let the database be as it was kept."""
        copy = f"INSERT INTO {LEDGER}.{{0}} ({{1}}) OVERRIDING SYSTEM VALUE SELECT {{1}} FROM {_ROWS}.{{0}}"
        self._replace_rows(*(copy.format(*table) for table in self._columns.items()))
        self._set_sequences(self._sequences)
        self._drop_tables()
        for row in self.query("SELECT tablename FROM pg_tables WHERE schemaname = %s", [_TABLES]):
            name = row["tablename"]
            self._copy_table((_TABLES, name), ("public" if name == TABLE else SCHEMA, name))

    def _replace_rows(self, *statements: str) -> None:
        """Without triggers and foreign keys."""
        deletes = (f"DELETE FROM {LEDGER}.{name}" for name in self._columns)
        self.query("; ".join(("SET LOCAL session_replication_role = replica", *deletes, *statements)))

    def _read_sequences(self) -> list[Mapping[str, Any]]:
        return self.query("SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = %s", [LEDGER])

    def _set_sequences(self, sequences: list[Mapping[str, Any]]) -> None:
        set_one = f"setval('{LEDGER}.{{}}', {{}}, {{}})"
        values = (
            set_one.format(row["sequencename"], row["last_value"] or 1, bool(row["last_value"])) for row in sequences
        )
        self.query(f"SELECT {', '.join(values)}")

    def _made(self) -> list[tuple[str, str]]:
        found = self.query(
            "SELECT schemaname, tablename FROM pg_tables"
            " WHERE schemaname = ANY(%s) OR (schemaname, tablename) = (%s, %s)",
            [[SCHEMA, ROWS_SCHEMA], "public", TABLE],
        )
        return [(row["schemaname"], row["tablename"]) for row in found]

    def _drop_tables(self) -> None:
        if made := [sql.Identifier(*table) for table in self._made()]:
            self.query(sql.SQL("DROP TABLE {}").format(sql.SQL(", ").join(made)))

    def _copy_table(self, source: tuple[str, str], copy: tuple[str, str]) -> None:
        """With its comment, which names the order of staged rows."""
        (row,) = self.query("SELECT obj_description(to_regclass(%s), 'pg_class') AS text", [".".join(source)])
        statement = "CREATE TABLE {1} (LIKE {0} INCLUDING ALL); COMMENT ON TABLE {1} IS {2}"
        if source[1] == TABLE:
            statement += "; INSERT INTO {1} SELECT * FROM {0}"
        else:
            statement = statement.replace("CREATE TABLE", "CREATE UNLOGGED TABLE")
        names = sql.Identifier(*source), sql.Identifier(*copy)
        self.query(sql.SQL(statement).format(*names, sql.Literal(row["text"])))

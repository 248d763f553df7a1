"""The registry, the pipeline file and the table compared; nothing is written."""

from __future__ import annotations

from dataclasses import dataclass

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import get_connection
from offset_ledger.errors import AccessDenied, ConfigurationError, DatabaseUnavailable
from offset_ledger.ledger import unread_fields, writer_schemas
from offset_ledger.ledger.database import Cursor, read_only, transaction
from offset_ledger.ledger.open import open_ledger_at
from offset_ledger.model.unread import Unread
from offset_ledger.model.writer_schema import WriterSchema
from offset_ledger.operations.compare_schemas import Line, Table, compare, unread_lines
from offset_ledger.operations.known_schemas import known_schemas
from offset_ledger.target.fit import column_types, misfits
from offset_ledger.target.table import is_there

_TIMEOUT = 5  # seconds: a person is waiting for the answer
_UNKNOWN = Table(None, {})


@dataclass(frozen=True, slots=True)
class Diff:
    """The lines, with the names of the schemas that were compared, and notes on what was not."""

    schemas: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether there is a difference that matters."""
        return any(mark.matters for line in self.lines for mark in line.marks)


def diff(pipeline: Pipeline) -> Diff:
    """Compare them, as far as they are there; without Postgres the schema and the file.

    Raises:
        RegistryUnavailable: the registry does not answer.
        UnusableSchema: a schema cannot be read.
    """
    database = _of_database(pipeline)
    schemas, notes = known_schemas(pipeline, database.schemas)
    lines = compare(pipeline, schemas, database.table)
    if database.unread and not schemas:
        lines += unread_lines(pipeline, *database.unread)
    return Diff(tuple(schema.name for schema in schemas), lines, tuple(filter(None, [*notes, database.note])))


@dataclass(frozen=True, slots=True)
class _Database:
    """The table, and what the ledger has of schemas and of fields that nothing read; a note where there is no table."""

    table: Table
    note: str
    schemas: tuple[WriterSchema, ...] = ()
    unread: tuple[int, Unread] | None = None


def _of_database(pipeline: Pipeline) -> _Database:
    name = f"table {pipeline.target.schema}.{pipeline.target.table}"
    try:
        database = get_connection(pipeline.target.connection)
        with open_ledger_at(database, timeout=_TIMEOUT) as session, transaction(session) as cursor:
            read_only(cursor)
            table, kept = _table(cursor, pipeline), writer_schemas.read_all(cursor, pipeline.name)
            unread = unread_fields.latest(cursor, pipeline.name)
    except (ConfigurationError, DatabaseUnavailable, AccessDenied) as error:
        return _Database(_UNKNOWN, f"{name} was not compared: {error}")
    note = "" if table.exists else f"{name} does not exist yet; the first batch creates it"
    return _Database(table, note, kept, unread)


def _table(cursor: Cursor, pipeline: Pipeline) -> Table:
    if not is_there(cursor, f"{pipeline.target.schema}.{pipeline.target.table}"):
        return Table(False, {})
    return Table(True, column_types(cursor, pipeline), tuple(misfits(cursor, pipeline)))

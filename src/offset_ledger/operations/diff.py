"""The registry, the pipeline file and the table compared; nothing is written."""

from __future__ import annotations

from dataclasses import dataclass

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import get_connection
from offset_ledger.decoding.needed_columns import Follower
from offset_ledger.errors import AccessDenied, ConfigurationError, DatabaseUnavailable
from offset_ledger.ledger import followed_columns, pipelines, schema_boundaries, staging
from offset_ledger.ledger.database import Cursor, connect, open_ledger_at, read_only, transaction
from offset_ledger.ledger.followed_columns import with_columns
from offset_ledger.model.followed_columns import FollowedColumn
from offset_ledger.model.unread import UnreadCounts
from offset_ledger.model.writer_schema import WriterSchema
from offset_ledger.operations.compare_schemas import Following, Line, Table, compare, unread_lines
from offset_ledger.operations.known_schemas import known_schemas
from offset_ledger.stage.schemas import SchemaNeeds
from offset_ledger.target.fit import column_types, enabled_triggers, misfits, own_uniques
from offset_ledger.target.table import check_target, is_there

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
    known = _of_database(pipeline)
    schemas, notes = known_schemas(pipeline, known.kept)
    following = Following.of(known.pipeline, known.follower, known.followed, schemas) if known.follower else Following()
    lines = compare(known.pipeline, schemas, known.table, following)
    if known.unread and not schemas:
        lines += unread_lines(pipeline, *known.unread)
    return Diff(tuple(schema.name for schema in schemas), lines, tuple(filter(None, [*notes, known.note])))


@dataclass(frozen=True, slots=True)
class _Known:
    """The pipeline with its columns, the table, and what the ledger has of schemas and of fields that nothing read; a
    note where there is no table.
    """

    pipeline: Pipeline
    table: Table
    kept: tuple[WriterSchema, ...] = ()
    followed: tuple[FollowedColumn, ...] = ()
    follower: Follower | None = None
    note: str = ""
    unread: tuple[int, UnreadCounts] | None = None


def _of_database(pipeline: Pipeline) -> _Known:
    name = f"table {pipeline.target.schema}.{pipeline.target.table}"
    try:
        database = get_connection(pipeline.target.connection)
        with open_ledger_at(database, timeout=_TIMEOUT) as session, transaction(session) as cursor:
            read_only(cursor)
            follower = SchemaNeeds.read(cursor, pipeline, ()).follower if pipeline.follows_schemas else None
            followed = followed_columns.read(cursor, pipeline.name) if pipeline.follows_schemas else ()
            pipeline = with_columns(cursor, pipeline)
            table, kept = _table(cursor, pipeline), schema_boundaries.all_writer_schemas(cursor, pipeline.name)
            unread = staging.latest_unread(cursor, pipeline.name)
    except (ConfigurationError, DatabaseUnavailable, AccessDenied) as error:
        return _Known(pipeline, _UNKNOWN, note=f"{name} was not compared: {error}")
    note = "" if table.exists else f"{name} does not exist yet; the first batch creates it"
    return _Known(pipeline, table, kept, followed, follower, note, unread)


def _table(cursor: Cursor, pipeline: Pipeline) -> Table:
    if not is_there(cursor, f"{pipeline.target.schema}.{pipeline.target.table}"):
        return Table(False, {})
    return Table(True, column_types(cursor, pipeline), tuple(misfits(cursor, pipeline)))


def compare_table(pipeline: Pipeline) -> tuple[str, str]:
    """Whether the table fits the file (fits, missing, to be changed or not compared), and a line about it.

    Raises:
        TargetMismatch: the table does not fit.
        ConfigurationError: another pipeline fills it.
    """
    table = f"table {pipeline.target.schema}.{pipeline.target.table}"
    try:
        database = get_connection(pipeline.target.connection)
        with open_ledger_at(database, timeout=_TIMEOUT):
            pass
    except (ConfigurationError, DatabaseUnavailable, AccessDenied) as error:
        return "not compared", f"{table} was not compared with the file: {error}"
    with connect(database, timeout=_TIMEOUT) as session, transaction(session) as cursor:
        read_only(cursor)
        pipeline = pipelines.registered_of(cursor, pipeline) or pipeline
        pipeline = with_columns(cursor, pipeline)
        changes = check_target(cursor, pipeline)
        if changes is None:
            return "missing", f"{table} does not exist yet; the first batch creates it"
        if changes:
            clauses = ", ".join(change.clause for change in changes)
            return "to be changed", f"{table} fits after the next commit, which makes: {clauses}"
        extras = [f"the trigger {name}" for name in enabled_triggers(cursor, pipeline)]
        extras += [f"the unique index {name}" for name in own_uniques(cursor, pipeline)]
        note = f", and has {', '.join(extras)}: a row that these change or refuse stops a commit" if extras else ""
        return "fits", f"{table} fits{note}"

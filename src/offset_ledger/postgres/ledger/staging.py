"""The staging tables of one epoch: created by the claim, filled by slices, dropped after the report.

Drivers on a cluster leave the reason why they failed here, for the tasks that submitted them.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

from psycopg2 import errors as pg
from psycopg2 import sql

from offset_ledger.errors import IncompleteStaging
from offset_ledger.model.balance_sheet import Slice, StagedCounts
from offset_ledger.model.batch import Attempt, Batch, Profile
from offset_ledger.model.unread import UnreadCounts, together
from offset_ledger.pipeline_file.pipeline import Column, Pipeline, RecordShape
from offset_ledger.postgres.ledger.database import Cursor, Session, named_sql, rows, sample_little, transaction
from offset_ledger.postgres.ledger.row_order import TOPIC, moment_of

SCHEMA = "offset_ledger_staging"
_NAME = re.compile(r"b(\d+)_e(\d+)(?:_refused)?$")

_PUBLISH_AT = ("publish_at", "timestamptz")
_KAFKA = (
    ("_partition", "integer"),
    ("_offset", "bigint"),
    ("_timestamp", "timestamptz"),
    ("_key", "bytea"),
    ("_headers", "jsonb"),
)
_DELETED = ("_deleted", "boolean")  # of a row that was appended, and so is never deleted, only in staging
_VALUE = ("_value", "bytea")
_GROUPS = ("_groups", "text[]")  # those that the record gives


@dataclass(frozen=True, slots=True)
class StagingTables:
    """The two tables of one attempt; ``claimed_at`` tells its slices from those of an equal epoch after a restore."""

    attempt: Attempt
    claimed_at: datetime | None = field(default=None, compare=False)

    @property
    def batch_id(self) -> int:
        """The batch of the attempt."""
        return self.attempt.batch_id

    @property
    def rows(self) -> str:
        """Table of decoded rows."""
        return f"b{self.attempt.batch_id}_e{self.attempt.epoch}"

    @property
    def refused(self) -> str:
        """Table of refusals."""
        return f"{self.rows}_refused"

    @property
    def classes(self) -> str:
        """Table of the fate of each row; only the transaction that commits has it."""
        return f"{self.rows}_classes"

    def identifier(self, table: str) -> sql.Identifier:
        """Schema-qualified and quoted."""
        return sql.Identifier(SCHEMA, table)


def row_columns(record: RecordShape, staged: bool = False) -> list[tuple[str, str]]:
    """(name, Postgres type) of every column that staging and target have in common, in table order.

    With ``staged``, as they are staged: columns that Postgres judges are texts, and deletes and groups are named.
    """
    # A text sorts bytewise in a key: the merge needs an order, not a language's.
    texts = ("event_id", "text", "varchar")
    key = [
        (column.name, _type(column, staged) + (' COLLATE "C"' if column.type.name in texts else ""))
        for column in record.key_columns
    ]
    declared = [(column.name, _type(column, staged)) for column in record.columns]
    topic = [TOPIC] if record.topic_names else []
    deleted = [] if record.append and not staged else [_DELETED]
    groups = [_GROUPS] if staged and record.groups else []
    return [*key, _PUBLISH_AT, *declared, *topic, *_of_kafka(record), *deleted, *groups]


def _type(column: Column, staged: bool) -> str:
    return column.type.staged if staged else column.type.sql


def row_types(record: RecordShape) -> dict[str, str]:
    """The Postgres type of every column that is copied into the staged rows; the topic is the default of its own."""
    copied = [column for column in [*row_columns(record, staged=True), _VALUE] if column != TOPIC]
    return {name: kind.split(" COLLATE")[0] for name, kind in copied}


def refused_types(record: RecordShape) -> dict[str, str]:
    """The Postgres type of every column of the refusals."""
    return dict([*_of_kafka(record), _VALUE, ("reasons", "jsonb")])


def _of_kafka(record: RecordShape) -> list[tuple[str, str]]:
    return [*_KAFKA, ("_schema_id", "bigint")] if record.schema_ids else [*_KAFKA]


def catalog_type(kind: str) -> str:
    """The type of a column as Postgres's format_type() prints it."""
    return kind.split(" COLLATE")[0].replace("timestamptz", "timestamp with time zone")


def fits(cursor: Cursor, tables: StagingTables, record: RecordShape) -> bool:
    """Return whether the rows have the columns and order that the file declares now; True if they are gone."""
    staged = {row[0]: row[1] for row in cursor.run("staging/columns", table=f"{SCHEMA}.{tables.rows}")}
    if not staged:
        return True
    columns = [*row_columns(record), _DELETED, *([_GROUPS] if record.groups else []), _VALUE]
    wanted = {name: catalog_type(kind) for name, kind in columns}
    if staged != wanted:
        return False
    query = "SELECT obj_description(to_regclass(%s), 'pg_class')"
    order: str | None = cursor.execute(query, [f"{SCHEMA}.{tables.rows}"]).one()[0]
    return order == _staged_as(record)


def _staged_as(record: RecordShape) -> str:
    """Return what orders the rows, and the group of each column that has one."""
    groups = {column.name: column.group for column in record.columns if column.group}
    return f"{moment_of(record)} {json.dumps(groups)}" if groups else moment_of(record)


def check_columns(cursor: Cursor, tables: StagingTables, record: RecordShape) -> None:
    """Check that the staged columns are those of the pipeline file: another type would round values silently.

    Raises:
        IncompleteStaging: the file has changed them since.
    """
    if not fits(cursor, tables, record):
        raise IncompleteStaging(
            f"{tables.attempt}: it was staged with other columns, or another publish_at, than the pipeline file "
            "declares now; nothing was committed; stage the batch again"
        )


def create(cursor: Cursor, tables: StagingTables, pipeline: Pipeline) -> None:
    """Create both UNLOGGED tables, empty, for records of the topic."""
    record, topic = pipeline.record, pipeline.source.topic
    rows = [*staged_columns(cursor, pipeline), _VALUE]
    wanted = {tables.rows: rows, tables.refused: list(refused_types(record).items())}
    statement = sql.SQL("CREATE UNLOGGED TABLE {} ({}) WITH (autovacuum_enabled = false)")
    for table, columns in wanted.items():
        cursor.execute(statement.format(tables.identifier(table), definitions(columns, topic)))
    comment = sql.SQL("COMMENT ON TABLE {} IS {}")
    cursor.execute(comment.format(tables.identifier(tables.rows), sql.Literal(_staged_as(record))))
    for column in record.all_columns:
        if column.type.judged:  # the type that the text was taken for
            name, type_ = sql.Identifier(SCHEMA, tables.rows, column.name), sql.Literal(column.type.sql)
            cursor.execute(sql.SQL("COMMENT ON COLUMN {} IS {}").format(name, type_))


def staged_columns(cursor: Cursor, pipeline: Pipeline) -> list[tuple[str, str]]:
    """The columns as staged; texts of the key have the target's collation, so that the same values are equal."""
    collated = key_collations(cursor, pipeline, staged=True)
    return [(name, collated.get(name, kind)) for name, kind in row_columns(pipeline.record, staged=True)]


def typed_keys(record: RecordShape, staging: sql.Composable) -> sql.Composable:
    """The staged rows, which were judged, with values in their key where that is staged as texts."""
    casts = {column.name: f"::{column.type.sql}" for column in record.key if column.type.judged}
    if not casts:
        return staging
    values = (
        sql.SQL("{0}{1} AS {0}").format(sql.Identifier(name), sql.SQL(casts.get(name, "")))
        for name, _ in row_columns(record, staged=True)
    )
    return sql.SQL("(SELECT {} FROM {} AS s)").format(sql.SQL(", ").join(values), staging)


def key_collations(cursor: Cursor, pipeline: Pipeline, staged: bool = False) -> dict[str, str]:
    """Return the types of the key's columns that have a collation, with that of the target, which exists."""
    place = {"schema": pipeline.target.schema, "table": pipeline.target.table}
    there = cursor.run("staging/collations", **place, columns=[column.name for column in pipeline.record.key_columns])
    types = {column.name: _type(column, staged) for column in pipeline.record.key_columns}
    return {name: f"{types[name]} COLLATE {collation}" for name, collation in there}


def definitions(columns: Iterable[tuple[str, str]], topic: str) -> sql.Composable:
    """Columns for a CREATE TABLE, into which records of the topic are copied."""
    default = sql.SQL(" DEFAULT {}").format(sql.Literal(topic))
    return sql.SQL(", ").join(
        sql.SQL("{} {}{}").format(sql.Identifier(name), sql.SQL(kind), default if name == TOPIC[0] else sql.SQL(""))
        for name, kind in columns
    )


def drop_older(session: Session, attempt: Attempt) -> list[str]:
    """Drop the staging of older attempts at the batch, and return the names."""
    return _drop(session, lambda other: other.batch_id == attempt.batch_id and other.epoch < attempt.epoch)


def drop_ended(session: Session) -> list[str]:
    """Drop the staging of every batch that has ended, also of those whose own report never ran; return the names."""
    there = [int(made[1]) for name in _names(session) if (made := _NAME.match(name))]
    ended = {row["batch_id"] for row in rows(session, named_sql("staging/ended"), {"batch_ids": there})}
    return _drop(session, lambda attempt: attempt.batch_id in ended)


def drop_rejected(session: Session, pipeline: str, days: int) -> list[str]:
    """Drop the staging of the pipeline's batches that were rejected more than ``days`` ago; return the names.

    A batch that is being decided about, or whose table is being read, is left for the next call.
    """
    dropped = []
    try:
        with transaction(session) as cursor:
            cursor.execute("SET LOCAL lock_timeout = '2s'")
            for row in cursor.run("staging/rejected_for_days", pipeline=pipeline, days=days).fetchall():
                tables = StagingTables(Attempt(*row))
                for name in (tables.rows, tables.refused):
                    cursor.execute(sql.SQL("DROP TABLE IF EXISTS {} CASCADE").format(tables.identifier(name)))
                    dropped.append(name)
    except (pg.LockNotAvailable, pg.InsufficientPrivilege):
        return []
    return dropped


def _names(session: Session) -> list[str]:
    query = "SELECT tablename FROM pg_tables WHERE schemaname = %s ORDER BY 1"
    return [row[0] for row in rows(session, query, [SCHEMA])]


def _drop(session: Session, wanted: Callable[[Attempt], bool]) -> list[str]:
    """A table that is locked is left for the next call: waiting for it could mean waiting for a paused process.

    CASCADE takes the temporary view with it through which Great Expectations reads the rows.
    """
    dropped = []
    for name in _names(session):
        made = _NAME.match(name)
        if not made or not wanted(Attempt(int(made[1]), int(made[2]))):
            continue
        try:
            with transaction(session) as cursor:
                cursor.execute("SET LOCAL lock_timeout = '2s'")
                cursor.execute(sql.SQL("DROP TABLE IF EXISTS {} CASCADE").format(sql.Identifier(SCHEMA, name)))
            dropped.append(name)
        except (pg.LockNotAvailable, pg.InsufficientPrivilege):  # in use, or made by another login
            continue
    return dropped


def manifest(cursor: Cursor, tables: StagingTables) -> tuple[Slice, ...]:
    """The slices that the epoch has staged, in the order of their numbers."""
    slices = cursor.run("staging/manifest", **asdict(tables.attempt))
    return tuple(Slice(row[0], StagedCounts(*row[1:4]), *row[4:]) for row in slices)


def count(cursor: Cursor, tables: StagingTables, table: str) -> dict[int, int]:
    """Return how many rows or refusals there are, by partition."""
    query = sql.SQL("SELECT _partition, count(*) FROM {} GROUP BY 1").format(tables.identifier(table))
    return {row[0]: row[1] for row in cursor.execute(query)}


def refused_by_reason(cursor: Cursor, tables: StagingTables, limit: int | None) -> list[dict[str, Any]]:
    """Return the refusals by code and path, with at most ``limit`` coordinates of each."""
    query = sql.SQL(named_sql("staging/refused_by_reason")).format(refused=tables.identifier(tables.refused))
    return [dict(row) for row in cursor.execute(query, {"limit": limit})]


def refused_by_code(cursor: Cursor, tables: StagingTables) -> dict[str, int]:
    """Return how many records the decoder refused, by reason code, most first; nothing once the tables are dropped."""
    if not are_there(cursor, tables):
        return {}
    query = sql.SQL(named_sql("staging/refused_by_code")).format(refused=tables.identifier(tables.refused))
    return {row[0]: row[1] for row in cursor.execute(query)}


def analyze(cursor: Cursor, tables: StagingTables) -> None:
    """Tell the planner how many rows and keys there are, and how wide they are."""
    sample_little(cursor)
    cursor.execute(sql.SQL("ANALYZE {}").format(tables.identifier(tables.rows)))


def are_there(cursor: Cursor, tables: StagingTables) -> bool:
    """Return whether both tables exist."""
    names = [f"{SCHEMA}.{table}" for table in (tables.rows, tables.refused)]
    return bool(cursor.execute("SELECT num_nulls(to_regclass(%s), to_regclass(%s)) = 0", names).one()[0])


CopyFormat = Literal["binary", "csv"]
PIECE_BYTES = 1 << 20  # about as much as COPY is sent at a time


class _Pieces:
    """Pieces of a COPY as the file that psycopg2 reads; it takes them at any size."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = filter(None, pieces)
        self.error: Exception | None = None

    def read(self, _size: int = -1, /) -> bytes:
        try:
            return next(self._pieces, b"")
        except Exception as error:
            self.error = error
            raise


def copy_into(
    cursor: Cursor, table: sql.Identifier, columns: Sequence[str], form: CopyFormat, pieces: Iterable[bytes]
) -> None:
    """COPY rows into a table; errors of the iteration over their pieces are raised."""
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT {})").format(table, names, sql.SQL(form))
    file = _Pieces(pieces)
    try:
        cursor.copy_expert(statement, file)  # type: ignore[arg-type]  # lines are never asked for
    except pg.QueryCanceled as canceled:  # as psycopg2 says that the file raised
        raise file.error or canceled from None


@dataclass(frozen=True, slots=True)
class StageFailure:
    """The class of an error of this package, by its name, and its line."""

    error: str
    message: str


def record_failure(cursor: Cursor, submission: str, batch_id: int, failure: StageFailure) -> None:
    """Keep it under the id of the submission; of a driver that is started again, the last one."""
    cursor.run("stage/record_failure", submission=submission, batch_id=batch_id, **asdict(failure))


def read_failure(cursor: Cursor, submission: str) -> StageFailure | None:
    """The failure of that submission, if its driver has recorded one."""
    cursor.execute("SELECT error, message FROM offset_ledger.stage_failure WHERE submission = %s", [submission])
    row = cursor.fetchone()
    return StageFailure(row["error"], row["message"]) if row else None


def measure_profile(cursor: Cursor, tables: StagingTables, nullable: Sequence[str]) -> Profile:
    """Return the profile of the staged rows, in one pass over them; delete markers do not count."""
    nulls = [sql.SQL(", count({})").format(sql.Identifier(column)) for column in nullable]
    query = "SELECT count(*) FILTER (WHERE NOT _deleted), min(publish_at), max(publish_at){} FROM {}"
    cursor.execute(sql.SQL(query).format(sql.Composed(nulls), tables.identifier(tables.rows)))
    rows, first, last, *present = cursor.one()
    records, newest = cursor.run("profiles/records", **asdict(tables.attempt)).one()
    missing = {column: rows - count for column, count in zip(nullable, present, strict=True)}
    return Profile(records, rows, missing, newest, first, last)


def keep_profile(cursor: Cursor, tables: StagingTables, profile: Profile) -> None:
    """Write the profile of the batch, over that of an older epoch."""
    kept = {**asdict(profile), "nulls": json.dumps(dict(profile.nulls))}
    cursor.run("profiles/keep", **kept, **asdict(tables.attempt))


def recent_profiles(cursor: Cursor, batch: Batch, limit: int) -> list[Profile]:
    """Return the profiles of the committed head batches before this one of the same topic, newest first."""
    before = {"pipeline": batch.pipeline, "topic_id": batch.topic_id, "batch_id": batch.batch_id, "limit": limit}
    return [Profile(**row) for row in cursor.run("profiles/recent", **before)]


def read_unread(cursor: Cursor, attempt: Attempt) -> UnreadCounts | None:
    """The unread fields of the rows that the attempt has staged; None where they were not counted."""
    return together(UnreadCounts.from_json(row[0]) for row in cursor.run("staging/unread", **asdict(attempt)))


def latest_unread(cursor: Cursor, pipeline: str) -> tuple[int, UnreadCounts] | None:
    """The newest committed batch of the pipeline that has rows, with its unread fields."""
    if (row := cursor.run("staging/newest_counted", pipeline=pipeline).fetchone()) is None:
        return None
    unread = read_unread(cursor, Attempt(row["batch_id"], row["epoch"]))
    return (row["batch_id"], unread) if unread else None

"""A pipeline: one Kafka topic into one Postgres table, as its YAML file declares it.

A file that reads several topics declares a pipeline for each of them, into one table.

Frozen values, made once by :mod:`offset_ledger.pipeline_file.parse`; nothing reads a configuration dictionary later.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Self

from offset_ledger.base.ids import file_of
from offset_ledger.pipeline_file.source import Source

PLAIN_NAME = r"[a-z_][a-z0-9_]{0,62}"


def in_sql(*parts: str) -> str:
    """The name of a table or a column as SQL has it: parts that need double quotes are in these."""
    return ".".join(each if re.fullmatch(PLAIN_NAME, each) else '"' + each.replace('"', '""') + '"' for each in parts)


class Unusual(StrEnum):
    """The consequence for a batch that is unlike the recent ones."""

    WARN = "warn"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class VolumeBand:
    """The bounds of a head batch, in times the usual records an hour."""

    low: float = 0.2
    high: float = 5.0
    action: Unusual = Unusual.WARN


@dataclass(frozen=True, slots=True)
class NullBand:
    """The distance of a share of NULL from the usual one, in each of ``columns`` (none: every nullable one)."""

    tolerance: float = 0.1
    columns: tuple[str, ...] = ()
    action: Unusual = Unusual.WARN


@dataclass(frozen=True, slots=True)
class History:
    """The comparison with the ``batches`` committed head batches before, if there are ``min_batches``."""

    batches: int = 20
    min_batches: int = 5
    volume: VolumeBand | None = None
    null_share: NullBand | None = None


@dataclass(frozen=True, slots=True)
class Quality:
    """The gate: a suite under expectations/, the highest quarantined share, a comparison with recent batches.

    A rejected batch keeps its staging for ``keep_rejected_days``. Each quarantined record is also published to
    ``dead_letter_topic``; None for nowhere.
    """

    suite: str | None = None
    max_quarantined_share: float = 0.01
    keep_rejected_days: int = 7
    history: History | None = None
    dead_letter_topic: str | None = None


class Cause(StrEnum):
    """The cause of a notification."""

    BATCH_REJECTED = "batch_rejected"
    APPROVAL_NEEDED = "approval_needed"
    FRESHNESS_MISSED = "freshness_missed"
    AUDIT_ERROR = "audit_error"
    LOSS_AHEAD = "loss_ahead"
    SERVER_AWAY = "server_away"
    RUN_FAILED = "run_failed"


@dataclass(frozen=True, slots=True)
class Notifier:
    """A notifier of Airflow: the path of its class, its arguments, and ``label``, by which the ledger knows it."""

    path: str
    label: str
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Notify:
    """An entry of ``notify``: a notifier and its causes."""

    notifier: Notifier
    causes: tuple[Cause, ...] = tuple(Cause)
    loss_ahead_hours: int = 24


class DeployMode(StrEnum):
    """The place where Spark's driver runs: on the machine of the task, or on one of the cluster's."""

    CLIENT = "client"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources that Spark asks of its cluster; None: Spark decides. Memory is as Spark writes it: 512m."""

    driver_memory: str | None = None
    driver_cores: int | None = None
    executor_memory: str | None = None
    executor_cores: int | None = None
    executors: int | None = None
    total_executor_cores: int | None = None


@dataclass(frozen=True, slots=True)
class Spark:
    """The cluster on which Spark stages a batch, and how; ``conf`` are Spark's own settings, as text."""

    connection: str = "spark_default"
    deploy_mode: DeployMode = DeployMode.CLIENT
    queue: str | None = None
    resources: Resources = Resources()
    conf: Mapping[str, str] = field(default_factory=dict)


JsonPath = tuple[str, ...]


class Tombstone(StrEnum):
    """The meaning of a record with a null value."""

    QUARANTINE = "quarantine"
    SKIP = "skip"
    DELETE = "delete"


ROWS_SCHEMA = "offset_ledger_rows"
"""The schema of the tables with the bookkeeping of rows that have it beside them, each named as its pipeline file."""


class Merge(StrEnum):
    """The rule by which one of two records of an event id stays; with ``append`` each record is a row of its own."""

    NEWEST_WINS = "newest_wins"
    SKIP_EXISTING = "skip_existing"
    APPEND = "append"


_FORMAT_TYPE = {
    "event_id": "text",
    "varchar": "character varying",
    "time": "time without time zone",
    "timestamptz": "timestamp with time zone",
}


_RANGES = ("int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange")
JUDGED = (
    *("inet", "cidr", "macaddr", "macaddr8", "interval", *_RANGES),
    *(name.replace("range", "multirange") for name in _RANGES),
    *("point", "line", "lseg", "path", "polygon", "circle", "tsvector", "tsquery", "pg_lsn"),
)
"""Types of Postgres whose values are staged as texts, which its input functions judge, as those of ``schema.type``."""


def is_judged(name: str) -> bool:
    """Return whether Postgres judges the texts of this type, which is no array."""
    return "." in name or name in JUDGED


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A Postgres type: ``ColumnType("numeric", (12, 2))`` is ``numeric(12,2)``, ``ColumnType("text[]")`` its array."""

    name: str
    args: tuple[int, ...] = ()

    @property
    def sql(self) -> str:
        """The type as Postgres's format_type() prints it."""
        name = self.name.removesuffix("[]")
        return spelled(_FORMAT_TYPE.get(name, name) + self.name[len(name) :], self.args)

    @property
    def single(self) -> bool:
        """Return whether a value is a single one, neither JSON nor a list."""
        return self.name != "jsonb" and not self.name.endswith("[]")

    @property
    def judged(self) -> bool:
        """Return whether Postgres judges the values, which are staged as texts."""
        return is_judged(self.name.removesuffix("[]"))

    @property
    def staged(self) -> str:
        """The type of the staged column."""
        return f"text{self.name[len(self.name.removesuffix('[]')) :]}" if self.judged else self.sql


def spelled(name: str, args: tuple[int, ...]) -> str:
    """Return a type with its arguments: ``numeric(12,2)``, ``numeric(12,2)[]``."""
    one, brackets, _ = name.partition("[]")
    return f"{one}({','.join(map(str, args))}){brackets}" if args else name


EVENT_ID = ColumnType("event_id")
"""A text, or an integer as text, that is not empty and short enough for an index."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the target table and the place of its value in the record: the path, or the first of its aliases.

    A column without a path has the value of the ``header`` of that name, or what is at the path ``key`` of the Kafka
    key, the whole key at no path. ``default``, as JSON, stands instead of NULL; it is all that a constant has.
    """

    name: str
    type: ColumnType
    path: JsonPath
    nullable: bool = False
    encoding: str = ""  # how the record writes it, by ENCODINGS of config.column_types
    aliases: tuple[JsonPath, ...] = ()
    description: str = ""
    key: JsonPath | None = None
    header: str | None = None
    default: str | None = None
    coerce: bool = False
    transform: tuple[str, ...] = ()  # lower, upper, trim
    split: str | None = None
    round: bool = False  # of a time, a moment or an interval, to microseconds
    far: bool = False  # whether a date or a moment may be outside of the years 1 to 9999, or infinite
    group: str = ""  # of columns that a record may leave as they are; those without one are written with the row

    @property
    def optional(self) -> bool:
        """Return whether a record may do without a value."""
        return self.nullable or self.default is not None

    @property
    def of_text(self) -> bool:
        """Return whether the value is a header or the whole key, which Kafka has as bytes."""
        return self.header is not None or self.key == ()


REST = Column("_rest", ColumnType("jsonb"), (), nullable=True)
"""The column of everything that no other one reads; it has no path."""


@dataclass(frozen=True, slots=True)
class FieldCondition:
    """A condition: it holds for records whose value at ``path``, or in that ``header``, equals ``equals``.

    If ``negated`` it holds for all others, including those without a value there.
    """

    path: JsonPath
    equals: str | bool | int
    negated: bool = False
    header: str | None = None


@dataclass(frozen=True, slots=True)
class RecordShape:
    """The way from a record to a row.

    ``publish_at=None`` is the Kafka timestamp; with ``log_orders`` it orders only records of different partitions, and
    those of one are ordered by their offsets. With ``publish_at_header`` it is the moment in that header.

    A row is known by the columns of ``key``. Without any its key is the column ``event_id``: a text or an integer at
    that path, or the Kafka key if that is None. With ``append`` it is one record, known by its coordinates.

    A record deletes its event if ``delete_when`` holds. It is the pipeline's if all of ``where`` hold and its schema
    has one of the full names ``schemas``, if there are any. Rows have the id of their schema with ``schema_ids``, and
    the name of their topic with ``topic_names``. If ``sampled``, the ledger has more columns, which the first plan took
    from a sample. ``unavailable`` stands for a value that was not sent. In an ``envelope`` the row is the one after the
    change, and a delete has the one before it.
    """

    event_id: JsonPath | None
    publish_at: JsonPath | None
    columns: tuple[Column, ...]
    publish_at_encoding: str = "rfc3339"
    publish_at_round: bool = False
    publish_at_header: str | None = None
    log_orders: bool = False
    tombstone: Tombstone = Tombstone.QUARANTINE
    delete_when: FieldCondition | None = None
    where: tuple[FieldCondition, ...] = ()
    schemas: tuple[str, ...] = ()
    schema_ids: bool = False
    topic_names: bool = False
    sampled: bool = False
    event_id_aliases: tuple[JsonPath, ...] = ()
    publish_at_aliases: tuple[JsonPath, ...] = ()
    key: tuple[Column, ...] = ()
    refuses_deletes: bool = False
    unavailable: bytes | None = None
    envelope: bool = False
    append: bool = False

    @property
    def where_in_values(self) -> tuple[FieldCondition, ...]:
        """Return the conditions of ``where`` that values have to meet."""
        return tuple(each for each in self.where if each.header is None)

    @property
    def where_in_headers(self) -> tuple[FieldCondition, ...]:
        """Return those that headers have to meet."""
        return tuple(each for each in self.where if each.header is not None)

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """Return the columns of a record by which a row is known."""
        if self.key or self.append:
            return self.key
        elsewhere = () if self.event_id is None else None
        return (Column("event_id", EVENT_ID, self.event_id or (), aliases=self.event_id_aliases, key=elsewhere),)

    @property
    def key_names(self) -> list[str]:
        """Return the names of the columns by which a row is known."""
        if self.append:
            return [*(["_topic"] if self.topic_names else []), "_partition", "_offset"]
        return [column.name for column in self.key_columns]

    @property
    def key_width(self) -> int:
        """Return how many of them a record has: the slots of a row before publish_at."""
        return len(self.key_columns)

    @property
    def all_columns(self) -> tuple[Column, ...]:
        """Return the columns of the key and those declared besides it."""
        return (*self.key_columns, *self.columns)

    def of_deletes(self) -> Self:
        """Return the shape of records that delete: they have no values, and in an envelope only those before."""
        if not self.envelope:
            return replace(self, columns=())
        return replace(
            self,
            columns=(),
            key=tuple(replace(c, path=_before(c.path), aliases=tuple(map(_before, c.aliases))) for c in self.key),
            event_id=self.event_id and _before(self.event_id),
            event_id_aliases=tuple(map(_before, self.event_id_aliases)),
        )

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the groups of columns that a record may leave as they are."""
        return tuple(dict.fromkeys(column.group for column in self.columns if column.group))

    @property
    def is_kafka_key(self) -> bool:
        """Return whether the Kafka key is the event id."""
        return not self.key and self.event_id is None and not self.append

    @property
    def rest(self) -> bool:
        """Return whether the last column holds the extra fields that no other reads."""
        return self.columns[-1:] == (REST,)

    @property
    def deletes(self) -> bool:
        """Return whether a record can be a delete marker, which has no values."""
        return not self.refuses_deletes and (self.tombstone is Tombstone.DELETE or self.delete_when is not None)


def _before(path: JsonPath) -> JsonPath:
    return ("before", *path[1:]) if path[:1] == ("after",) else path


class Evolve(StrEnum):
    """The changes that a pipeline may make to its table: none, new columns, or new columns and wider types."""

    NONE = "none"
    ADD_COLUMNS = "add_columns"
    WIDEN = "widen"


class ColumnsFrom(StrEnum):
    """The source of the columns: the pipeline file alone, or the schemas of the records too."""

    FILE = "file"
    SCHEMA = "schema"


class OnConflict(StrEnum):
    """The consequence of a record that would break a unique constraint of the table besides its key."""

    FAIL = "fail"
    QUARANTINE = "quarantine"


class Period(StrEnum):
    """The length of the periods of a range partition, in UTC."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    YEAR = "year"


@dataclass(frozen=True, slots=True)
class Partitions:
    """The range partitions that commits create: one for each period, and those ``ahead`` of today.

    ``by`` is the column that the pipeline partitions a new table by; of one that exists, the table knows it.
    """

    every: Period
    ahead: int = 1
    by: str | None = None


class Deletes(StrEnum):
    """The effect of a record that deletes its event: the row is marked as deleted or goes, or the record is refused."""

    SOFT = "soft"
    HARD = "hard"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Target:
    """The table that rows are merged into.

    Where ``beside``, it has only the key, the declared columns and ``copied``, bookkeeping columns under names of the
    user's. A table of the ledger has all of the bookkeeping then, also of rows that are deleted.
    """

    connection: str = "postgres_default"
    schema: str = "public"
    table: str = ""
    merge: Merge = Merge.NEWEST_WINS
    evolve: Evolve = Evolve.NONE
    columns_from: ColumnsFrom = ColumnsFrom.FILE
    on_conflict: OnConflict = OnConflict.FAIL
    partitions: Partitions | None = None
    view: str | None = None  # in the schema of the table
    deletes: Deletes = Deletes.SOFT
    beside: bool = False
    copied: tuple[tuple[str, str], ...] = ()  # (bookkeeping column, its name in the table)

    @property
    def name(self) -> str:
        """The table as SQL names it, with its schema."""
        return in_sql(self.schema, self.table)

    def name_of(self, column: str) -> str | None:
        """Return the name that a bookkeeping column has in the table; None if it is only beside it."""
        return dict(self.copied).get(column) if self.beside else column


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes, in records or bytes."""

    records_per_batch: int = 1_000_000
    records_per_slice: int = 250_000
    value_bytes: int = 1_048_576


class StageEngine(StrEnum):
    """The engine that stages a batch: Spark, the step's own process, or one of the two by the size of the batch."""

    AUTO = "auto"
    SPARK = "spark"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class Stage:
    """The engine that stages a batch; with ``auto``, Spark from ``process_below`` offsets on."""

    engine: StageEngine = StageEngine.AUTO
    process_below: int = 10_000


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One pipeline file. ``config_hash`` is the SHA-256 of ``text``, or of that and of its schema file's.

    ``text`` are the bytes of the file, or else what they are with the defaults of its folder and the environment.

    Where the file reads several topics, each has a pipeline of its own, with the name ``file@topic``.
    """

    name: str
    source: Source
    record: RecordShape
    target: Target
    quality: Quality
    limits: Limits
    path: Path
    config_hash: str
    stage: Stage = field(default_factory=Stage)
    spark: Spark = field(default_factory=Spark)
    description: str = ""
    owner: str = "offset-ledger"
    tags: tuple[str, ...] = ()
    schedule: str | None = None
    freshness: timedelta | None = None
    answer_within: timedelta = timedelta(days=1)
    approvers: tuple[str, ...] = ()
    wake_on_data: bool = False
    notify: tuple[Notify, ...] = ()
    text: bytes = field(default=b"", repr=False, compare=False)

    @property
    def follows_schemas(self) -> bool:
        """Return whether new fields of the records' schemas become columns."""
        return self.target.columns_from is ColumnsFrom.SCHEMA

    @property
    def has_more_columns(self) -> bool:
        """Return whether it has columns that only the ledger knows, besides those of its file."""
        return self.follows_schemas or self.record.sampled

    @property
    def runs_every(self) -> timedelta | None:
        """The longest time between two of a thousand scheduled runs; None without a schedule."""
        if self.schedule is None:
            return None
        from croniter import croniter

        schedule = "0 0 1 */3 *" if self.schedule == "@quarterly" else self.schedule  # which only Airflow knows
        starts = islice(croniter(schedule, datetime(2026, 1, 1, tzinfo=UTC)).all_next(datetime), 1000)
        longest: timedelta = max(later - earlier for earlier, later in pairwise(starts))
        return longest

    @property
    def connections(self) -> tuple[str, ...]:
        """The ids of the connections that staging uses."""
        registry = (self.source.registry,) if self.source.registry else ()
        return self.source.connection, self.target.connection, *registry

    @property
    def bookkeeping(self) -> Self:
        """The pipeline of the table that has the order of each row: itself, or that of the table beside its own."""
        if not self.target.beside or self.record.append:
            return self
        target = Target(self.target.connection, ROWS_SCHEMA, self.file, self.target.merge, Evolve.WIDEN)
        record = replace(self.record, columns=(), sampled=False)
        return replace(self, record=record, target=target, description="")

    @property
    def has_coordinates(self) -> bool:
        """Return whether each row, or its bookkeeping, has the coordinates of its record."""
        return not (self.record.append and self.target.beside)

    @property
    def file(self) -> str:
        """The name that the pipeline file has; the pipelines of its topics share it."""
        return file_of(self.name)

    @property
    def of_several(self) -> bool:
        """Return whether it is the pipeline of one of several topics of its file."""
        return self.name != self.file

    def of_topic(self, topic: str) -> Self:
        """The pipeline of one of the topics that the file reads."""
        source = replace(self.source, topic=topic, topics=(), topic_pattern=None)
        return replace(self, name=f"{self.file}@{topic}", source=source)

"""A pipeline: one Kafka topic into one Postgres table, as its YAML file declares it.

A file that reads several topics declares a pipeline for each of them, into one table.

Frozen values, made once by :mod:`offset_ledger.config.parse`; nothing reads a configuration dictionary later.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from offset_ledger.config.notification import Notify
from offset_ledger.config.quality import Quality
from offset_ledger.config.source import Source
from offset_ledger.config.spark_application import Spark
from offset_ledger.ids import file_of

JsonPath = tuple[str, ...]
ONE_DAY = timedelta(days=1)


class Tombstone(StrEnum):
    """What a record with a null value means."""

    QUARANTINE = "quarantine"
    SKIP = "skip"
    DELETE = "delete"


class Merge(StrEnum):
    """Which of two records of one event id stays."""

    NEWEST_WINS = "newest_wins"
    SKIP_EXISTING = "skip_existing"


_FORMAT_TYPE = {
    "varchar": "character varying",
    "time": "time without time zone",
    "timestamptz": "timestamp with time zone",
}


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A Postgres type: ``ColumnType("numeric", (12, 2))`` is ``numeric(12,2)``."""

    name: str
    args: tuple[int, ...] = ()

    @property
    def sql(self) -> str:
        """The type as Postgres's format_type() prints it."""
        name = _FORMAT_TYPE.get(self.name, self.name)
        return f"{name}({','.join(map(str, self.args))})" if self.args else name


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the target table and the place of its value in the record: the path, or the first of its aliases."""

    name: str
    type: ColumnType
    path: JsonPath
    nullable: bool = False
    encoding: str = ""  # timestamptz: rfc3339, epoch_s, epoch_ms, epoch_us; bytea: base64, hex
    aliases: tuple[JsonPath, ...] = ()


REST = Column("_rest", ColumnType("jsonb"), (), nullable=True)
"""The column of everything that no other one reads; it has no path."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Of a record whose value at ``path`` is ``equals`` it holds."""

    path: JsonPath
    equals: str | bool | int


@dataclass(frozen=True, slots=True)
class RecordShape:
    """How a record becomes a row. ``event_id=None`` is the Kafka key, ``publish_at=None`` the Kafka timestamp.

    A record deletes its event if ``delete_when`` holds. It is none of the pipeline's unless ``where`` does and its
    schema has one of the full names ``schemas``, where there are any. Rows have the id of their schema where
    ``schema_ids``, and the name of their topic where ``topic_names``.
    """

    event_id: JsonPath | None
    publish_at: JsonPath | None
    columns: tuple[Column, ...]
    publish_at_encoding: str = "rfc3339"
    tombstone: Tombstone = Tombstone.QUARANTINE
    delete_when: Condition | None = None
    where: Condition | None = None
    schemas: tuple[str, ...] = ()
    schema_ids: bool = False
    topic_names: bool = False
    event_id_aliases: tuple[JsonPath, ...] = ()
    publish_at_aliases: tuple[JsonPath, ...] = ()

    @property
    def rest(self) -> bool:
        """Whether the last column is what no other reads."""
        return self.columns[-1:] == (REST,)

    @property
    def deletes(self) -> bool:
        """Whether a record can be a delete marker, which has no values."""
        return self.tombstone is Tombstone.DELETE or self.delete_when is not None


class Evolve(StrEnum):
    """How a pipeline may change its table: not at all, by new columns, or by new columns and wider types."""

    NONE = "none"
    ADD_COLUMNS = "add_columns"
    WIDEN = "widen"


class ColumnsFrom(StrEnum):
    """What decides about the columns: the pipeline file alone, or the schemas of the records too."""

    FILE = "file"
    SCHEMA = "schema"


@dataclass(frozen=True, slots=True)
class Target:
    """The table that rows are merged into."""

    connection: str
    schema: str
    table: str
    merge: Merge = Merge.NEWEST_WINS
    evolve: Evolve = Evolve.NONE
    columns_from: ColumnsFrom = ColumnsFrom.FILE


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes, in records or bytes."""

    records_per_batch: int = 1_000_000
    records_per_slice: int = 250_000
    value_bytes: int = 1_048_576


class StageEngine(StrEnum):
    """Who stages a batch: Spark, the process of the step itself, or one of the two by the size of the batch."""

    AUTO = "auto"
    SPARK = "spark"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class Stage:
    """What stages a batch; with ``auto``, Spark from ``process_below`` offsets on."""

    engine: StageEngine = StageEngine.AUTO
    process_below: int = 10_000


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One pipeline file. ``config_hash`` is the SHA-256 of its bytes, or of that and of its schema file's.

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
    answer_within: timedelta = ONE_DAY
    wake_on_data: bool = False
    notify: tuple[Notify, ...] = ()

    @property
    def follows_schemas(self) -> bool:
        """Whether new fields of the records' schemas become columns."""
        return self.target.columns_from is ColumnsFrom.SCHEMA

    @property
    def connections(self) -> tuple[str, ...]:
        """The ids of the connections that staging uses."""
        registry = (self.source.registry,) if self.source.registry else ()
        return self.source.connection, self.target.connection, *registry

    @property
    def file(self) -> str:
        """The name that the pipeline file has; the pipelines of its topics share it."""
        return file_of(self.name)

    @property
    def of_several(self) -> bool:
        """Whether it is the pipeline of one of several topics of its file."""
        return self.name != self.file

    def of_topic(self, topic: str) -> Pipeline:
        """The pipeline of one of the topics that the file reads."""
        source = replace(self.source, topic=topic, topics=(), topic_pattern=None)
        return replace(self, name=f"{self.file}@{topic}", source=source)

"""The pipeline file of a world of the model, for each of its topics, and the records of the model as Kafka has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from offset_ledger.pipeline_file.pipeline import (
    Column,
    ColumnType,
    Deletes,
    Evolve,
    FieldCondition,
    Limits,
    Merge,
    OnConflict,
    Pipeline,
    Quality,
    RecordShape,
    Target,
    Tombstone,
)  # fmt: skip
from offset_ledger.pipeline_file.source import OnExpired, Source
from offset_ledger.postgres.table.fit import target_columns
from tests.model.beside import COLUMNS
from tests.model.rules import Table, World
from tests.model.state import ABSENT, BAD, DELETE, PATH, USERS, WITH_ROW, File, Record

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FILE, TABLE, HEADER, LETTERS = "orders", "orders", "record", "letters"
NUMERIC = ColumnType("numeric")
TYPES = (ColumnType("integer"), ColumnType("bigint"))


def pipeline_of(world: World, file: File, topics: int, topic: int) -> Pipeline:
    """The pipeline of one topic of the world, as the pipeline file is now.

    A fixed file knows the other name under which BAD records have a value; a file with more columns has a wider one.
    """
    aliases = (("other",),) if file.fixed else ()
    columns = (
        Column("state", ColumnType("text"), ("state",), aliases=aliases),
        Column("n", TYPES[file.columns], ("n",)),
        *_optional(file.shape),
        *_of_value(world.table),
    )
    beside = world.table.beside
    several = topics > 1
    made = Pipeline(
        name=FILE,
        source=Source(
            "kafka_default",
            "" if several else topic_name(topic),
            on_expired=OnExpired.EARLIEST_AFTER_APPROVAL,
            transactional=world.transactional,
            topics=tuple(map(topic_name, range(topics))) if several else (),
        ),
        record=RecordShape(
            None,
            ("at",) if file.order == PATH else None,
            columns,
            tombstone=Tombstone.DELETE if world.compacted else Tombstone.QUARANTINE,
            delete_when=None if world.append else FieldCondition(("op",), "d"),
            topic_names=several,
            key=(Column("k", NUMERIC, ("k",)),) if world.table != Table() else (),
            append=world.append,
        ),
        target=Target(
            "postgres_default",
            "public",
            TABLE,
            Merge.APPEND if world.append else Merge.SKIP_EXISTING if world.skip_existing else Merge.NEWEST_WINS,
            Evolve.WIDEN,
            on_conflict=OnConflict.QUARANTINE if world.table.unique else OnConflict.FAIL,
            deletes=Deletes.HARD if beside else Deletes.SOFT,
            beside=beside,
            copied=(("_batch_id", "by_batch"),) if world.table.copies else (),
        ),
        quality=Quality(
            max_quarantined_share=0.0 if world.rejects else 1.0, dead_letter_topic=LETTERS if world.letters else None
        ),
        limits=Limits(records_per_slice=world.width),
        path=Path(f"{FILE}.yaml"),
        config_hash=json.dumps(file),
    )
    return made.of_topic(topic_name(topic)) if several else made


def _optional(shape: str) -> Iterator[Column]:
    """The columns that a record may lack; a group is one of the file's."""
    for name, of in zip(COLUMNS, shape, strict=False):
        if of != ABSENT:
            yield Column(name, ColumnType("text"), (name,), nullable=True, group="" if of == WITH_ROW else of)


def _of_value(table: Table) -> Iterator[Column]:
    """The column that is unique, or refers to another row."""
    if table.unique:
        yield Column("u", ColumnType("text"), ("u",), nullable=True)
    if table.refers:
        yield Column("parent", NUMERIC, ("parent",), nullable=True)


def table_of(pipeline: Pipeline, world: World) -> Iterator[str]:
    """The statements by which the users of the table have made it, with the rows that it has before the first batch."""
    table, shape = world.table, world.file.shape
    kinds = dict(target_columns(pipeline))
    kinds["k"] += " PRIMARY KEY"
    if table.unique:
        kinds |= {"u": f"text{' COLLATE public.any_case' if table.collated else ''}", "active": "boolean DEFAULT true"}
    if table.refers:
        kinds["parent"] += f" REFERENCES {TABLE}"
    yield f"CREATE TABLE {TABLE} ({', '.join(' '.join(each) for each in kinds.items())})"
    if table.unique:
        nulls = " NULLS NOT DISTINCT" if table.nulls_are_equal else ""
        yield f"CREATE UNIQUE INDEX own ON {TABLE} (u){nulls}{' WHERE active' if table.default else ''}"
    if table.trigger:
        body = "LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'"
        yield f"CREATE OR REPLACE FUNCTION public.touch() RETURNS trigger {body}"
        yield f"CREATE TRIGGER touch BEFORE INSERT OR UPDATE ON {TABLE} FOR EACH ROW EXECUTE FUNCTION public.touch()"
    for key, value in table.users:
        row = {"k": key_text(key), "state": f"'{USERS.record.what}'", "n": "0"}
        row |= {name: row["state"] for name, of in zip(COLUMNS, shape, strict=False) if of != ABSENT}
        row |= {"u": f"'{value_text(value)}'"} if table.unique and value else {}
        yield f"INSERT INTO {TABLE} ({', '.join(row)}) VALUES ({', '.join(row.values())})"


def key_text(key: int, spelling: int = 0) -> str:
    """A key as a record writes it, in one of the ways that are equal."""
    return f"{key}.5{'0' * spelling}"


def value_text(value: int) -> str:
    """A unique value."""
    return f"v{value}"


def topic_name(topic: int) -> str:
    """The name of a topic of the model."""
    return f"t{topic}"


def moment(of: int) -> datetime:
    """A moment of the model."""
    return NOON + timedelta(seconds=of)


def moment_of(at: datetime) -> int:
    """The same backwards."""
    return round((at - NOON).total_seconds())


def value_of(record: Record, tombstones: bool) -> bytes | None:
    """The bytes of a record's value; the column of a BAD record has another name."""
    if record.what == DELETE and tombstones:
        return None
    name = "other" if record.what == BAD else "state"
    fields = {"at": moment(record.path).isoformat(), name: text_of(record), "n": record.path}
    fields |= dict.fromkeys(record.gives, text_of(record))
    if record.value:
        fields |= {"u": value_text(record.value), "parent": record.value - 0.5}
    fields |= {"op": "d"} if record.what == DELETE else {}
    return f'{json.dumps(fields)[:-1]}, "k": {key_text(record.key, record.spelling)}}}'.encode()


def text_of(record: Record) -> str:
    """What tells it from every other one, kept in a column and in a header."""
    said = [record.what, record.key, record.path, record.timestamp, record.topic_id, record.era]
    return json.dumps([*said, record.gives, record.value, record.spelling])


def record_of(text: str) -> Record:
    """The same backwards."""
    what, key, path, timestamp, topic_id, era, gives, value, spelling = json.loads(text)
    return Record(
        what, key, path, timestamp, topic_id=topic_id, era=era, gives=gives, value=value, spelling=spelling
    )  # fmt: skip

"""The pipeline file of a world of the model, for each of its topics, and the records of the model as Kafka has them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from offset_ledger.config.model import (
    Column,
    ColumnType,
    Evolve,
    FieldCondition,
    Limits,
    Merge,
    Pipeline,
    Quality,
    RecordShape,
    Target,
    Tombstone,
)  # fmt: skip
from offset_ledger.config.source import OnExpired, Source
from tests.model.rules import World
from tests.model.state import BAD, DELETE, PATH, File, Record

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FILE, TABLE, HEADER, LETTERS = "orders", "orders", "record", "letters"
TYPES = (ColumnType("integer"), ColumnType("bigint"))


def pipeline_of(world: World, file: File, topics: int, topic: int) -> Pipeline:
    """The pipeline of one topic of the world, as the pipeline file is now.

    A fixed file knows the other name under which BAD records have a value; a file with more columns has a wider one.
    """
    aliases = (("other",),) if file.fixed else ()
    columns = (
        Column("state", ColumnType("text"), ("state",), aliases=aliases),
        Column("n", TYPES[file.columns], ("n",)),
    )
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
            delete_when=FieldCondition(("op",), "d"),
            topic_names=several,
        ),
        target=Target(
            "postgres_default",
            "public",
            TABLE,
            Merge.SKIP_EXISTING if world.skip_existing else Merge.NEWEST_WINS,
            Evolve.WIDEN,
        ),
        quality=Quality(
            max_quarantined_share=0.0 if world.rejects else 1.0, dead_letter_topic=LETTERS if world.letters else None
        ),
        limits=Limits(records_per_slice=world.width),
        path=Path(f"{FILE}.yaml"),
        config_hash=json.dumps(file),
    )
    return made.of_topic(topic_name(topic)) if several else made


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
    return json.dumps(fields | ({"op": "d"} if record.what == DELETE else {})).encode()


def text_of(record: Record) -> str:
    """What tells it from every other one, kept in a column and in a header."""
    return json.dumps([record.what, record.key, record.path, record.timestamp, record.topic_id, record.era])


def record_of(text: str) -> Record:
    """The same backwards."""
    what, key, path, timestamp, topic_id, era = json.loads(text)
    return Record(what, key, path, timestamp, topic_id=topic_id, era=era)

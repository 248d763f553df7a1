"""The sections of a pipeline file as the values of the model."""

from __future__ import annotations

from datetime import datetime

import yaml

from offset_ledger.config import schema
from offset_ledger.config.column_types import ENCODINGS
from offset_ledger.config.columns import Place, json_path, read_columns
from offset_ledger.config.document import Refused, Section, Value, describe
from offset_ledger.config.json_path import format_path
from offset_ledger.config.model import (
    Column,
    DeleteWhen,
    JsonPath,
    Limits,
    Merge,
    OnExpired,
    RecordShape,
    Source,
    StartAt,
    Target,
    Tombstone,
)
from offset_ledger.config.names import CONNECTION_PATTERN, TOPIC_PATTERN, split_table
from offset_ledger.config.values import boolean, choice, is_null, matching, one_of, plain, text, timestamp, whole_number

RFC3339 = ENCODINGS["timestamptz"][0]
FROM_EARLIEST: tuple[StartAt, datetime | None] = (StartAt.EARLIEST, None)
KAFKA_TIMESTAMP: tuple[JsonPath | None, str] = (None, RFC3339)
NO_COLUMNS: tuple[Column, ...] = ()
NO_SOURCE = Source(connection="", topic="")
NO_RECORD = RecordShape(event_id=None, publish_at=None, columns=())
NO_TARGET = Target(connection="", schema="", table="")
_connection = matching(CONNECTION_PATTERN, "an Airflow connection id", "write A-Z, a-z, 0-9, _, . and -")
topic = matching(TOPIC_PATTERN, "a Kafka topic", "write at most 249 of A-Z, a-z, 0-9, ., _ and -")


def read_source(value: Value) -> Source:
    """The section ``source``."""
    section = Section(value, schema.SOURCE)
    start, moment = section.take("start", _start, FROM_EARLIEST)
    return Source(
        connection=section.take("connection", _connection, ""),
        topic=section.take("topic", topic, ""),
        start=start,
        start_timestamp=moment,
        on_expired=section.take("on_expired", choice(OnExpired), OnExpired.FAIL),
        transactional=section.take("transactional", boolean, False),
        format=section.take("format", lambda it: one_of(text(it), schema.FORMATS), schema.FORMATS[0]),
        compacted=section.take("compacted", boolean, False),
    )


def _start(value: Value) -> tuple[StartAt, datetime | None]:
    if isinstance(value.node, yaml.MappingNode):
        section = Section(value, schema.START_TIMESTAMP)
        return StartAt.TIMESTAMP, section.take("timestamp", timestamp, None)
    if is_null(value):
        raise Refused("expected earliest, latest, none or a timestamp, found nothing", "write earliest")
    words = tuple(word for word in StartAt if word is not StartAt.TIMESTAMP)
    if (found := text(value)) == StartAt.TIMESTAMP or found[:1].isdigit():
        moment = found if found[:1].isdigit() else "2013-01-01T00:00:00Z"
        raise Refused(f"{describe(value.node)} is not a start", f"write {{timestamp: {moment}}}")
    return StartAt(one_of(found, words)), None


def read_record(value: Value) -> RecordShape:
    """The section ``record``."""
    section = Section(value, schema.RECORD)
    event_id = section.take("event_id", _event_id, None)
    publish_at, encoding = section.take("publish_at", _publish_at, KAFKA_TIMESTAMP)
    tombstone = section.take("tombstone", choice(Tombstone), Tombstone.QUARANTINE)
    if tombstone is Tombstone.DELETE and (entry := section.entry("tombstone")):
        _check_tombstone(entry, event_id, publish_at)
    delete_when = section.take("delete_when", _delete_when, None)
    read = (("event_id", event_id, "text"), ("publish_at", publish_at, "timestamptz"))
    others = [Place(entry, path, kind) for key, path, kind in read if path and (entry := section.entry(key))]
    if delete_when and (entry := section.entry("delete_when")):
        others.append(Place(entry, delete_when.path, "jsonb"))  # a column may have the same value
    columns = section.take("columns", lambda it: read_columns(it, others), NO_COLUMNS)
    return RecordShape(event_id, publish_at, columns, encoding, tombstone, delete_when)


def _check_tombstone(entry: Value, event_id: JsonPath | None, publish_at: JsonPath | None) -> None:
    """A tombstone has a key and Kafka's timestamp, and nothing else: its event and its moment can only be these."""
    if event_id:
        wrong = "a record without a value has no event_id to delete, unless it is the Kafka key"
        entry.note(Refused(wrong, "write event_id: key, or tombstone: quarantine"))
    if publish_at:
        wrong = (
            f"a record without a value has Kafka's timestamp alone, and rows have {format_path(publish_at)}: of two "
            "clocks none says whether the row or its delete is newer"
        )
        right = "write publish_at: kafka_timestamp, or let a record with a value delete: record.delete_when"
        entry.note(Refused(wrong, right))


def _delete_when(value: Value) -> DeleteWhen | None:
    section = Section(value, schema.DELETE_WHEN)
    path = section.take("path", json_path, None)
    equals = section.take("equals", plain, None)
    return DeleteWhen(path, equals) if path is not None and equals is not None else None


def _event_id(value: Value) -> JsonPath | None:
    return None if text(value) == "key" else _path_or("key", value)


def _publish_at(value: Value) -> tuple[JsonPath | None, str]:
    if isinstance(value.node, yaml.MappingNode):
        section = Section(value, schema.PUBLISH_AT)
        encoding = section.take("encoding", lambda it: one_of(text(it), ENCODINGS["timestamptz"]), RFC3339)
        return section.take("path", json_path, None), encoding
    return None if text(value) == "kafka_timestamp" else _path_or("kafka_timestamp", value), RFC3339


def _path_or(word: str, value: Value) -> JsonPath:
    try:
        return json_path(value)
    except Refused as refused:
        raise Refused(refused.wrong, f"{refused.right}, or {word}") from None


def read_target(value: Value) -> Target:
    """The section ``target``."""
    section = Section(value, schema.TARGET)
    schema_name, table = section.take("table", lambda it: split_table(text(it)), ("", ""))
    return Target(
        connection=section.take("connection", _connection, ""),
        schema=schema_name,
        table=table,
        merge=section.take("merge", choice(Merge), Merge.NEWEST_WINS),
    )


def read_limits(value: Value) -> Limits:
    """The section ``limits``."""
    section = Section(value, schema.LIMITS)
    default = Limits()
    records = whole_number(schema.MAX_RECORDS)
    return Limits(
        records_per_batch=section.take("records_per_batch", records, default.records_per_batch),
        records_per_slice=section.take("records_per_slice", records, default.records_per_slice),
        value_bytes=section.take("value_bytes", whole_number(schema.MAX_VALUE_BYTES), default.value_bytes),
    )

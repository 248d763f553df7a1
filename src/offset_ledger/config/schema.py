"""The JSON Schema (draft 2020-12) of pipeline files; ``python -m offset_ledger.config.schema`` prints it.

Editors complete and check files with it. The parser takes its keys, required keys and examples from here; what a
schema cannot say (paths inside other paths, cron dates that never come, a scale above its precision) it adds itself.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, Final

from offset_ledger.config.column_types import ALIAS_PATTERN, ALIASES, ENCODINGS, NUMERIC_PATTERN, PLAIN, VARCHAR_PATTERN
from offset_ledger.config.json_path import PATH_PATTERN
from offset_ledger.config.model import (
    History,
    Limits,
    Merge,
    NullBand,
    OnExpired,
    Pipeline,
    Quality,
    Source,
    StartAt,
    Target,
    Tombstone,
    Unusual,
    VolumeBand,
)
from offset_ledger.config.names import (
    COLUMN_PATTERN,
    CONNECTION_PATTERN,
    DURATION_PATTERN,
    PIPELINE_PATTERN,
    RESERVED_COLUMNS,
    RESERVED_SCHEMA_PATTERN,
    SUITE_PATTERN,
    TABLE_PATTERN,
    TOPIC_PATTERN,
)

Object = dict[str, Any]
CRON_PRESETS = ("@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")
CRON_PATTERN = r"^[^\s@]+(?: +[^\s@]+){4}$"
TIMESTAMP_PATTERN = (
    r"^(?:19[7-9][0-9]|2[0-9]{3})-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
    r"(?:Z|[+-][0-9]{2}:[0-9]{2})$"
)
FORMATS = ("json",)
MAX_TAG = 100
MAX_COLUMNS = 1591  # of the 1600 of a Postgres table, nine are offset-ledger's own
MAX_RECORDS = 2_147_483_647
MAX_INTEGER = 2**63 - 1
MAX_DAYS = 3650
MAX_HISTORY = 1000
MAX_VALUE_BYTES = 268_435_456  # as hex in a COPY line it stays below Postgres's 1 GB


def _default(model: type[Any], name: str) -> Any:
    """The default of a field of the model: written once, there."""
    return next(field.default for field in fields(model) if field.name == name)


def _section(description: str, properties: Object, required: tuple[str, ...] = ()) -> Object:
    example = {key: properties[key]["examples"][0] for key in required or tuple(properties)[:1]}
    about = {"type": "object", "description": description, "properties": properties, "examples": [example]}
    return {**about, "required": list(required), "additionalProperties": False}


def _text(description: str, example: str, **more: Any) -> Object:
    return {"type": "string", "description": description, **more, "examples": [example]}


def _words(description: str, words: tuple[str, ...], default: str) -> Object:
    return {"description": description, "enum": list(words), "default": default, "examples": [default]}


def _count(description: str, name: str, highest: int, model: type[Any] = Limits) -> Object:
    default = _default(model, name)
    about = {"type": "integer", "description": description, "minimum": 1, "maximum": highest}
    return {**about, "default": default, "examples": [default]}


def _flag(description: str) -> Object:
    return {"type": "boolean", "description": description, "default": False, "examples": [True]}


def _connection(description: str, example: str) -> Object:
    return _text(f"{description}: the id of an Airflow connection.", example, pattern=CONNECTION_PATTERN)


def _path(description: str, example: str) -> Object:
    return _text(description, example, pattern=PATH_PATTERN)


START_TIMESTAMP: Final[Object] = _section(
    "The first record at or after this moment.",
    {"timestamp": _text("A moment with its zone.", "2013-01-01T00:00:00Z", pattern=TIMESTAMP_PATTERN)},
    ("timestamp",),
)

SOURCE: Final[Object] = _section(
    "The topic and how it is read.",
    {
        "connection": _connection("Where Kafka is", "kafka_default"),
        "topic": _text("The Kafka topic.", "flights.events", pattern=TOPIC_PATTERN),
        "start": {
            "description": "Where the first batch of a partition begins when the ledger has no cursor for it.",
            "anyOf": [
                {"enum": [word for word in StartAt if word is not StartAt.TIMESTAMP]},
                START_TIMESTAMP,
            ],
            "default": _default(Source, "start"),
            "examples": ["earliest", {"timestamp": "2013-01-01T00:00:00Z"}],
        },
        "on_expired": _words(
            "What happens when retention deleted offsets that the cursor still needs.",
            tuple(OnExpired),
            _default(Source, "on_expired"),
        ),
        "transactional": _flag("Producers use transactions: control records and aborted batches may leave gaps."),
        "compacted": _flag("The topic was compacted earlier and is not any more: the records removed then left gaps."),
        "format": _words("How record values are encoded.", FORMATS, _default(Source, "format")),
    },
    ("connection", "topic"),
)

TYPE: Final[Object] = {
    "description": "A Postgres type: one of the list, varchar(n), numeric(p,s), or a usual alias such as int8.",
    "type": "string",
    "anyOf": [
        {"enum": list(PLAIN)},
        {"pattern": VARCHAR_PATTERN},
        {"pattern": NUMERIC_PATTERN},
        {"pattern": ALIAS_PATTERN},
    ],
    "examples": ["integer", "varchar(3)", "numeric(12,2)"],
}


def _encodings(name: str) -> Object:
    written = [name, *(alias for alias, canonical in ALIASES.items() if canonical == name)]
    return {"properties": {"type": {"enum": written}, "encoding": {"enum": list(ENCODINGS[name])}}}


COLUMN: Final[Object] = {
    **_section(
        "A column and the place of its value in the record.",
        {
            "type": TYPE,
            "path": _path("Where the value is; $.<column name> where absent.", "$.actual.dep_delay"),
            "nullable": _flag("Whether null, or no such member, becomes NULL; otherwise it is quarantined."),
            "encoding": {
                "description": "How timestamptz (rfc3339 where absent) or bytea (base64 where absent) is written.",
                "enum": [encoding for name in ENCODINGS for encoding in ENCODINGS[name]],
                "examples": ["epoch_ms"],
            },
        },
        ("type",),
    ),
    "if": {"required": ["encoding"]},
    "then": {"anyOf": [_encodings(name) for name in ENCODINGS]},
}

COLUMNS: Final[Object] = {
    "type": "object",
    "description": "The declared columns in table order: name: type, or name: {type, path, nullable, encoding}.",
    "minProperties": 1,
    "maxProperties": MAX_COLUMNS,
    "propertyNames": {"pattern": COLUMN_PATTERN, "not": {"enum": list(RESERVED_COLUMNS)}},
    "additionalProperties": {"anyOf": [TYPE, COLUMN]},
    "examples": [{"carrier": "text"}],
}

PUBLISH_AT: Final[Object] = _section(
    "A moment that is not written as RFC 3339.",
    {
        "path": _path("Where the moment is.", "$.ts"),
        "encoding": {
            "description": "How it is written.",
            "enum": list(ENCODINGS["timestamptz"]),
            "default": ENCODINGS["timestamptz"][0],
            "examples": ["epoch_ms"],
        },
    },
    ("path",),
)

DELETE_WHEN: Final[Object] = _section(
    "A record that deletes its event, by what it says itself.",
    {
        "path": _path("Where the value is; a record without it deletes nothing.", "$.op"),
        "equals": {
            "description": "The value of a delete: a text, true or false, or a whole number of 64 bits.",
            "type": ["string", "boolean", "integer"],
            "minimum": -MAX_INTEGER - 1,
            "maximum": MAX_INTEGER,
            "examples": ["d", True, 1],
        },
    },
    ("path", "equals"),
)

RECORD: Final[Object] = {
    **_section(
        "How a record becomes a row.",
        {
            "event_id": {
                "description": "What identifies the event: a path to a text or an integer, or key for the Kafka key.",
                "anyOf": [{"const": "key"}, {"type": "string", "pattern": PATH_PATTERN}],
                "examples": ["$.event_id", "key"],
            },
            "publish_at": {
                "description": "When the event was published; of two records of one event the later one is newer.",
                "anyOf": [{"const": "kafka_timestamp"}, {"type": "string", "pattern": PATH_PATTERN}, PUBLISH_AT],
                "examples": ["$.publish_at", "kafka_timestamp", {"path": "$.ts", "encoding": "epoch_ms"}],
            },
            "tombstone": _words(
                "What a record with a null value means; delete needs event_id: key and publish_at: kafka_timestamp.",
                tuple(Tombstone),
                Tombstone.QUARANTINE,
            ),
            "delete_when": DELETE_WHEN,
            "columns": COLUMNS,
        },
        ("event_id", "publish_at", "columns"),
    ),
    "if": {"properties": {"tombstone": {"const": "delete"}}, "required": ["tombstone"]},
    "then": {"properties": {"event_id": {"const": "key"}, "publish_at": {"const": "kafka_timestamp"}}},
}

TARGET: Final[Object] = _section(
    "The table that rows are merged into.",
    {
        "connection": _connection("Where Postgres is", "postgres_default"),
        "table": _text(
            "schema.table; the schema is public where absent.",
            "public.flights",
            pattern=TABLE_PATTERN,
            **{"not": {"pattern": RESERVED_SCHEMA_PATTERN}},
        ),
        "merge": _words(
            "Which of two records of one event id stays: the newest, or the one the table already has.",
            tuple(Merge),
            _default(Target, "merge"),
        ),
    },
    ("connection", "table"),
)

_ACTION: Final[Object] = _words("What a batch outside the band leads to.", tuple(Unusual), Unusual.WARN)


def _factor(description: str, name: str, **bounds: float) -> Object:
    default = _default(VolumeBand, name)
    return {"type": "number", "description": description, **bounds, "default": default, "examples": [default]}


VOLUME: Final[Object] = _section(
    "How many times the usual records an hour a head batch may carry.",
    {
        "low": _factor("Below this many times the usual it is out of the band.", "low", minimum=0, maximum=1),
        "high": _factor("Above this many times the usual it is out of the band.", "high", minimum=1),
        "action": _ACTION,
    },
)

NULL_SHARE: Final[Object] = _section(
    "How far the share of NULL in a column may lie from the usual one.",
    {
        "tolerance": {
            "description": "Highest distance from the usual share, in either direction; 0.1 is ten percentage points.",
            "type": "number",
            "minimum": 0,
            "maximum": 1,
            "default": _default(NullBand, "tolerance"),
            "examples": [0.1],
        },
        "columns": {
            "description": "The columns to look at; every nullable one where absent.",
            "type": "array",
            "items": {"type": "string", "pattern": COLUMN_PATTERN},
            "minItems": 1,
            "uniqueItems": True,
            "examples": [["tail_number"]],
        },
        "action": _ACTION,
    },
)

HISTORY: Final[Object] = {
    **_section(
        "Comparison of a head batch with the committed head batches before it.",
        {
            "volume": VOLUME,
            "null_share": NULL_SHARE,
            "batches": _count("With how many batches at most.", "batches", MAX_HISTORY, History),
            "least": _count("With fewer than so many nothing is judged.", "least", MAX_HISTORY, History),
        },
    ),
    "anyOf": [{"required": ["volume"]}, {"required": ["null_share"]}],
}

QUALITY: Final[Object] = _section(
    "The gate that a batch passes before it is merged.",
    {
        "suite": {
            "description": "A Great Expectations suite, expectations/<suite>.json; null for none.",
            "type": ["string", "null"],
            "pattern": SUITE_PATTERN,
            "default": _default(Quality, "suite"),
            "examples": ["flights"],
        },
        "max_quarantined_share": {
            "description": "The share of quarantined records above which the batch is rejected.",
            "type": "number",
            "minimum": 0,
            "maximum": 1,
            "default": _default(Quality, "max_quarantined_share"),
            "examples": [0.01],
        },
        "keep_rejected_days": _count(
            "Days for which a rejected batch keeps its staging.", "keep_rejected_days", MAX_DAYS, Quality
        ),
        "history": HISTORY,
        "dead_letter_topic": {
            "description": "A topic that gets each quarantined record too, with coordinates and reasons in headers.",
            "type": ["string", "null"],
            "pattern": TOPIC_PATTERN,
            "default": _default(Quality, "dead_letter_topic"),
            "examples": ["flights.dead"],
        },
    },
)

LIMITS: Final[Object] = _section(
    "Sizes.",
    {
        "records_per_batch": _count("Offsets that one batch plans at most.", "records_per_batch", MAX_RECORDS),
        "records_per_slice": _count("Offsets that one Spark task stages at most.", "records_per_slice", MAX_RECORDS),
        "value_bytes": _count(
            "A record with a longer value is quarantined without decoding it.", "value_bytes", MAX_VALUE_BYTES
        ),
    },
)

PIPELINE: Final[Object] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "offset-ledger pipeline",
    **_section(
        "One Kafka topic into one Postgres table.",
        {
            "pipeline": _text("The name of the pipeline; no other has it.", "flights", pattern=PIPELINE_PATTERN),
            "description": _text("What it is for, in the words of its users.", "Flights that left New York"),
            "owner": _text("Who answers for it.", "data-platform", pattern=r"\S", default=_default(Pipeline, "owner")),
            "tags": {
                "description": "Airflow tags.",
                "type": "array",
                "items": {"type": "string", "pattern": r"\S", "maxLength": MAX_TAG},
                "uniqueItems": True,
                "default": [],
                "examples": [["flights"]],
            },
            "schedule": {
                "description": "A cron expression of five fields or one of Airflow's presets; null: only by hand.",
                "anyOf": [
                    {"type": "null"},
                    {"enum": list(CRON_PRESETS)},
                    {"type": "string", "pattern": CRON_PATTERN},
                ],
                "default": None,
                "examples": ["*/15 * * * *", "@hourly"],
            },
            "freshness": {
                "description": "How soon after it was queued a run must have ended; later, Airflow's deadline alert "
                "says so. null: no alert.",
                "type": ["string", "null"],
                "pattern": DURATION_PATTERN,
                "default": None,
                "examples": ["1h"],
            },
            "answer_within": _text(
                "How long a run waits for a person's answer before it takes no for one.",
                "1d",
                pattern=DURATION_PATTERN,
                default="1d",
            ),
            "wake_on_data": _flag("New records start a run too, besides the schedule."),
            "source": SOURCE,
            "record": RECORD,
            "target": TARGET,
            "quality": QUALITY,
            "limits": LIMITS,
        },
        ("pipeline", "source", "record", "target"),
    ),
}


def schema_text() -> str:
    """The schema as docs/pipeline.schema.json holds it."""
    return json.dumps(PIPELINE, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(schema_text(), end="")

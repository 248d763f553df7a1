"""The sections ``source``, ``target``, ``limits`` and ``stage`` of a pipeline file."""

from __future__ import annotations

import re
from dataclasses import replace

import yaml

from offset_ledger.config.document import Value
from offset_ledger.config.formats import FORMAT_KEYS, check_format
from offset_ledger.config.keys import Attributes, Key, Kind, Section, section
from offset_ledger.config.located import Refused, describe, is_null, quoted
from offset_ledger.config.model import ColumnsFrom, Evolve, Limits, Merge, Pipeline, Stage, StageEngine, Target
from offset_ledger.config.names import (
    RESERVED_SCHEMA_PATTERN,
    TABLE_PATTERN,
    TOPIC_PATTERN,
    split_table,
)
from offset_ledger.config.source import OnExpired, Source, StartAt
from offset_ledger.config.times import TIMESTAMP
from offset_ledger.config.values import CONNECTION, FLAG, choice, different, matching, one_of, text, whole_number

START_WORDS = tuple(at for at in StartAt if at is not StartAt.TIMESTAMP)
TOPIC = matching(TOPIC_PATTERN, "a Kafka topic", "write at most 249 of A-Z, a-z, 0-9, ., _ and -")
TOPICS = different(TOPIC, "the topic ", "a list of topics", "write [one, two]", minItems=1)
_TOPIC_KEYS = ("topic", "topics", "topic_pattern")
RECORDS = whole_number(2_147_483_647)
VALUE_BYTES = whole_number(268_435_456)  # as hex in a COPY line it stays below Postgres's 1 GB


def _start(value: Value) -> Attributes | StartAt:
    if isinstance(value.node, yaml.MappingNode):
        return START_TIMESTAMP.read(value)
    if is_null(value.node):
        raise Refused("expected earliest, latest, none or a timestamp, found nothing", "write earliest")
    if (given := text(value)) == StartAt.TIMESTAMP or given[:1].isdigit():
        moment = given if given[:1].isdigit() else "2013-01-01T00:00:00Z"
        raise Refused(f"{describe(value.node)} is not a start", f"write {{timestamp: {moment}}}")
    return StartAt(one_of(given, START_WORDS))


def _table(value: Value) -> Attributes:
    schema, table = split_table(text(value))
    return Attributes(schema=schema, table=table)


def _pattern(value: Value) -> str:
    try:
        re.compile(given := text(value))
    except re.error as error:
        wrong = f"{quoted(given)} is not a regular expression: {error}"
        raise Refused(wrong, r"write for example orders\..+") from None
    return given


def _source(said: Section) -> Source:
    source = said.make(Source)
    named = [said.entries[key] for key in _TOPIC_KEYS if key in said.entries]
    if not named:
        said.value.mistakes.add(said.value.line, "source.topic is missing", "add it, for example topic: flights.events")
    for other in named[1:]:
        other.note(Refused(f"{named[0].where} names what is read already", "keep one of the two"))
    check_format(said, source)
    return replace(source, topic=source.topic or "", topics=source.topics or ())


START_TIMESTAMP: Kind[Attributes] = section(
    Source,
    "The first record at or after this moment.",
    {"timestamp": Key(TIMESTAMP, "A moment with its zone.", ("2013-01-01T00:00:00Z",), attribute="start_timestamp")},
    ("timestamp",),
    lambda said: Attributes(said.given, start=StartAt.TIMESTAMP),
)

SOURCE: Kind[Source] = section(
    Source,
    "The topic and how it is read.",
    {
        "connection": Key(CONNECTION, "Where Kafka is: the id of an Airflow connection.", ("kafka_default",)),
        "topic": Key(TOPIC, "The Kafka topic.", ("flights.events",)),
        "topics": Key(
            TOPICS,
            "Several topics instead of one, into the same table; each has its own batches, cursors and quarantine.",
            (["orders.eu", "orders.us"],),
        ),
        "topic_pattern": Key(
            Kind(_pattern, {"type": "string", "format": "regex"}),
            "The same for every topic whose whole name matches this regular expression; one that is created later is "
            "read from its first offset.",
            (r"orders\..+",),
        ),
        "start": Key(
            Kind(_start, {"anyOf": [{"enum": list(START_WORDS)}, START_TIMESTAMP.schema]}),
            "Where the first batch of a partition begins when the ledger has no cursor for it.",
            ("earliest", {"timestamp": "2013-01-01T00:00:00Z"}),
        ),
        "on_expired": Key(
            choice(OnExpired), "What happens when retention deleted offsets that the cursor still needs."
        ),
        "transactional": Key(
            FLAG, "Producers use transactions: control records and aborted batches may leave gaps.", (True,)
        ),
        "compacted": Key(
            FLAG, "The topic was compacted earlier and is not any more: the records removed then left gaps.", (True,)
        ),
        **FORMAT_KEYS,
    },
    ("connection",),
    _source,
    also={
        "oneOf": [{"required": [key]} for key in _TOPIC_KEYS],
        "examples": [{"connection": "kafka_default", "topic": "flights.events"}],
    },
)

TARGET: Kind[Target] = section(
    Target,
    "The table that rows are merged into.",
    {
        "connection": Key(CONNECTION, "Where Postgres is: the id of an Airflow connection.", ("postgres_default",)),
        "table": Key(
            Kind(_table, {"type": "string", "pattern": TABLE_PATTERN, "not": {"pattern": RESERVED_SCHEMA_PATTERN}}),
            "schema.table; the schema is public where absent.",
            ("public.flights",),
        ),
        "merge": Key(
            choice(Merge), "Which of two records of one event id stays: the newest, or the one the table already has."
        ),
        "evolve": Key(
            choice(Evolve),
            "How a commit may change the table to fit the file: not at all, by new columns (add_columns), or by these "
            "and wider types (widen).",
        ),
        "columns_from": Key(
            choice(ColumnsFrom),
            "What decides about columns: the file, or the schemas that records name too (schema), where a new field "
            "becomes a column; needs source.registry and evolve.",
        ),
    },
    ("connection", "table"),
)


def check_columns_from(columns_from: Value, pipeline: Pipeline, has_registry: bool) -> None:
    """Note what keeps a pipeline from following the schemas of its records."""
    if pipeline.follows_schemas and not has_registry:
        wrong = "records name no schema that columns could come from"
        columns_from.note(Refused(wrong, "add source.registry, or write columns_from: file"))
    if pipeline.follows_schemas and pipeline.target.evolve is Evolve.NONE:
        wrong = "no column can come from a schema while evolve is none"
        columns_from.note(Refused(wrong, "add evolve: add_columns or evolve: widen, or write columns_from: file"))


LIMITS: Kind[Limits] = section(
    Limits,
    "Sizes.",
    {
        "records_per_batch": Key(RECORDS, "Offsets that one batch plans at most."),
        "records_per_slice": Key(RECORDS, "Offsets of a slice, which one transaction stages, at most."),
        "value_bytes": Key(VALUE_BYTES, "A record with a longer value is quarantined without decoding it."),
    },
)

STAGE: Kind[Stage] = section(
    Stage,
    "What reads the records of a batch and copies them into staging.",
    {
        "engine": Key(
            choice(StageEngine),
            "auto: Spark stages a batch of process_below offsets or more, the process of the task a smaller one; spark "
            "or process: always that one.",
        ),
        "process_below": Key(RECORDS, "With engine auto, a batch of fewer offsets is staged without Spark."),
    },
)

"""The sections ``source``, ``target``, ``limits``, ``stage`` and ``quality`` of a pipeline file."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import yaml

from offset_ledger.pipeline_file import names
from offset_ledger.pipeline_file import pipeline as model
from offset_ledger.pipeline_file.columns import NAME
from offset_ledger.pipeline_file.keys import Attributes, Key, Kind, Section, read_mapping, read_or_note, section
from offset_ledger.pipeline_file.located import Refused, Value, describe, is_null, is_text, quoted
from offset_ledger.pipeline_file.source import (
    Envelope,
    Format,
    KeyFormat,
    OnExpired,
    SchemaFile,
    Source,
    StartAt,
    SubjectStrategy,
)
from offset_ledger.pipeline_file.values import (
    CONNECTION,
    FACTOR,
    FLAG,
    SHARE,
    TIMESTAMP,
    choice,
    different,
    from_environment,
    matching,
    one_of,
    or_null,
    text,
    whole_number,
)

MAX_SCHEMA_BYTES = 4 * 1024 * 1024
_WITH_SCHEMA = f"a format with a schema: {', '.join(each for each in Format if each is not Format.JSON)}"
_MESSAGE = matching(
    r"^[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*$", "the full name of a message", "write package.Message"
)


def _schema(value: Value) -> SchemaFile:
    """Read the schema's file, which stands beside the pipeline file or is given from there."""
    given = text(value)
    folder = value.mistakes.file.parent
    # A driver on a cluster has its copies of both files in one folder.
    paths = [path for path in (folder / given, folder / Path(given).name) if path.is_file()]
    if not paths:
        raise Refused(f"there is no file {quoted(given)} beside the pipeline file", "write its path from there on")
    try:
        data = paths[0].read_bytes()
        if len(data) > MAX_SCHEMA_BYTES:
            raise Refused(f"{quoted(given)} has {len(data)} bytes", f"a schema has at most {MAX_SCHEMA_BYTES}")
        return SchemaFile(paths[0].name, data.decode())
    except OSError as error:
        raise Refused(f"{quoted(given)} cannot be read: {error.strerror}", "give a readable file") from None
    except UnicodeDecodeError:
        raise Refused(f"{quoted(given)} is not UTF-8", "write the text of a schema: .avsc, .proto or .json") from None


START_WORDS = tuple(at for at in StartAt if at is not StartAt.TIMESTAMP)
PLAIN_TOPIC = matching(names.TOPIC_PATTERN, "a Kafka topic", "write at most 249 of A-Z, a-z, 0-9, ., _ and -")
TOPIC = from_environment(PLAIN_TOPIC)
TOPICS = different(TOPIC, "the topic ", "a list of topics", "write [one, two]", minItems=1)
_TOPIC_KEYS = ("topic", "topics", "topic_pattern")
RECORDS = whole_number(2_147_483_647)
VALUE_BYTES = whole_number(268_435_456)  # as hex in a COPY line it stays below Postgres's 1 GB
START_TIMESTAMP: Kind[Attributes] = section(
    Source,
    "The first record at or after this moment.",
    {"timestamp": Key(TIMESTAMP, "A moment with its zone.", ("2013-01-01T00:00:00Z",), attribute="start_timestamp")},
    ("timestamp",),
    lambda said: Attributes(said.given, start=StartAt.TIMESTAMP),
)


def _start(value: Value) -> Attributes | StartAt:
    if isinstance(value.node, yaml.MappingNode):
        return START_TIMESTAMP.read(value)
    if is_null(value.node):
        raise Refused("expected earliest, latest, none or a timestamp, found nothing", "write earliest")
    if (given := text(value)) == StartAt.TIMESTAMP or given[:1].isdigit():
        moment = given if given[:1].isdigit() else "2013-01-01T00:00:00Z"
        raise Refused(f"{describe(value.node)} is not a start", f"write {{timestamp: {moment}}}")
    return StartAt(one_of(given, START_WORDS))


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
    _check_format(said.entries, source)
    return source


def _check_format(given: Mapping[str, Value], source: Source) -> None:
    """Note what the keys of a format cannot say together."""
    for key in ("registry", "schema"):
        if key in given and source.format is Format.JSON:
            given[key].note(Refused("json has no schema", f"drop {key}, or write {_WITH_SCHEMA}"))
    if source.format is not Format.JSON and not {"registry", "schema"} & given.keys():
        wrong = f"records in {source.format} need a schema"
        given["format"].note(Refused(wrong, "add registry: <connection>, or schema: <file>"))
    if {"registry", "schema"} <= given.keys():
        given["schema"].note(Refused("with a registry each record names its schema", "drop schema, or drop registry"))
    if "subject" in given and "registry" not in given:
        given["subject"].note(Refused("without a registry there are no subjects", "drop it, or add registry"))
    if source.key_format not in (KeyFormat.TEXT, KeyFormat.JSON) and "registry" not in given and "key_format" in given:
        wrong = f"keys in {source.key_format} name a schema, and there is no registry"
        given["key_format"].note(Refused(wrong, "add registry, or write text"))
    plain = source.format is Format.PROTOBUF and "schema" in given
    if "message" in given and not plain:
        right = "drop it: only a Protobuf schema file needs one"
        given["message"].note(Refused("the record itself names its message", right))
    if plain and "message" not in given:
        wrong = "a Protobuf file may have several messages"
        given["schema"].note(Refused(wrong, "add message: <full name of the one in the topic>"))


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
            from_environment(Kind(_pattern, {"type": "string", "format": "regex"}), re.escape),
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
            FLAG,
            "Producers use transactions: control records and aborted batches may leave gaps. By default the record "
            "batches say so themselves.",
            (True,),
        ),
        "compacted": Key(
            FLAG, "The topic was compacted earlier and is not any more: the records removed then left gaps.", (True,)
        ),
        "format": Key(choice(Format), "How record values are encoded."),
        "envelope": Key(
            choice(Envelope),
            "debezium: values are Debezium's change events. A path is one in the row after the change, unless it "
            "begins with a member of the envelope, such as $.source.ts_ms or $.op.",
            ("debezium",),
        ),
        "unavailable": Key(
            matching(
                r"^(?:hex:(?:[0-9A-Fa-f]{2})+|(?!hex:)[\s\S]+)$",
                "a placeholder",
                "write the connector's unavailable.value.placeholder, after hex: an even number of digits",
            ),
            "What stands for a value that the source did not send: the connector's unavailable.value.placeholder. With "
            "an envelope it is __debezium_unavailable_value by default.",
            ("__debezium_unavailable_value", "hex:00ff"),
        ),
        "registry": Key(
            CONNECTION,
            "The schema registry that has the schemas of the records: the id of an Airflow connection. The records are "
            "in Confluent's wire format.",
            ("registry_default",),
        ),
        "subject": Key(
            choice(SubjectStrategy),
            "Which subjects the schemas are registered under: topic (<topic>-value), record (the full name of the "
            "record), topic_record (<topic>-<full name>), or any. A record with a schema of another subject is "
            "quarantined.",
        ),
        "schema": Key(
            Kind(_schema, {"type": "string", "minLength": 1}),
            "The file with the schema of records that do not name theirs, from the folder of the pipeline file on.",
            ("flights.avsc",),
        ),
        "message": Key(_MESSAGE, "The full name of the Protobuf message in the schema file.", ("flights.Departure",)),
        "key_format": Key(
            choice(KeyFormat),
            "How record keys are encoded, where event_id is the key or columns read it; all but text and json need the "
            "registry.",
        ),
    },
    make=_source,
    also={
        "oneOf": [{"required": [key]} for key in _TOPIC_KEYS],
        "examples": [{"connection": "kafka_default", "topic": "flights.events"}],
    },
)

TABLE = Kind(
    lambda value: Attributes(zip(("schema", "table"), names.split_table(text(value)), strict=True)),
    {"type": "string", "pattern": names.TABLE_PATTERN, "not": {"pattern": names.RESERVED_SCHEMA_PATTERN}},
)

PARTITIONS: Kind[model.Partitions] = section(
    model.Partitions,
    "Range partitions by a date or timestamptz column, which commits create.",
    {
        "every": Key(choice(model.Period), "The length of a partition; periods begin at midnight UTC.", ("day",)),
        "ahead": Key(whole_number(1000), "How many periods after the present one have a partition."),
        "by": Key(
            Kind(text, {"type": "string", "pattern": names.COLUMN_PATTERN}),
            "The column: publish_at, or one of the file that is not nullable; that of the table, if it exists.",
            ("publish_at",),
        ),
    },
    ("every",),
)


def check_partitions(by: Value, record: model.RecordShape, target: model.Target) -> None:
    """Note a partition column that a row may lack, or that is neither a date nor a moment."""
    moment = target.name_of("publish_at")
    if not is_text(by.node) or by.node.value == moment:
        return
    column = next((column for column in record.all_columns if column.name == by.node.value), None)
    right = f"write {moment}, or " if moment else "write "
    right += "a column of type date or timestamptz that is not nullable"
    if column is None:
        by.note(Refused(f"{quoted(by.node.value)} is no column of the file", right))
    elif column.type.name not in ("date", "timestamptz"):
        by.note(Refused(f"{column.name} is {column.type.sql}", right))
    elif column in record.columns and column.nullable:
        by.note(Refused(f"{column.name} is nullable", right))
    elif column in record.columns and record.deletes and not target.beside:
        by.note(Refused(f"delete markers have no {column.name}", "write publish_at, or put the column into record.key"))


def _bookkeeping(value: Value) -> Attributes:
    if is_text(value.node):
        return Attributes(beside=one_of(value.node.value, ("columns", "beside")) == "beside")
    copied = list[tuple[str, str]]()
    for name, each in read_mapping(value, {"publish_at": "updated_at"}).items():
        if name not in names.BOOKKEEPING:
            right = f"the columns are {', '.join(names.BOOKKEEPING)}"
            each.note(Refused(f"{quoted(name)} is no bookkeeping column", right))
        elif not is_null(each.node):
            copied += [(name, own) for own in read_or_note(NAME, each)]
    return Attributes(beside=True, copied=tuple(copied))


BOOKKEEPING: Kind[Attributes] = Kind(
    _bookkeeping,
    {
        "anyOf": [
            {"enum": ["columns", "beside"]},
            {
                "type": "object",
                "propertyNames": {"enum": list(names.BOOKKEEPING)},
                "additionalProperties": {"type": ["string", "null"], "pattern": names.COLUMN_PATTERN},
            },
        ]
    },
)


def _target(said: Section) -> model.Target:
    target = said.make(model.Target)
    if "deletes" not in said.entries:
        return replace(target, deletes=model.Deletes.HARD) if target.beside else target
    if target.beside and target.deletes is model.Deletes.SOFT:
        wrong = "a delete marker is a row of the table, which has no column _deleted"
        said.entries["deletes"].note(Refused(wrong, "write hard or refuse, or bookkeeping: columns"))
    if not target.beside and target.deletes is model.Deletes.HARD:
        wrong = "a row that goes leaves its key and order, which only a table beside it can keep"
        said.entries["deletes"].note(Refused(wrong, "add bookkeeping: beside, or write soft"))
    return target


def check_copied(bookkeeping: Value, record: model.RecordShape, target: model.Target) -> None:
    """Note names of bookkeeping columns that other columns of the table have, or that no row has."""
    taken = {column.name for column in record.all_columns}
    absent = {"_topic": record.topic_names, "_schema_id": record.schema_ids}
    for name, own in target.copied:
        each = bookkeeping.at(name)
        if each and own in taken:
            each.note(Refused(f"{own} is another column of the table", "give it another name"))
        if each and not absent.get(name, True):
            why = "source reads one topic" if name == "_topic" else "without source.registry no record has a schema id"
            each.note(Refused(f"no row has {name}: {why}", "drop it"))
        taken.add(own)


TARGET: Kind[model.Target] = section(
    model.Target,
    "The table that rows are merged into.",
    {
        "connection": Key(CONNECTION, "Where Postgres is: the id of an Airflow connection.", ("postgres_default",)),
        "table": Key(
            from_environment(TABLE),
            "schema.table; the schema is public where absent.",
            ("public.flights",),
        ),
        "merge": Key(
            choice(model.Merge),
            "Which of two records of one event id stays: the newest, or the one the table already has; append: each "
            "record is a row of its own.",
        ),
        "evolve": Key(
            choice(model.Evolve),
            "How a commit may change the table to fit the file: not at all, by new columns (add_columns), or by these "
            "and wider types (widen).",
        ),
        "columns_from": Key(
            choice(model.ColumnsFrom),
            "What decides about columns: the file, or the schemas that records name too (schema), where a new field "
            "becomes a column; needs source.registry and evolve.",
        ),
        "on_conflict": Key(
            choice(model.OnConflict),
            "What a record leads to that would break a foreign key, or a unique constraint besides the key: the batch "
            "fails, or the record is quarantined.",
        ),
        "deletes": Key(
            choice(model.Deletes),
            "What a record that deletes its event does: the row becomes a delete marker (soft), it goes (hard, the "
            "default where bookkeeping is beside), or the record is quarantined (refuse).",
        ),
        "bookkeeping": Key(
            BOOKKEEPING,
            "Where publish_at, coordinates, batch and deletes of each row are: in columns of the table, or beside it, "
            "in a table of the ledger. A mapping puts them beside, and copies of those that it names into the table.",
            ("columns", "beside", {"publish_at": "updated_at", "_batch_id": None}),
            attribute="beside",
        ),
        "partitions": PARTITIONS,
        "view": Key(
            or_null(
                Kind(lambda value: names.view_name(text(value)), {"type": "string", "pattern": names.VIEW_PATTERN})
            ),
            "A view beside the table, without deleted rows and without columns that begin with _.",
            ("flights_now",),
        ),
    },
    ("table",),
    _target,
)


LIMITS: Kind[model.Limits] = section(
    model.Limits,
    "Sizes.",
    {
        "records_per_batch": Key(RECORDS, "Offsets that one batch plans at most."),
        "records_per_slice": Key(RECORDS, "Offsets of a slice, which one transaction stages, at most."),
        "value_bytes": Key(VALUE_BYTES, "A record with a longer value is quarantined without decoding it."),
    },
)

STAGE: Kind[model.Stage] = section(
    model.Stage,
    "What reads the records of a batch and copies them into staging.",
    {
        "engine": Key(
            choice(model.StageEngine),
            "auto: Spark stages a batch of process_below offsets or more, the process of the task a smaller one; spark "
            "or process: always that one.",
        ),
        "process_below": Key(RECORDS, "With engine auto, a batch of fewer offsets is staged without Spark."),
    },
)


SUITE = matching(names.SUITE_PATTERN, "a suite name", "write the name of a file in expectations/ without .json")
BATCHES = whole_number(1000)
DAYS = whole_number(3650)
COLUMN_NAMES = different(
    Kind(text, {"type": "string", "pattern": names.COLUMN_PATTERN}),
    expected="a list of columns",
    right="write [one, two], or leave it out",
    minItems=1,
)
ACTION = Key(choice(model.Unusual), "What a batch outside the band leads to.")


def check_quality(quality: Value, pipeline: model.Pipeline) -> None:
    """Note contradictions to the rest of the file: topics that are one, columns that are never NULL."""
    letters = pipeline.quality.dead_letter_topic
    if letters and pipeline.source.reads(letters) and (topic := quality.at("dead_letter_topic")):
        topic.note(Refused("the pipeline would read its own dead letters", "name another topic than source.topic"))
    if listed := quality.at("history", "null_share", "columns"):
        nullable = [column.name for column in pipeline.record.columns if column.nullable]
        right = f"write one of {', '.join(nullable)}" if nullable else "leave null_share out"
        for name in {item.node.value: item for item in reversed(listed.items()) if is_text(item.node)}.values():
            if name.node.value not in nullable:
                wrong = f"{quoted(name.node.value)} is not a nullable column of record.columns, so its share of NULL is"
                name.note(Refused(f"{wrong} always 0", right))


def _history(said: Section) -> model.History:
    if not said.entries.keys() & {"volume", "null_share"}:
        raise Refused("nothing is compared", "add volume or null_share, for example volume: {low: 0.2, high: 5}")
    history = said.make(model.History)
    if (fewest := history.min_batches) > history.batches:
        wrong = f"min_batches {fewest} is above batches {history.batches}, so nothing is ever judged"
        raise Refused(wrong, "raise batches")
    return history


VOLUME: Kind[model.VolumeBand] = section(
    model.VolumeBand,
    "How many times the usual records an hour a head batch may carry.",
    {
        "low": Key(SHARE, "Below this many times the usual it is out of the band."),
        "high": Key(FACTOR, "Above this many times the usual it is out of the band."),
        "action": ACTION,
    },
)

NULL_SHARE: Kind[model.NullBand] = section(
    model.NullBand,
    "How far the share of NULL in a column may lie from the usual one.",
    {
        "tolerance": Key(
            SHARE, "Highest distance from the usual share, in either direction; 0.1 is ten percentage points."
        ),
        "columns": Key(COLUMN_NAMES, "The columns to look at; every nullable one where absent.", (["tail_number"],)),
        "action": ACTION,
    },
)

HISTORY: Kind[model.History] = section(
    model.History,
    "Comparison of a head batch with the committed head batches before it.",
    {
        "volume": VOLUME,
        "null_share": NULL_SHARE,
        "batches": Key(BATCHES, "With how many batches at most."),
        "min_batches": Key(BATCHES, "With fewer than so many nothing is judged."),
    },
    make=_history,
    also={"anyOf": [{"required": ["volume"]}, {"required": ["null_share"]}]},
)

QUALITY: Kind[model.Quality] = section(
    model.Quality,
    "The gate that a batch passes before it is merged.",
    {
        "suite": Key(
            or_null(SUITE), "A Great Expectations suite, expectations/<suite>.json; null for none.", ("flights",)
        ),
        "max_quarantined_share": Key(SHARE, "The share of quarantined records above which the batch is rejected."),
        "keep_rejected_days": Key(DAYS, "Days for which a rejected batch keeps its staging."),
        "history": HISTORY,
        "dead_letter_topic": Key(
            from_environment(or_null(PLAIN_TOPIC)),
            "A topic that gets each quarantined record too, with coordinates and reasons in headers.",
            ("flights.dead",),
        ),
    },
)

"""A sample of a topic, decoded as a batch would decode it; nothing is written, in no ledger and no group."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any

import pyarrow as pa

from offset_ledger.decoding.arrow import DecodedColumns, decode_batch, with_texts
from offset_ledger.decoding.column_groups import GROUPS
from offset_ledger.decoding.connect_schema import null_as_default
from offset_ledger.decoding.envelope import connector_of
from offset_ledger.decoding.formats import compile_decoder, no_schemas
from offset_ledger.errors import AccessDenied, ConfigurationError, DatabaseUnavailable, OffsetExpired, TerminalError
from offset_ledger.model.followed_columns import effective
from offset_ledger.model.ranges import OffsetRange, fair_shares
from offset_ledger.model.snapshot import TopicSnapshot
from offset_ledger.outside.connections import get_connection
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.outside.kafka.records import read_records
from offset_ledger.pipeline_file.envelope import notes_on_order
from offset_ledger.pipeline_file.pipeline import Pipeline, RecordShape
from offset_ledger.pipeline_file.source import StartAt
from offset_ledger.postgres.ledger import pipelines
from offset_ledger.postgres.ledger.database import connect, open_ledger_at, read_only, transaction
from offset_ledger.postgres.ledger.followed_columns import with_columns
from offset_ledger.postgres.table.infer import sampled_columns
from offset_ledger.steps.plan.head import backlogs, start_offsets
from offset_ledger.steps.plan.step import snapshot_topic
from offset_ledger.steps.stage.record_batches import kafka_python_batch
from offset_ledger.steps.stage.schemas import SchemaLookup

_TIMEOUT = 5  # seconds: a person is waiting for the answer


@dataclass(frozen=True, slots=True)
class Choice:
    """The request of a person: one partition or all, and an offset, a moment, or neither."""

    partition: int | None = None
    from_offset: int | None = None
    since: datetime | None = None

    def __post_init__(self) -> None:
        if self.from_offset is not None and self.since is not None:
            raise ConfigurationError("a preview begins at an offset or at a moment, and not both; choose one")
        if self.from_offset is not None and self.partition is None:
            raise ConfigurationError("an offset is one of a partition; give --partition with --from-offset")


@dataclass(frozen=True, slots=True)
class Start:
    """The first offset and the last stable one by partition; ``note`` says what they come from."""

    ranges: Mapping[int, tuple[int, int]]
    note: str
    has_ledger: bool


def find_start(pipeline: Pipeline, choice: Choice) -> Start:
    """Return where to begin to read.

    Raises:
        LostRange: the topic does not have the offsets any more, or has others in their places.
        NoStartOffset: the pipeline says start: none and has no cursors.
        TerminalError: there is no such partition.
    """
    cursors, trouble = None, ""  # why the ledger cannot be asked for cursors
    try:
        database = get_connection(pipeline.target.connection)
        with open_ledger_at(database, timeout=_TIMEOUT) as session, transaction(session) as cursor:
            read_only(cursor)
            cursors = pipelines.read_cursors(cursor, pipeline.name)
    except (ConfigurationError, DatabaseUnavailable, AccessDenied) as error:
        trouble = f"no ledger could be asked for cursors: {error}"
    if choice.from_offset is None and choice.since is None:
        source = pipeline.source
        snapshot, at_timestamp = snapshot_topic(pipeline, cursors)
        new = start_offsets(cursors, snapshot, source.start, at_timestamp)
        starts = {**(cursors.next_offsets if cursors else {}), **new}
        backlogs(starts, snapshot)
        note = f"from the cursors of pipeline {pipeline.name}"
        if cursors is None:
            moment = source.start_timestamp if source.start is StartAt.TIMESTAMP else None
            why = trouble or f"the ledger has no pipeline {pipeline.name} yet"
            note = f"from source.start ({moment.isoformat() if moment else source.start}): {why}"
    else:
        starts, snapshot = _asked(pipeline, choice)
        note = f"from offset {choice.from_offset}" if choice.since is None else f"from {choice.since.isoformat()}"
    partitions = {p.partition: p for p in snapshot.partitions}
    if choice.partition is not None and choice.partition not in partitions:
        raise TerminalError(f"topic {snapshot.topic} has no partition {choice.partition}; it has {len(partitions)}")
    chosen = partitions if choice.partition is None else [choice.partition]
    ranges = {p: (starts[p], max(starts[p], partitions[p].last_stable)) for p in chosen}
    return Start(ranges, note, not trouble)


def _asked(pipeline: Pipeline, choice: Choice) -> tuple[dict[int, int], TopicSnapshot]:
    topic = pipeline.source.topic
    with connect_kafka(get_connection(pipeline.source.connection)) as kafka:
        snapshot = kafka.snapshot(topic)
        if choice.since is None:
            offset = choice.from_offset or 0
            for each in snapshot.partitions:
                if each.partition == choice.partition and offset < each.log_start:
                    raise OffsetExpired(
                        f"topic {topic} partition {each.partition}: offsets [{offset}, {each.log_start}) are gone; the "
                        f"log starts at {each.log_start}; begin there"
                    )
            return {each.partition: offset for each in snapshot.partitions}, snapshot
        offsets = kafka.offsets_at(topic, choice.since)
    ends = {p.partition: p.last_stable for p in snapshot.partitions}
    return {p: end if (at := offsets.get(p)) is None else at for p, end in ends.items()}, snapshot


MAX_RECORDS = 10_000
_OF_THE_ROW = ("_partition", "_offset", "publish_at", "_schema_id", "_deleted")
_OF_THE_REFUSAL = ("_partition", "_offset", "reasons", "_value", "_schema_id")


@dataclass(frozen=True, slots=True)
class SampleRow:
    """A record that would become a row; the values of the key and of the declared columns are as staging has them.

    A column that the record leaves as it is has no value.
    """

    partition: int
    offset: int
    key: Mapping[str, Any]
    publish_at: Any
    values: Mapping[str, Any]
    schema_id: int | None = None
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class SampleRefusal:
    """A record that would go to quarantine, with every reason: path, code and detail."""

    partition: int
    offset: int
    reasons: tuple[Mapping[str, str], ...]
    value: bytes | None
    schema_id: int | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """The sampled records, decoded, by partition and offset; no row comes of those ``skipped``.

    ``notes`` are on what no decoder can know.
    """

    start: Start
    rows: tuple[SampleRow, ...]
    refusals: tuple[SampleRefusal, ...]
    skipped: int
    notes: tuple[str, ...] = ()

    @property
    def records(self) -> int:
        """The number of records that were read."""
        return len(self.rows) + len(self.refusals) + self.skipped


def decode_columns(pipeline: Pipeline, choice: Choice, records: int) -> tuple[Start, RecordShape, list[DecodedColumns]]:
    """Read that many records from the chosen start, and decode them, with the columns that the pipeline has.

    Raises:
        LostRange: as the next batch would.
        SchemaChanged: the registry has another schema under an id than the ledger.
        BrokerUnavailable, RegistryUnavailable: a server is unavailable.
        TerminalError: the topic has no such partition or offset.
    """
    start = find_start(pipeline, choice)
    known, database = pipeline, get_connection(pipeline.target.connection) if start.has_ledger else None
    if database:
        with connect(database) as session, transaction(session) as cursor:
            known = with_columns(cursor, pipeline)
    if pipeline.record.sampled and known.record == pipeline.record:  # nothing is planned yet
        known = replace(pipeline, record=effective(pipeline.record, sampled_columns(pipeline)))
    pipeline = known
    lookup = SchemaLookup.that_keeps_nothing(pipeline, database) or no_schemas
    decoder = compile_decoder(pipeline.source, pipeline.record, pipeline.limits, lookup)
    decoded = [decode_batch(decoder, batch) for batch in _read(pipeline, start, records)]
    return start, pipeline.record, decoded


def decode_sample(pipeline: Pipeline, choice: Choice, records: int) -> Sample:
    """Read and decode records as :func:`decode_columns`, one by one for people."""
    start, record, decoded = decode_columns(pipeline, choice, records)
    rows, refusals = list[SampleRow](), list[SampleRefusal]()
    of_key, names = ([column.name for column in each] for each in (record.key_columns, record.columns))
    group_of = {column.name: column.group for column in record.columns if column.group}
    first = b""
    for each in decoded:
        first = first or next((value.as_py() for value in each.rows.column("_value") if value.is_valid), b"")
        wanted = [name for name in (*_OF_THE_ROW, GROUPS, *of_key, *names) if name in each.rows.column_names]
        for row in with_texts(each.rows.select(wanted)).to_pylist():
            given = [name for name in names if name not in group_of or group_of[name] in row[GROUPS]]
            key, values = ({name: row[name] for name in each} for each in (of_key, given))
            place = row["_partition"], row["_offset"]
            rows.append(SampleRow(*place, key, row["publish_at"], values, row.get("_schema_id"), row["_deleted"]))
        # Not the record's timestamp: no datetime is later than the year 9999.
        wanted = [name for name in _OF_THE_REFUSAL if name in each.refusals.column_names]
        for row in each.refusals.select(wanted).to_pylist():
            reasons = tuple(json.loads(row["reasons"]))
            place = row["_partition"], row["_offset"]
            refusals.append(SampleRefusal(*place, reasons, row["_value"], row.get("_schema_id")))
    return Sample(
        start,
        tuple(sorted(rows, key=lambda row: (row.partition, row.offset))),
        tuple(sorted(refusals, key=lambda refusal: (refusal.partition, refusal.offset))),
        sum(each.skipped for each in decoded),
        (*null_as_default(first, record.all_columns), *notes_on_order(record, connector_of(first))),
    )


def _read(pipeline: Pipeline, start: Start, records: int) -> Iterator[pa.RecordBatch]:
    """The first records, in fair shares of the partitions; the offsets looked through grow where many hold none."""
    source = pipeline.source
    kafka = get_connection(source.connection)
    positions, growth = {p: bounds[0] for p, bounds in start.ranges.items()}, 1
    while records and (open_ := [p for p, at in positions.items() if at < start.ranges[p][1]]):
        widths = [start.ranges[p][1] - positions[p] for p in open_]
        for partition, share in zip(open_, fair_shares(widths, records), strict=True):
            if not share:
                continue
            until = min(start.ranges[partition][1], positions[partition] + share * growth)
            wanted = OffsetRange(partition, positions[partition], until)
            sampled = list(islice(read_records(kafka, source.topic, wanted, "read_committed"), share))
            positions[partition] = sampled[-1].offset + 1 if len(sampled) == share else until
            records -= len(sampled)
            if sampled:
                yield kafka_python_batch(sampled)
        growth *= 4

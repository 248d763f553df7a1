"""Some records of a topic, decoded as a batch would decode them; nothing is written, in no ledger and no group."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import Connection, get_connection
from offset_ledger.decoding.arrow import DecodedColumns, decode_batch, with_texts
from offset_ledger.decoding.formats import compile_decoder, no_schemas
from offset_ledger.kafka.records import read_records
from offset_ledger.ledger.database import connect, transaction
from offset_ledger.ledger.followed_columns import with_columns
from offset_ledger.model.overlap import fair_shares
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.operations.sample_start import Choice, Start, find_start
from offset_ledger.stage.record_batches import kafka_python_batch
from offset_ledger.stage.schemas import SchemaLookup

if TYPE_CHECKING:
    import pyarrow as pa

MAX_RECORDS = 10_000
_OF_THE_ROW = ("_partition", "_offset", "event_id", "publish_at", "_schema_id", "_deleted")


@dataclass(frozen=True, slots=True)
class SampleRow:
    """A record that would become a row; ``values`` are those of the declared columns, as staging has them."""

    partition: int
    offset: int
    event_id: str
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
    """What became of the records, by partition and offset; no row comes of those ``skipped``."""

    start: Start
    rows: tuple[SampleRow, ...]
    refusals: tuple[SampleRefusal, ...]
    skipped: int

    @property
    def records(self) -> int:
        """How many were read."""
        return len(self.rows) + len(self.refusals) + self.skipped


def decode_sample(pipeline: Pipeline, choice: Choice, records: int) -> Sample:
    """Read that many records from where the choice says, and decode them.

    Raises:
        LostRange: as the next batch would.
        SchemaChanged: the registry has another schema under an id than the ledger.
        BrokerUnavailable, RegistryUnavailable: a server is away.
        TerminalError: the topic has no such partition or offset.
    """
    start = find_start(pipeline, choice)
    database = get_connection(pipeline.target.connection) if start.has_ledger else None
    pipeline = _with_columns(pipeline, database) if database else pipeline
    lookup = SchemaLookup.that_keeps_nothing(pipeline, database) or no_schemas
    decoder = compile_decoder(pipeline.source, pipeline.record, pipeline.limits, lookup)
    decoded = [decode_batch(decoder, batch) for batch in _read(pipeline, start, records)]
    rows = (row for each in decoded for row in _rows(pipeline, each))
    refusals = (refusal for each in decoded for refusal in _refusals(each))
    return Sample(
        start,
        tuple(sorted(rows, key=lambda row: (row.partition, row.offset))),
        tuple(sorted(refusals, key=lambda refusal: (refusal.partition, refusal.offset))),
        sum(each.skipped for each in decoded),
    )


def _with_columns(pipeline: Pipeline, database: Connection) -> Pipeline:
    with connect(database) as session, transaction(session) as cursor:
        return with_columns(cursor, pipeline)


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


def _rows(pipeline: Pipeline, decoded: DecodedColumns) -> Iterator[SampleRow]:
    names = [column.name for column in pipeline.record.columns]
    wanted = [name for name in (*_OF_THE_ROW, *names) if name in decoded.rows.column_names]
    for row in with_texts(decoded.rows.select(wanted)).to_pylist():
        values = {name: row[name] for name in names}
        of_kafka = row["_partition"], row["_offset"], row["event_id"], row["publish_at"]
        yield SampleRow(*of_kafka, values, row.get("_schema_id"), row["_deleted"])


def _refusals(decoded: DecodedColumns) -> Iterator[SampleRefusal]:
    for row in decoded.refusals.to_pylist():
        reasons = tuple(json.loads(row["reasons"]))
        yield SampleRefusal(row["_partition"], row["_offset"], reasons, row["_value"], row.get("_schema_id"))

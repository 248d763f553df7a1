"""What a topic still has of committed ranges, decoded again into temporary tables of a session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

import pyarrow as pa
from psycopg2 import sql
from psycopg2.extras import execute_values

from offset_ledger.config.model import Pipeline, RecordShape
from offset_ledger.connections import get_connection
from offset_ledger.decoding.arrow import decode_batch
from offset_ledger.decoding.formats import compile_decoder, no_schemas
from offset_ledger.decoding.outcome import DecodedRow, Decoder, Keys, Reason, Refusal, Skip
from offset_ledger.kafka.client import connect_kafka
from offset_ledger.kafka.records import read_records
from offset_ledger.ledger.database import Cursor, Session, named_sql, transaction
from offset_ledger.ledger.staging import definitions, refused_types, row_columns
from offset_ledger.model.ranges import OffsetRange, total_width
from offset_ledger.model.states import BatchKind
from offset_ledger.progress import OnProgress, progress
from offset_ledger.stage.copy_rows import copy_decoded
from offset_ledger.stage.record_batches import chunks, kafka_python_batch
from offset_ledger.stage.schemas import SchemaLookup

MAX_RECORDS = 5_000
MAX_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _RecordByRecord:
    """The decoder without its proofs of whole columns: each record goes through ``decode``."""

    decoder: Decoder

    @property
    def record(self) -> RecordShape:
        return self.decoder.record

    @property
    def keys(self) -> Keys | None:
        return self.decoder.keys

    def decode(
        self, value: bytes | None, key: bytes | Reason | None, timestamp: datetime | Reason
    ) -> DecodedRow | Refusal | Skip:
        return self.decoder.decode(value, key, timestamp)

    def prove(self, values: pa.BinaryArray) -> None:  # noqa: ARG002
        return None


def read_again(
    session: Session, pipeline: Pipeline, ranges: Sequence[OffsetRange]
) -> tuple[tuple[OffsetRange, ...], int]:
    """Decode what the topic still has of the ranges into ``topic_rows``, ``topic_refused`` and ``topic_skipped``.

    Returns the ranges that were read, which ``topic_ranges`` has too, and how many records they have.
    """
    _create_tables(session, pipeline.record, pipeline.source.topic)
    decoder = _RecordByRecord(_decoder(pipeline))
    remaining, count = [], 0
    with progress(total_width(ranges), "read again") as advance:
        for r in ranges:
            rest = _remaining(pipeline, r)
            advance(r.width - (rest.width if rest else 0))
            if rest is not None:
                remaining.append(rest)
                count += _load(session, pipeline, decoder, rest, advance)
    with transaction(session) as cursor:
        values = [(r.partition, r.from_offset, r.until_offset) for r in remaining]
        execute_values(cursor, named_sql("operations/insert_topic_ranges"), values) if values else None
        cursor.execute(named_sql("operations/analyze_topic_tables"))
    return tuple(remaining), count


def _decoder(pipeline: Pipeline) -> Decoder:
    lookup = SchemaLookup.of(pipeline, BatchKind.REPLAY) or no_schemas
    return compile_decoder(pipeline.source, pipeline.record, pipeline.limits, lookup)


def _create_tables(session: Session, record: RecordShape, topic: str) -> None:
    columns, refused = definitions(row_columns(record), topic), definitions(refused_types(record).items(), topic)
    with transaction(session) as cursor:
        statement = sql.SQL(named_sql("operations/create_topic_tables"))
        cursor.execute(statement.format(columns=columns, refused=refused))


def _remaining(pipeline: Pipeline, r: OffsetRange) -> OffsetRange | None:
    """What the log has of the range now: retention may delete more while earlier partitions are read."""
    with connect_kafka(get_connection(pipeline.source.connection)) as kafka:
        log_starts = {p.partition: p.log_start for p in kafka.snapshot(pipeline.source.topic).partitions}
    start = max(r.from_offset, log_starts.get(r.partition, r.until_offset))
    return OffsetRange(r.partition, start, r.until_offset) if start < r.until_offset else None


def _load(session: Session, pipeline: Pipeline, decoder: Decoder, r: OffsetRange, advance: OnProgress) -> int:
    """Decode the records of the range into the tables; returns how many there are."""
    count, position = 0, r.from_offset
    for chunk in _read(pipeline, r):
        count += len(chunk)
        with transaction(session) as cursor:
            _store(cursor, decoder, kafka_python_batch(chunk))
        advance(chunk[-1].offset + 1 - position)
        position = chunk[-1].offset + 1
    advance(r.until_offset - position)
    return count


def _read(pipeline: Pipeline, r: OffsetRange) -> Iterator[list[Any]]:
    connection = get_connection(pipeline.source.connection)
    records = read_records(connection, pipeline.source.topic, r, "read_committed")
    return chunks(records, lambda record: len(record.value or b""), MAX_RECORDS, MAX_BYTES)


def _store(cursor: Cursor, decoder: Decoder, batch: pa.RecordBatch) -> None:
    decoded = decode_batch(decoder, batch)
    skipped = set(batch.column("offset").to_pylist())
    into = sql.Identifier("topic_rows"), sql.Identifier("topic_refused")
    rows = _hashed(decoded.rows)
    for table in (rows, copy_decoded(cursor, into, decoder.record, rows, _hashed(decoded.refusals))):
        skipped -= set(table.column("_offset").to_pylist())
    if skipped:
        partition = batch.column("partition")[0].as_py()
        execute_values(
            cursor, named_sql("operations/insert_topic_skipped"), [(partition, offset) for offset in skipped]
        )


def _hashed(table: pa.Table) -> pa.Table:
    """The records with the SHA-256 of each value instead of the value: the topic may be larger than the disk."""
    index = table.column_names.index("_value")
    digests = [None if value is None else sha256(value).digest() for value in table.column(index).to_pylist()]
    return table.set_column(index, "_value", pa.chunked_array([pa.array(digests, pa.binary())]))

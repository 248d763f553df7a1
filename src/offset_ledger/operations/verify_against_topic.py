"""Verify against the topic: what it still holds is read and decoded again, and compared with table and quarantine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

import pyarrow as pa
from psycopg2 import sql
from psycopg2.extras import execute_values

from offset_ledger.config.model import Merge, Pipeline, RecordShape
from offset_ledger.connections import get_connection
from offset_ledger.decoding.arrow import decode_batch
from offset_ledger.decoding.headers import HEADERS
from offset_ledger.decoding.outcome import DecodedRow, Decoder, Reason, Refusal, Skip
from offset_ledger.decoding.registry import compile_decoder
from offset_ledger.decoding.staged import MOMENT
from offset_ledger.kafka.client import connect_kafka
from offset_ledger.kafka.records import read_records
from offset_ledger.ledger import pipelines
from offset_ledger.ledger.database import Cursor, Session, named_sql, transaction
from offset_ledger.ledger.open import open_ledger
from offset_ledger.ledger.staging import copy_csv_into, row_columns
from offset_ledger.model.log_checks import check_identity, check_truncation
from offset_ledger.model.ranges import OffsetRange, total_width
from offset_ledger.model.snapshot import Cursors, TopicSnapshot
from offset_ledger.operations.verify import numbered_queries
from offset_ledger.reliability.publishing.progress import OnProgress, progress
from offset_ledger.stage.csv_copy import copy_csv

RECORDS_AT_ONCE = 5_000
BYTES_AT_ONCE = 16 * 1024 * 1024
SHOWN = 100


@dataclass(frozen=True, slots=True)
class Compared:
    """What was read again, and what of table and quarantine does not fit; ``notes`` are no violations."""

    ranges: tuple[OffsetRange, ...]
    records: int
    violations: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Slowly:
    """The decoder without its proofs of whole columns: each record goes through ``decode``."""

    whole: Decoder

    @property
    def record(self) -> RecordShape:
        return self.whole.record

    def decode(
        self, value: bytes | None, key: bytes | None, timestamp: datetime | Reason
    ) -> DecodedRow | Refusal | Skip:
        return self.whole.decode(value, key, timestamp)

    def prove(self, values: pa.BinaryArray) -> None:  # noqa: ARG002
        return None


def compare_with_topic(pipeline: Pipeline) -> Compared:
    """Read what the topic still holds of the committed ranges, and compare it by identity and value.

    The records are decoded by today's pipeline file into temporary tables, and the comparison is one transaction, so
    that neither the size of the topic nor a batch that commits meanwhile matters.

    Raises:
        TopicRecreated, LogTruncated: the cursors belong to another log.
        BrokerUnavailable, DatabaseUnavailable: a server is away.
    """
    with open_ledger(pipeline) as session:
        with transaction(session) as cursor:
            cursors = pipelines.read_cursors(cursor, pipeline.name)
            if cursors is None:
                return Compared((), 0, (), ())
            starts = pipelines.read_start_offsets(cursor, pipeline.name, cursors.log_id)
        snapshot = _look(pipeline, cursors)
        wanted = [OffsetRange(p, starts[p], end) for p, end in cursors.next_offsets.items() if starts[p] < end]
        ranges, records = _read_all(session, pipeline, wanted)
        session.set_session(isolation_level="REPEATABLE READ")
        with transaction(session) as cursor:
            violations, earlier = _compare(cursor, pipeline, cursors, snapshot)
    return Compared(ranges, records, tuple(violations), (*_not_read(wanted, ranges), *earlier))


def _look(pipeline: Pipeline, cursors: Cursors) -> TopicSnapshot:
    topic = pipeline.source.topic
    with connect_kafka(get_connection(pipeline.source.connection)) as kafka:
        snapshot = kafka.snapshot(topic)
        check_identity(cursors, snapshot)
        ends = kafka.epoch_ends(topic, cursors.leader_epochs)
    check_truncation(topic, cursors.next_offsets, cursors.leader_epochs, ends, "passed")
    return snapshot


def _not_read(wanted: Sequence[OffsetRange], ranges: Sequence[OffsetRange]) -> list[str]:
    begins = {r.partition: r.from_offset for r in ranges}
    ends = [(r, begins.get(r.partition, r.until_offset)) for r in wanted]
    gone = [OffsetRange(r.partition, r.from_offset, end) for r, end in ends if r.from_offset < end]
    return [f"range {r} is no longer in the topic; what came of it was not compared" for r in gone]


# -- reading ---------------------------------------------------------------------------------------------------


def _read_all(
    session: Session, pipeline: Pipeline, wanted: Sequence[OffsetRange]
) -> tuple[tuple[OffsetRange, ...], int]:
    """Decode what is left of the ranges into temporary tables; returns what was read, and how many records."""
    _make_tables(session, pipeline.record)
    decoder = _Slowly(compile_decoder(pipeline.source.format, pipeline.record, pipeline.limits))
    ranges, count = [], 0
    with progress(total_width(wanted), "read again") as advance:
        for r in wanted:
            left = _left(pipeline, r)
            advance(r.width - (left.width if left else 0))
            if left is None:
                continue
            ranges.append(left)
            for chunk in _chunks(pipeline, left, advance):
                count += len(chunk)
                with transaction(session) as cursor:
                    _keep(cursor, decoder, _arrow(chunk))
    with transaction(session) as cursor:
        places = [(r.partition, r.from_offset, r.until_offset) for r in ranges]
        execute_values(cursor, named_sql("operations/insert_topic_ranges"), places) if places else None
        cursor.execute(named_sql("operations/analyze_topic_tables"))
    return tuple(ranges), count


def _make_tables(session: Session, record: RecordShape) -> None:
    columns = [sql.SQL("{} " + kind).format(sql.Identifier(name)) for name, kind in row_columns(record)]
    with transaction(session) as cursor:
        made = sql.SQL(named_sql("operations/create_topic_tables"))
        cursor.execute(made.format(columns=sql.SQL(", ").join(columns)))


def _left(pipeline: Pipeline, r: OffsetRange) -> OffsetRange | None:
    """What the log still has of the range now: retention goes on while the partitions before it are read."""
    with connect_kafka(get_connection(pipeline.source.connection)) as kafka:
        log_starts = {p.partition: p.log_start for p in kafka.snapshot(pipeline.source.topic).partitions}
    start = max(r.from_offset, log_starts.get(r.partition, r.until_offset))
    return OffsetRange(r.partition, start, r.until_offset) if start < r.until_offset else None


def _chunks(pipeline: Pipeline, r: OffsetRange, advance: OnProgress) -> Iterator[list[Any]]:
    """The records of the range, a bounded number and size of them at once."""
    connection = get_connection(pipeline.source.connection)
    chunk: list[Any] = []
    size, at = 0, r.from_offset
    for record in read_records(connection, pipeline.source.topic, r, "read_committed"):
        chunk.append(record)
        size += len(record.value or b"")
        if len(chunk) == RECORDS_AT_ONCE or size > BYTES_AT_ONCE:
            yield chunk
            advance(record.offset + 1 - at)
            chunk, size, at = [], 0, record.offset + 1
    if chunk:
        yield chunk
    advance(r.until_offset - at)


def _arrow(chunk: Sequence[Any]) -> pa.RecordBatch:
    """Records of kafka-python, all of one partition, with the columns that Spark gives them."""
    headers = [[{"key": key, "value": value} for key, value in record.headers] or None for record in chunk]
    columns = {
        "key": pa.array([record.key for record in chunk], pa.binary()),
        "value": pa.array([record.value for record in chunk], pa.binary()),
        "partition": pa.array([record.partition for record in chunk], pa.int32()),
        "offset": pa.array([record.offset for record in chunk], pa.int64()),
        "timestamp": pa.array([record.timestamp * 1000 for record in chunk], pa.int64()).cast(MOMENT),
        "headers": pa.array(headers, HEADERS),
    }
    return pa.RecordBatch.from_pydict(columns)


def _keep(cursor: Cursor, decoder: Decoder, batch: pa.RecordBatch) -> None:
    staged = decode_batch(decoder, batch)
    rest = set(batch.column("offset").to_pylist())
    for table, decoded in (("topic_rows", staged.rows), ("topic_refused", staged.refusals)):
        rest -= set(decoded.column("_offset").to_pylist())
        _copy(cursor, table, decoded)
    if rest:
        partition = batch.column("partition")[0].as_py()
        execute_values(cursor, named_sql("operations/insert_topic_skipped"), [(partition, offset) for offset in rest])


def _copy(cursor: Cursor, table: str, decoded: pa.Table) -> None:
    """COPY the records, with the SHA-256 in the place of each value: the topic may be larger than the disk."""
    if not decoded.num_rows:
        return
    place = decoded.column_names.index("_value")
    digests = [None if value is None else sha256(value).digest() for value in decoded.column(place).to_pylist()]
    kept = decoded.set_column(place, "_value", pa.chunked_array([pa.array(digests, pa.binary())]))
    copy_csv_into(cursor, sql.Identifier(table), kept.column_names, copy_csv(kept))


# -- comparing -------------------------------------------------------------------------------------------------


def _compare(
    cursor: Cursor, pipeline: Pipeline, cursors: Cursors, snapshot: TopicSnapshot
) -> tuple[list[str], list[str]]:
    """The violations, at most SHOWN of a query, and what an earlier pipeline file explains."""
    wanted = {
        "pipeline": pipeline.name,
        "topic_id": cursors.log_id,
        "config_hash": pipeline.config_hash,
        "skip_existing": pipeline.target.merge is Merge.SKIP_EXISTING,
        "compacted": snapshot.compacted,
        "shown": SHOWN,
    }
    violations, notes = [], []
    for name, query in numbered_queries("verify_topic").items():
        cursor.execute(_shown(query, pipeline), wanted)
        lines = cursor.fetchall()
        wrong = [row for row in lines if not row["earlier"]]
        violations += [f"topic {name}: {row['line']}" for row in wrong]
        if wrong and wrong[0]["total"] > SHOWN:
            violations.append(f"topic {name}: {wrong[0]['total'] - SHOWN:,} more")
        if earlier := [row for row in lines if row["earlier"]]:
            notes.append(
                f"merged under an earlier pipeline file, and read otherwise by today's: {earlier[0]['total']:,} values "
                f"or records, such as {earlier[0]['line']}"
            )
    return violations, notes


def _shown(query: str, pipeline: Pipeline) -> sql.Composable:
    names = [name for name, _ in row_columns(pipeline.record)]
    pairs = [sql.SQL("({}, t.{n}::text, s.{n}::text)").format(sql.Literal(n), n=sql.Identifier(n)) for n in names]
    target = sql.Identifier(pipeline.target.schema, pipeline.target.table)
    found = sql.SQL(query).format(target=target, pairs=sql.SQL(", ").join(pairs))
    return sql.SQL(named_sql("operations/violations_shown")).format(query=found)

"""Verify against the topic: what it still has is decoded again into temporary tables, and compared with the table and
the quarantine.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

import pyarrow as pa
from psycopg2 import sql
from psycopg2.extras import execute_values

from offset_ledger.config.model import Merge, Pipeline, RecordShape
from offset_ledger.connections import get_connection
from offset_ledger.decoding.arrow import decode_batch
from offset_ledger.decoding.formats import compile_decoder, no_schemas
from offset_ledger.decoding.framed import HeaderFrames
from offset_ledger.decoding.outcome import DecodedRow, Decoder, GivenBy, Keys, Reason, Refusal, Skip
from offset_ledger.errors import UnknownTopic
from offset_ledger.kafka.client import connect_kafka
from offset_ledger.kafka.records import read_records
from offset_ledger.ledger import pipelines
from offset_ledger.ledger.database import ONE_SNAPSHOT, Cursor, Session, named_sql, open_ledger, transaction
from offset_ledger.ledger.followed_columns import with_columns
from offset_ledger.ledger.judged import judge, move_refused
from offset_ledger.ledger.pipelines import read_retirement
from offset_ledger.ledger.row_order import kept_rows, row_formats, rows_of, staged_values
from offset_ledger.ledger.staging import definitions, refused_types, row_columns, staged_columns
from offset_ledger.model.log_checks import check_identity, check_truncation
from offset_ledger.model.ranges import OffsetRange, total_width
from offset_ledger.model.snapshot import Cursors, TopicSnapshot
from offset_ledger.model.states import BatchKind
from offset_ledger.progress import OnProgress, progress
from offset_ledger.repair.verify import Violation, number_of, numbered_queries
from offset_ledger.stage.copy_rows import copy_decoded
from offset_ledger.stage.record_batches import chunks, kafka_python_batch
from offset_ledger.stage.schemas import SchemaLookup
from offset_ledger.table.change import check_tables
from offset_ledger.table.fit import column_types, target_columns

SHOWN = 100  # violations of one query


@dataclass(frozen=True, slots=True)
class TopicComparison:
    """The ranges that were read again, and what of table and quarantine differs; ``notes`` are no violations."""

    ranges: tuple[OffsetRange, ...]
    records: int
    violations: tuple[Violation, ...]
    notes: tuple[str, ...]


def compare_with_topic(pipeline: Pipeline) -> TopicComparison:
    """Read what the topic still has of the committed ranges, and compare it by identity and value.

    The records are decoded by today's pipeline file into temporary tables, and the comparison is one transaction. So
    the topic may be of any size, and a batch may commit meanwhile.

    Raises:
        TopicRecreated, LogTruncated: the cursors belong to another log.
        UnknownTopic: the topic does not exist, and was not retired.
        BrokerUnavailable, DatabaseUnavailable: a server is away.
    """
    with open_ledger(pipeline) as session:
        with transaction(session) as cursor:
            cursors = pipelines.read_cursors(cursor, pipeline.name)
            if cursors is None:
                return TopicComparison((), 0, (), ())
            check_tables(cursor, pipeline)
            pipeline = with_columns(cursor, pipeline)
            starts = pipelines.read_start_offsets(cursor, pipeline.name, cursors.log_id)
        try:
            topic = pipeline.source.topic
            with connect_kafka(get_connection(pipeline.source.connection)) as kafka:
                snapshot = kafka.snapshot(topic)
                check_identity(cursors, snapshot)
                epoch_ends = kafka.epoch_ends(topic, cursors.leader_epochs)
            check_truncation(topic, cursors.next_offsets, cursors.leader_epochs, epoch_ends, "passed")
        except UnknownTopic:
            if retired := read_retirement(pipeline):
                return TopicComparison((), 0, (), (f"{retired}; nothing was compared",))
            raise
        committed = [OffsetRange(p, starts[p], end) for p, end in cursors.next_offsets.items() if starts[p] < end]
        ranges, records = read_again(session, pipeline, committed)
        with transaction(session, ONE_SNAPSHOT) as cursor:
            violations, notes = _compare(cursor, pipeline, cursors, snapshot)
    read_from = {r.partition: r.from_offset for r in ranges}
    ends = [(r, read_from.get(r.partition, r.until_offset)) for r in committed]
    gone = [OffsetRange(r.partition, r.from_offset, end) for r, end in ends if r.from_offset < end]
    lost = (f"range {r} is no longer in the topic; its rows and quarantined records were not compared" for r in gone)
    return TopicComparison(ranges, records, tuple(violations), (*lost, *notes))


def _compare(
    cursor: Cursor, pipeline: Pipeline, cursors: Cursors, snapshot: TopicSnapshot
) -> tuple[list[Violation], list[str]]:
    """The violations, SHOWN of each query, and notes about what an earlier pipeline file explains."""
    arguments = {
        "pipeline": pipeline.name,
        "topic_id": cursors.log_id,
        "config_hash": pipeline.config_hash,
        "skip_existing": pipeline.target.merge is Merge.SKIP_EXISTING,
        "compacted": snapshot.compacted,
        "shown": SHOWN,
    }
    stored = column_types(cursor, pipeline)
    violations, notes = list[Violation](), []
    for name, query in numbered_queries("verify_topic").items():
        lines = cursor.execute(_limited(query, pipeline, stored), arguments).fetchall()
        wrong = [row for row in lines if not row["earlier"]]
        shown = [row["line"] for row in wrong]
        if wrong and wrong[0]["total"] > SHOWN:
            shown.append(f"{wrong[0]['total'] - SHOWN:,} more")
        violations += [Violation(number_of(name), f"topic {name}: {line}") for line in shown]
        if earlier := [row for row in lines if row["earlier"]]:
            notes.append(
                f"merged under an earlier pipeline file, and decoded differently by today's: {earlier[0]['total']:,} "
                f"values or records, such as {earlier[0]['line']}"
            )
    return violations, notes


def _limited(query: str, pipeline: Pipeline, stored: Container[str]) -> sql.Composable:
    """The query for this pipeline's table and columns, limited to the lines that are shown.

    A column that is not stored is NULL: the next batch adds it.
    """
    record = pipeline.record
    names = [name for name, _ in row_columns(record)]
    of_bookkeeping = [name for name, _ in target_columns(pipeline.bookkeeping)] if pipeline.target.beside else []
    there = [name for name in names if name in stored or name in of_bookkeeping]
    actual = {name: sql.Identifier("t", name) if name in there else sql.SQL("NULL") for name in names}
    staged = staged_values(record, names)
    pair = "({}, {}::text, {}::text)"
    if record.groups:  # each row of the bookkeeping is about the columns of its group
        pair = "({}, CASE WHEN {group} THEN {}::text END, CASE WHEN {group} THEN {}::text END)"
    groups = {column.name: column.group for column in record.columns}
    pairs = [
        sql.SQL(pair).format(
            sql.Literal(name),
            actual[name],
            staged[name],
            group=sql.SQL("t._group = {}").format(sql.Literal(groups.get(name, ""))),
        )
        for name in names
    ]
    target = kept_rows(pipeline)
    cut = sql.SQL(named_sql("repair/cut_header_name"))
    tables = {
        "cut_header_name": cut,
        "target": target,
        "rows": rows_of(pipeline, True, (each.name for each in record.columns if each.name in stored)),
        **row_formats(record),
    }
    lines = sql.SQL(query).format(**tables, pairs=sql.SQL(", ").join(pairs))
    return sql.SQL(named_sql("repair/violations_shown")).format(query=lines)


MAX_RECORDS = 5_000
MAX_BYTES = 16 * 1024 * 1024


@dataclass(slots=True)
class _RecordByRecord:
    """The decoder without its proofs of whole columns: each record goes through ``decode``."""

    decoder: Decoder
    key_columns: Decoder | None
    given: GivenBy | None

    @property
    def record(self) -> RecordShape:
        return self.decoder.record

    @property
    def keys(self) -> Keys | None:
        return self.decoder.keys

    @property
    def frames(self) -> HeaderFrames | None:
        return self.decoder.frames

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
    record, source = pipeline.record, pipeline.source
    refused = refused_types(record).items()
    with transaction(session) as cursor:
        columns = staged_columns(cursor, pipeline)
        statement = sql.SQL(named_sql("repair/create_topic_tables"))
        tables = {"columns": definitions(columns, source.topic), "refused": definitions(refused, source.topic)}
        cursor.execute(statement.format(**tables))
    lookup = SchemaLookup.of(pipeline, BatchKind.REPLAY) or no_schemas
    proving = compile_decoder(source, record, pipeline.limits, lookup)
    decoder = _RecordByRecord(proving, proving.key_columns, proving.given)
    remaining, count = [], 0
    with progress(total_width(ranges), "read again") as advance:
        for r in ranges:
            with connect_kafka(get_connection(source.connection)) as kafka:
                # Retention may delete more while earlier partitions are read.
                log_starts = {p.partition: p.log_start for p in kafka.snapshot(source.topic).partitions}
            start = max(r.from_offset, log_starts.get(r.partition, r.until_offset))
            advance(min(start, r.until_offset) - r.from_offset)
            if start < r.until_offset:
                remaining.append(OffsetRange(r.partition, start, r.until_offset))
                count += _load(session, pipeline, decoder, remaining[-1], advance)
    with transaction(session) as cursor:
        values = [(r.partition, r.from_offset, r.until_offset) for r in remaining]
        execute_values(cursor, named_sql("repair/insert_topic_ranges"), values) if values else None
        topic_rows = sql.Identifier("topic_rows")
        refused_inputs = [each.failing_rows(0) for each in judge(cursor, topic_rows, record)]
        move_refused(cursor, refused_inputs, topic_rows, sql.Identifier("topic_refused"))
        cursor.run("repair/analyze_topic_tables")
    return tuple(remaining), count


def _load(session: Session, pipeline: Pipeline, decoder: Decoder, r: OffsetRange, advance: OnProgress) -> int:
    """Decode the records of the range into the tables; returns how many there are."""
    count, position = 0, r.from_offset
    into = sql.Identifier("topic_rows"), sql.Identifier("topic_refused")
    connection = get_connection(pipeline.source.connection)
    records = read_records(connection, pipeline.source.topic, r, "read_committed")
    for chunk in chunks(records, lambda record: len(record.value or b""), MAX_RECORDS, MAX_BYTES):
        count += len(chunk)
        decoded = decode_batch(decoder, kafka_python_batch(chunk))
        skipped = {record.offset for record in chunk}
        rows = _hashed(decoded.rows)
        with transaction(session) as cursor:
            for table in (rows, copy_decoded(cursor, into, decoder.record, rows, _hashed(decoded.refusals))):
                skipped -= set(table.column("_offset").to_pylist())
            if skipped:
                places = [(r.partition, offset) for offset in skipped]
                execute_values(cursor, named_sql("repair/insert_topic_skipped"), places)
        advance(chunk[-1].offset + 1 - position)
        position = chunk[-1].offset + 1
    advance(r.until_offset - position)
    return count


def _hashed(table: pa.Table) -> pa.Table:
    """The records with the SHA-256 of each value instead of the value: the topic may be larger than the disk."""
    index = table.column_names.index("_value")
    digests = [None if value is None else sha256(value).digest() for value in table.column(index).to_pylist()]
    return table.set_column(index, "_value", pa.chunked_array([pa.array(digests, pa.binary())]))

"""Verify against the topic: its records are decoded again, and compared with the table and the quarantine."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import pyarrow as pa
from psycopg2 import sql
from psycopg2.extras import execute_values

from offset_ledger.base.progress import OnProgress, progress
from offset_ledger.decoding.arrow import decode_batch
from offset_ledger.decoding.decoder import Decoder
from offset_ledger.decoding.formats import compile_decoder, no_schemas
from offset_ledger.errors import UnknownTopic
from offset_ledger.model.ranges import OffsetRange, total_width
from offset_ledger.model.snapshot import Cursors, TopicSnapshot, check_identity, check_truncation
from offset_ledger.model.states import BatchKind
from offset_ledger.operations.repair.verify import Violation, number_of, numbered_queries
from offset_ledger.outside.connections import get_connection
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.outside.kafka.records import read_records
from offset_ledger.pipeline_file.pipeline import Merge, Pipeline
from offset_ledger.postgres.ledger import pipelines
from offset_ledger.postgres.ledger.database import ONE_SNAPSHOT, Cursor, Session, named_sql, open_ledger, transaction
from offset_ledger.postgres.ledger.followed_columns import with_columns
from offset_ledger.postgres.ledger.input_checks import judge, move_refused
from offset_ledger.postgres.ledger.pipelines import read_retirement
from offset_ledger.postgres.ledger.row_order import (
    by_log,
    log_at,
    order_columns,
    row_formats,
    rows_of,
    same_key,
    staged_values,
    table_of,
)
from offset_ledger.postgres.ledger.staging import definitions, refused_types, row_columns, staged_columns
from offset_ledger.postgres.table.change import check_tables
from offset_ledger.postgres.table.fit import column_groups, column_types, target_columns
from offset_ledger.steps.stage.copy_rows import copy_decoded
from offset_ledger.steps.stage.record_batches import chunks, kafka_python_batch
from offset_ledger.steps.stage.schemas import SchemaLookup

SHOWN = 100  # violations of one query
_COMMA = sql.SQL(", ")


@dataclass(frozen=True, slots=True)
class TopicComparison:
    """The ranges that were read again, and the differences of table and quarantine; ``notes`` are no violations."""

    ranges: tuple[OffsetRange, ...]
    records: int
    violations: tuple[Violation, ...]
    notes: tuple[str, ...]


def compare_with_topic(pipeline: Pipeline) -> TopicComparison:
    """Read the committed ranges that the topic still has, and compare them by identity and value.

    The records are decoded by today's pipeline file into temporary tables, and the comparison is one transaction. So
    the topic may be of any size, and a batch may commit meanwhile.

    Raises:
        TopicRecreated, LogTruncated: the cursors belong to another log.
        UnknownTopic: the topic does not exist, and was not retired.
        BrokerUnavailable, DatabaseUnavailable: a server is unavailable.
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
    """Yield the violations, SHOWN of each query, and notes about what an earlier pipeline file explains."""
    arguments = {
        "pipeline": pipeline.name,
        "topic_id": cursors.log_id,
        "config_hash": pipeline.config_hash,
        "skip_existing": pipeline.target.merge is Merge.SKIP_EXISTING,
        "compacted": snapshot.compacted,
        "shown": SHOWN,
    }
    stored, groups = column_types(cursor, pipeline), column_groups(cursor, pipeline)
    violations, notes = list[Violation](), []
    of_rows = pipeline.has_coordinates
    queries = {name: each for name, each in numbered_queries("verify_topic").items() if of_rows or number_of(name) > 3}
    for name, query in queries.items():
        lines = cursor.execute(_limited(query, pipeline, stored, groups), arguments).fetchall()
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


def _limited(query: str, pipeline: Pipeline, stored: Container[str], groups: Mapping[str, str]) -> sql.Composable:
    """The query for this pipeline's table, columns and their groups, limited to the lines that are shown.

    A column that is not stored is NULL: the next batch adds it.
    """
    record = pipeline.record
    staged = staged_values(record, (name for name, _ in row_columns(record)))
    of_bookkeeping = [] if pipeline.bookkeeping is pipeline else [n for n, _ in target_columns(pipeline.bookkeeping)]
    pairs = []
    for name, value in staged.items():
        actual = sql.Identifier("t", name) if name in stored or name in of_bookkeeping else sql.NULL
        # Equal keys need not be identical, and each row of a group is about its columns alone.
        compared = sql.SQL("t._group = {}").format(sql.Literal(groups.get(name, "")))
        if name in record.key_names:
            compared = sql.SQL("{} IS DISTINCT FROM {}").format(actual, value)
        pair = "({}, CASE WHEN {compared} THEN {}::text END, CASE WHEN {compared} THEN {}::text END)"
        pairs.append(sql.SQL(pair).format(sql.Literal(name), actual, value, compared=compared))
    cut = sql.SQL(named_sql("repair/cut_header_name"))
    tables: dict[str, sql.Composable] = {
        "cut_header_name": cut,
        "target": table_of(pipeline.bookkeeping),
        "table": table_of(pipeline),
        "same_row": same_key(record, "u", "s"),
        "rows": _rows(pipeline, [column.name for column in record.columns if column.name in stored], groups),
        **row_formats(record),
    }
    # The clocks of two partitions need not agree: a record in another partition than the row's proves nothing.
    newer, newest_first = "({order}) > ({stored_order})", [f"s.{name} DESC" for name in order_columns(record)]
    tables["expected"] = sql.SQL("expected")
    if record.log_orders:
        newer = "(s._log > s._stored_log OR s._same AND s._offset > s._stored_offset)"
        newest_first = [f"{newer} IS NOT TRUE", "s._at DESC", *newest_first[1:]]
        last = sql.SQL(named_sql("log_order/last_batch")).format(sql.Literal(pipeline.name))
        tables["expected"] = by_log(pipeline, tables["expected"], last)
    tables["newer"] = sql.SQL(newer).format(**tables)
    tables["newest_first"] = sql.SQL(", ".join(newest_first))
    if record.append:
        log = log_at(pipeline, sql.Identifier("s"), sql.Identifier("t", "_batch_id"))
        tables["same_key"] = sql.SQL("{} AND {} = %(topic_id)s").format(tables["same_key"], log)
        tables["place"] = sql.NULL  # it is the key
    lines = sql.SQL(query).format(**tables, pairs=_COMMA.join(pairs))
    return sql.SQL(named_sql("repair/violations_shown")).format(query=lines)


def _rows(pipeline: Pipeline, columns: Sequence[str], groups: Mapping[str, str]) -> sql.Composable:
    """The rows of the topic with their bookkeeping, and again for each group of columns by the record that gave it."""
    if pipeline.bookkeeping is pipeline:
        return sql.SQL("(SELECT *, '' AS _group FROM {} AS r)").format(rows_of(pipeline))
    kept = [name for name, _ in target_columns(pipeline.bookkeeping)]
    of_order = {*order_columns(pipeline.record), "_timestamp", "_batch_id"}
    parts = []
    for group in sorted({"", *groups.values()}):
        place = {name: sql.SQL("({}).{}").format(sql.Identifier("t", group), sql.Identifier(name)) for name in of_order}
        each = {name: place[name] if group and name in place else sql.Identifier("t", name) for name in kept}
        given = sql.SQL("{} IS NOT NULL").format(each["_offset"])
        if "_topic" in each:
            given += sql.SQL(" AND {} = {}").format(each["_topic"], sql.Literal(pipeline.source.topic))
        parts.append(
            sql.SQL(named_sql("repair/rows_by_group")).format(
                kept=_COMMA.join(
                    sql.SQL("{} AS {}").format(value, sql.Identifier(name)) for name, value in each.items()
                ),
                group=sql.Literal(group),
                values=sql.SQL("").join(sql.SQL(", {}").format(sql.Identifier("u", name)) for name in columns),
                target=table_of(pipeline.bookkeeping),
                table=table_of(pipeline),
                same_row=same_key(pipeline.record, "u", "t"),
                given=given,
            )
        )
    return sql.SQL("({})").format(sql.SQL(" UNION ALL ").join(parts))


MAX_RECORDS = 5_000
MAX_BYTES = 16 * 1024 * 1024


def read_again(
    session: Session, pipeline: Pipeline, ranges: Sequence[OffsetRange]
) -> tuple[tuple[OffsetRange, ...], int]:
    """Decode the ranges that the topic still has into ``topic_rows``, ``topic_refused`` and ``topic_skipped``.

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
    decoder = compile_decoder(source, record, pipeline.limits, lookup)
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
        move_refused(cursor, record, refused_inputs, topic_rows, sql.Identifier("topic_refused"))
        for column in record.key:
            if column.type.judged:
                parts = {"name": sql.Identifier(column.name), "type": sql.SQL(column.type.sql)}
                cursor.execute(sql.SQL(named_sql("repair/type_topic_key")).format(**parts))
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
        decoded = decode_batch(decoder, kafka_python_batch(chunk), proves=False)  # unlike the batch that staged it
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

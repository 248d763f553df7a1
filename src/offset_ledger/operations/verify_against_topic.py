"""Verify against the topic: what it still has is decoded again, and compared with the table and the quarantine."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from psycopg2 import sql

from offset_ledger.config.model import Merge, Pipeline
from offset_ledger.connections import get_connection
from offset_ledger.errors import UnknownTopic
from offset_ledger.kafka.client import connect_kafka
from offset_ledger.ledger import pipelines
from offset_ledger.ledger.database import Cursor, named_sql, transaction
from offset_ledger.ledger.followed_columns import with_columns
from offset_ledger.ledger.open import open_ledger
from offset_ledger.ledger.retired_topics import read_retirement
from offset_ledger.ledger.row_places import order_formats, rows_of
from offset_ledger.ledger.staging import row_columns
from offset_ledger.model.log_checks import check_identity, check_truncation
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.snapshot import Cursors, TopicSnapshot
from offset_ledger.operations.read_again import read_again
from offset_ledger.operations.verify import numbered_queries
from offset_ledger.target.fit import column_types

SHOWN = 100  # violations of one query


@dataclass(frozen=True, slots=True)
class TopicComparison:
    """What was read again, and what of table and quarantine differs from it; ``notes`` are no violations."""

    ranges: tuple[OffsetRange, ...]
    records: int
    violations: tuple[str, ...]
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
            pipeline = with_columns(cursor, pipeline)
            starts = pipelines.read_start_offsets(cursor, pipeline.name, cursors.log_id)
        try:
            snapshot = _snapshot(pipeline, cursors)
        except UnknownTopic:
            if retired := read_retirement(pipeline):
                return TopicComparison((), 0, (), (f"{retired}; nothing was compared",))
            raise
        committed = [OffsetRange(p, starts[p], end) for p, end in cursors.next_offsets.items() if starts[p] < end]
        ranges, records = read_again(session, pipeline, committed)
        session.set_session(isolation_level="REPEATABLE READ")
        with transaction(session) as cursor:
            violations, notes = _compare(cursor, pipeline, cursors, snapshot)
    return TopicComparison(ranges, records, tuple(violations), (*_gone(committed, ranges), *notes))


def _snapshot(pipeline: Pipeline, cursors: Cursors) -> TopicSnapshot:
    """The topic as it is now, if the cursors still belong to it."""
    topic = pipeline.source.topic
    with connect_kafka(get_connection(pipeline.source.connection)) as kafka:
        snapshot = kafka.snapshot(topic)
        check_identity(cursors, snapshot)
        ends = kafka.epoch_ends(topic, cursors.leader_epochs)
    check_truncation(topic, cursors.next_offsets, cursors.leader_epochs, ends, "passed")
    return snapshot


def _gone(committed: Sequence[OffsetRange], ranges: Sequence[OffsetRange]) -> list[str]:
    """A note for each committed range of which the topic has lost the start, or all."""
    starts = {r.partition: r.from_offset for r in ranges}
    ends = [(r, starts.get(r.partition, r.until_offset)) for r in committed]
    gone = [OffsetRange(r.partition, r.from_offset, end) for r, end in ends if r.from_offset < end]
    return [f"range {r} is no longer in the topic; its rows and quarantined records were not compared" for r in gone]


def _compare(
    cursor: Cursor, pipeline: Pipeline, cursors: Cursors, snapshot: TopicSnapshot
) -> tuple[list[str], list[str]]:
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
    violations, notes = [], []
    for name, query in numbered_queries("verify_topic").items():
        cursor.execute(_limited(query, pipeline, stored), arguments)
        lines = cursor.fetchall()
        wrong = [row for row in lines if not row["earlier"]]
        violations += [f"topic {name}: {row['line']}" for row in wrong]
        if wrong and wrong[0]["total"] > SHOWN:
            violations.append(f"topic {name}: {wrong[0]['total'] - SHOWN:,} more")
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
    names = [name for name, _ in row_columns(pipeline.record)]
    actual = {name: sql.Identifier("t", name) if name in stored else sql.SQL("NULL") for name in names}
    pairs = [
        sql.SQL("({}, {}::text, {}::text)").format(sql.Literal(name), actual[name], sql.Identifier("s", name))
        for name in names
    ]
    target = sql.Identifier(pipeline.target.schema, pipeline.target.table)
    cut = sql.SQL(named_sql("operations/cut_header_name"))
    tables = {"cut_header_name": cut, "target": target, "rows": rows_of(pipeline), **order_formats(pipeline.record)}
    lines = sql.SQL(query).format(**tables, pairs=sql.SQL(", ").join(pairs))
    return sql.SQL(named_sql("operations/violations_shown")).format(query=lines)

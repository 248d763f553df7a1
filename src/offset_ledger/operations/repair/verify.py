"""Verify: every invariant of the ledger is a query that selects its violations, one line of text each."""

from dataclasses import dataclass
from importlib.resources import files
from typing import Self

from psycopg2 import sql

from offset_ledger.model.ranges import Gap, OffsetRange, explain, total_width
from offset_ledger.outside.connections import get_connection
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.outside.kafka.records import record_offsets
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import pipelines
from offset_ledger.postgres.ledger.database import ONE_SNAPSHOT, named_sql, open_ledger, rows, transaction
from offset_ledger.postgres.ledger.row_order import log_at, row_formats, rows_of, same_key, table_of
from offset_ledger.postgres.table.change import check_tables

LISTED = 100  # violations of one invariant


class Violation(str):
    """A line about a violated check, with the number of that."""

    number: int

    def __new__(cls, number: int, line: str) -> Self:
        """Make the line of a check."""
        made = super().__new__(cls, line)
        made.number = number
        return made


def invariants(pipeline: Pipeline) -> dict[str, sql.Composed]:
    """Name -> query, in order; each query selects a line of text for each violation."""
    tables = {
        "target": table_of(pipeline.bookkeeping),
        "table": table_of(pipeline),
        "rows": rows_of(pipeline),
        "same_row": same_key(pipeline.record, "u", "t"),
        "row_known": sql.Identifier("u", pipeline.record.key_names[0]),
        **row_formats(pipeline.record),
    }
    queries, append = numbered_queries("verify"), pipeline.record.append
    tables["keyed"] = sql.SQL(named_sql("append/no_rows")) if append else tables["target"]
    tables["counted"] = sql.Literal("rows" if append else "event ids, rows and delete markers together")
    tables["log_at"] = log_at(pipeline, sql.Identifier("t"), sql.Identifier("t", "_batch_id"))
    if pipeline.bookkeeping is not pipeline:
        queries |= numbered_queries("verify_beside")
    if append and pipeline.has_coordinates:
        queries |= numbered_queries("verify_append")
    return {name: sql.SQL(query).format(**tables) for name, query in queries.items()}


def numbered_queries(folder: str) -> dict[str, str]:
    """Name -> query of a folder under ``sql/``, in the order of their numbers."""
    paths = files("offset_ledger.postgres").joinpath("sql", folder).iterdir()
    queries = {f.name.removesuffix(".sql").replace("_", " "): f.read_text() for f in paths if f.name.endswith(".sql")}
    return dict(sorted(queries.items(), key=lambda item: number_of(item[0])))


def number_of(name: str) -> int:
    """Return the number of a query by its name."""
    return int(name.split()[0])


def verify(pipeline: Pipeline) -> tuple[list[Violation], int]:
    """The violations, each with its invariant, partition and offsets, and how many invariants were checked.

    All of them see one snapshot of the database, so a batch that commits meanwhile makes no difference.

    Raises:
        TargetMismatch: the table, or that with its bookkeeping, is gone.
    """
    violations = list[Violation]()
    with open_ledger(pipeline) as session, transaction(session, ONE_SNAPSHOT) as cursor:
        queries = {}
        if pipelines.is_registered(cursor, pipeline.name):
            check_tables(cursor, pipeline)
            queries = invariants(pipeline)
        for name, query in queries.items():
            limited = sql.SQL(named_sql("repair/first_violations")).format(query=query)
            cursor.execute(limited, {"pipeline": pipeline.name, "file": pipeline.file, "limit": LISTED + 1})
            lines = [str(row[0]) for row in cursor.fetchall()]
            if len(lines) > LISTED:
                lines[LISTED:] = [f"and more: only the first {LISTED} are listed"]
            violations += [Violation(number_of(name), f"invariant {name}: {line}") for line in lines]
    return violations, len(queries)


@dataclass(frozen=True, slots=True)
class ExplainedGaps:
    """The gaps of the committed ranges with their causes, what contradicts the ledger, and what could not be read."""

    gaps: tuple[Gap, ...]
    violations: tuple[Violation, ...]
    unreadable: tuple[str, ...]


def explain_gaps(pipeline: Pipeline) -> ExplainedGaps:
    """Read every committed range with gaps again and name the cause of each missing offset.

    A range of which retention has deleted the start cannot be read again, and is listed as unreadable.
    """
    connection, topic = get_connection(pipeline.source.connection), pipeline.source.topic
    with connect_kafka(connection) as kafka:
        snapshot = kafka.snapshot(topic)
    with open_ledger(pipeline) as session:
        ranges = rows(session, named_sql("repair/ranges_with_gaps"), {"pipeline": pipeline.name})
    starts = {p.partition: p.log_start for p in snapshot.partitions}
    gaps: list[Gap] = []
    violations, unreadable = list[Violation](), []
    for batch_id, partition, from_offset, until_offset, counted in ranges:
        offsets = OffsetRange(partition, from_offset, until_offset)
        if starts.get(partition, until_offset) > from_offset:
            why = f"the log starts above it now; {counted} gaps unexplained"
            unreadable.append(f"batch {batch_id} range {offsets}: {why}")
            continue
        committed, all_records = (
            set(record_offsets(connection, topic, offsets, isolation))
            for isolation in ("read_committed", "read_uncommitted")
        )
        explained = explain(offsets, committed, all_records, snapshot.compacted or pipeline.source.compacted)
        gaps += explained
        if (missing := total_width(gap.offsets for gap in explained)) != counted:
            line = f"the balance sheet has {counted} gaps, reading it again finds {missing}"
            violations.append(Violation(6, f"invariant 6 gaps: batch {batch_id} range {offsets}: {line}"))
    return ExplainedGaps(tuple(gaps), tuple(violations), tuple(unreadable))

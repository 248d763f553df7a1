"""Verify: every invariant of the ledger as a query that selects its violations, one line each."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from psycopg2 import sql

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import get_connection
from offset_ledger.kafka.client import connect_kafka
from offset_ledger.kafka.records import record_offsets
from offset_ledger.ledger import pipelines
from offset_ledger.ledger.database import named_sql, rows, transaction
from offset_ledger.ledger.open import open_ledger
from offset_ledger.model.gaps import Gap, explain
from offset_ledger.model.ranges import OffsetRange, total_width
from offset_ledger.target import row_counts


def invariants() -> dict[str, str]:
    """Name -> query, in order; each query selects one line of text a violation."""
    return numbered_queries("verify")


def numbered_queries(folder: str) -> dict[str, str]:
    """Name -> query of a folder under ``sql/``, in the order of their numbers."""
    found = files("offset_ledger.ledger").joinpath("sql", folder).iterdir()
    named = {f.name.removesuffix(".sql").replace("_", " "): f.read_text() for f in found if f.name.endswith(".sql")}
    return dict(sorted(named.items(), key=lambda item: int(item[0].split()[0])))


def verify(pipeline: Pipeline) -> tuple[list[str], int]:
    """The violations, each with its invariant, partition and offsets, and how many invariants were checked.

    All of them see one snapshot of the database, so that a batch that commits meanwhile breaks none.
    """
    violations = []
    target = sql.Identifier(pipeline.target.schema, pipeline.target.table)
    with open_ledger(pipeline) as session:
        session.set_session(isolation_level="REPEATABLE READ", readonly=True)
        with transaction(session) as cursor:
            queries = invariants() if pipelines.is_registered(cursor, pipeline.name) else {}
            for name, query in queries.items():
                cursor.execute(sql.SQL(query).format(target=target), {"pipeline": pipeline.name})
                violations += [f"invariant {name}: {row[0]}" for row in cursor.fetchall()]
    return violations, len(queries)


def uncounted(pipeline: Pipeline) -> str | None:
    """Why invariant 11 compares nothing yet, where it does not."""
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        if row_counts.comparable(cursor, pipeline.name):
            return None
    return (
        f"invariant 11 compares nothing yet: batches of {pipeline.name} from before migration 0014 did not count what "
        f"they added; its next batch counts the table, or now: offset-ledger accept-table {pipeline.name} --why ..."
    )


@dataclass(frozen=True, slots=True)
class Explained:
    """What reading the committed ranges with gaps again told: each gap with its cause, and what does not fit."""

    gaps: tuple[Gap, ...]
    violations: tuple[str, ...]
    unreadable: tuple[str, ...]


def explain_gaps(pipeline: Pipeline) -> Explained:
    """Read every committed range that has gaps again and name the cause of each missing offset.

    A range whose beginning retention has deleted meanwhile cannot be read again; it is listed as such.
    """
    connection = get_connection(pipeline.source.connection)
    with connect_kafka(connection) as kafka:
        snapshot = kafka.snapshot(pipeline.source.topic)
    with open_ledger(pipeline) as session:
        found = rows(session, named_sql("operations/ranges_with_gaps"), {"pipeline": pipeline.name})
    compacted = snapshot.compacted or pipeline.source.compacted
    starts = {p.partition: p.log_start for p in snapshot.partitions}
    gaps: list[Gap] = []
    violations, unreadable = [], []
    for batch_id, partition, from_offset, until_offset, counted in found:
        offsets = OffsetRange(partition, from_offset, until_offset)
        if starts.get(partition, until_offset) > from_offset:
            unreadable.append(
                f"batch {batch_id} range {offsets}: the log starts above it now; {counted} gaps unexplained"
            )
            continue
        read = {
            isolation: set(record_offsets(connection, pipeline.source.topic, offsets, isolation))
            for isolation in ("read_committed", "read_uncommitted")
        }
        explained = explain(offsets, read["read_committed"], read["read_uncommitted"], compacted)
        gaps += explained
        if (missing := total_width(gap.offsets for gap in explained)) != counted:
            violations.append(
                f"invariant 6 gaps: batch {batch_id} range {offsets}: the balance sheet has {counted} gaps, reading it "
                f"again finds {missing}"
            )
    return Explained(tuple(gaps), tuple(violations), tuple(unreadable))

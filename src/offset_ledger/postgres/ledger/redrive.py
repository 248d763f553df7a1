"""Redrive batches and dismissals: the quarantined records of a batch or a decision, and their fate."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from psycopg2 import sql

from offset_ledger.model.batch import Batch, Origin
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.snapshot import PartitionSnapshot, TopicSnapshot
from offset_ledger.model.states import BatchKind
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import batches
from offset_ledger.postgres.ledger.database import Cursor, named_sql
from offset_ledger.postgres.ledger.staging import StagingTables


@dataclass(frozen=True, slots=True)
class RedriveChoice:
    """A choice of unresolved records to try again: of this reason code, quarantined since then, at most ``limit``."""

    reason: str | None = None
    since: datetime | None = None
    limit: int | None = None


def open_redrive(cursor: Cursor, pipeline: str, choice: RedriveChoice) -> Batch | None:
    """The open redrive batch that the same choice planned before."""
    row = cursor.run("redrive/open", pipeline=pipeline, **asdict(choice)).fetchone()
    return batches.read_batch(cursor, row["batch_id"]) if row else None


def insert_redrive(
    cursor: Cursor, pipeline: Pipeline, choice: RedriveChoice, origin: Origin, why: str | None
) -> tuple[Batch | None, int, int, dict[int, int]]:
    """Freeze the chosen records as a planned redrive batch; no batch where none is free.

    Returns the batch, and how many records it has, are left for later, and are in each other open batch: a record of an
    open redrive batch stays with it. The pipeline must be registered and locked.
    """
    registered = cursor.execute("SELECT * FROM offset_ledger.pipeline WHERE pipeline = %s", [pipeline.name]).one()
    wanted = {**asdict(choice), "pipeline": pipeline.name, "topic_id": registered["topic_id"]}
    limit = min(choice.limit or pipeline.limits.records_per_batch, pipeline.limits.records_per_batch)
    cursor.run("redrive/choose", **wanted)
    chosen = cursor.run("redrive/ranges", **{**wanted, "limit": limit}).fetchall()
    cursor.execute("SELECT held_by, count(*) AS records FROM redrive_choice GROUP BY held_by ORDER BY held_by")
    held = {row["held_by"]: row["records"] for row in cursor.fetchall()}
    free = held.pop(None, 0)
    if not chosen:
        return None, 0, 0, held
    topic = (registered["cluster_id"], registered["topic"], registered["topic_id"])
    partitions = tuple(
        PartitionSnapshot(r["partition"], r["log_start"], r["last_stable"], r["high_watermark"], r["leader_epoch"])
        for r in chosen
    )
    snapshot = TopicSnapshot(*topic, False, partitions)
    ranges = [OffsetRange(r["partition"], r["from_offset"], r["until_offset"]) for r in chosen]
    batch_id = batches.insert_batch(cursor, pipeline, BatchKind.REDRIVE, snapshot, ranges, origin, why)
    query = "INSERT INTO offset_ledger.redrive (batch_id, reason, since, most) VALUES (%s, %s, %s, %s)"
    cursor.execute(query, [batch_id, choice.reason, choice.since, choice.limit])
    records = int(cursor.run("redrive/freeze", batch_id=batch_id, limit=limit).rowcount)
    return batches.read_batch(cursor, batch_id), records, free - records, held


def leave_out(cursor: Cursor, tables: StagingTables, slices: int) -> int:
    """Enter the offsets that the ranges span but the batch does not have as skipped slices, numbered from ``slices``.

    Returns how many slices that were.
    """
    return int(cursor.run("redrive/leave_out", **asdict(tables.attempt), slices=slices).rowcount)


def staged_others(cursor: Cursor, tables: StagingTables) -> str | None:
    """Return a staged record, as partition:offset, that the batch did not choose; None if there is none."""
    names = {"rows": tables.identifier(tables.rows), "refused": tables.identifier(tables.refused)}
    row = cursor.execute(sql.SQL(named_sql("redrive/others")).format(**names), {"batch_id": tables.batch_id}).fetchone()
    return row[0] if row else None


def settle(cursor: Cursor, tables: StagingTables) -> None:
    """Mark records that pass as resolved by this batch, and keep the new reasons of the others."""
    statement = sql.SQL(named_sql("redrive/settle")).format(refused=tables.identifier(tables.refused))
    cursor.execute(statement, {"batch_id": tables.batch_id})


QuarantinePosition = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Selection:
    """A choice of quarantined records: offsets of a partition, or those of this reason code, quarantined since."""

    partition: int | None = None
    offsets: tuple[int, ...] | None = None
    reason: str | None = None
    since: datetime | None = None


def choose(cursor: Cursor, pipeline: str, selection: Selection, undo: bool) -> list[Any]:
    """The selected records, locked; ``held_by`` is the open redrive batch that has one. The pipeline must be locked."""
    offsets = None if selection.offsets is None else [*selection.offsets]
    wanted = {"partition": selection.partition, "offsets": offsets, "reason": selection.reason}
    return cursor.run("dismissals/choose", **wanted, since=selection.since, pipeline=pipeline, undo=undo).fetchall()


def decide(cursor: Cursor, pipeline: str, chosen: list[int], undo: bool, origin: Origin, why: str) -> int:
    """Dismiss these records, or undo it, and return the id of the decision."""
    decided = {"pipeline": pipeline, "undone": undo, "who": origin.who, "why": why}
    dismissal_id = int(cursor.run("dismissals/insert", **decided).one()[0])
    insert = "INSERT INTO offset_ledger.dismissal_record (dismissal_id, quarantine_id) SELECT %s, unnest(%s::bigint[])"
    cursor.execute(insert, [dismissal_id, chosen])
    update = "UPDATE offset_ledger.quarantine SET dismissed_by = %s WHERE quarantine_id = ANY(%s)"
    cursor.execute(update, [None if undo else dismissal_id, chosen])
    return dismissal_id

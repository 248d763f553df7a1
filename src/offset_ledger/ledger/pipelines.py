"""A pipeline in the ledger: its topic, where it stands in the log, and what is known of the log below."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from psycopg2.extras import execute_values

from offset_ledger.config.model import Pipeline
from offset_ledger.errors import ConfigurationError
from offset_ledger.ledger.database import Cursor, named_sql
from offset_ledger.model.snapshot import Cursors, TopicSnapshot, topic_of
from offset_ledger.model.truncation import Boundary


def lock_pipeline(cursor: Cursor, pipeline: str) -> None:
    """Let nobody else plan or commit for this pipeline until the transaction ends."""
    cursor.execute("SELECT FROM offset_ledger.pipeline WHERE pipeline = %s FOR UPDATE", [pipeline])


def register(cursor: Cursor, pipeline: Pipeline, snapshot: TopicSnapshot) -> None:
    """Enter the pipeline with the identity of its topic, once; lock it for the rest of the transaction.

    Raises:
        ConfigurationError: another pipeline already fills this table.
    """
    target = take_table(cursor, pipeline)
    cursor.execute(
        "INSERT INTO offset_ledger.pipeline (pipeline, cluster_id, topic, topic_id, target, config_hash)"
        " VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (pipeline) DO UPDATE SET"
        " config_hash = excluded.config_hash, updated_at = now()",
        [pipeline.name, snapshot.cluster_id, snapshot.topic, snapshot.topic_id, target, pipeline.config_hash],
    )


def check_owner(cursor: Cursor, pipeline: Pipeline) -> str:
    """Check that no other pipeline fills the target table; returns its name as the ledger has it.

    A pipeline that has committed nothing and has no open batch fills nothing.

    Raises:
        ConfigurationError: another one does, or has a batch that is about to.
    """
    target = f"{pipeline.target.schema}.{pipeline.target.table}"
    cursor.execute(named_sql("table_owner"), {"target": target, "pipeline": pipeline.name})
    owner = cursor.fetchone()
    if owner is None:
        return target
    taken = f"pipeline {pipeline.name}: table {target} is filled by pipeline {owner['pipeline']}"
    if owner["committed"]:
        raise ConfigurationError(
            f"{taken}; one table takes one pipeline, because offsets of two topics have no common order"
        )
    if owner["open_batch"]:
        raise ConfigurationError(
            f"{taken}, which has committed nothing yet but has an open batch; end that with "
            f"offset-ledger abandon {owner['open_batch']} --why ..., or name another table"
        )
    return target


def take_table(cursor: Cursor, pipeline: Pipeline) -> str:
    """Take the table over from a pipeline that has committed nothing into it; returns its name as the ledger has it.

    Raises:
        ConfigurationError: as :func:`check_owner`.
    """
    target = check_owner(cursor, pipeline)
    other = [target, pipeline.name]
    cursor.execute("SELECT FROM offset_ledger.pipeline WHERE target = %s AND pipeline <> %s FOR UPDATE", other)
    if cursor.rowcount:
        check_owner(cursor, pipeline)  # again: it may have planned or committed before it was locked
        cursor.execute("UPDATE offset_ledger.pipeline SET target = NULL WHERE target = %s AND pipeline <> %s", other)
    return target


def read_cursors(cursor: Cursor, pipeline: str) -> Cursors | None:
    """Where each partition of the pipeline goes on, with the topic it belongs to; None before its first plan."""
    cursor.execute("SELECT cluster_id, topic_id FROM offset_ledger.pipeline WHERE pipeline = %s", [pipeline])
    topic = cursor.fetchone()
    if topic is None:
        return None
    cursor.execute(
        "SELECT partition, coalesce(c.next_offset, b.start_offset) AS next_offset,"
        " coalesce(c.leader_epoch, b.leader_epoch) AS leader_epoch"
        " FROM offset_ledger.beginning b LEFT JOIN offset_ledger.cursor c USING (pipeline, topic_id, partition)"
        " WHERE pipeline = %s AND topic_id = %s ORDER BY partition",
        [pipeline, topic["topic_id"]],
    )
    found = cursor.fetchall()
    epochs = {r["partition"]: r["leader_epoch"] for r in found if r["leader_epoch"] is not None}
    offsets = {r["partition"]: r["next_offset"] for r in found}
    topic_id, truncations = topic_of(topic["topic_id"])
    return Cursors(topic["cluster_id"], topic_id, offsets, epochs, truncations)


def record_start_offsets(cursor: Cursor, pipeline: str, log_id: str, beginnings: Iterable[Boundary]) -> None:
    """Remember where partitions of the log begin; the first committed range of each must start there."""
    execute_values(
        cursor,
        "INSERT INTO offset_ledger.beginning (pipeline, topic_id, partition, start_offset, leader_epoch) VALUES %s",
        [(pipeline, log_id, b.partition, b.offset, b.leader_epoch) for b in beginnings],
    )


def record_snapshot(
    cursor: Cursor,
    pipeline: str,
    log_id: str,
    seen_at: datetime,
    snapshot: TopicSnapshot,
    next_offsets: Mapping[int, int],
) -> None:
    """Remember how far the log was stable when the pipeline looked, and forget the looks that this makes needless."""
    stable = {p.partition: p.last_stable for p in snapshot.partitions}
    partitions = range(max(stable, default=-1) + 1)
    cursor.execute(
        "INSERT INTO offset_ledger.topic_look (pipeline, topic_id, seen_at, last_stables, delete_retention_ms)"
        " VALUES (%s, %s, %s, %s, %s)",
        [
            *(pipeline, log_id, seen_at, [stable.get(p, 0) for p in partitions]),
            snapshot.delete_retention_ms if snapshot.compacted else None,
        ],
    )
    passed = [next_offsets.get(p, 0) for p in partitions]
    cursor.execute(named_sql("forget_looks"), {"pipeline": pipeline, "topic_id": log_id, "next_offsets": passed})


def read_boundaries(cursor: Cursor, pipeline: str, partitions: Sequence[int]) -> tuple[Boundary, ...]:
    """Every offset of these partitions up to which the ledger knows the present log: its beginning, committed ends."""
    cursor.execute(named_sql("boundaries"), {"pipeline": pipeline, "partitions": list(partitions)})
    return tuple(Boundary(*row) for row in cursor.fetchall())


def planned_epochs(cursor: Cursor, batch_id: int) -> dict[int, int]:
    """Per partition the leader epoch under which the end of the planned range was stable."""
    cursor.execute("SELECT partition, leader_epoch FROM offset_ledger.batch_range WHERE batch_id = %s", [batch_id])
    return {row["partition"]: row["leader_epoch"] for row in cursor.fetchall()}

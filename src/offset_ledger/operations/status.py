"""Status: where a pipeline stands, what it needs from a person, and its recent batches; nothing is changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import get_connection
from offset_ledger.errors import UnknownTopic
from offset_ledger.kafka.client import connect_kafka
from offset_ledger.ledger import batches, dead_letters, pipelines, staging
from offset_ledger.ledger.database import named_sql, open_ledger, rows, transaction
from offset_ledger.ledger.pipelines import read_retirement
from offset_ledger.ledger.staging import StagingTables
from offset_ledger.model.batch import Batch
from offset_ledger.model.ranges import total_width
from offset_ledger.model.snapshot import Cursors, TopicSnapshot
from offset_ledger.model.states import State
from offset_ledger.operations.tombstones import tombstone_question
from offset_ledger.target.restate import Part, read_unfinished
from offset_ledger.units import counted


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """Where one partition stands, in offsets; ``cursor`` is None before it is first planned."""

    partition: int
    log_start: int
    cursor: int | None
    last_stable: int
    high_watermark: int

    @property
    def lag(self) -> int:
        """Offsets not committed yet; none where the log ends below the cursor."""
        return max(0, self.last_stable - (self.log_start if self.cursor is None else self.cursor))

    @property
    def cut_off(self) -> bool:
        """Whether the log ends below the cursor: it was truncated, or the topic was recreated."""
        return self.cursor is not None and self.cursor > self.high_watermark


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """Where a pipeline stands.

    ``waits_for`` is the decision that the open batch needs, and why. ``remerge`` says what an unfinished remerge still
    has to replay. ``retired`` says since when a topic that is gone is left out, by whom and why; it has no partitions.
    """

    pipeline: str
    partitions: tuple[PartitionStatus, ...]
    open_batch: str | None
    dead_letters_waiting: int = 0
    waits_for: str | None = None
    remerge: str | None = None
    retired: str | None = None


def status(pipeline: Pipeline) -> PipelineStatus:
    """The cursors compared with the log, the open head batch, and what is unfinished.

    Raises:
        UnknownTopic: the topic does not exist, and was not retired.
        BrokerUnavailable, DatabaseUnavailable: a server is away.
    """
    snapshot, retired = None, None
    try:
        with connect_kafka(get_connection(pipeline.source.connection)) as kafka:
            snapshot = kafka.snapshot(pipeline.source.topic)
    except UnknownTopic:
        retired = read_retirement(pipeline)
        if retired is None:
            raise
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        cursors = pipelines.read_cursors(cursor, pipeline.name)
        head = batches.open_head(cursor, pipeline.name)
        letters = sum(dead_letters.waiting(cursor, pipeline.name).values())
        unfinished = read_unfinished(cursor, pipeline.name, snapshot) if snapshot else ()
    return PipelineStatus(
        pipeline=pipeline.name,
        partitions=partition_statuses(cursors, snapshot) if snapshot else (),
        open_batch=str(head) if head else None,
        dead_letters_waiting=letters,
        waits_for=waits_for(head),
        remerge=_remerge(pipeline, unfinished),
        retired=str(retired) if retired else None,
    )


def partition_statuses(cursors: Cursors | None, snapshot: TopicSnapshot) -> tuple[PartitionStatus, ...]:
    """The cursors compared with the log, by partition."""
    known = cursors.next_offsets if cursors else {}
    return tuple(
        PartitionStatus(p.partition, p.log_start, known.get(p.partition), p.last_stable, p.high_watermark)
        for p in snapshot.partitions
    )


def _remerge(pipeline: Pipeline, unfinished: Sequence[Part]) -> str | None:
    if not unfinished:
        return None
    offsets = sum(total_width(part.ranges) for part in unfinished)
    return (
        f"unfinished, {counted(offsets, 'offset')} in {counted(len(unfinished), 'batch')} still to replay; finish it "
        f"with: offset-ledger remerge {pipeline.name} --why ..."
    )


def waits_for(head: Batch | None) -> str | None:
    """The decision that an open head batch needs, and why; None if it needs none."""
    if late := tombstone_question(head):
        return f"{late.text} offset-ledger skip {late.pipeline} --why ..."
    if head is None or head.state is not State.REJECTED:
        return None
    return (
        f"{head.reasons}; decide with: offset-ledger approve {head.batch_id} --why ..., or offset-ledger abandon "
        f"{head.batch_id} --why ..."
    )


@dataclass(frozen=True, slots=True)
class RejectedBatch:
    """A rejected head batch, and the records that it refused by reason; they go to quarantine only with its commit."""

    batch: str
    waits_for: str
    refused: tuple[dict[str, Any], ...]


def rejected_batch(pipeline: Pipeline, limit: int) -> RejectedBatch | None:
    """The pipeline's rejected head batch with at most ``limit`` coordinates of each reason; None if there is none."""
    with open_ledger(pipeline) as session:
        with transaction(session) as cursor:
            head = batches.open_head(cursor, pipeline.name)
        waiting = waits_for(head)
        if head is None or waiting is None:
            return None
        tables = StagingTables(head.attempt)
        with transaction(session) as cursor:
            there = staging.are_there(cursor, tables)
            reasons = staging.refused_by_reason(cursor, tables, limit) if there else []
        return RejectedBatch(str(head), waiting, tuple(reasons))


def recent_batches(pipeline: Pipeline, limit: int) -> list[dict[str, Any]]:
    """The newest batches with their totals."""
    with open_ledger(pipeline) as session:
        newest = rows(session, named_sql("batches/recent"), {"pipeline": pipeline.name, "limit": limit})
    return [dict(row) for row in newest]

"""Looking at a pipeline without touching it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import get_connection
from offset_ledger.kafka.client import connect_kafka
from offset_ledger.ledger import batches, dead_letters, pipelines, staging
from offset_ledger.ledger.database import named_sql, rows, transaction
from offset_ledger.ledger.open import open_ledger
from offset_ledger.ledger.staging import StagingTables
from offset_ledger.model.batch import Batch
from offset_ledger.model.states import State
from offset_ledger.operations import tombstones


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """Where one partition stands, in offsets; ``cursor`` is None before its first plan."""

    partition: int
    log_start: int
    cursor: int | None
    last_stable: int
    high_watermark: int

    @property
    def lag(self) -> int:
        """Offsets not committed yet."""
        return self.last_stable - (self.log_start if self.cursor is None else self.cursor)

    @property
    def cut_off(self) -> bool:
        """Whether the log ends below the cursor: it was cut off, or is that of a recreated topic."""
        return self.cursor is not None and self.cursor > self.high_watermark


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """Where a pipeline stands."""

    pipeline: str
    partitions: tuple[PartitionStatus, ...]
    open_batch: str | None
    dead_letters_waiting: int = 0
    waits_for: str | None = None
    """What a person has to decide about the open batch, and why; None where nothing."""


def status(pipeline: Pipeline) -> PipelineStatus:
    """Cursors against the log, and the open head batch."""
    with connect_kafka(get_connection(pipeline.source.connection)) as kafka:
        snapshot = kafka.snapshot(pipeline.source.topic)
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        cursors = pipelines.read_cursors(cursor, pipeline.name)
        head = batches.open_head(cursor, pipeline.name)
        letters = sum(dead_letters.waiting(cursor, pipeline.name).values())
    known = cursors.next_offsets if cursors else {}
    late = tombstones.question(head)
    waits_for = f"{late.text} offset-ledger skip {pipeline.name} --why ..." if late else _waits_for(head)
    partitions = tuple(
        PartitionStatus(p.partition, p.log_start, known.get(p.partition), p.last_stable, p.high_watermark)
        for p in snapshot.partitions
    )
    return PipelineStatus(pipeline.name, partitions, str(head) if head else None, letters, waits_for)


def _waits_for(head: Batch | None) -> str | None:
    if head is None or head.state is not State.REJECTED:
        return None
    return (
        f"{head.reasons}; decide with: offset-ledger approve {head.batch_id} --why ..., or offset-ledger abandon "
        f"{head.batch_id} --why ..."
    )


@dataclass(frozen=True, slots=True)
class Rejected:
    """A rejected head batch, and by reason what it refused: that is in quarantine only once the batch is committed."""

    batch: str
    waits_for: str
    refused: tuple[dict[str, Any], ...]


def rejected(pipeline: Pipeline, limit: int) -> Rejected | None:
    """The pipeline's rejected head batch with at most ``limit`` coordinates of each reason; None if there is none."""
    with open_ledger(pipeline) as session:
        with transaction(session) as cursor:
            head = batches.open_head(cursor, pipeline.name)
        waits_for = _waits_for(head)
        if head is None or waits_for is None:
            return None
        tables = StagingTables(head.attempt)
        with transaction(session) as cursor:
            there = staging.are_there(cursor, tables)
            reasons = staging.refused_by_reason(cursor, tables, limit) if there else []
        return Rejected(str(head), waits_for, tuple(reasons))


def recent_batches(pipeline: Pipeline, limit: int) -> list[dict[str, Any]]:
    """The newest batches with their totals."""
    with open_ledger(pipeline) as session:
        found = rows(session, named_sql("batches/recent"), {"pipeline": pipeline.name, "limit": limit})
    return [dict(row) for row in found]

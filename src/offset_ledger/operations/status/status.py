"""Status: where a pipeline stands, what it needs from a person, and its recent batches; nothing is changed."""

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import psycopg2

from offset_ledger.base.units import counted
from offset_ledger.errors import OffsetLedgerError, UnknownTopic
from offset_ledger.model.batch import Batch
from offset_ledger.model.ranges import total_width
from offset_ledger.model.states import State
from offset_ledger.operations.status.brokers import ask_registry, ask_topic
from offset_ledger.operations.status.pipeline import BrokerAnswer, Standing, assess
from offset_ledger.operations.status.reader import read_ledger
from offset_ledger.outside.connections import get_connection
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import batches, dead_letters, staging
from offset_ledger.postgres.ledger.database import (
    Cursor,
    Session,
    named_sql,
    open_ledger,
    rows,
    savepoint,
    set_local,
    transaction,
)
from offset_ledger.postgres.ledger.followed_columns import with_columns
from offset_ledger.postgres.ledger.staging import StagingTables
from offset_ledger.postgres.table.conflicts import find_conflicts
from offset_ledger.postgres.table.restate import read_unfinished
from offset_ledger.steps.decide.tombstones import tombstone_question

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """The position of one partition, in offsets; ``cursor`` is None before it is first planned.

    lag: offsets of the log that are not committed, never below 0. lost: offsets that were deleted before they were
    committed; they are no lag. cut_off: the log ends below the cursor, or the topic was recreated.
    """

    partition: int
    log_start: int
    cursor: int | None
    last_stable: int
    high_watermark: int
    lag: int
    lost: int
    cut_off: bool


@dataclass(frozen=True, slots=True)
class HeadBatch:
    """An open head batch, for programs: ``decisions`` are the verbs of which it waits for one, ``reasons`` why."""

    id: int
    kind: str
    state: str
    epoch: int
    offsets: int
    planned_at: datetime
    decisions: tuple[str, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """The standing of a pipeline.

    ``head`` is ``open_batch`` in values; ``state`` is that of the ledger page. ``waits_for`` is the decision that the
    open batch needs and why, that its attempt is silent, or what of it the table refuses. ``remerge`` says what an
    unfinished remerge still has to replay. ``retired`` says since when a topic that is gone is left out, by whom and
    why; it has no partitions.
    """

    pipeline: str
    partitions: tuple[PartitionStatus, ...]
    open_batch: str | None
    dead_letters_waiting: int = 0
    waits_for: str | None = None
    remerge: str | None = None
    retired: str | None = None
    state: str | None = None
    lag: int | None = None
    head: HeadBatch | None = None


def status(pipeline: Pipeline, session: Session | None = None) -> PipelineStatus:
    """Return the cursors compared with the log, the open head batch, and what is unfinished.

    Raises:
        UnknownTopic: the topic does not exist, and was not retired.
        BrokerUnavailable, DatabaseUnavailable: a server is unavailable.
    """
    try:
        with connect_kafka(get_connection(pipeline.source.connection)) as kafka:
            topic, unknown = BrokerAnswer(ask_topic(kafka, pipeline.source.topic)), None
    except UnknownTopic as error:
        topic, unknown = BrokerAnswer(gone=True), error
    topic = replace(topic, registry_problem=ask_registry(pipeline).registry_problem)
    refused = None
    with open_ledger(pipeline, session) as session, transaction(session) as cursor:
        standing = assess(pipeline, read_ledger(cursor, [pipeline.name]), topic, datetime.now(UTC))
        if unknown and not standing.retired:
            raise unknown
        head = batches.open_head(cursor, pipeline.name)
        letters = sum(dead_letters.waiting(cursor, pipeline.name).values())
        unfinished = read_unfinished(cursor, pipeline.name, topic.snapshot.snapshot) if topic.snapshot else ()
        with suppress(psycopg2.Error), savepoint(cursor):  # the commit reports why it cannot write
            refused = refused_by_table(cursor, pipeline, head)
    offsets = counted(sum(total_width(part.ranges) for part in unfinished), "offset")
    remerge = (
        f"unfinished, {offsets} in {counted(len(unfinished), 'batch')} still to replay; finish it with: "
        f"offset-ledger remerge {pipeline.name} --why ..."
    )
    return PipelineStatus(
        pipeline=pipeline.name,
        partitions=partition_statuses(standing) if topic.snapshot else (),
        open_batch=str(head) if head else None,
        dead_letters_waiting=letters,
        waits_for=waits_for(head) or standing.silence or refused,
        remerge=remerge if unfinished else None,
        retired=standing.retired,
        state=standing.condition.state,
        lag=standing.totals.lag,
        head=head_batch(head),
    )


def head_batch(head: Batch | None) -> HeadBatch | None:
    """Return the open head batch in values."""
    if head is None:
        return None
    rejected, late = head.state is State.REJECTED, tombstone_question(head) is not None
    decisions = ("approve", "abandon") if rejected else ("skip",) if late else ()
    reasons = tuple((head.verdict or {}).get("reasons", ())) if rejected else ()
    width = total_width(head.ranges)
    return HeadBatch(head.batch_id, head.kind, head.state, head.epoch, width, head.planned_at, decisions, reasons)


def partition_statuses(standing: Standing) -> tuple[PartitionStatus, ...]:
    """Return the partitions of a topic that its broker has described."""
    names = PartitionStatus.__slots__
    return tuple(PartitionStatus(**{name: getattr(each, name) for name in names}) for each in standing.partitions)


def waits_for(head: Batch | None) -> str | None:
    """Return the decision that an open head batch needs, and why; None if it needs none."""
    if late := tombstone_question(head):
        return f"{late.text} To approve it: offset-ledger accept loss {late.pipeline} --why ..."
    if head is None or head.state is not State.REJECTED:
        return None
    return (
        f"{head.reasons}; decide with: offset-ledger batch approve {head.batch_id} --why ..., or "
        f"offset-ledger batch abandon {head.batch_id} --why ..."
    )


def refused_by_table(cursor: Cursor, pipeline: Pipeline, head: Batch | None) -> str | None:
    """Return the records of a validated batch that a constraint of the table would refuse now; None if none."""
    if head is None or head.state is not State.VALIDATED or pipeline.record.append:
        return None
    tables = StagingTables(head.attempt)
    if not staging.are_there(cursor, tables):
        return None
    set_local(cursor, "lock_timeout", "5s")
    pipeline = with_columns(cursor, pipeline, head.batch_id)
    conflicts = find_conflicts(cursor, pipeline, tables.identifier(tables.rows), tables.batch_id)
    if not conflicts:
        return None
    first, *_ = cursor.run("conflicts/first_records", places=[each.place for each in conflicts]).fetchall()
    return (
        f"the table refuses {counted(first['records'], 'record')} of it, first {pipeline.source.topic} "
        f"{first['_partition']}:{first['_offset']}: {first['detail']}; correct the table and run the pipeline again, "
        f"write target.on_conflict: quarantine, or run offset-ledger batch abandon {head.batch_id} --why ..."
    )


@dataclass(frozen=True, slots=True)
class RejectedBatch:
    """A rejected head batch, and the records that it refused by reason; they go to quarantine only with its commit."""

    batch: str
    waits_for: str
    refused: tuple[dict[str, Any], ...]
    head: HeadBatch | None = None


def rejected_batch(pipeline: Pipeline, limit: int) -> RejectedBatch | None:
    """Return the rejected head batch with at most ``limit`` coordinates of each reason; None if there is none."""
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
        return RejectedBatch(str(head), waiting, tuple(reasons), head_batch(head))


def recent_batches(pipeline: Pipeline, limit: int) -> list[dict[str, Any]]:
    """Return the newest batches with their totals."""
    with open_ledger(pipeline) as session:
        newest = rows(session, named_sql("batches/recent"), {"pipeline": pipeline.name, "limit": limit})
    return [dict(row) for row in newest]


@dataclass(frozen=True, slots=True)
class BatchMetrics:
    """The metrics of a batch: ``lag`` in offsets, None if unknown, and ``seconds`` by the steps that ran."""

    lag: int | None
    records: int
    quarantined: int
    seconds: dict[str, float]


def batch_metrics(pipeline: Pipeline, batch_id: int, session: Session | None = None) -> BatchMetrics:
    """Return the metrics of a committed batch from the ledger, and the remaining lag from the broker."""
    with open_ledger(pipeline, session) as session:
        (metrics,) = rows(session, named_sql("standing/metrics"), [batch_id])
        try:
            lag = sum(each.lag for each in status(pipeline, session).partitions)
        except OffsetLedgerError as error:
            log.warning("the lag of pipeline %s is not known: %s", pipeline.name, error)
            lag = None
    seconds = {step: metrics[step] for step in ("stage", "validate", "commit") if metrics[step] is not None}
    return BatchMetrics(lag, metrics["records"] or 0, metrics["quarantined"] or 0, seconds)

"""Remerge: order the rows of a table by Kafka's timestamps, and replay records that may win by this order."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from offset_ledger.errors import ConfigurationError
from offset_ledger.model.batch import Origin
from offset_ledger.model.ranges import OffsetRange, within
from offset_ledger.model.snapshot import check_identity
from offset_ledger.model.states import BatchKind
from offset_ledger.outside.connections import get_connection
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import pipelines
from offset_ledger.postgres.ledger.database import open_ledger, transaction
from offset_ledger.postgres.ledger.row_order import KAFKA_TIMESTAMP, LOG, in_order, ordered_by, table_of
from offset_ledger.postgres.table.change import ensure_target
from offset_ledger.postgres.table.restate import Part, read_reach, read_unfinished, restate
from offset_ledger.steps.plan.step import checked_snapshot, plan_replay
from offset_ledger.steps.run.ingest import Ingested, run_batch


@dataclass(frozen=True, slots=True)
class Restated:
    """The number of rows that got another ``publish_at``, and what of the topic is still to be replayed.

    ``rows`` is None if an earlier call has changed them. ``gone`` are committed offsets that the topic no longer has.
    """

    rows: int | None
    parts: tuple[Part, ...]
    gone: tuple[OffsetRange, ...]


def restate_rows(pipeline: Pipeline, origin: Origin, why: str) -> Restated:
    """The first half: change the rows in one transaction, and record what the second half has to replay of each topic.

    Raises:
        ConfigurationError: the pipeline file orders by another timestamp.
        StateConflict: a batch is open.
        LostRange: the topic is not the one that the cursors belong to.
        TargetMismatch: the table does not fit the pipeline file.
    """
    if pipeline.record.append:
        raise ConfigurationError(f"pipeline {pipeline.name} appends its rows (target.merge), which have no order")
    if (moment := ordered_by(pipeline.record)) not in (KAFKA_TIMESTAMP, LOG):
        raise ConfigurationError(
            f"pipeline {pipeline.name} says publish_at: {moment}, and a remerge orders by Kafka's timestamps or the "
            f"log, whose places the table has of every row; write publish_at: {LOG} or {KAFKA_TIMESTAMP} first"
        )
    with open_ledger(pipeline) as session:
        snapshot = checked_snapshot(session, pipeline)
        with transaction(session) as cursor:
            pipelines.lock_file(cursor, pipeline.file)  # before a row of it, or two topics would wait for each other
            pipelines.register(cursor, pipeline, snapshot)
            pipelines.lock_table(cursor, pipeline)
            check_identity(pipelines.read_cursors(cursor, pipeline.name), snapshot)
            rows = None
            if in_order(cursor, pipeline, table_of(pipeline.bookkeeping)):
                ensure_target(cursor, pipeline)
            else:
                rows = restate(cursor, pipeline, origin, why)
            pending = read_unfinished(cursor, pipeline.name, snapshot)
            below = {partition: (0, low) for partition, (low, _) in snapshot.bounds.items()}
            gone = within(read_reach(cursor, pipeline.name), below) if pending or rows is not None else ()
            return Restated(rows, pending, gone)


def replay_parts(
    pipeline: Pipeline,
    parts: Sequence[Part],
    origin: Origin,
    why: str,
    say: Callable[[str], None],
    take_over: bool = False,
) -> Iterator[Ingested]:
    """Do the second half: replay each of these parts that the topic still has.

    Raises:
        BatchRejected: the gate rejected one; decide about it, and call again.
    """
    for part in parts:
        with connect_kafka(get_connection(pipeline.source.connection)) as kafka:
            ranges = within(part.ranges, kafka.snapshot(pipeline.source.topic).bounds)
        if ranges:
            planned = plan_replay(pipeline, ranges, origin, BatchKind.REPLAY, why, part.request)
            say(planned.message)
            yield run_batch(pipeline, planned, origin, say, take_over=take_over)

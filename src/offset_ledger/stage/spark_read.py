"""The read of a batch: exactly its ranges, by Spark, checked against the topic before and after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import Connection
from offset_ledger.errors import SparkFailed, UnreadableTimestamp
from offset_ledger.kafka.records import read_records
from offset_ledger.model.balance_sheet import gap_reason
from offset_ledger.model.batch import Batch
from offset_ledger.model.ranges import OffsetRange, total_width
from offset_ledger.model.snapshot import TopicSnapshot
from offset_ledger.stage.progress import slices_shown
from offset_ledger.stage.timestamps import check_timestamp
from offset_ledger.stage.topic_check import losses_checked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from offset_ledger.stage.slices import SliceTask


def reason_of_gaps(pipeline: Pipeline, *snapshots: TopicSnapshot) -> str | None:
    """Why offsets of the topic may lack a record, by the pipeline file and these snapshots."""
    compacted = pipeline.source.compacted or any(snapshot.compacted for snapshot in snapshots)
    return gap_reason(compacted, pipeline.source.transactional)


def read_slices(
    spark: SparkSession,
    kafka: Connection,
    batch: Batch,
    check_topic: Callable[[Batch], object],
    pipeline: Pipeline,
    task: SliceTask,
) -> int:
    """Stage every slice and return how many there were.

    Raises:
        LostRange: the topic does not have the ranges any more.
        UnreadableTimestamp: a record has one that Spark or Postgres cannot represent.
        SparkFailed: worth another try.
    """
    from offset_ledger.stage.reader import read_ranges, run_slices

    try:
        shown = slices_shown(task.database, task.tables.attempt, total_width(batch.ranges))
        with losses_checked(partial(check_topic, batch), SparkFailed), shown:
            return run_slices(spark, read_ranges(spark, kafka, pipeline, batch.ranges), task)
    except UnreadableTimestamp as error:
        _check_timestamps(kafka, pipeline.source.topic, batch.ranges)
        raise UnreadableTimestamp(f"{error}; no record in the ranges has such a timestamp any more") from error


def _check_timestamps(kafka: Connection, topic: str, ranges: Sequence[OffsetRange]) -> None:
    """Name the first of these records whose timestamp is out of range, which Spark does not."""
    for each in ranges:
        for record in read_records(kafka, topic, each, "read_uncommitted"):
            check_timestamp(record.partition, record.offset, record.timestamp)

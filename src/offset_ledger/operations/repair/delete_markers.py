"""Delete markers that no record of the topic can contradict any more: a prune removes them where it is asked to."""

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from psycopg2 import sql

from offset_ledger.base.units import counted
from offset_ledger.errors import ConfigurationError
from offset_ledger.model.batch import Origin
from offset_ledger.model.snapshot import TopicSnapshot
from offset_ledger.outside.connections import get_connection
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import pipelines
from offset_ledger.postgres.ledger.database import Cursor, Session, named_sql, transaction
from offset_ledger.postgres.ledger.row_order import KAFKA_TIMESTAMP, ordered_by, row_formats, table_of
from offset_ledger.postgres.table import row_counts

log = logging.getLogger(__name__)

_EPOCH = datetime.fromtimestamp(0, UTC)

_MARKERS = 10_000  # of one transaction


def delete_markers(
    session: Session, pipeline: Pipeline, age: timedelta, now: datetime, origin: Origin, dry_run: bool
) -> Iterator[int]:
    """Remove markers older than that, which no record can contradict any more; how many each time.

    The topic does not have their own record, and each of its partitions begins with a newer one; none in quarantine is
    older, and no batch is open.

    Raises:
        ConfigurationError: the topic may have older records of the same events.
    """
    snapshot, oldest = _checked_retention(pipeline, age)
    statement = sql.SQL(named_sql("prune/delete_markers")).format(
        **row_formats(pipeline.record), target=table_of(pipeline.bookkeeping)
    )
    log_starts = json.dumps({each.partition: each.log_start for each in snapshot.partitions})
    by = {"log_starts": log_starts, "limit": None if dry_run else _MARKERS}
    before = min(now - age, oldest or now)
    removed = _MARKERS
    while removed == _MARKERS:
        with transaction(session) as cursor:
            pipelines.lock_pipeline(cursor, pipeline.name)
            pipelines.lock_table(cursor, pipeline)
            bound = _before_all_that_may_come(cursor, pipeline, before)
            removed = cursor.execute(statement, {**by, "before": bound, "dry_run": dry_run}).one()[0] if bound else 0
            if removed and not dry_run:
                row_counts.count_removed(cursor, pipeline, origin, removed)
        yield removed
        if dry_run:
            return


def _before_all_that_may_come(cursor: Cursor, pipeline: Pipeline, before: datetime) -> datetime | None:
    """The moment, or an earlier one that is no later than any record which may still be merged; None if any may be.

    Nobody knows how old a record in quarantine is where its moment is a value of the record, or the log orders.
    """
    oldest: datetime | None
    batches, records, oldest = cursor.run("prune/yet_to_come", file=pipeline.file).one()
    if not batches and not records:
        return before
    if not batches and ordered_by(pipeline.record) == KAFKA_TIMESTAMP and oldest:
        return min(before, oldest)
    what = counted(batches, "open batch") if batches else f"{counted(records, 'record')} in quarantine"
    log.warning("delete markers of %s stay: %s may have older records of their events", pipeline.file, what)
    return None


def _checked_retention(pipeline: Pipeline, age: timedelta) -> tuple[TopicSnapshot, datetime | None]:
    """A snapshot of the topic, and the moment of the oldest record that a partition begins with."""
    topic = pipeline.source.topic
    with connect_kafka(get_connection(pipeline.source.connection)) as kafka:
        snapshot = kafka.snapshot(topic)
        milliseconds = int(kafka.settings(topic, "retention.ms")["retention.ms"])
        first = kafka.first_at(topic, _EPOCH)
    why = ""
    if pipeline.of_several:
        why = "and other topics fill the table too"
    elif snapshot.compacted:
        why = f"and topic {topic} is compacted"
    elif milliseconds < 0 or age <= timedelta(milliseconds=milliseconds):
        why = f"and retention.ms of topic {topic} is {milliseconds}"
    if why:
        raise ConfigurationError(
            f"the age for deletes is {age.days}d, {why}: an older record could bring a deleted row back; nothing was "
            "pruned; write an age beyond the retention of the topic, or leave deletes out"
        )
    undated = [p.partition for p in snapshot.partitions if p.log_start < p.high_watermark and not first[p.partition]]
    if undated:
        raise ConfigurationError(
            f"no record of partition {undated[0]} of topic {topic} has a timestamp, so nobody knows how old it is; "
            "nothing was pruned; leave deletes out, or prune again once the partition has records with timestamps"
        )
    return snapshot, min((each.timestamp for each in first.values() if each), default=None)

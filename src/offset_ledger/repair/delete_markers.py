"""Delete markers that no record of the topic can contradict any more: a prune removes them where it is asked to."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta

from psycopg2 import sql

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import get_connection
from offset_ledger.errors import ConfigurationError
from offset_ledger.kafka.client import connect_kafka
from offset_ledger.ledger import pipelines
from offset_ledger.ledger.database import Session, named_sql, transaction
from offset_ledger.ledger.row_order import row_formats, table_of
from offset_ledger.model.batch import Origin
from offset_ledger.model.snapshot import TopicSnapshot
from offset_ledger.table import row_counts

_MARKERS = 10_000  # of one transaction


def delete_markers(
    session: Session, pipeline: Pipeline, age: timedelta, now: datetime, origin: Origin, dry_run: bool
) -> Iterator[int]:
    """Remove markers older than that, whose own record the topic does not have any more; how many each time.

    Raises:
        ConfigurationError: the topic may have older records of the same events.
    """
    snapshot = _checked_retention(pipeline, age)
    statement = sql.SQL(named_sql("prune/delete_markers")).format(
        **row_formats(pipeline.record), target=table_of(pipeline.bookkeeping)
    )
    log_starts = json.dumps({each.partition: each.log_start for each in snapshot.partitions})
    by = {"older_than": now - age, "log_starts": log_starts, "limit": None if dry_run else _MARKERS}
    removed = _MARKERS
    while removed == _MARKERS:
        with transaction(session) as cursor:
            pipelines.lock_pipeline(cursor, pipeline.name)
            pipelines.lock_table(cursor, pipeline)
            removed = cursor.execute(statement, {**by, "dry_run": dry_run}).one()[0]
            if removed and not dry_run:
                row_counts.count_removed(cursor, pipeline, origin, removed)
        yield removed
        if dry_run:
            return


def _checked_retention(pipeline: Pipeline, age: timedelta) -> TopicSnapshot:
    topic = pipeline.source.topic
    with connect_kafka(get_connection(pipeline.source.connection)) as kafka:
        snapshot = kafka.snapshot(topic)
        milliseconds = int(kafka.settings(topic, "retention.ms")["retention.ms"])
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
    return snapshot

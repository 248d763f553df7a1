"""A window of record timestamps, looked up in the log and in the ledger."""

from datetime import datetime

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import get_connection
from offset_ledger.kafka.client import connect_kafka
from offset_ledger.ledger import pipelines
from offset_ledger.ledger.batches import read_before
from offset_ledger.ledger.database import open_ledger, transaction
from offset_ledger.model.log_checks import check_identity
from offset_ledger.model.windows import RecordWindow, find_window


def look_up(pipeline: Pipeline, since: datetime, until: datetime, scan: bool = False) -> RecordWindow:
    """Return the offsets of the timestamps ``[since, until)`` up to the last stable ones, and what of them is gone.

    Kafka's index finds the first record at or after a moment, so records that came late are left out, and named as far
    as the ledger knows them. With ``scan`` they are part of the window.

    Raises:
        TopicRecreated: the topic is another one than the cursors belong to.
    """
    topic = pipeline.source.topic
    with connect_kafka(get_connection(pipeline.source.connection)) as kafka:
        starts, ends = kafka.first_at(topic, since), kafka.first_at(topic, until)
        snapshot = kafka.snapshot(topic)
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        check_identity(pipelines.read_cursors(cursor, pipeline.name), snapshot)
        before = read_before(cursor, pipeline.name, since, until, snapshot)
    return find_window(since, until, snapshot, starts, ends, before, scan)


def nothing_in(pipeline: Pipeline, window: RecordWindow) -> str:
    """Return why the window has nothing to read, in one line."""
    topic, lost = pipeline.source.topic, f": {window.lost}" if window.lost else ""
    if window.missed:
        return f"by its index, topic {topic} has no record in {window}{lost}; {missed(window)}"
    return f"topic {topic} has no record in {window}{lost}"


def missed(window: RecordWindow) -> str:
    """Return what the window leaves out and how to read it, in one line."""
    return f"{window.missed} that came late; a full scan (--scan, or scan in the form) reads them too"

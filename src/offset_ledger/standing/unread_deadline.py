"""When retention deletes records that no batch has committed, by the timestamps of these records."""

from __future__ import annotations

from datetime import UTC, datetime

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import Connection, get_connection
from offset_ledger.kafka.client import connect_kafka, sized_logs
from offset_ledger.kafka.offsets import high_watermarks, last_stable, log_starts
from offset_ledger.kafka.python_client import Admin
from offset_ledger.kafka.records import first_timestamps
from offset_ledger.kafka.topics import describe_available_topic, leaders, topic_settings
from offset_ledger.ledger import pipelines
from offset_ledger.ledger.database import open_ledger, transaction
from offset_ledger.model.retention import UNSIZED, Deadline, Retention, UnreadLog, earliest
from offset_ledger.model.snapshot import Cursors


def unread_deadline(pipeline: Pipeline) -> Deadline | None:
    """Return when retention lets the oldest unread record go; None if nothing is unread, or nothing is deleted.

    By ``retention.bytes`` it is an estimate, made where the login may see the sizes of logs (Describe on the cluster).

    Raises:
        OffsetLedgerError: a server or the leader of a partition is away, or the login may not see the topic.
    """
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        cursors = pipelines.read_cursors(cursor, pipeline.name)
    if cursors is None:
        return None
    connection = get_connection(pipeline.source.connection)
    with connect_kafka(connection) as kafka:
        return kafka.ask(lambda admin: _deadline(admin, connection, pipeline.source.topic, cursors))


def _deadline(admin: Admin, connection: Connection, topic: str, cursors: Cursors) -> Deadline | None:
    kept = Retention.from_settings(topic_settings(admin, topic))
    described = describe_available_topic(admin, topic)  # a partition without a leader may have unread records
    if not kept.deletes or str(described["topic_id"]) != cursors.topic_id:
        return None
    led = leaders(described)
    starts, stable = log_starts(admin, topic, led), last_stable(admin, topic, led)
    unread = {p: (max(starts[p], cursors.next_offsets.get(p, 0)), stable[p].offset) for p in led}
    behind = {p: each for p, each in unread.items() if each[0] < each[1]}
    unread_at = first_timestamps(connection, topic, behind)
    logs, ends = sized_logs(admin, topic) if kept.bytes is not None else {}, high_watermarks(admin, topic, behind)
    return earliest(
        (
            UnreadLog(unread_at.get(p), logs.get(p, UNSIZED), (end - first) / (ends[p] - starts[p]))
            for p, (first, end) in behind.items()
        ),
        kept,
        datetime.now(UTC),
    )

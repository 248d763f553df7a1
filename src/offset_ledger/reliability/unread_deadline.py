"""When retention deletes records that no batch has committed."""

from __future__ import annotations

from datetime import datetime

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import Connection, get_connection
from offset_ledger.kafka.admin import Admin
from offset_ledger.kafka.client import connect_kafka
from offset_ledger.kafka.offsets import last_stable, log_starts
from offset_ledger.kafka.settings import topic_settings
from offset_ledger.kafka.timestamps import first_timestamps
from offset_ledger.kafka.topics import describe_topic
from offset_ledger.ledger import pipelines
from offset_ledger.ledger.database import transaction
from offset_ledger.ledger.open import open_ledger
from offset_ledger.model.snapshot import Cursors
from offset_ledger.units import kept_for


def unread_deadline(pipeline: Pipeline) -> datetime | None:
    """When ``retention.ms`` lets the oldest unread record go; None if nothing is unread, or time deletes nothing.

    Raises:
        OffsetLedgerError: a server is away, or the login may not see the topic.
    """
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        cursors = pipelines.read_cursors(cursor, pipeline.name)
    if cursors is None:
        return None
    connection = get_connection(pipeline.source.connection)
    with connect_kafka(connection) as kafka:
        return kafka.ask(lambda admin: _deadline(admin, connection, pipeline.source.topic, cursors))


def _deadline(admin: Admin, connection: Connection, topic: str, cursors: Cursors) -> datetime | None:
    settings = topic_settings(admin, topic)
    kept = kept_for(settings["retention.ms"]) if "delete" in settings["cleanup.policy"] else None
    described = describe_topic(admin, topic)
    if kept is None or str(described["topic_id"]) != cursors.topic_id:
        return None
    led = [p["partition_index"] for p in described["partitions"] if p["leader_id"] >= 0]
    starts, stable = log_starts(admin, topic, led), last_stable(admin, topic, led)
    unread = {p: (max(starts[p], cursors.next_offsets.get(p, 0)), stable[p].offset) for p in led}
    oldest = [moment for moment in first_timestamps(connection, topic, unread).values() if moment]
    return min(oldest) + kept if oldest else None

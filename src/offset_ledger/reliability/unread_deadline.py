"""When retention deletes records that no batch has committed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import Connection, get_connection
from offset_ledger.kafka.admin import Admin
from offset_ledger.kafka.client import connect_kafka
from offset_ledger.kafka.offsets import high_watermarks, last_stable, log_starts
from offset_ledger.kafka.settings import topic_settings
from offset_ledger.kafka.timestamps import first_timestamps
from offset_ledger.kafka.topics import describe_topic, log_sizes
from offset_ledger.ledger import pipelines
from offset_ledger.ledger.database import transaction
from offset_ledger.ledger.open import open_ledger
from offset_ledger.model.snapshot import Cursors
from offset_ledger.units import kept_for

_SOONEST = timedelta(seconds=1)
_LATEST = timedelta(days=36_500)


@dataclass(frozen=True, slots=True)
class Deadline:
    """When the oldest unread record may be deleted, and the setting of the topic by which it is."""

    at: datetime
    setting: str


@dataclass(frozen=True, slots=True)
class UnreadLog:
    """A partition with unread records; ``first_at`` and ``unread_at``: timestamps of its first and first unread record.

    ``size`` is that of the whole log in bytes, and ``unread_share`` the share of its offsets that are unread.
    """

    unread_at: datetime | None
    first_at: datetime | None = None
    size: int = 0
    unread_share: float = 0.0


def earliest(logs: Iterable[UnreadLog], age: timedelta | None, size: int | None, now: datetime) -> Deadline | None:
    """The first deadline of these partitions by ``retention.ms`` (``age``) and ``retention.bytes`` (``size``)."""
    found = [each for log in logs for each in _deadlines(log, age, size, now)]
    return min(found, key=lambda each: each.at, default=None)


def _deadlines(log: UnreadLog, age: timedelta | None, size: int | None, now: datetime) -> Iterator[Deadline]:
    if log.unread_at and age is not None:
        yield Deadline(log.unread_at + age, "retention.ms")
    if log.first_at and log.size and size is not None:
        yield Deadline(now + _until_full(log, size, now - log.first_at), "retention.bytes")


def _until_full(log: UnreadLog, size: int, span: timedelta) -> timedelta:
    """How long until the unread bytes reach ``size``, if the log grows as it did over the ``span`` that it holds."""
    room = max(0.0, size - log.size * log.unread_share)
    seconds = max(_SOONEST, span).total_seconds() * room / log.size
    return timedelta(seconds=min(seconds, _LATEST.total_seconds()))


def unread_deadline(pipeline: Pipeline) -> Deadline | None:
    """When retention lets the oldest unread record go; None if nothing is unread, or nothing is deleted.

    By ``retention.bytes`` it is an estimate, made where the login may see the sizes of logs (Describe on the cluster).

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


def _deadline(admin: Admin, connection: Connection, topic: str, cursors: Cursors) -> Deadline | None:
    settings = topic_settings(admin, topic)
    if "delete" not in settings["cleanup.policy"]:
        return None
    age, size = kept_for(settings["retention.ms"]), int(settings["retention.bytes"])
    described = describe_topic(admin, topic)
    if (age is None and size < 0) or str(described["topic_id"]) != cursors.topic_id:
        return None
    leaders = {p["partition_index"]: p["leader_id"] for p in described["partitions"] if p["leader_id"] >= 0}
    starts, stable = log_starts(admin, topic, leaders), last_stable(admin, topic, leaders)
    unread = {p: (max(starts[p], cursors.next_offsets.get(p, 0)), stable[p].offset) for p in leaders}
    unread_at = first_timestamps(connection, topic, unread)
    if size < 0:
        return earliest(map(UnreadLog, unread_at.values()), age, None, datetime.now(UTC))
    behind = {p: each for p, each in unread.items() if each[0] < each[1]}
    ends, sizes = high_watermarks(admin, topic, behind), log_sizes(admin, topic)
    first_at = first_timestamps(connection, topic, {p: (starts[p], ends[p]) for p in behind})
    logs = [
        UnreadLog(
            unread_at.get(p), first_at.get(p), sizes.get((leaders[p], p), 0), (end - first) / (ends[p] - starts[p])
        )
        for p, (first, end) in behind.items()
    ]
    return earliest(logs, age, size, datetime.now(UTC))

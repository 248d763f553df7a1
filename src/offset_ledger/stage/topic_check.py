"""Checks that the topic still has the planned ranges, before they are read and after."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Self

from offset_ledger.connections import Connection
from offset_ledger.errors import LostRange, OffsetExpired, TopicRecreated
from offset_ledger.kafka.client import KafkaClient, connect_kafka
from offset_ledger.model.batch import Batch
from offset_ledger.model.log_checks import check_truncation
from offset_ledger.model.snapshot import TopicSnapshot, topic_of
from offset_ledger.retry import retrying

_RECENT_SECONDS = 5.0  # a client that was idle for longer may have lost its connections


class TopicChecks:
    """Checks of a topic by one client, which a check within :data:`_RECENT_SECONDS` of the last one uses again.

    The client is closed at the end of the ``with`` block.
    """

    def __init__(self, connection: Connection, topic: str) -> None:
        self.connection = connection
        self._topic = topic
        self._opened = ExitStack()
        self._kafka: KafkaClient | None = None
        self._last: tuple[float, TopicSnapshot] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def check(self, batch: Batch, read: bool = False) -> TopicSnapshot:
        """Check that the topic still has the planned ranges: a reader by itself reads a recreated topic silently.

        A range that seems to end too early is checked again for a while: after a leader change an answer may be an old
        one. Of ranges that were ``read``, where every missing offset shows, the log may start later now: what retention
        deletes after the read is no loss.

        Raises:
            TopicRecreated, OffsetExpired, LogTruncated, LostRange: what was planned is no longer there.
            BrokerUnavailable: no answer in time.
        """
        if self._kafka is None or not self._is_recent():
            self._opened.close()
            self._kafka = self._opened.enter_context(connect_kafka(self.connection))
        kafka, waiting_for = self._kafka, f"the leaders of {self._topic} to know the planned ranges"
        retries = retrying(_may_be_stale, waiting_for, max_seconds=10)
        snapshot: TopicSnapshot = retries(lambda: _check(kafka, self._topic, batch, read))
        self._last = time.monotonic(), snapshot
        return snapshot

    def recent(self, batch: Batch) -> TopicSnapshot:
        """Return the snapshot of the last check, if that was just now, or of another one."""
        return self._last[1] if self._last and self._is_recent() else self.check(batch)

    def _is_recent(self) -> bool:
        return self._last is not None and time.monotonic() - self._last[0] < _RECENT_SECONDS


def _may_be_stale(error: BaseException) -> bool:
    return type(error) is LostRange


def _check(kafka: KafkaClient, topic: str, batch: Batch, read: bool) -> TopicSnapshot:
    snapshot = kafka.snapshot(topic)
    check_topic(batch, snapshot)
    needed = {r.partition: r.until_offset for r in batch.ranges}
    check_truncation(topic, needed, batch.epochs, kafka.epoch_ends(topic, batch.epochs), "planned")
    check_ranges(batch, snapshot, read)
    return snapshot


def check_topic(batch: Batch, snapshot: TopicSnapshot) -> None:
    """Compare the topic of a batch with the one that is there now.

    Raises:
        TopicRecreated: it is another one of the same name.
    """
    planned, _ = topic_of(batch.topic_id)
    if planned != snapshot.topic_id:
        raise TopicRecreated(
            f"topic {snapshot.topic} was recreated since batch {batch.batch_id} was planned: topic id {planned} "
            f"then, {snapshot.topic_id} now; nothing was committed; abandon the batch"
        )


def check_ranges(batch: Batch, snapshot: TopicSnapshot, read: bool = False) -> None:
    """Compare the planned ranges with a later snapshot; without the log start where they were ``read``.

    Raises:
        OffsetExpired, LostRange: what was planned is no longer there.
    """
    partitions = {p.partition: p for p in snapshot.partitions}
    for r in batch.ranges:
        at = partitions.get(r.partition)
        if at is None or at.last_stable < r.until_offset:
            end = "is missing" if at is None else f"is stable only up to {at.last_stable}"
            raise LostRange(
                f"topic {snapshot.topic}: range {r} was planned, but the partition {end}; the log was cut off after "
                f"batch {batch.batch_id} was planned; nothing was committed"
            )
        if at.log_start > r.from_offset and not read:
            raise OffsetExpired(
                f"topic {snapshot.topic} partition {r.partition}: range {r} was planned, but the log starts at "
                f"{at.log_start} now; {min(at.log_start, r.until_offset) - r.from_offset} offsets are gone; nothing "
                "was committed; abandon the batch and plan again"
            )

"""Whether the topic still has the planned ranges, checked before they are read and after."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from offset_ledger.connections import Connection
from offset_ledger.errors import LostRange, OffsetExpired, TopicRecreated, TransientError, UnknownTopic
from offset_ledger.kafka.client import KafkaClient, connect_kafka
from offset_ledger.model.batch import Batch
from offset_ledger.model.log_checks import check_truncation
from offset_ledger.model.snapshot import TopicSnapshot, topic_of
from offset_ledger.retry import retrying


def check_readable(
    connection: Connection, topic: str, batch: Batch, epochs: Mapping[int, int], read: bool = False
) -> TopicSnapshot:
    """Check that the topic still has the planned ranges: Spark itself would read a recreated topic silently.

    ``epochs`` are the leader epochs under which the ranges were planned. A range that seems to end too early is checked
    again for a while: after a leader change an answer may be an old one. Of ranges that were ``read``, where every
    missing offset shows, the log may start later now: what retention deletes after the read is no loss.

    Raises:
        TopicRecreated, OffsetExpired, LogTruncated, LostRange: what was planned is no longer there.
        BrokerUnavailable: no answer in time.
    """
    retries = retrying(_may_be_stale, f"the leaders of {topic} to know the planned ranges", max_seconds=10)
    with connect_kafka(connection) as kafka:
        snapshot: TopicSnapshot = retries(lambda: _check(kafka, topic, batch, epochs, read))
    return snapshot


@contextmanager
def losses_checked(check: Callable[[], object], transient: type[TransientError]) -> Iterator[None]:
    """Let ``check`` look for a loss that the read reports: it raises if the topic has it too; else it is ``transient``.

    A read reports one too when a leader was away for longer than its timeout, or answered from an old log.
    """
    try:
        yield
    except (LostRange, UnknownTopic) as error:
        check()
        raise transient(
            f"{error}; the topic has every planned range, so a broker was away or answered from an old log; "
            "stage the batch again"
        ) from error


def _may_be_stale(error: BaseException) -> bool:
    return type(error) is LostRange


def _check(kafka: KafkaClient, topic: str, batch: Batch, epochs: Mapping[int, int], read: bool) -> TopicSnapshot:
    snapshot = kafka.snapshot(topic)
    check_topic(batch, snapshot)
    needed = {r.partition: r.until_offset for r in batch.ranges}
    check_truncation(topic, needed, epochs, kafka.epoch_ends(topic, epochs), "planned")
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

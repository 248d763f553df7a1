"""Transactions: the open ones as partitions and coordinators have them, and those that a log has records of."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kafka import TopicPartition
from kafka import errors as kafka_errors
from kafka.protocol.consumer import FetchRequest, IsolationLevel
from kafka.record import MemoryRecords

from offset_ledger.model.ranges import OffsetRange
from offset_ledger.outside.kafka.python_client import Admin
from offset_ledger.outside.kafka.topics import describe_available_topic, leaders

_Fetched = FetchRequest.FetchTopic.FetchPartition

_OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
_COORDINATORS = "__transaction_state"
_FETCHED_BYTES = 1 << 20


class OpenWrite(NamedTuple):
    """A transaction that is open on a partition, by its producer and its first offset there."""

    partition: int
    producer_id: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class CoordinatedTransaction:
    """A transaction as its coordinator has it; moments and the timeout are in milliseconds."""

    transactional_id: str
    state: str
    start_ms: int
    timeout_ms: int


def open_writes(admin: Admin, topic: str, partitions: Iterable[int]) -> dict[OpenWrite, int]:
    """The transactions that are open on these partitions, each with the timestamp of its last write."""
    places = [TopicPartition(topic, partition) for partition in partitions]
    return {
        OpenWrite(tp.partition, producer.producer_id, producer.current_transaction_start_offset): int(
            producer.last_timestamp
        )
        for tp, state in admin.client.describe_producers(places).items()
        for producer in state.active_producers
        if producer.current_transaction_start_offset >= 0
    }


def has_transaction(admin: Admin, topic: str, offsets: OffsetRange) -> bool:
    """Return whether these offsets have a record batch or a marker of a transaction, as each batch tells."""
    leader = leaders(describe_available_topic(admin, topic))[offsets.partition]
    position = offsets.from_offset
    while position < offsets.until_offset:
        place = _Fetched(partition=offsets.partition, fetch_offset=position, partition_max_bytes=_FETCHED_BYTES)
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=_FETCHED_BYTES,
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            session_id=0,
            session_epoch=-1,  # no session
            topics=[(topic, [place])],
            forgotten_topics_data=[],
            rack_id="",
            max_version=12,  # the last one with names of topics
        )
        (answer,) = admin.send(request, leader).responses[0].partitions
        if answer.error_code:
            raise kafka_errors.for_code(answer.error_code)(f"{topic} {offsets.partition}")
        before, records = position, MemoryRecords(answer.records)
        while batch := records.next_batch():
            if batch.magic >= 2 and batch.is_transactional:
                return True
            position = batch.next_offset
        if position == before:
            return False
    return False


def coordinated_transactions(
    admin: Admin, topic: str, producer_ids: Iterable[int]
) -> dict[tuple[int, int], CoordinatedTransaction] | None:
    """The open transactions of these producers by (partition, producer id); None if not every coordinator answers."""
    coordinators = _coordinators(admin)
    try:
        listed = admin.client.list_transactions(producer_id_filters=list(producer_ids))
    except kafka_errors.UnsupportedVersionError:
        return None
    ids = [each.transactional_id for batch in listed.values() for each in batch if each.state.value in _OPEN_STATES]
    described = admin.client.describe_transactions(ids)
    if None in coordinators or coordinators != _coordinators(admin):
        return None
    return {
        (tp.partition, each.producer_id): CoordinatedTransaction(
            transactional_id, each.state.value, int(each.transaction_start_time_ms), int(each.transaction_timeout_ms)
        )
        for transactional_id, each in described.items()
        for tp in each.topic_partitions
        if each.state.value in _OPEN_STATES and tp.topic == topic
    }


def _coordinators(admin: Admin) -> list[int | None]:
    """The brokers that coordinate transactions; None for each that is unavailable, or if this login may not know."""
    (described,) = admin.client.describe_topics([_COORDINATORS])
    error = kafka_errors.for_code(described["error_code"])
    if error is kafka_errors.UnknownTopicOrPartitionError:
        return []  # nobody ever began a transaction here
    if error is not kafka_errors.NoError:
        return [None]
    partitions = sorted(described["partitions"], key=lambda p: p["partition_index"])
    return [p["leader_id"] if p["leader_id"] >= 0 else None for p in partitions]

"""Open transactions: as the partitions have them, and as their coordinators have them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kafka import TopicPartition
from kafka import errors as kafka_errors

from offset_ledger.kafka.python_client import Admin

_OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
_COORDINATORS = "__transaction_state"


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
    """The brokers that coordinate transactions; None for each that is away, or if this login may not know."""
    (described,) = admin.client.describe_topics([_COORDINATORS])
    error = kafka_errors.for_code(described["error_code"])
    if error is kafka_errors.UnknownTopicOrPartitionError:
        return []  # nobody ever began a transaction here
    if error is not kafka_errors.NoError:
        return [None]
    partitions = sorted(described["partitions"], key=lambda p: p["partition_index"])
    return [p["leader_id"] if p["leader_id"] >= 0 else None for p in partitions]

"""Transactions that are open on partitions, and whether a coordinator will end them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from kafka import KafkaAdminClient, TopicPartition
from kafka import errors as kafka_errors

from offset_ledger.model import moments
from offset_ledger.reliability.audit.facts import OpenTransaction, Owner

_OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
_COORDINATORS = "__transaction_state"

Owners = Mapping[tuple[TopicPartition, int], Owner]


def open_transactions(
    client: KafkaAdminClient, places: list[TopicPartition]
) -> dict[TopicPartition, tuple[OpenTransaction, ...]]:
    """Open transactions by partition; one is hanging if every coordinator was heard and none has that partition in it.

    A partition is known to its coordinator before it is written and until its marker is there. So one that is open
    before and after the coordinators were asked, and unknown to them, belongs to a transaction that is long over.
    """
    before = _open(client, places)
    if not before:
        return {}
    owners = _owners(client, sorted({producer for _, producer, _ in before}))
    still = {key: at for key, at in _open(client, places).items() if key in before}
    found: dict[TopicPartition, tuple[OpenTransaction, ...]] = {}
    for (tp, producer, start), last_write in sorted(still.items()):
        owner = owners.get((tp, producer)) if owners is not None else None
        hanging = owners is not None and owner is None
        found[tp] = (*found.get(tp, ()), OpenTransaction(producer, start, last_write, owner, hanging))
    return found


def _open(client: KafkaAdminClient, places: list[TopicPartition]) -> dict[tuple[TopicPartition, int, int], datetime]:
    return {
        (tp, each.producer_id, each.current_transaction_start_offset): moment(each.last_timestamp) or datetime.now(UTC)
        for tp, state in client.describe_producers(places).items()
        for each in state.active_producers
        if each.current_transaction_start_offset >= 0
    }


def _owners(client: KafkaAdminClient, producers: list[int]) -> Owners | None:
    """The coordinators' transactions by partition and producer; None if not all coordinators can be heard."""
    leaders = _coordinators(client)
    try:
        listed = client.list_transactions(producer_id_filters=producers)
    except kafka_errors.UnsupportedVersionError:
        return None
    ids = [each.transactional_id for found in listed.values() for each in found if each.state.value in _OPEN_STATES]
    described = client.describe_transactions(ids)
    if None in leaders or leaders != _coordinators(client):
        return None
    return {
        (tp, each.producer_id): Owner(
            transactional_id,
            each.state.value,
            moment(each.transaction_start_time_ms) or datetime.now(UTC),
            timedelta(milliseconds=each.transaction_timeout_ms),
        )
        for transactional_id, each in described.items()
        for tp in each.topic_partitions
        if each.state.value in _OPEN_STATES
    }


def _coordinators(client: KafkaAdminClient) -> list[int | None]:
    """The brokers that coordinate transactions; None for each that is away, or if we may not know."""
    (found,) = client.describe_topics([_COORDINATORS])
    error = kafka_errors.for_code(found["error_code"])
    if error is kafka_errors.UnknownTopicOrPartitionError:
        return []  # nobody ever began a transaction here
    if error is not kafka_errors.NoError:
        return [None]
    partitions = sorted(found["partitions"], key=lambda p: p["partition_index"])
    return [p["leader_id"] if p["leader_id"] >= 0 else None for p in partitions]


def moment(milliseconds: int) -> datetime | None:
    """A record timestamp; None for the broker's -1."""
    return moments.moment(milliseconds) if milliseconds >= 0 else None

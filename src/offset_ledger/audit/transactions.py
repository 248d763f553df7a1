"""Transactions that are open on partitions, and whether anybody will end them."""

from __future__ import annotations

from datetime import UTC, datetime

from kafka import KafkaAdminClient, TopicPartition
from kafka import errors as kafka_errors

from offset_ledger.audit.facts import OpenTransaction

_OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


def open_transactions(
    client: KafkaAdminClient, places: list[TopicPartition]
) -> dict[TopicPartition, tuple[OpenTransaction, ...]]:
    """Open transactions by partition; one that its coordinator does not know, asked before and after, is hanging."""
    before = _open(client, places)
    if not before:
        return {}
    asked = sorted({producer for _, producer, _ in before})
    try:
        listed = client.list_transactions(producer_id_filters=asked)
    except kafka_errors.UnsupportedVersionError:
        known = set(asked)
    else:
        known = {each.producer_id for found in listed.values() for each in found if each.state.value in _OPEN_STATES}
    # What ended in between is not listed any more, and not open either.
    still = {key: at for key, at in _open(client, places).items() if key in before}
    found: dict[TopicPartition, tuple[OpenTransaction, ...]] = {}
    for (tp, producer, start), last_write in sorted(still.items()):
        transaction = OpenTransaction(producer, start, last_write, producer in known)
        found[tp] = (*found.get(tp, ()), transaction)
    return found


def _open(client: KafkaAdminClient, places: list[TopicPartition]) -> dict[tuple[TopicPartition, int, int], datetime]:
    return {
        (tp, each.producer_id, each.current_transaction_start_offset): moment(each.last_timestamp) or datetime.now(UTC)
        for tp, state in client.describe_producers(places).items()
        for each in state.active_producers
        if each.current_transaction_start_offset >= 0
    }


def moment(milliseconds: int) -> datetime | None:
    """A record timestamp; None for the broker's -1."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds >= 0 else None

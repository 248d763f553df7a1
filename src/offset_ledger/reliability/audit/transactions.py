"""Transactions that are open on partitions, and whether a coordinator will end them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from offset_ledger.kafka.admin import Admin
from offset_ledger.kafka.transactions import CoordinatedTransaction, coordinated_transactions, open_writes
from offset_ledger.model import moments
from offset_ledger.reliability.audit.facts import OpenTransaction, Owner


def find_open_transactions(
    admin: Admin, topic: str, partitions: Iterable[int]
) -> dict[int, tuple[OpenTransaction, ...]]:
    """Open transactions by partition; one is hanging if every coordinator answered and none has that partition in it.

    A partition is known to its coordinator before it is written and until its marker is there. So one that is open
    before and after the coordinators were asked, and unknown to them, belongs to a transaction that is long over.
    """
    partitions = list(partitions)
    before = open_writes(admin, topic, partitions)
    if not before:
        return {}
    coordinated = coordinated_transactions(admin, topic, sorted({write.producer_id for write in before}))
    still = {write: last_ms for write, last_ms in open_writes(admin, topic, partitions).items() if write in before}
    transactions: dict[int, tuple[OpenTransaction, ...]] = {}
    for write, last_ms in sorted(still.items()):
        known = coordinated.get((write.partition, write.producer_id)) if coordinated is not None else None
        transaction = OpenTransaction(
            write.producer_id,
            write.start_offset,
            _moment_or_now(last_ms),
            _owner(known) if known else None,
            hanging=coordinated is not None and known is None,
        )
        transactions[write.partition] = (*transactions.get(write.partition, ()), transaction)
    return transactions


def _owner(known: CoordinatedTransaction) -> Owner:
    begun_at, timeout = _moment_or_now(known.start_ms), timedelta(milliseconds=known.timeout_ms)
    return Owner(known.transactional_id, known.state, begun_at, timeout)


def _moment_or_now(milliseconds: int) -> datetime:
    return moments.moment_or_none(milliseconds) or datetime.now(UTC)

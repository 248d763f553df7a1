"""A producer's settings, and the rules for them: each unsafe combination names its danger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
MAX_IN_FLIGHT = 5  # the batches that a broker remembers of one idempotent producer and partition
MIN_DELIVERY_TIMEOUT_MS = 15_000  # a broker that died is noticed after 9 s by default; then comes the election
MAX_BLOCK_MS_RANGE = (1_000, 60_000)


class Client(StrEnum):
    """What can publish in bulk."""

    LIBRDKAFKA = "librdkafka"
    KAFKA_PYTHON = "kafka-python"


class Danger(StrEnum):
    """What can happen, and the name by which it is allowed."""

    LOSS = "loss"
    DUPLICATE = "duplicate"
    REORDERING = "reordering"
    BLOCKING = "blocking"


class Problem(NamedTuple):
    """One combination that is refused. ``danger`` is None where Kafka itself refuses it: nobody can allow that."""

    danger: Danger | None
    line: str

    def __str__(self) -> str:
        return f"{self.danger}: {self.line}, or --allow {self.danger}" if self.danger else self.line


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """Kafka's settings of a producer, under its own names with underscores; times in milliseconds, sizes in bytes."""

    acks: str = "all"
    enable_idempotence: bool = True
    max_in_flight_requests_per_connection: int = MAX_IN_FLIGHT
    retries: int = 2**31 - 1
    delivery_timeout_ms: int = 60_000
    request_timeout_ms: int = 30_000
    linger_ms: int = 50
    retry_backoff_ms: int = 100
    max_block_ms: int = 60_000
    batch_size: int = 512 * 1024
    max_request_size: int = 4 * 1024 * 1024
    compression_type: str = "none"
    transaction_timeout_ms: int = 60_000

    def problems(self, transactional: bool = False) -> Iterator[Problem]:
        """All that is unsafe or contradicts itself."""
        for rule in _RULES:
            yield from rule(self)
        if transactional:
            yield from _transactional(self)


def _acks(s: ProducerSettings) -> Iterator[Problem]:
    if s.acks == "0":
        yield Problem(Danger.LOSS, "acks=0 waits for no answer, so what no broker stored counts as sent; use acks=all")
    if s.acks == "1":
        yield Problem(
            Danger.LOSS, "acks=1 asks the leader alone, and what it had not copied is gone if it dies; use acks=all"
        )


def _idempotence(s: ProducerSettings) -> Iterator[Problem]:
    resends = s.retries > 0 and s.acks != "0"
    if s.enable_idempotence and s.acks != "all":
        yield Problem(None, f"enable.idempotence=true needs acks=all, found acks={s.acks}")
    if s.enable_idempotence and s.retries == 0:
        yield Problem(None, "enable.idempotence=true needs retries, found retries=0")
    if not s.enable_idempotence and resends:
        yield Problem(
            Danger.DUPLICATE,
            "without idempotence a retry stores the record twice if only the answer was lost; "
            "leave enable.idempotence on, with acks=all",
        )


def _in_flight(s: ProducerSettings) -> Iterator[Problem]:
    count = s.max_in_flight_requests_per_connection
    if count < 1:
        yield Problem(None, f"max.in.flight.requests.per.connection={count} lets nothing be sent; use 1 to 5")
    elif s.enable_idempotence and count > MAX_IN_FLIGHT:
        yield Problem(
            None,
            f"enable.idempotence=true keeps the order of at most {MAX_IN_FLIGHT} requests, found "
            f"max.in.flight.requests.per.connection={count}",
        )
    elif not s.enable_idempotence and count > 1 and s.retries > 0 and s.acks != "0":
        yield Problem(
            Danger.REORDERING,
            f"without idempotence a retry may overtake one of {count} requests in flight; leave enable.idempotence "
            "on, or set max.in.flight.requests.per.connection=1",
        )


def _retries(s: ProducerSettings) -> Iterator[Problem]:
    if s.retries == 0 and not s.enable_idempotence:
        yield Problem(
            Danger.LOSS, "retries=0 gives a record up at the first fault, even one that passes; leave retries unset"
        )


def _delivery(s: ProducerSettings) -> Iterator[Problem]:
    needed = s.linger_ms + s.request_timeout_ms
    if s.delivery_timeout_ms < needed:
        yield Problem(
            None,
            f"delivery.timeout.ms={s.delivery_timeout_ms} must be at least linger.ms + request.timeout.ms = "
            f"{s.linger_ms} + {s.request_timeout_ms} = {needed}",
        )
    if s.delivery_timeout_ms < MIN_DELIVERY_TIMEOUT_MS:
        yield Problem(
            Danger.LOSS,
            f"delivery.timeout.ms={s.delivery_timeout_ms} gives records up before a new leader can be elected; "
            f"use {MIN_DELIVERY_TIMEOUT_MS} or more",
        )


def _block(s: ProducerSettings) -> Iterator[Problem]:
    lowest, highest = MAX_BLOCK_MS_RANGE
    if s.max_block_ms > highest:
        yield Problem(
            Danger.BLOCKING,
            f"max.block.ms={s.max_block_ms} lets send() block that long while no broker answers about the "
            f"topic; use {highest} or less",
        )
    if s.max_block_ms < lowest:
        yield Problem(
            Danger.LOSS,
            f"max.block.ms={s.max_block_ms} gives a record up before a busy broker has answered about the topic; "
            f"use {lowest} or more",
        )


def _transactional(s: ProducerSettings) -> Iterator[Problem]:
    if not s.enable_idempotence or s.acks != "all":
        yield Problem(None, "a transactional id needs enable.idempotence=true and acks=all")
    if s.transaction_timeout_ms < s.delivery_timeout_ms:
        yield Problem(
            None,
            f"transaction.timeout.ms={s.transaction_timeout_ms} must be at least delivery.timeout.ms="
            f"{s.delivery_timeout_ms}, or the broker aborts while records are still sent again",
        )


_RULES: tuple[Callable[[ProducerSettings], Iterator[Problem]], ...] = (
    _acks,
    _idempotence,
    _in_flight,
    _retries,
    _delivery,
    _block,
)

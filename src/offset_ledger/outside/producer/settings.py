"""A producer's settings, and the rules for them: each unsafe combination names its danger, by which it is allowed.

By danger, because settings are safe only together: clients accept acks=1, which silently turns idempotence off, so that
records are lost, duplicated and reordered. Allowing the loss does not allow duplicates and another order.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, NamedTuple

from offset_ledger.errors import UnsafeSettings

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
MAX_IN_FLIGHT = 5  # the batches that a broker remembers of one idempotent producer and partition
MIN_DELIVERY_TIMEOUT_MS = 15_000  # a broker that died is noticed after 9 s by default; then comes the election
MAX_BLOCK_MS_RANGE = (1_000, 60_000)
_OF_LIBRDKAFKA = {"max.request.size": "message.max.bytes"}  # its name for it, which connections may have
_LARGEST = 2**31 - 1  # of the protocol: a larger number fails only when the client sends it


class Danger(StrEnum):
    """A danger of settings, and the name by which it is allowed."""

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
        """Return all that is unsafe or contradicts itself."""
        yield from _of_acknowledgements(self)
        yield from _of_time(self)
        if transactional and (not self.enable_idempotence or self.acks != "all"):
            yield Problem(None, "a transactional id needs enable.idempotence=true and acks=all")
        if transactional and self.transaction_timeout_ms < self.delivery_timeout_ms:
            yield Problem(
                None,
                f"transaction.timeout.ms={self.transaction_timeout_ms} must be at least delivery.timeout.ms="
                f"{self.delivery_timeout_ms}, or the broker aborts while records are still sent again",
            )


def _of_acknowledgements(s: ProducerSettings) -> Iterator[Problem]:
    if s.acks == "0":
        yield Problem(Danger.LOSS, "acks=0 waits for no answer, so what no broker stored counts as sent; use acks=all")
    if s.acks == "1":
        yield Problem(
            Danger.LOSS, "acks=1 asks the leader alone, and what it had not copied is gone if it dies; use acks=all"
        )
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
    count = s.max_in_flight_requests_per_connection
    if count < 1:
        yield Problem(None, f"max.in.flight.requests.per.connection={count} lets nothing be sent; use 1 to 5")
    elif s.enable_idempotence and count > MAX_IN_FLIGHT:
        yield Problem(
            None,
            f"enable.idempotence=true keeps the order of at most {MAX_IN_FLIGHT} requests, found "
            f"max.in.flight.requests.per.connection={count}",
        )
    elif not s.enable_idempotence and count > 1 and resends:
        yield Problem(
            Danger.REORDERING,
            f"without idempotence a retry may overtake one of {count} requests in flight; leave enable.idempotence "
            "on, or set max.in.flight.requests.per.connection=1",
        )
    if s.retries == 0 and not s.enable_idempotence:
        yield Problem(
            Danger.LOSS, "retries=0 gives a record up at the first fault, even one that passes; leave retries unset"
        )


def _of_time(s: ProducerSettings) -> Iterator[Problem]:
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


def dotted(field_name: str) -> str:
    """Kafka's name of a field: ``max.block.ms`` of ``max_block_ms``."""
    return field_name.replace("_", ".")


def read_settings(
    connection: Mapping[str, str],
    given: Mapping[str, str] | None = None,
    *,
    allow: Collection[str] = (),
    transactional: bool = False,
) -> ProducerSettings:
    """Return the settings that ``given`` and, after it, the connection's extra name, with safe defaults for the others.

    Raises:
        UnsafeSettings: with every mistake: a name or value that is none, and each combination that is not allowed.
    """
    given = given or {}
    known = {dotted(each.name): each.name for each in fields(ProducerSettings)}
    mistakes = []
    for name in (name for name in given if name not in known):
        close = get_close_matches(name, known, 1)
        advice = f"is {close[0]} meant?" if close else f"there are {', '.join(known)}"
        mistakes.append(f"{name} is no setting of a producer; {advice}")
    mistakes += [f"{name!r} is no danger; allow {', '.join(Danger)}" for name in allow if name not in list(Danger)]
    values: dict[str, Any] = {}
    for name, field_name in known.items():
        text = given.get(name, connection.get(name, connection.get(_OF_LIBRDKAFKA.get(name, name))))
        if text is not None:
            try:
                values[field_name] = _READERS.get(name, _whole_number)(text.strip())
            except ValueError as error:
                mistakes.append(f"{name}={text} should be {error}")
    # Off, as the Java client does, where a setting cannot go with it; the rules then say what that means.
    in_flight = values.get("max_in_flight_requests_per_connection", MAX_IN_FLIGHT)
    may = values.get("acks", "all") == "all" and values.get("retries", 1) > 0 and in_flight <= MAX_IN_FLIGHT
    values.setdefault("enable_idempotence", transactional or may)
    settings = ProducerSettings(**values)
    mistakes += [str(problem) for problem in settings.problems(transactional) if problem.danger not in allow]
    if mistakes:
        raise UnsafeSettings(mistakes)
    return settings


def _whole_number(text: str) -> int:
    if not text.isdecimal() or int(text) > _LARGEST:
        raise ValueError(f"a whole number up to {_LARGEST}")
    return int(text)


def _one_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return text

    return read


_READERS: Mapping[str, Callable[[str], Any]] = {
    "acks": lambda text: _one_of("all", "0", "1")("all" if text == "-1" else text),
    "enable.idempotence": lambda text: _one_of("true", "false")(text.lower()) == "true",
    "compression.type": _one_of(*COMPRESSIONS),
}

"""Publishing records so that each is acknowledged by all in-sync replicas, or is told to have failed."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from kafka import errors as kafka_errors
from kafka.producer.future import FutureRecordMetadata

from offset_ledger.errors import TransientError
from offset_ledger.publishing.clients import DELIVERY_SECONDS, connect_producer, one_line, within
from offset_ledger.publishing.progress import OnProgress
from offset_ledger.publishing.record import Record

log = logging.getLogger(__name__)

OnAck = Callable[[Record, int, int], None]
"""Called with the record, its partition and its offset, in the order of sending."""

_CLOSE_SECONDS = 5
# kafka-python has no bound of its own on what waits for an answer.
_MAX_WAITING = 20_000
_MAX_WAITING_BYTES = 64 * 1024 * 1024
_SETTLE_EVERY = 1_000


@dataclass(frozen=True, slots=True)
class Summary:
    """What was published: records acknowledged, the bytes of their values, and the time it took."""

    records: int
    value_bytes: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Records a second."""
        return self.records / self.seconds if self.seconds else 0.0


class PublishFailed(TransientError):
    """Not every record was acknowledged; ``unconfirmed`` are the records that may or may not be in the topic."""

    def __init__(self, topic: str, acknowledged: int, unconfirmed: Sequence[Record], cause: BaseException) -> None:
        self.acknowledged = acknowledged
        self.unconfirmed = tuple(unconfirmed)
        super().__init__(
            f"publishing to {topic!r}: {acknowledged} records were acknowledged and {len(self.unconfirmed)} were not "
            f"({one_line(cause)}); when the brokers are well, publish these again: their event ids make copies harmless"
        )


class TransactionOutcomeUnknown(TransientError):
    """The broker did not say whether the transaction was committed or aborted."""


def publish(
    records: Iterable[Record],
    extra: Mapping[str, str],
    topic: str,
    *,
    transactional_id: str | None = None,
    on_progress: OnProgress | None = None,
    on_ack: OnAck | None = None,
) -> Summary:
    """Publish all records; with a transactional id all in one transaction. Returns when each is acknowledged.

    Raises:
        PublishFailed: some were not acknowledged; a transaction was aborted.
        TransactionOutcomeUnknown: the commit was not answered; read back before publishing again.
        BrokerUnavailable: no broker answered.
    """
    with Publisher(
        extra, topic, transactional_id=transactional_id, on_progress=on_progress, on_ack=on_ack
    ) as publisher:
        for record in records:
            publisher.send(record)
        publisher.finish()
    return publisher.summary


def publish_aborted(
    records: Iterable[Record],
    extra: Mapping[str, str],
    topic: str,
    *,
    transactional_id: str,
    on_ack: OnAck | None = None,
) -> Summary:
    """Publish all records in one transaction and abort it, so that no reader of committed data meets them.

    Raises:
        PublishFailed, TransactionOutcomeUnknown, BrokerUnavailable: as :func:`publish`.
    """
    with Publisher(extra, topic, transactional_id=transactional_id, on_ack=on_ack) as publisher:
        for record in records:
            publisher.send(record)
        publisher.finish(commit=False)
    return publisher.summary


class Publisher:
    """Sends records to one topic and answers for each; with a transactional id its whole life is one transaction.

    One producer object per transaction: no Python client can tell the late end of one transaction from the next one's.
    """

    def __init__(
        self,
        extra: Mapping[str, str],
        topic: str,
        *,
        transactional_id: str | None = None,
        on_progress: OnProgress | None = None,
        on_ack: OnAck | None = None,
    ) -> None:
        self._topic = topic
        self._on_progress = on_progress
        self._on_ack = on_ack
        self._waiting: deque[tuple[Record, FutureRecordMetadata]] = deque()
        self._failed: list[Record] = []
        self._cause: Exception | None = None
        self._waiting_bytes = self._sent = self._acknowledged = self._value_bytes = 0
        self._began = time.monotonic()
        self._producer = connect_producer(extra, transactional_id)
        self._open_transaction = transactional_id is not None

    def send(self, record: Record) -> None:
        """Hand over one record; blocks while too many wait for their answer.

        Raises:
            PublishFailed: an earlier record, or this one, was not acknowledged.
        """
        value, headers = record.value, list(record.headers)
        try:
            future = self._producer.send(self._topic, value, record.key, headers, record.partition, record.timestamp_ms)
        except kafka_errors.KafkaError as error:
            self._refuse(record, error)
            self._settle(0, 0)
            return
        self._waiting.append((record, future))
        self._waiting_bytes += _size(record)
        self._sent += 1
        if self._sent % _SETTLE_EVERY == 0 or self._waiting_bytes > _MAX_WAITING_BYTES:
            self._settle(_MAX_WAITING, _MAX_WAITING_BYTES)

    def flush(self) -> None:
        """Return when every record so far is acknowledged.

        Raises:
            PublishFailed: one was not.
        """
        self._settle(0, 0)

    def finish(self, commit: bool = True) -> None:
        """Return when every record is acknowledged and the transaction, if any, is committed (or aborted).

        Raises:
            PublishFailed: a record was not acknowledged.
            TransactionOutcomeUnknown: the end of the transaction was not answered.
        """
        self._settle(0, 0)
        if self._open_transaction:
            self._open_transaction = False
            self._end("commit" if commit else "abort")

    @property
    def summary(self) -> Summary:
        """What was acknowledged so far."""
        return Summary(self._acknowledged, self._value_bytes, time.monotonic() - self._began)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._open_transaction:
                self._give_up()
            elif error is None:
                self._settle(0, 0)
        finally:
            self._close(_CLOSE_SECONDS if error else DELIVERY_SECONDS)

    def _give_up(self) -> None:
        self._open_transaction = False
        try:
            self._end("abort")
        except TransactionOutcomeUnknown as unknown:
            log.warning("%s; the broker aborts it by itself after its timeout", unknown)

    def _close(self, seconds: float) -> None:
        try:
            self._producer.close(timeout=seconds)
        except kafka_errors.KafkaTimeoutError as late:
            log.warning("the producer for %r was closed with records unanswered (%s)", self._topic, one_line(late))

    def _settle(self, most: int, most_bytes: int) -> None:
        """Take off what was answered, and wait while more than that many records or bytes were not."""
        waiting, before = self._waiting, self._acknowledged
        while waiting and (waiting[0][1].is_done or len(waiting) > most or self._waiting_bytes > most_bytes):
            record, future = waiting.popleft()
            self._waiting_bytes -= _size(record)
            try:
                found = future.get(DELIVERY_SECONDS + 10)
            except kafka_errors.KafkaError as error:
                self._refuse(record, error)
                most = most_bytes = 0  # nothing more is sent: learn what became of the rest
            else:
                self._accept(record, found.partition, found.offset)
        if self._on_progress and self._acknowledged > before:
            self._on_progress(self._acknowledged - before)
        if self._cause:
            raise PublishFailed(self._topic, self._acknowledged, self._failed, self._cause)

    def _accept(self, record: Record, partition: int, offset: int) -> None:
        self._acknowledged += 1
        self._value_bytes += _size(record)
        if self._on_ack:
            self._on_ack(record, partition, offset)

    def _refuse(self, record: Record, error: Exception) -> None:
        self._failed.append(record)
        self._cause = self._cause or error

    def _end(self, how: str) -> None:
        act = self._producer.commit_transaction if how == "commit" else self._producer.abort_transaction
        try:
            within(DELIVERY_SECONDS, act)
        except (kafka_errors.KafkaError, TimeoutError) as error:
            raise TransactionOutcomeUnknown(
                f"the {how} of a transaction on {self._topic!r} was not confirmed ({one_line(error)}); "
                "read the topic back before publishing the same records again"
            ) from error


def _size(record: Record) -> int:
    return len(record.value or b"")

"""Publishing records so that each is acknowledged by all in-sync replicas, or reported as failed."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from kafka import errors as kafka_errors
from kafka.partitioner import Partitioner

from offset_ledger.errors import (
    OffsetLedgerError,
    ProducerFenced,
    TransactionOutcomeUnknown,
    error_line,
)
from offset_ledger.progress import OnProgress
from offset_ledger.reliability.publishing.clients import close_producer, connect_producer, retried, within
from offset_ledger.reliability.publishing.failures import fenced, publish_failed
from offset_ledger.reliability.publishing.limits import RecordLimits, RecordTooLarge, check_timestamp, fetch_bytes
from offset_ledger.reliability.publishing.outbox import Acknowledged, OnAck, OnError, Outbox, Summary
from offset_ledger.reliability.publishing.record import Record
from offset_ledger.reliability.publishing.settings import ProducerSettings
from offset_ledger.reliability.publishing.settings_reader import read_settings

log = logging.getLogger(__name__)

_CLOSE_SECONDS = 5


def publish(records: Iterable[Record], extra: Mapping[str, str], topic: str, **options: Any) -> Summary:
    """Publish all records; with a transactional id all in one transaction. Returns when each is acknowledged.

    The options are those of :class:`Publisher`.

    Raises:
        PublishFailed: some were not acknowledged; a transaction was aborted.
        TransactionOutcomeUnknown: the commit was not answered; read back before publishing again.
        ProducerFenced: a newer producer has the transactional id.
        BrokerUnavailable: no broker answered.
        UnsafeSettings: the connection's extra names a setting that is refused.
    """
    return _publish(records, Publisher(extra, topic, **options), commit=True)


def publish_aborted(
    records: Iterable[Record], extra: Mapping[str, str], topic: str, *, transactional_id: str, **options: Any
) -> Summary:
    """Publish all records in one transaction and abort it, so that no reader of committed data meets them.

    Raises:
        PublishFailed, TransactionOutcomeUnknown, ProducerFenced, BrokerUnavailable: as :func:`publish`.
    """
    return _publish(records, Publisher(extra, topic, transactional_id=transactional_id, **options), commit=False)


def _publish(records: Iterable[Record], publisher: Publisher, commit: bool) -> Summary:
    with publisher:
        send = publisher.send
        for record in records:
            send(record)
        publisher.finish(commit)
    return publisher.summary


class Publisher:
    """Sends records and keeps account of each; with a transactional id its whole life is one transaction.

    One producer object for each transaction: no Python client tells the late end of one from that of the next.
    ``settings`` are the safe defaults and what the connection's extra names; ``partitioner`` is the hash of the key.
    """

    def __init__(
        self,
        extra: Mapping[str, str],
        topic: str,
        *,
        transactional_id: str | None = None,
        settings: ProducerSettings | None = None,
        partitioner: Partitioner | None = None,
        limits: RecordLimits | None = None,
        on_progress: OnProgress | None = None,
        on_ack: OnAck | None = None,
        on_error: OnError | None = None,
    ) -> None:
        settings = settings or read_settings(extra, transactional=transactional_id is not None)
        self._topic = topic
        self._transactional_id = transactional_id
        self._limits = limits or RecordLimits(fetch_bytes=fetch_bytes(extra))
        self._unchecked = self._limits.unchecked(settings.compression_type)
        self._timeout = settings.delivery_timeout_ms / 1000
        self._outbox = Outbox(self._timeout, on_progress, on_ack, on_error)
        self._retried = 0
        self._began = time.monotonic()
        self._producer = connect_producer(extra, settings, transactional_id, partitioner)
        self._open_transaction = transactional_id is not None

    def send(self, record: Record) -> None:
        """Hand over one record; blocks while too many wait for their answer.

        Raises:
            PublishFailed: an earlier record, or this one, was not acknowledged.
            ProducerFenced: a newer producer has the transactional id.
        """
        value, topic = record.value, record.topic or self._topic
        size = len(value) if value else 0
        try:
            if size > self._unchecked:
                self._limits.check(record)
            check_timestamp(record)
            future = self._producer.send(
                topic, value, record.key, list(record.headers), record.partition, record.timestamp_ms
            )
        except (kafka_errors.KafkaError, RecordTooLarge, ValueError, TypeError) as error:
            self._outbox.refuse(record, error)
            self._settle()
            return
        self._outbox.add(record, size, future)
        if self._outbox.cause:
            self._settle()

    def send_and_wait(self, record: Record) -> Acknowledged:
        """Send one record and return where it is: simple, and as slow as one round trip a record.

        Raises:
            PublishFailed, ProducerFenced: as :meth:`send`.
        """
        self.send(record)
        with suppress(kafka_errors.KafkaError):  # the future of each record says what became of it
            self._producer.flush(self._timeout)
        self._settle()
        return Acknowledged(record.topic or self._topic, *self._outbox.last)

    def send_offsets(self, offsets: Mapping[Any, Any], group: Any) -> None:
        """Let a consumer group's offsets be committed with this transaction, or not at all.

        ``offsets`` are kafka-python's OffsetAndMetadata by TopicPartition, ``group`` a group id or group metadata.

        Raises:
            ProducerFenced: a newer producer has taken over.
            PublishFailed: the coordinator refused them; the transaction is aborted when this publisher is closed.
        """
        try:
            within(self._timeout, lambda: self._producer.send_offsets_to_transaction(dict(offsets), group))
        except (kafka_errors.KafkaError, TimeoutError) as error:
            raise self._failure(error) from error

    def flush(self) -> None:
        """Return when every record so far is acknowledged.

        Raises:
            PublishFailed: one was not.
        """
        self._settle()

    def finish(self, commit: bool = True) -> None:
        """Return when every record is acknowledged and the transaction, if any, is committed (or aborted).

        Raises:
            PublishFailed: a record was not acknowledged.
            TransactionOutcomeUnknown: the end of the transaction was not answered.
            ProducerFenced: a newer producer has the transactional id.
        """
        self._settle()
        if self._open_transaction:
            self._open_transaction = False
            self._end("commit" if commit else "abort")

    @property
    def summary(self) -> Summary:
        """The records so far; ``retried`` is known at the end."""
        box, seconds = self._outbox, time.monotonic() - self._began
        return Summary(box.acknowledged, box.value_bytes, seconds, len(box.failed), self._retried)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._open_transaction:
                self._give_up()
            elif error is None:
                self._settle()
        finally:
            self._retried = retried(self._producer)
            self._close(_CLOSE_SECONDS if error else self._timeout)

    def _give_up(self) -> None:
        self._open_transaction = False
        try:
            self._end("abort")
        except TransactionOutcomeUnknown as unknown:
            log.warning("%s; the broker aborts it by itself after its timeout", unknown)
        except ProducerFenced:
            log.info("nothing to abort: a newer producer has done that")

    def _close(self, seconds: float) -> None:
        late = close_producer(self._producer, seconds)
        if late:
            log.warning("the producer for %r was closed with records unanswered (%s)", self._topic, error_line(late))

    def _settle(self) -> None:
        self._outbox.settle()
        if self._outbox.cause:
            raise self._failure(self._outbox.cause)

    def _failure(self, cause: BaseException) -> OffsetLedgerError:
        return publish_failed(self._topic, self._outbox, self._transactional_id, cause)

    def _end(self, how: str) -> None:
        act = self._producer.commit_transaction if how == "commit" else self._producer.abort_transaction
        try:
            within(self._timeout, act)
        except (kafka_errors.KafkaError, TimeoutError) as error:
            raise fenced(self._transactional_id, error) or TransactionOutcomeUnknown(
                f"the {how} of a transaction on {self._topic!r} was not confirmed ({error_line(error)}); "
                "read the topic back before publishing the same records again"
            ) from error

"""Publishing in bulk by librdkafka: the settings and guarantees of Publisher, in a fraction of its processor time.

It has no transactions and no answers record by record; those, and every other use, are Publisher's. A record that one
of the two clients accepts, the other accepts too, and sends to the same partition if it has a key.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from kafka import errors as kafka_errors
from kafka.partitioner import Partitioner

from offset_ledger.connections import Connection
from offset_ledger.errors import ConfigurationError, OffsetLedgerError, one_line
from offset_ledger.kafka.client import connect_kafka
from offset_ledger.kafka.connection import librdkafka_arguments
from offset_ledger.kafka.tokens import oauth_callback
from offset_ledger.kafka.topics import topic_configs
from offset_ledger.progress import OnProgress
from offset_ledger.reliability.publishing.failures import publish_failed
from offset_ledger.reliability.publishing.limits import RecordLimits, RecordTooLarge, check_timestamp, fetch_bytes
from offset_ledger.reliability.publishing.outbox import GRACE_SECONDS, MAX_WAITING_BYTES, Outbox, Summary
from offset_ledger.reliability.publishing.partitioner import Custom, KeyHash
from offset_ledger.reliability.publishing.producer import Publisher
from offset_ledger.reliability.publishing.record import Record
from offset_ledger.reliability.publishing.settings import Client, ProducerSettings
from offset_ledger.reliability.publishing.settings_reader import dotted, read_settings

# Whatever the client logs it also says to error_cb, which makes one error of it.
if (_client_log := logging.getLogger("librdkafka")).level == logging.NOTSET:
    _client_log.setLevel(logging.CRITICAL + 1)

MAX_WAITING = 100_000  # records; librdkafka's own default
POLL_EVERY = 500
_CLOSE_SECONDS = 5
_OTHER_NAMES = {"max.request.size": "message.max.bytes"}
_OF_PUBLISHER = {"max.block.ms", "transaction.timeout.ms"}  # nothing blocks here but a full queue


def librdkafka_settings(settings: ProducerSettings) -> dict[str, object]:
    """The settings as librdkafka takes them."""
    values = {dotted(name): getattr(settings, name) for name in ProducerSettings.__dataclass_fields__}
    return {
        **{_OTHER_NAMES.get(name, name): value for name, value in values.items() if name not in _OF_PUBLISHER},
        "partitioner": "murmur2_random",  # the Java client's, as KeyHash
        "allow.auto.create.topics": False,
        "queue.buffering.max.messages": MAX_WAITING,
        "queue.buffering.max.kbytes": MAX_WAITING_BYTES // 1024,
    }


class BulkPublisher:
    """Sends records and counts what is acknowledged; what is not is kept, and reported as by Publisher."""

    def __init__(
        self,
        extra: Mapping[str, str],
        topic: str,
        *,
        settings: ProducerSettings | None = None,
        partitioner: Custom | None = None,
        limits: RecordLimits | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        settings = settings or read_settings(extra)
        connection = Connection("publisher", "kafka", extra=extra)
        with connect_kafka(connection) as kafka:
            self._partitions = len(kafka.describe(topic)["partitions"])
            configs = kafka.ask(lambda admin: topic_configs(admin, topic)).values  # none if this login may not ask
        self._topic = topic
        self._partitioner = partitioner
        self._limits = limits or RecordLimits(fetch_bytes=fetch_bytes(extra))
        self._unchecked = self._limits.unchecked(settings.compression_type)
        self._timeout = settings.delivery_timeout_ms / 1000
        self._outbox = Outbox(self._timeout, on_progress)
        self._sent = self._reported = 0
        self._trouble: KafkaError | None = None
        self._began = time.monotonic()
        # A batch above the topic's limit would fail whole: kafka-python splits it, librdkafka does not.
        topic_bytes = configs.get("max.message.bytes", settings.batch_size)
        settings = replace(settings, batch_size=min(settings.batch_size, int(topic_bytes)))
        self._no_token: OffsetLedgerError | None = None
        login = {**librdkafka_arguments(connection), **oauth_callback(connection, self._note_token)}
        self._producer = self._open({**login, **librdkafka_settings(settings)})

    def _open(self, configuration: dict[str, object]) -> Producer:
        try:
            return Producer({**configuration, "error_cb": self._note}, logger=_client_log)
        except KafkaException as error:
            raise ConfigurationError(f"librdkafka refuses the settings: {_text(error.args[0])}") from error

    def _note(self, error: KafkaError) -> None:
        """Keep what the client says of itself: a record that ran out of time does not know why."""
        if self._trouble is None or not self._trouble.fatal():
            self._trouble = error

    def _note_token(self, error: OffsetLedgerError) -> None:
        self._no_token = error

    def send(self, record: Record) -> None:
        """Hand over one record; blocks while too many wait for their answer.

        Raises:
            PublishFailed: an earlier record, or this one, was not acknowledged.
        """
        value = record.value
        try:
            if value and len(value) > self._unchecked:
                self._limits.check(record)
            _check(record, self._topic)
            self._produce(record)
        except (KafkaException, RecordTooLarge, ValueError, TypeError) as error:
            self._outbox.refuse(record, self._cause(error))
        self._sent += 1
        if self._sent % POLL_EVERY == 0:
            self._serve(self._producer.poll, 0)
            self._report()
        if self._outbox.cause:
            self.finish()

    def _produce(self, record: Record) -> None:
        partition = record.partition
        if partition is None:
            own = self._partitioner
            partition = -1 if own is None else own.among(self._topic, record.key, self._partitions)
        elif not 0 <= partition < self._partitions:
            raise ValueError(f"Unrecognized partition {partition} for topic {self._topic}")
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    record.value,
                    record.key,
                    partition,
                    on_delivery=partial(self._answered, record),
                    timestamp=record.timestamp_ms or 0,
                    headers=list(record.headers) or None,
                )
                return
            except BufferError:
                self._serve(self._producer.poll, 0.1)

    def _answered(self, record: Record, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self._outbox.acknowledged += 1
            self._outbox.value_bytes += len(record.value or b"")
        else:
            self._outbox.refuse(record, self._cause(KafkaException(error)))

    def finish(self) -> None:
        """Return when every record is acknowledged.

        Raises:
            PublishFailed: one was not.
        """
        self._wait(self._timeout + GRACE_SECONDS)
        if self._outbox.cause:
            raise publish_failed(self._topic, self._outbox, None, self._outbox.cause)

    def _wait(self, seconds: float) -> None:
        """Wait for the answers, and give up those that have not come by then."""
        deadline = time.monotonic() + seconds
        while len(self._producer) and time.monotonic() < deadline:
            self._serve(self._producer.flush, 0.2)  # not longer: a signal is noticed only between two calls
            self._report()
        if len(self._producer):
            self._producer.purge()
            self._serve(self._producer.poll, 1)

    def _serve(self, call: Callable[[float], int], seconds: float) -> None:
        """Let the client deliver its answers; what ends it for good they say as well."""
        try:
            call(seconds)
        except KafkaException as fatal:
            self._note(fatal.args[0])
            self._producer.poll(0.1)

    def _report(self) -> None:
        box = self._outbox
        if box.on_progress and box.acknowledged > self._reported:
            box.on_progress(box.acknowledged - self._reported)
            self._reported = box.acknowledged

    @property
    def summary(self) -> Summary:
        """The records so far; how many were sent again is not known."""
        box, seconds = self._outbox, time.monotonic() - self._began
        return Summary(box.acknowledged, box.value_bytes, seconds, len(box.failed), None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.finish()
        else:
            self._wait(_CLOSE_SECONDS)

    def _cause(self, error: Exception) -> Exception:
        """The error as kafka-python would have raised it."""
        if not isinstance(error, KafkaException):
            return error
        cause: KafkaError = error.args[0]
        if self._trouble is not None and self._trouble.fatal() and cause.code() in _ENDED:
            cause = self._trouble
        kind: type[Exception] = kafka_errors.for_code(cause.code())
        if cause.code() > 0:
            return kind(cause.str())
        kind = _KINDS.get(cause.code(), kafka_errors.KafkaError)
        trouble = str(self._no_token) if self._no_token else _text(self._trouble) if self._trouble else ""
        return kind(f"{_text(cause)}{f' after {trouble}' if trouble else ''}")


_ENDED = (KafkaError._FATAL, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)
_KINDS = {
    KafkaError._MSG_TIMED_OUT: kafka_errors.KafkaTimeoutError,
    KafkaError._UNKNOWN_TOPIC: kafka_errors.UnknownTopicOrPartitionError,
}


def _text(error: KafkaError) -> str:
    return f"{error.name()}: {one_line(error.str())}"


def _check(record: Record, topic: str) -> None:
    """Refuse what kafka-python refuses, a second topic, and the one moment that librdkafka takes for another."""
    if record.topic is not None and record.topic != topic:
        raise ValueError(f"all records of a bulk go to {topic}, found one for {record.topic}")
    check_timestamp(record)
    if record.timestamp_ms == 0:
        raise ValueError("a timestamp of 0 means now to librdkafka; publish this record with kafka-python")
    if isinstance(record.key, str) or isinstance(record.value, str):  # which would be encoded
        raise TypeError("Unsupported type for serialized key or value: str")
    if record.key is None and record.value is None:
        raise ValueError("Need at least one: key or value")
    if not all(isinstance(value, bytes) for _, value in record.headers):
        raise TypeError("All headers items must be (str, bytes) tuples")


def bulk_publisher(
    extra: Mapping[str, str],
    topic: str,
    *,
    client: Client | None = None,
    partitioner: Partitioner | None = None,
    **options: Any,
) -> Publisher | BulkPublisher:
    """A publisher for many records; the other options are those of :class:`Publisher`.

    Raises:
        ConfigurationError: librdkafka was asked for by name, and cannot do this.
    """
    callbacks = any(options.get(name) for name in ("on_ack", "on_error"))
    obstacle = "it answers for no single record" if callbacks else _obstacle(extra, partitioner)
    if client is Client.LIBRDKAFKA and obstacle:
        raise ConfigurationError(f"librdkafka cannot publish this: {obstacle}; leave the client to be chosen")
    if client is Client.KAFKA_PYTHON or obstacle:
        return Publisher(extra, topic, partitioner=partitioner, **options)

    custom = partitioner if isinstance(partitioner, Custom) else None
    return BulkPublisher(extra, topic, partitioner=custom, **options)


def publish_in_bulk(records: Iterable[Record], extra: Mapping[str, str], topic: str, **options: Any) -> Summary:
    """Publish all records; returns when each is acknowledged. The options are those of :func:`bulk_publisher`.

    Raises:
        PublishFailed, BrokerUnavailable, UnsafeSettings: as :func:`producer.publish`.
    """
    with bulk_publisher(extra, topic, **options) as publisher:
        send = publisher.send
        for record in records:
            send(record)
        publisher.finish()
    return publisher.summary


def _obstacle(extra: Mapping[str, str], partitioner: Partitioner | None) -> str | None:
    """Why librdkafka cannot take this over; None if it can."""
    if not (partitioner is None or isinstance(partitioner, KeyHash | Custom)):
        return "it has no such partitioner"
    if "GSSAPI" in (extra.get("sasl.mechanism"), extra.get("sasl.mechanisms")):
        return "its packages have no Kerberos"
    return None

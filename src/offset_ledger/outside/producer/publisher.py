"""Publishing by librdkafka, so that each record is acknowledged by all in-sync replicas, or reported as failed.

It answers partition by partition. Records wait here for their answers, which are taken in the order of sending: dead
letters and ``on_ack`` rely on that. Transactions of kafka-python, the other client before, took five times the CPU.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple, Self

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from kafka import errors as kafka_errors

from offset_ledger.base.progress import OnProgress
from offset_ledger.errors import (
    ConfigurationError,
    OffsetLedgerError,
    ProducerFenced,
    PublishFailed,
    TransactionOutcomeUnknown,
    UnknownTopic,
    error_line,
    one_line,
)
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.outside.kafka.connection import rdkafka_log
from offset_ledger.outside.kafka.errors import unavailable
from offset_ledger.outside.kafka.topics import topic_configs
from offset_ledger.outside.producer.clients import as_kafka_error, group_consumer, login
from offset_ledger.outside.producer.partitioner import Partitioner
from offset_ledger.outside.producer.record import Record, RecordLimits, RecordTooLarge, fetch_bytes
from offset_ledger.outside.producer.settings import ProducerSettings, dotted, read_settings

log = logging.getLogger(__name__)

OnAck = Callable[[Record, int, int], None]
"""Called with the record, its partition and its offset, in the order of sending, in the sender's own thread."""

OnError = Callable[[Record, Exception], None]
"""Called with a record that was not acknowledged and why, likewise."""

MAX_WAITING = 100_000  # records that were sent and not answered
MAX_WAITING_BYTES = 64 * 1024 * 1024
SETTLE_EVERY = 500
METADATA_SECONDS = 10.0  # the age that a partitioner's view of partitions and leaders may have
GRACE_SECONDS = 10.0  # librdkafka answers for every record within its delivery timeout; the wait ends this much later
_CLOSE_SECONDS = 5
_STEP_SECONDS = 0.2  # a signal is noticed only between two calls
_UNANSWERED = -2  # no partition: librdkafka answers -1 for a record that has none
_OF_TRANSACTIONS = "transaction.timeout.ms"
_ENDED = (KafkaError._FATAL, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)
# Errors of the record itself, whatever the brokers do.
_REFUSED = (
    RecordTooLarge,
    ValueError,
    TypeError,
    kafka_errors.MessageSizeTooLargeError,
    kafka_errors.RecordListTooLargeError,
    kafka_errors.InvalidRecordError,
    kafka_errors.InvalidTimestampError,
    kafka_errors.PolicyViolationError,
    kafka_errors.TopicAuthorizationFailedError,
    kafka_errors.ClusterAuthorizationFailedError,
)


class Summary(NamedTuple):
    """A count of published records: those acknowledged, the bytes of their values, and the time it took.

    ``retried`` is None: librdkafka does not report how often it sent a record again.
    """

    records: int
    value_bytes: int
    seconds: float
    failed: int = 0
    retried: int | None = None

    @property
    def per_second(self) -> float:
        """Records/s."""
        return self.records / self.seconds if self.seconds else 0.0


class Acknowledged(NamedTuple):
    """The place of a record."""

    topic: str
    partition: int
    offset: int


def librdkafka_settings(settings: ProducerSettings, transactional_id: str | None = None) -> dict[str, object]:
    """Return the settings under librdkafka's names."""
    values = {dotted(name): getattr(settings, name) for name in ProducerSettings.__dataclass_fields__}
    values["message.max.bytes"] = values.pop("max.request.size")
    del values["max.block.ms"]  # nothing blocks but the first answer about topic and transactional id
    timeout = values.pop(_OF_TRANSACTIONS)
    if transactional_id is not None:
        values |= {"transactional.id": transactional_id, _OF_TRANSACTIONS: timeout}
    return {
        **values,
        "partitioner": "murmur2_random",  # the Java client's
        "sticky.partitioning.linger.ms": 2 * settings.linger_ms,
        "allow.auto.create.topics": False,
        "queue.buffering.max.messages": 0,  # bounded here, and by bytes: a full queue would refuse records
        "queue.buffering.max.kbytes": 2**31 - 1,
    }


class _Sent:
    """A record on its way. Its answer is an error, or partition and offset."""

    __slots__ = ("error", "offset", "partition", "record", "size")

    def __init__(self, record: Record, size: int) -> None:
        self.record, self.size = record, size
        self.error: KafkaError | None = None
        self.partition = self.offset = _UNANSWERED

    def answered(self, error: KafkaError | None, message: Any) -> None:
        self.error, self.partition, self.offset = error, message.partition(), message.offset()


class Publisher:
    """A producer that keeps account of each record; with a transactional id its whole life is one transaction.

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
        self._extra, self._topic, self._transactional_id = extra, topic, transactional_id
        self._partitioner = partitioner
        self._limits = (limits or RecordLimits(fetch_bytes=fetch_bytes(extra))).of(settings)
        self._unchecked = self._limits.smallest // 2  # values of up to this size need no check, which takes time
        self._timeout, self._max_block = settings.delivery_timeout_ms / 1000, settings.max_block_ms / 1000
        self._on_progress, self._on_ack, self._on_error = on_progress, on_ack, on_error
        self._waiting: deque[_Sent] = deque()
        self._waiting_bytes = self._sent = self._acknowledged = self._value_bytes = 0
        self._failed: list[Record] = []
        self._cause: Exception | None = None
        self._last = Acknowledged(topic, -1, -1)
        self._partitions: dict[str, tuple[float, int, Sequence[int]]] = {}
        self._trouble: KafkaError | None = None
        self._no_token: OffsetLedgerError | None = None
        self._unknown: UnknownTopic | None = None
        self._open_transaction = False
        self._began = time.monotonic()
        self._producer: Any = self._connect(settings)
        if transactional_id is not None:
            # This fences every producer that had the transactional id before.
            try:
                within(self._max_block, self._producer.init_transactions)
                self._producer.begin_transaction()
            except (KafkaException, TimeoutError) as error:
                self._producer = None
                cause = self._translated(error)
                raise self._fenced(cause) or unavailable(extra["bootstrap.servers"], cause) from error
            self._open_transaction = True

    def _connect(self, settings: ProducerSettings) -> Producer:
        connection = Connection("publisher", "kafka", extra=self._extra)
        configuration = login(connection, self._note_token)
        batch_bytes = settings.batch_size
        with connect_kafka(connection) as kafka:
            try:
                kafka.describe(self._topic)
                configs = kafka.ask(lambda admin: topic_configs(admin, self._topic, "max.message.bytes")).values
                # There are none if this login may not ask. A batch above the limit would fail: librdkafka splits none.
                batch_bytes = min(batch_bytes, int(configs.get("max.message.bytes", batch_bytes)))
            except UnknownTopic as unknown:  # for the first call that needs the topic
                self._unknown = unknown
        settings = replace(settings, batch_size=batch_bytes)
        configuration |= librdkafka_settings(settings, self._transactional_id)
        try:
            return Producer({**configuration, "error_cb": self._note}, logger=rdkafka_log)
        except KafkaException as error:
            raise ConfigurationError(f"librdkafka refuses the settings: {as_kafka_error(error)}") from error

    def _note(self, error: KafkaError) -> None:
        """Keep the client's own reports: a record that ran out of time does not know why."""
        if self._trouble is None or not self._trouble.fatal():
            self._trouble = error

    def _note_token(self, error: OffsetLedgerError) -> None:
        self._no_token = error

    def send(self, record: Record) -> None:
        """Hand over one record; blocks while too many wait for their answer.

        Raises:
            PublishFailed: an earlier record, or this one, was not acknowledged.
            ProducerFenced: a newer producer has the transactional id.
        """
        if self._unknown:
            raise self._unknown
        size = len(record.value) if record.value else 0
        sent = _Sent(record, size)
        try:
            if size > self._unchecked:
                self._limits.check(record)
            _check(record)
            topic = record.topic or self._topic
            self._producer.produce(
                topic,
                record.value,
                record.key,
                -1 if record.partition is None and self._partitioner is None else self._partition(record, topic),
                on_delivery=sent.answered,
                timestamp=record.timestamp_ms or 0,
                headers=list(record.headers) or None,
            )
        except (KafkaException, RecordTooLarge, ValueError, TypeError) as error:
            self._refuse(record, self._translated(error))
            self._settle()
            return
        self._waiting.append(sent)
        self._waiting_bytes += size
        self._sent += 1
        if self._sent % SETTLE_EVERY == 0 or self._waiting_bytes > MAX_WAITING_BYTES:
            self._settle(MAX_WAITING, MAX_WAITING_BYTES)

    def _partition(self, record: Record, topic: str) -> int:
        known = self._partitions.get(topic)
        chosen = record.partition
        if known is None or ((chosen is None or chosen >= known[1]) and known[0] < time.monotonic()):
            # The end of the answer's validity, the number of partitions, and those that have a leader.
            until = time.monotonic() + METADATA_SECONDS
            try:
                described = self._producer.list_topics(topic, 1.0 if known else self._max_block).topics[topic]
                if described.error is not None:
                    raise KafkaException(described.error)
                usable = sorted(number for number, each in described.partitions.items() if each.leader >= 0)
                known = until, len(described.partitions), usable or sorted(described.partitions)
            except KafkaException:
                if known is None:
                    raise
                known = until, *known[1:]
            self._partitions[topic] = known
        _, count, led = known
        if chosen is None:
            assert self._partitioner is not None
            return self._partitioner.choose(topic, record.key, count, led)
        if not 0 <= chosen < count:
            raise ValueError(f"Unrecognized partition {chosen} for topic {topic}")
        return chosen

    def send_and_wait(self, record: Record) -> Acknowledged:
        """Send one record and return where it is: simple, and as slow as one round trip a record.

        Raises:
            PublishFailed, ProducerFenced: as :meth:`send`.
        """
        self.send(record)
        self._settle()
        return self._last

    def send_offsets(self, offsets: Sequence[TopicPartition], group: Any) -> None:
        """Commit a consumer group's offsets with this transaction, or not at all.

        ``offsets`` are confluent-kafka's, ``group`` a group id, or the group metadata of its consumer.

        Raises:
            ProducerFenced: a newer producer has taken over.
            PublishFailed: the coordinator refused them; the transaction is aborted when this publisher is closed.
        """
        if isinstance(group, str):
            with closing(group_consumer(self._extra, group)) as consumer:
                group = consumer.consumer_group_metadata()
        send = self._producer.send_offsets_to_transaction
        try:
            within(self._timeout, lambda _: send(list(offsets), group, self._timeout))
        except (KafkaException, TimeoutError) as error:
            raise self._failure(self._translated(error)) from error

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

    def _end(self, how: str) -> None:
        act = self._producer.commit_transaction if how == "commit" else self._producer.abort_transaction
        try:
            within(self._timeout, act)
        except (KafkaException, TimeoutError) as error:
            cause = self._translated(error)
            raise self._fenced(cause) or TransactionOutcomeUnknown(
                f"the {how} of a transaction on {self._topic!r} was not confirmed ({error_line(cause)}); "
                "read the topic back before publishing the same records again"
            ) from error

    @property
    def summary(self) -> Summary:
        """The records so far."""
        seconds = time.monotonic() - self._began
        return Summary(self._acknowledged, self._value_bytes, seconds, len(self._failed))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        try:
            if self._open_transaction:
                self._open_transaction = False
                try:
                    self._end("abort")
                except TransactionOutcomeUnknown as unknown:
                    log.warning("%s; the broker aborts it by itself after its timeout", unknown)
                except ProducerFenced:
                    log.info("nothing to abort: a newer producer has done that")
            elif error is None:
                self._settle()
            else:
                self._wait(_CLOSE_SECONDS)
        finally:
            self._producer = None  # which closes it: nothing else refers to it

    # -- the answers -------------------------------------------------------------------------------------------

    def _settle(self, max_records: int = 0, max_bytes: int = 0) -> None:
        """Take the answers, and wait while more than that many records or bytes have none."""
        if self._unknown:
            raise self._unknown
        self._serve(self._producer.poll, 0)
        self._take_answers()
        if not self._cause and (len(self._waiting) > max_records or self._waiting_bytes > max_bytes):
            self._wait(self._timeout + GRACE_SECONDS, max_records, max_bytes)
        if self._cause:  # nothing more is sent: wait for the answers to the others
            self._wait(self._timeout + GRACE_SECONDS)
            raise self._failure(self._cause)

    def _wait(self, seconds: float, max_records: int = 0, max_bytes: int = 0) -> None:
        """Wait for the answers, and give up the records that have none by then."""
        deadline = time.monotonic() + seconds
        wait = self._producer.poll if max_records else self._producer.flush  # which does not linger
        while len(self._waiting) > max_records or self._waiting_bytes > max_bytes:
            if time.monotonic() > deadline:
                self._producer.purge()
                self._serve(self._producer.poll, 1)
                self._take_answers()
                break
            self._serve(wait, _STEP_SECONDS)
            self._take_answers()

    def _serve(self, call: Callable[[float], int], seconds: float) -> None:
        """Poll the client for its answers; errors that end it for good are among them."""
        try:
            call(seconds)
        except KafkaException as fatal:
            self._note(fatal.args[0])
            self._producer.poll(0.1)

    def _take_answers(self) -> None:
        waiting, before = self._waiting, self._acknowledged
        while waiting and waiting[0].partition != _UNANSWERED:
            sent = waiting.popleft()
            self._waiting_bytes -= sent.size
            if sent.error is not None:
                self._refuse(sent.record, self._translated(KafkaException(sent.error)))
                continue
            self._acknowledged += 1
            self._value_bytes += sent.size
            self._last = Acknowledged(sent.record.topic or self._topic, sent.partition, sent.offset)
            if self._on_ack:
                self._on_ack(sent.record, sent.partition, sent.offset)
        if self._on_progress and self._acknowledged > before:
            self._on_progress(self._acknowledged - before)

    # -- what went wrong ---------------------------------------------------------------------------------------

    def _refuse(self, record: Record, error: Exception) -> None:
        self._failed.append(record)
        self._cause = self._cause or error
        if self._on_error:
            self._on_error(record, error)

    def _translated(self, error: Exception) -> Exception:
        """Return the error under Kafka's own name, with the client's own report."""
        if not isinstance(error, KafkaException):
            return error
        cause: KafkaError = error.args[0]
        if self._trouble is not None and self._trouble.fatal() and cause.code() in _ENDED:
            cause = self._trouble
        trouble = None if cause is self._trouble else self._trouble
        return as_kafka_error(KafkaException(cause), str(self._no_token) if self._no_token else trouble)

    def _fenced(self, cause: BaseException) -> ProducerFenced | None:
        """Return the error for a producer that a newer one has replaced, if ``cause`` is that."""
        fences = kafka_errors.ProducerFencedError, kafka_errors.InvalidProducerEpochError
        if self._transactional_id is None or not isinstance(cause, fences):
            return None
        return ProducerFenced(
            f"a newer publisher with the transactional id {self._transactional_id!r} has begun, so this one can commit "
            "nothing more and readers of committed data see nothing of its transaction; let one of the two run, or "
            "give each an id of its own"
        )

    def _failure(self, cause: Exception) -> OffsetLedgerError:
        refused, transactional = isinstance(cause, _REFUSED), self._transactional_id is not None
        return self._fenced(cause) or PublishFailed(
            self._topic, self._acknowledged, self._failed, one_line(cause), transactional, refused
        )


def publish(
    records: Iterable[Record], extra: Mapping[str, str], topic: str, *, commit: bool = True, **options: Any
) -> Summary:
    """Publish all records; with a transactional id all in one transaction. Returns when each is acknowledged.

    The options are those of :class:`Publisher`. ``commit=False`` aborts the transaction, so that no reader of committed
    data meets the records.

    Raises:
        PublishFailed: some were not acknowledged; a transaction was aborted.
        TransactionOutcomeUnknown: the commit was not answered; read back before publishing again.
        ProducerFenced: a newer producer has the transactional id.
        BrokerUnavailable: no broker answered.
        UnsafeSettings: the connection's extra names a setting that is refused.
        ConfigurationError: the topic does not exist, or librdkafka cannot log in as the connection says.
    """
    with Publisher(extra, topic, **options) as publisher:
        send = publisher.send
        for record in records:
            send(record)
        publisher.finish(commit)
    return publisher.summary


def within(seconds: float, act: Callable[[float], None]) -> None:
    """Call ``act`` until it is done; librdkafka goes on with what a call before had begun.

    Raises:
        TimeoutError: it was not done in time.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return act(_STEP_SECONDS)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            if time.monotonic() > deadline:
                raise TimeoutError(one_line(error.args[0].str())) from error
            time.sleep(0.01)


def sendable(name: str) -> bool:
    """Return whether librdkafka's Python client sends this header name: it cuts at NUL and dies of other than UTF-8."""
    try:
        return b"\0" not in str.encode(name)
    except UnicodeEncodeError:
        return False


def _check(record: Record) -> None:
    """Refuse what is not a record of Kafka, and the one moment that librdkafka reads as another."""
    if record.timestamp_ms is not None and not 0 <= record.timestamp_ms < 2**63:
        raise ValueError(f"a timestamp should be milliseconds since 1970, found {record.timestamp_ms}")
    if record.timestamp_ms == 0:
        raise ValueError("a timestamp of 0 means now to librdkafka; give this record another")
    if isinstance(record.key, str) or isinstance(record.value, str):  # which would be encoded
        raise TypeError("Unsupported type for serialized key or value: str")
    if record.key is None and record.value is None:
        raise ValueError("Need at least one: key or value")
    for name, value in record.headers:
        if not isinstance(value, bytes):
            raise TypeError("All headers items must be (str, bytes) tuples")
        if not sendable(name):
            raise ValueError(f"the name of a header should be UTF-8 without NUL for librdkafka, found {name!r}")

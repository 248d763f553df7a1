"""Committed records of offset ranges, in lists, by librdkafka: a third of the processor time of kafka-python.

Its errors become the package's: which ones are final, and what a refused login means.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import compress
from operator import not_
from typing import Any, Protocol, cast

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from offset_ledger.base.retry import retry_seconds
from offset_ledger.errors import (
    AccessDenied,
    BrokerUnavailable,
    LostRange,
    OffsetLedgerError,
    UnreadableRecords,
    one_line,
)
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.http.exchange import untrusted
from offset_ledger.outside.kafka.connection import (
    bootstrap_servers,
    librdkafka_arguments,
    login_of,
    rdkafka_log,
    security_of,
)
from offset_ledger.outside.kafka.tokens import oauth_callback

__all__ = ["Message", "Next", "ReadLists", "bulk_reader"]


Next = Callable[[], OffsetRange | None]


class ReadLists(Protocol):
    """A function that reads a range in lists of the client's records.

    Before the last list it may ask ``then`` for the next range, which is fetched meanwhile.
    """

    def __call__(self, topic: str, wanted: OffsetRange, then: Next = ...) -> Iterator[list[Any]]:
        """The lists of the range."""


_MAX_RECORDS = 20_000
_POLL_SECONDS = 0.1  # a signal is noticed only between two polls
_SETTINGS = {
    "group.id": "offset-ledger.reader",  # librdkafka asks for one; no group is joined and nothing is committed
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,  # tells when only control records are left of a range
    "check.crcs": True,
    "receive.message.max.bytes": 2**31 - 1,  # also for an unpacked zstd batch, in threefold steps
    "fetch.wait.max.ms": 10,
    "queued.max.messages.kbytes": 16_384,  # fetched ahead; records behind the range are thrown away
    "fetch.queue.backoff.ms": 5,  # a full queue is looked at again: by default a second later, when it is long empty
}
_LOST = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


@contextmanager
def bulk_reader(connection: Connection) -> Iterator[ReadLists]:
    """A reader of ranges, one after the other through one consumer, in lists of at most 20,000 records in order.

    Aborted records are left out. It raises BrokerUnavailable if no record came for
    :func:`~offset_ledger.base.retry.retry_seconds` before a range was read, LostRange if the log does not have it,
    UnreadableRecords, and AccessDenied.
    """
    with closing(_BulkReader(connection)) as reader:
        yield reader.read


class _BulkReader:
    def __init__(self, connection: Connection) -> None:
        self._servers = bootstrap_servers(connection)
        self._trouble: KafkaError | None = None
        self._refused: OffsetLedgerError | None = None
        callbacks = {"error_cb": self._note, **oauth_callback(connection, self._refuse)}
        self._connection = connection
        self._settings = {**librdkafka_arguments(connection), **_SETTINGS, **callbacks}
        self._consumer: Consumer | None = None
        self._next: tuple[str, int, int] | None = None  # the consumer's next position

    def close(self) -> None:
        if self._consumer:
            self._consumer.close()

    def _note(self, error: KafkaError) -> None:
        self._trouble = error
        if meant := refused(self._connection, error.name(), error.str()):
            self._refuse(meant)

    def _refuse(self, error: OffsetLedgerError) -> None:
        self._refused = error

    def _go_to(self, topic: str, partition: int, position: int) -> Consumer:
        """Return the consumer, which fetches from there on: one made without a partition connects 50 ms later."""
        if not self._consumer:
            self._consumer = Consumer(self._settings, logger=rdkafka_log)
        if self._next != (topic, partition, position):
            self._consumer.assign([TopicPartition(topic, partition, position)])
            self._next = (topic, partition, position)
        return self._consumer

    def read(self, topic: str, wanted: OffsetRange, then: Next = lambda: None) -> Iterator[list[Message]]:
        position, timeout = wanted.from_offset, retry_seconds()
        consumer = self._go_to(topic, wanted.partition, position)
        self._next = None
        deadline = time.monotonic() + timeout
        while position < wanted.until_offset:
            polled = consumer.consume(min(_MAX_RECORDS, wanted.until_offset - position), _POLL_SECONDS)
            errors = list(map(Message.error, polled))
            records = polled if not any(errors) else list(compress(polled, map(not_, errors)))
            if len(records) < len(polled):
                ends = [self._end(topic, wanted, each) for each in compress(polled, errors)]
                position = max(position, *ends)
            if records:
                position = max(position, _offset(records[-1]) + 1)
            if position >= wanted.until_offset:
                self._next = (topic, wanted.partition, position)  # above the range where its last records are left out
                if following := then():
                    self._go_to(topic, following.partition, following.from_offset)
            if records:
                deadline = time.monotonic() + timeout
                if _offset(records[-1]) >= wanted.until_offset:
                    records = [each for each in records if _offset(each) < wanted.until_offset]
                if records:
                    yield records
            elif self._refused:
                raise self._refused
            elif time.monotonic() > deadline:
                trouble = f" ({self._trouble.name()}: {self._trouble.str()})" if self._trouble else ""
                raise BrokerUnavailable(
                    f"topic {topic}: range {wanted} was read up to {position} and no further within {timeout:.0f} s"
                    f"{trouble}; check that the brokers run"
                )

    def _end(self, topic: str, wanted: OffsetRange, message: Message) -> int:
        """Return the offset up to which the log was read, if the message has it; raise an error that does not pass."""
        error = message.error()
        assert error is not None
        if error.code() == KafkaError._PARTITION_EOF:
            return _offset(message)
        if error.code() in _LOST:
            raise LostRange(f"topic {topic}: the log does not have range {wanted} any more ({error.str()})")
        if error.code() == KafkaError._BAD_COMPRESSION:
            raise UnreadableRecords(
                f"topic {topic}: a record batch of range {wanted} cannot be unpacked ({error.str()}): it is damaged, "
                "or unpacks to more than 700 MB; nothing was committed; see the runbook"
            )
        if known := final(self._servers, error):
            raise known
        self._trouble = error
        return 0


def _offset(message: Message) -> int:
    """Return the offset; its type allows None, for messages that are to be produced."""
    return cast(int, message.offset())


_VERIFY = re.compile(r"certificate verify failed: ([^:()]+)")
_OF_THE_GROUP = KafkaError.GROUP_AUTHORIZATION_FAILED


def refused(connection: Connection, name: str, text: str) -> OffsetLedgerError | None:
    """Return the error for a login or a certificate that librdkafka reports as refused; None if it may yet succeed."""
    where = f"Kafka at {bootstrap_servers(connection)}"
    if name == "_SSL" and (reason := _VERIFY.search(text)):
        return untrusted(where, reason.group(1))
    if name == "_AUTHENTICATION" and "SASL authentication error" in text:
        login = login_of(security_of(connection))
        return AccessDenied(f"{where} refuses {login} ({one_line(text, 200)}); correct the login of the connection")
    return None


def final(servers: str, error: KafkaError) -> OffsetLedgerError | None:
    """Return the error for an answer of a broker that stays the same; None if it may pass, or is librdkafka's own."""
    if error.code() < 0 or error.code() == _OF_THE_GROUP:
        return None
    from kafka import errors as kafka_errors  # takes 0.3 s of CPU, and a reader without trouble needs none of it

    from offset_ledger.outside.kafka.errors import unavailable

    kind = kafka_errors.for_code(error.code())
    return None if kind.retriable else unavailable(servers, kind(error.str()))

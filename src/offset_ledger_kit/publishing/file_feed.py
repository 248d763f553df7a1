"""The publication of a checked file of records; with a transactional id a rerun continues where the last run ended."""

import hashlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from kafka import errors as kafka_errors

from offset_ledger.base.retry import retrying
from offset_ledger.errors import JournalMismatch, TransactionOutcomeUnknown
from offset_ledger.outside.kafka.errors import is_transient, unavailable
from offset_ledger.outside.producer.clients import as_kafka_error, group_consumer
from offset_ledger.outside.producer.publisher import Publisher, Summary, publish
from offset_ledger.outside.producer.record import Record
from offset_ledger_kit.publishing.record_file import CheckedFile

log = logging.getLogger(__name__)

RECORDS_PER_TRANSACTION = 50_000
_MAX_UNKNOWN = 3
_WAIT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class JournalPosition:
    """Records committed so far, the SHA-256 of the file up to there, and whether that was all of it."""

    records: int
    digest: str
    finished: bool


@dataclass(frozen=True, slots=True)
class Journal:
    """The progress of one transactional id in what it publishes to one topic, kept in Kafka.

    It is a consumer group's offset. A transaction commits it with its records or not at all, so it says what readers of
    committed data see. A journal file would be written before or after the commit, never with it; and the topic may
    have records of any number of other producers.
    """

    extra: Mapping[str, str]
    topic: str
    transactional_id: str

    @property
    def group(self) -> str:
        """The consumer group whose offset of partition 0 is the number of records."""
        return f"offset-ledger.publish.{self.transactional_id}"

    def entry(self, records: int, digest: str, finished: bool) -> Sequence[TopicPartition]:
        """Return the offset that a transaction commits so that this position is kept."""
        return [TopicPartition(self.topic, 0, records, f"sha256:{digest} {'finished' if finished else 'unfinished'}")]

    def read(self) -> JournalPosition | None:
        """Return the committed position, None if there is none; it is final only while this id's producer is open.

        Raises:
            BrokerUnavailable: the group's coordinator did not answer.
            JournalMismatch: something else committed an offset to this group.
        """
        try:
            # Reading what is committed waits while the offset is part of an open transaction.
            with closing(group_consumer(self.extra, self.group)) as consumer:
                committed = retrying(is_transient, f"the offset of {self.group}")(self._committed, consumer)
        except kafka_errors.KafkaError as error:
            raise unavailable(self.extra["bootstrap.servers"], error) from error
        if committed.offset < 0:
            return None
        digest, _, state = str(committed.metadata).removeprefix("sha256:").partition(" ")
        if state not in ("finished", "unfinished"):
            raise JournalMismatch(
                f"the group {self.group} should have the position of a publication and has {committed.metadata!r}; "
                "publish with another transactional id"
            )
        return JournalPosition(int(committed.offset), digest, state == "finished")

    def _committed(self, consumer: Consumer) -> TopicPartition:
        try:
            (committed,) = consumer.committed([TopicPartition(self.topic, 0)], _WAIT_SECONDS)
            if committed.error is not None:
                raise KafkaException(committed.error)
        except KafkaException as error:
            raise as_kafka_error(error) from error
        return committed


@dataclass(slots=True)
class _Reading:
    """A file being read: ``at`` counts the records so far, ``digest`` is fed with their lines."""

    checked: CheckedFile
    at: int = 0
    digest: Any = field(init=False)
    _records: Iterator[Record] = field(init=False)

    def __post_init__(self) -> None:
        # With another schema the same line is another record.
        self.digest = hashlib.sha256(self.checked.file.form.identity.encode())
        self._records = self.checked.read(self.digest)

    def take(self, count: int) -> Iterator[Record]:
        """The next records."""
        for record in islice(self._records, count):
            self.at += 1
            yield record

    @property
    def finished(self) -> bool:
        """Return whether that was all."""
        return self.at == self.checked.records


def publish_file(
    extra: Mapping[str, str],
    topic: str,
    checked: CheckedFile,
    *,
    transactional_id: str | None = None,
    records_per_transaction: int = RECORDS_PER_TRANSACTION,
    on_resumed: Callable[[int], None] | None = None,
    **options: Any,
) -> tuple[Summary, int]:
    """Publish a file; return the summary, and how many of its records were there from an earlier run.

    The options are those of :class:`Publisher`. A transactional id names this file's publication: run again with it, a
    finished one sends nothing, an interrupted one the rest, and a file that has grown since what was added;
    ``on_resumed`` is called with the number of records that were there.

    Raises:
        JournalMismatch: the id's last publication is unfinished and of another file.
        PublishFailed, TransactionOutcomeUnknown, ProducerFenced, BrokerUnavailable, UnsafeSettings: as ``publish``.
    """
    if transactional_id is None:
        return publish(checked.read(), extra, topic, **options), 0
    journal = Journal(extra, topic, transactional_id)
    began, value_bytes, unknown = time.monotonic(), 0, 0
    reading: _Reading | None = None
    before: int | None = None
    while reading is None or not reading.finished:
        with Publisher(extra, topic, transactional_id=transactional_id, **options) as publisher:
            # Only now: the new producer has ended whatever an earlier one with this id had left open.
            reading = reading or _resumed(checked, journal)
            if before is None:
                before = reading.at
                if before and on_resumed:
                    on_resumed(before)
            try:
                if not reading.finished:
                    for record in reading.take(records_per_transaction):
                        publisher.send(record)
                    entry = journal.entry(reading.at, reading.digest.hexdigest(), reading.finished)
                    publisher.send_offsets(entry, journal.group)
                    publisher.finish()
            except TransactionOutcomeUnknown as error:
                unknown += 1
                if unknown > _MAX_UNKNOWN:
                    raise
                log.warning("%s; reading back", error)
                reading = None  # only the journal can say whether they are committed
        value_bytes += publisher.summary.value_bytes
    there = before or 0
    return Summary(checked.records - there, value_bytes, time.monotonic() - began), there


def _resumed(checked: CheckedFile, journal: Journal) -> _Reading:
    """The file from the first record that is not committed."""
    reading, position = _Reading(checked), journal.read()
    if position is None:
        return reading
    for _ in reading.take(position.records):
        pass
    if (reading.at, reading.digest.hexdigest()) == (position.records, position.digest):
        return reading
    if position.finished:
        return _Reading(checked)
    raise JournalMismatch(
        f"the transactional id {journal.transactional_id!r} has published {position.records} records of another file, "
        f"or by another schema, and not finished it, and {checked.file.path} does not begin with them; "
        "finish that first, or use another id"
    )

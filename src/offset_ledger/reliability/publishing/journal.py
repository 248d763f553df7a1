"""How much of a file a transactional id has published, kept in Kafka and committed with the records themselves.

The position is a consumer group's offset. A transaction commits it with its records or not at all, so it says what
readers of committed data see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, TopicPartition
from kafka import errors as kafka_errors

from offset_ledger.errors import JournalMismatch
from offset_ledger.kafka.errors import is_transient, unavailable
from offset_ledger.reliability.publishing.clients import as_kafka_error, group_consumer
from offset_ledger.retry import retrying

_WAIT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class JournalPosition:
    """Records committed so far, the SHA-256 of the file up to there, and whether that was all of it."""

    records: int
    digest: str
    finished: bool


@dataclass(frozen=True, slots=True)
class Journal:
    """How far one transactional id has come in what it publishes to one topic."""

    extra: Mapping[str, str]
    topic: str
    transactional_id: str

    @property
    def group(self) -> str:
        """The consumer group whose offset of partition 0 is the number of records."""
        return f"offset-ledger.publish.{self.transactional_id}"

    def entry(self, position: JournalPosition) -> Sequence[TopicPartition]:
        """Return the offset that a transaction commits so that this position is kept."""
        note = f"sha256:{position.digest} {'finished' if position.finished else 'unfinished'}"
        return [TopicPartition(self.topic, 0, position.records, note)]

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

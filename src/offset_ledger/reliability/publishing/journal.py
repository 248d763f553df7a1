"""How much of a file a transactional id has published, kept in Kafka and committed with the records themselves.

The position is a consumer group's offset. A transaction commits it with its records or not at all, so it says what
readers of committed data see.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors
from kafka.structs import OffsetAndMetadata

from offset_ledger.errors import JournalMismatch
from offset_ledger.kafka.errors import unavailable
from offset_ledger.reliability.publishing.clients import BOOTSTRAP_SECONDS, client_arguments

_WAIT_MS = 30_000


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

    def entry(self, position: JournalPosition) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """What a transaction commits so that this position is kept."""
        note = f"sha256:{position.digest} {'finished' if position.finished else 'unfinished'}"
        return {TopicPartition(self.topic, 0): OffsetAndMetadata(position.records, note, -1)}

    def read(self) -> JournalPosition | None:
        """The position that was committed; None if there is none. It is final only while this id's producer is open.

        Raises:
            BrokerUnavailable: the group's coordinator did not answer.
            JournalMismatch: something else committed an offset to this group.
        """
        settings: dict[str, Any] = {
            **client_arguments(self.extra),
            "group_id": self.group,
            "isolation_level": "read_committed",  # waits while the offset is part of an open transaction
            "enable_auto_commit": False,
            "bootstrap_timeout_ms": int(BOOTSTRAP_SECONDS * 1000),
        }
        try:
            with closing(KafkaConsumer(**settings)) as consumer:
                committed = consumer.committed(TopicPartition(self.topic, 0), metadata=True, timeout_ms=_WAIT_MS)
        except kafka_errors.KafkaError as error:
            raise unavailable(self.extra["bootstrap.servers"], error) from error
        return None if committed is None or committed.offset < 0 else self._position(committed)

    def _position(self, committed: OffsetAndMetadata) -> JournalPosition:
        digest, _, state = str(committed.metadata).removeprefix("sha256:").partition(" ")
        if state not in ("finished", "unfinished"):
            raise JournalMismatch(
                f"the group {self.group} should have the position of a publication and has {committed.metadata!r}; "
                "publish with another transactional id"
            )
        return JournalPosition(int(committed.offset), digest, state == "finished")

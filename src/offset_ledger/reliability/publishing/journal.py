"""How much of a file a transactional id has published, kept in Kafka and committed with the records themselves.

The place is a consumer group's offset. A transaction commits it with its records or not at all, so what it says is what
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
    """The place of one transactional id in what it publishes to one topic."""

    extra: Mapping[str, str]
    topic: str
    transactional_id: str

    @property
    def group(self) -> str:
        """The consumer group whose offset of partition 0 is the number of records."""
        return f"offset-ledger.publish.{self.transactional_id}"

    def entry(self, place: JournalPosition) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """What a transaction commits so that this place is kept."""
        note = f"sha256:{place.digest} {'finished' if place.finished else 'unfinished'}"
        return {TopicPartition(self.topic, 0): OffsetAndMetadata(place.records, note, -1)}

    def read(self) -> JournalPosition | None:
        """The place that was committed; None if there is none. Only one's own open producer makes this the last word.

        Raises:
            BrokerUnavailable: the group's coordinator did not answer.
            JournalMismatch: something else committed an offset to this group.
        """
        settings: dict[str, Any] = {
            **client_arguments(self.extra),
            "group_id": self.group,
            "isolation_level": "read_committed",  # waits while a transaction holds the offset
            "enable_auto_commit": False,
            "bootstrap_timeout_ms": int(BOOTSTRAP_SECONDS * 1000),
        }
        try:
            with closing(KafkaConsumer(**settings)) as consumer:
                found = consumer.committed(TopicPartition(self.topic, 0), metadata=True, timeout_ms=_WAIT_MS)
        except kafka_errors.KafkaError as error:
            raise unavailable(self.extra["bootstrap.servers"], error) from error
        return None if found is None or found.offset < 0 else self._place(found)

    def _place(self, found: OffsetAndMetadata) -> JournalPosition:
        digest, _, state = str(found.metadata).removeprefix("sha256:").partition(" ")
        if state not in ("finished", "unfinished"):
            raise JournalMismatch(
                f"the group {self.group} should hold the place of a publication and holds {found.metadata!r}; "
                "publish with another transactional id"
            )
        return JournalPosition(int(found.offset), digest, state == "finished")

"""The source of records: the topics, where they begin, and how their values are encoded."""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class StartAt(StrEnum):
    """The place where the first batch of a partition begins when the ledger has no cursor for it."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"
    TIMESTAMP = "timestamp"


class OnExpired(StrEnum):
    """The consequence when retention deleted offsets that the cursor still needs."""

    FAIL = "fail"
    EARLIEST_AFTER_APPROVAL = "earliest_after_approval"


class Format(StrEnum):
    """The encoding of record values."""

    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    JSON_SCHEMA = "json_schema"


class Envelope(StrEnum):
    """The form of a record's value if it is more than a row: a change event of Debezium."""

    DEBEZIUM = "debezium"


class KeyFormat(StrEnum):
    """The encoding of record keys, where the key is the event id or has columns."""

    TEXT = "text"
    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    JSON_SCHEMA = "json_schema"


class SubjectStrategy(StrEnum):
    """The subjects of a topic's schemas: <topic>-value, the record's full name, <topic>-<full name>, or any."""

    TOPIC = "topic"
    RECORD = "record"
    TOPIC_RECORD = "topic_record"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """A file with a schema: its name without folders, and its text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Source:
    """The topic and how it is read.

    Records name their schema where there is a ``registry``, the id of its connection. Else those of a format with a
    schema have that of the file ``schema``; ``message`` is the full name of a Protobuf message in it.

    Where ``transactional`` is None, the record batches say whether a gap is of transactions.

    ``unavailable`` is what stands for values that were not sent, where it is not Debezium's default in its envelope;
    ``hex:`` begins bytes.

    A file with several topics has ``topics``, or a regular expression ``topic_pattern``, and no ``topic``.
    """

    connection: str = "kafka_default"
    topic: str = ""
    start: StartAt = StartAt.EARLIEST
    start_timestamp: datetime | None = None
    on_expired: OnExpired = OnExpired.FAIL
    transactional: bool | None = None
    compacted: bool = False
    format: Format = Format.JSON
    key_format: KeyFormat = KeyFormat.TEXT
    registry: str | None = None
    subject: SubjectStrategy = SubjectStrategy.TOPIC
    schema: SchemaFile | None = None
    message: str | None = None
    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None
    envelope: Envelope | None = None
    unavailable: str | None = None

    @property
    def several(self) -> bool:
        """Return whether the file reads several topics; the source of one of its pipelines does not."""
        return bool(self.topics) or self.topic_pattern is not None

    @property
    def topic_names(self) -> str:
        """The topics, as people read them."""
        return f"topics {self.topic_pattern}" if self.topic_pattern else ", ".join(self.topics) or self.topic

    def reads(self, topic: str) -> bool:
        """Return whether this topic is among them."""
        matches = self.topic_pattern is not None and re.fullmatch(self.topic_pattern, topic) is not None
        return matches or topic == self.topic or topic in self.topics

"""Dead letters: quarantined records are published from the outbox to a topic, each exactly once for read_committed.

Every transaction starts in the same way: take the pipeline's transactional id, which aborts what an earlier process
had open; read back what lies above the marks, and mark those letters; only then publish the letters still waiting.
"""

import json
import logging
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from offset_ledger.base.failpoints import Failpoint, reach
from offset_ledger.base.retry import retrying
from offset_ledger.decoding.headers import kafka_headers
from offset_ledger.errors import OpenTransaction
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.snapshot import TopicSnapshot
from offset_ledger.outside.connections import Connection, get_connection
from offset_ledger.outside.kafka.client import KafkaClient, connect_kafka
from offset_ledger.outside.kafka.records import read_records
from offset_ledger.outside.producer.publisher import Publisher, sendable
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import dead_letters
from offset_ledger.postgres.ledger.database import Session, open_ledger, transaction
from offset_ledger.postgres.ledger.dead_letters import RecordPosition
from offset_ledger.steps.plan.step import dead_letter_snapshot

log = logging.getLogger(__name__)

MAX_LETTERS = 10_000  # of one transaction
MAX_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Delivery:
    """The result of one call, in letters.

    ``already_delivered`` had been published by an earlier process that ended before it could mark them.
    """

    published: int = 0
    already_delivered: int = 0

    def __add__(self, other: "Delivery") -> "Delivery":
        return Delivery(self.published + other.published, self.already_delivered + other.already_delivered)

    def __str__(self) -> str:
        earlier = f", {self.already_delivered:,} were already delivered" if self.already_delivered else ""
        return f"{self.published:,} dead letters published{earlier}"


def deliver(pipeline: Pipeline) -> Delivery:
    """Publish every letter in the outbox.

    Raises:
        ConfigurationError: a dead letter topic does not exist.
        PublishFailed, TransactionOutcomeUnknown, OpenTransaction, BrokerUnavailable, DatabaseUnavailable: what was not
            delivered stays in the outbox; call again.
    """
    done = Delivery()
    with open_ledger(pipeline) as session:
        while True:
            with transaction(session) as cursor:
                topics = list(dead_letters.waiting(cursor, pipeline.name))
            if not topics:
                return done
            # Letters for a topic that the pipeline file named earlier come last: that topic may be gone.
            topic = min(topics, key=lambda name: name != pipeline.quality.dead_letter_topic)
            done += _deliver_some(session, pipeline, topic)


def _deliver_some(session: Session, pipeline: Pipeline, topic: str) -> Delivery:
    """Deliver in one transaction the letters that wait for this topic, up to a number and a size."""
    connection = get_connection(pipeline.source.connection)
    acknowledged: list[tuple[int, int]] = []
    sent: list[RecordPosition] = []
    size = 0
    with (
        connect_kafka(connection) as kafka,
        Publisher(
            connection.extra,
            topic,
            transactional_id=f"offset-ledger.{pipeline.name}.dead-letters",
            on_ack=lambda _, partition, offset: acknowledged.append((partition, offset)),
        ) as publisher,
    ):
        snapshot = dead_letter_snapshot(kafka, pipeline, topic)
        unmarked, ahead = _read_back(session, kafka, connection, pipeline, snapshot)
        with closing(dead_letters.take(session, pipeline.name, topic, MAX_LETTERS)) as letters:
            for letter in letters:
                position = RecordPosition(letter["topic_id"], letter["partition"], letter["offset"])
                if position in ahead:  # quarantined again since: the next read back marks it
                    continue
                record = to_record(letter, pipeline.name, len(snapshot.partitions))
                publisher.send(record)
                sent.append(position)
                if (size := size + len(record.value or b"")) > MAX_BYTES:
                    break
        publisher.flush()
        reach(Failpoint.DEAD_LETTERS_SENT)
        publisher.finish()
    reach(Failpoint.DEAD_LETTERS_COMMITTED)
    delivered = [(position, *place) for position, place in zip(sent, acknowledged, strict=True)]
    ends = {p: offset + 1 for p, offset in sorted(acknowledged) if p not in ahead.values()}
    dead_letters.mark(session, pipeline.name, snapshot.topic_id, delivered, ends)
    return Delivery(len(sent), unmarked)


def _read_back(
    session: Session, kafka: KafkaClient, connection: Connection, pipeline: Pipeline, snapshot: TopicSnapshot
) -> tuple[int, Mapping[RecordPosition, int]]:
    """Mark every letter that an earlier process has committed; return how many were unmarked, and which are ahead.

    Letters are ahead if the cursors have yet to reach their records, because the database went back to an earlier
    state; they are returned with the partitions they were published to.

    All that it wrote lies below the ends of the snapshot, which was taken after its transactional id was. A partition
    without a mark is read from its start: its mark may have been lost with a failover or a restore. For the same reason
    no mark passes a letter whose record is not in quarantine again yet.
    """
    ends = {p.partition: p.high_watermark for p in snapshot.partitions}
    waiting = retrying(lambda error: isinstance(error, OpenTransaction), f"open transactions on {snapshot.topic}")
    waiting(lambda: _check_no_open_transaction(kafka.snapshot(snapshot.topic), ends))
    marks = dead_letters.read_marks(session, pipeline.name, snapshot.topic_id)
    delivered = []  # above the marks: the position of the record, and the partition and offset of the letter
    for p in snapshot.partitions:
        start = max(marks.get(p.partition, 0), p.log_start)
        if start >= p.high_watermark:
            continue
        unread = OffsetRange(p.partition, start, p.high_watermark)
        for record in read_records(connection, snapshot.topic, unread, "read_committed"):
            if position := source_position(record.headers, pipeline.name):
                delivered.append((position, p.partition, record.offset))
    unmarked, ahead = dead_letters.compare(session, pipeline.name, [position for position, *_ in delivered])
    for position, partition, offset in delivered:
        if position in ahead:
            ends[partition] = min(ends[partition], offset)
    dead_letters.mark(session, pipeline.name, snapshot.topic_id, delivered, ends)
    if unmarked:
        log.info("%d dead letters of %s had been delivered by an earlier process", len(unmarked), pipeline.name)
    return len(unmarked), {position: partition for position, partition, _ in delivered if position in ahead}


def _check_no_open_transaction(now: TopicSnapshot, ends: Mapping[int, int]) -> None:
    open_at = {p.partition: p.last_stable for p in now.partitions if p.last_stable < ends.get(p.partition, 0)}
    if open_at:
        raise OpenTransaction(
            f"dead letter topic {now.topic}: partitions are stable up to {open_at} and end at {dict(ends)}: a "
            "transaction is open there, so it is not known yet what was delivered; the letters stay in the outbox; "
            "deliver them again later"
        )


PREFIX = "offset-ledger."


def to_record(letter: Any, pipeline: str, partitions: int) -> Record:
    r"""The original record, with its coordinates and the reasons in headers.

    Records of one partition stay in one partition. The client can send neither a header without a value nor a record
    without key and value: these values are sent empty, and ``offset-ledger.sent-empty`` lists the positions of such
    headers and ``"value"``. Nor does it send a header name that is not UTF-8 or has NUL: what it cannot send of it is
    escaped as ``\xff``, and ``offset-ledger.sent-escaped`` lists the positions of such headers.
    """
    key, value = (None if bytes_ is None else bytes(bytes_) for bytes_ in (letter["key"], letter["value"]))
    headers = kafka_headers(letter["headers"])
    empty: list[int | str] = [position for position, (_, content) in enumerate(headers) if content is None]
    if key is None and value is None:
        value = b""
        empty.append("value")
    escaped = [position for position, (name, _) in enumerate(headers) if not sendable(name)]
    names = (
        name if sendable(name) else name.encode().decode(errors="backslashreplace").replace("\0", "\\x00")
        for name, _ in headers
    )
    contents = (content or b"" for _, content in headers)
    ours = {
        "pipeline": pipeline,
        "topic": letter["topic"],
        "topic-id": letter["topic_id"],
        "partition": letter["partition"],
        "offset": letter["offset"],
        "timestamp": letter["timestamp_ms"],
        "batch": letter["batch_id"],
        "reasons": letter["reasons"],
        "sent-empty": json.dumps(empty) if empty else None,
        "sent-escaped": json.dumps(escaped) if escaped else None,
    }
    return Record(
        key=key,
        value=value,
        headers=(
            *zip(names, contents, strict=True),
            *((PREFIX + name, str(content).encode()) for name, content in ours.items() if content is not None),
        ),
        partition=letter["partition"] % partitions,
    )


def source_position(headers: Iterable[tuple[str, bytes]], pipeline: str) -> RecordPosition | None:
    """The coordinates that a dead letter of this pipeline carries; None for any other record.

    The last of several headers of one name counts: a record that was a dead letter before has such headers of its own.
    """
    own = {name.removeprefix(PREFIX): value for name, value in headers if name.startswith(PREFIX)}
    if own.get("pipeline") != pipeline.encode():
        return None
    try:
        return RecordPosition(own["topic-id"].decode(), int(own["partition"]), int(own["offset"]))
    except (KeyError, ValueError, TypeError, AttributeError):
        return None

"""Dead letters: quarantined records leave the outbox for a topic, each once for a reader of committed data.

Every transaction begins in the same way: take the pipeline's transactional id, which ends what an earlier process had
begun; read back what lies above the marks, and mark those letters; only then publish what still waits.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import Connection, get_connection
from offset_ledger.decoding.headers import kafka_headers
from offset_ledger.errors import OpenTransaction
from offset_ledger.failpoints import Failpoint, reach
from offset_ledger.kafka.client import KafkaClient, connect_kafka
from offset_ledger.kafka.records import read_records
from offset_ledger.ledger import dead_letters
from offset_ledger.ledger.database import Session, transaction
from offset_ledger.ledger.dead_letters import RecordPosition
from offset_ledger.ledger.open import open_ledger
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.snapshot import TopicSnapshot
from offset_ledger.plan.dead_letter_topic import dead_letter_snapshot
from offset_ledger.reliability.publishing.producer import Publisher
from offset_ledger.reliability.publishing.record import Record
from offset_ledger.retry import retrying

log = logging.getLogger(__name__)

LETTERS_AT_ONCE = 10_000
BYTES_AT_ONCE = 32 * 1024 * 1024
PREFIX = "offset-ledger."


@dataclass(frozen=True, slots=True)
class Delivery:
    """What one call did, in letters; ``found`` had been published by an earlier one that did not live to mark them."""

    published: int = 0
    found: int = 0

    def __add__(self, other: Delivery) -> Delivery:
        return Delivery(self.published + other.published, self.found + other.found)

    def __str__(self) -> str:
        found = f", {self.found:,} found delivered already" if self.found else ""
        return f"{self.published:,} dead letters published{found}"


def deliver(pipeline: Pipeline) -> Delivery:
    """Publish every letter that waits.

    Raises:
        ConfigurationError: a dead letter topic does not exist.
        PublishFailed, TransactionOutcomeUnknown, OpenTransaction, BrokerUnavailable, DatabaseUnavailable: what was not
            delivered waits in the outbox; call again.
    """
    done = Delivery()
    with open_ledger(pipeline) as session:
        while topics := _waiting(session, pipeline):
            # Letters for a topic that the pipeline file named before come last: they may have nowhere to go any more.
            topic = min(topics, key=lambda name: name != pipeline.quality.dead_letter_topic)
            done += _deliver_some(session, pipeline, topic)
    return done


def _waiting(session: Session, pipeline: Pipeline) -> list[str]:
    with transaction(session) as cursor:
        return list(dead_letters.waiting(cursor, pipeline.name))


def _deliver_some(session: Session, pipeline: Pipeline, topic: str) -> Delivery:
    """One transaction: the letters that wait for this topic, up to a number and a size."""
    connection = get_connection(pipeline.source.connection)
    sent: list[RecordPosition] = []
    answers: list[tuple[int, int]] = []
    with (
        connect_kafka(connection) as kafka,
        Publisher(
            connection.extra,
            topic,
            transactional_id=f"offset-ledger.{pipeline.name}.dead-letters",
            on_ack=lambda _, partition, offset: answers.append((partition, offset)),
        ) as publisher,
    ):
        at = dead_letter_snapshot(kafka, pipeline, topic)
        before = _read_back(session, kafka, connection, pipeline, at)
        size = 0
        with closing(dead_letters.take(session, pipeline.name, topic, LETTERS_AT_ONCE)) as letters:
            for letter in letters:
                place = RecordPosition(letter["topic_id"], letter["partition"], letter["offset"])
                if place in before.ahead:  # quarantined again since: the next read back marks it
                    continue
                record = as_record(letter, pipeline.name, len(at.partitions))
                publisher.send(record)
                sent.append(place)
                if (size := size + len(record.value or b"")) > BYTES_AT_ONCE:
                    break
        publisher.flush()
        reach(Failpoint.DEAD_LETTERS_SENT)
        publisher.finish()
    reach(Failpoint.DEAD_LETTERS_COMMITTED)
    delivered = [(place, *answer) for place, answer in zip(sent, answers, strict=True)]
    ends = {p: end for p, end in _ends(answers).items() if p not in before.ahead.values()}
    dead_letters.mark(session, pipeline.name, at.topic_id, delivered, ends)
    return Delivery(len(sent), before.found)


def _ends(answers: Iterable[tuple[int, int]]) -> dict[int, int]:
    return {partition: offset + 1 for partition, offset in sorted(answers)}


@dataclass(frozen=True, slots=True)
class _Before:
    """What had been delivered before: letters that were found and are marked now, and letters of records that the
    cursors have yet to reach, with their partitions: the database went back since.
    """

    found: int
    ahead: Mapping[RecordPosition, int]


def _read_back(
    session: Session, kafka: KafkaClient, connection: Connection, pipeline: Pipeline, at: TopicSnapshot
) -> _Before:
    """Mark every letter that an earlier process has committed.

    All that it wrote lies below the ends of ``at``, for its transactional id was taken before they were asked for. A
    partition without a mark is read from its start: its mark may have been lost with a failover or a restore. For the
    same reason no mark passes a letter whose record is not in quarantine again yet.
    """
    ends = {p.partition: p.high_watermark for p in at.partitions}
    waiting = retrying(lambda error: isinstance(error, OpenTransaction), f"open transactions on {at.topic}")
    waiting(lambda: _hold_decided(kafka.snapshot(at.topic), ends))
    marks = dead_letters.read_marks(session, pipeline.name, at.topic_id)
    delivered = []
    for p in at.partitions:
        start = max(marks.get(p.partition, 0), p.log_start)
        if start < p.high_watermark:
            unread = OffsetRange(p.partition, start, p.high_watermark)
            for record in read_records(connection, at.topic, unread, "read_committed"):
                if place := place_of(record.headers, pipeline.name):
                    delivered.append((place, p.partition, record.offset))
    unmarked, ahead = dead_letters.compare(session, pipeline.name, [place for place, *_ in delivered])
    for place, partition, offset in delivered:
        if place in ahead:
            ends[partition] = min(ends[partition], offset)
    dead_letters.mark(session, pipeline.name, at.topic_id, delivered, ends)
    if unmarked:
        log.info("%d dead letters of %s had been delivered by an earlier process", len(unmarked), pipeline.name)
    return _Before(len(unmarked), {place: partition for place, partition, _ in delivered if place in ahead})


def _hold_decided(now: TopicSnapshot, ends: dict[int, int]) -> None:
    behind = {p.partition: p.last_stable for p in now.partitions if p.last_stable < ends.get(p.partition, 0)}
    if behind:
        raise OpenTransaction(
            f"dead letter topic {now.topic}: partitions are stable up to {behind} and end at {ends}: a transaction is "
            "open there, so what was delivered cannot be told yet; the letters wait; deliver them again later"
        )


def as_record(letter: Any, pipeline: str, partitions: int) -> Record:
    """The record as it was, with its coordinates and the reasons in headers.

    Records of one partition stay in one partition. The client cannot send a header without a value, nor a record with
    neither key nor value: these values are sent empty, and ``offset-ledger.sent-empty`` lists the places of such
    headers and ``"value"``.
    """
    key, value = (None if bytes_ is None else bytes(bytes_) for bytes_ in (letter["key"], letter["value"]))
    headers = kafka_headers(letter["headers"])
    empty: list[int | str] = [place for place, (_, content) in enumerate(headers) if content is None]
    if key is None and value is None:
        value = b""
        empty.append("value")
    ours = {
        "pipeline": pipeline,
        "topic": letter["topic"],
        "topic-id": letter["topic_id"],
        "partition": letter["partition"],
        "offset": letter["offset"],
        "timestamp": letter["timestamp_ms"],
        "batch": letter["batch_id"],
        "reasons": letter["reasons"],
        **({"sent-empty": json.dumps(empty)} if empty else {}),
    }
    return Record(
        key=key,
        value=value,
        headers=(
            *((name, content or b"") for name, content in headers),
            *((PREFIX + name, str(content).encode()) for name, content in ours.items() if content is not None),
        ),
        partition=letter["partition"] % partitions,
    )


def place_of(headers: Iterable[tuple[str, bytes]], pipeline: str) -> RecordPosition | None:
    """The coordinates that a dead letter of this pipeline carries; None for any other record.

    Of equal names the last one counts: a record that was a dead letter before brings headers of its own.
    """
    found = {name.removeprefix(PREFIX): value for name, value in headers if name.startswith(PREFIX)}
    if found.get("pipeline") != pipeline.encode():
        return None
    try:
        return RecordPosition(found["topic-id"].decode(), int(found["partition"]), int(found["offset"]))
    except (KeyError, ValueError, TypeError, AttributeError):
        return None

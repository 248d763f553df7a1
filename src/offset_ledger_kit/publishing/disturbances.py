"""The flights with faults that real publishers make, repeated, late, aborted and malformed, and the right answer.

Whatever is drawn, the newest well-formed and committed event of a flight is its last event: copies are the same bytes,
late ones are older, aborted ones are never committed, malformed ones are no events.
"""

import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from itertools import count
from random import Random
from typing import NamedTuple

import msgspec

from offset_ledger.base.garbage_collection import rare_collections
from offset_ledger.base.progress import OnProgress
from offset_ledger.outside.producer.publisher import Publisher, Summary, publish
from offset_ledger.outside.producer.record import Record
from offset_ledger_kit.publishing.flights import Actual, Event, Status, events_of, read_rows
from offset_ledger_kit.publishing.topics import create_topic

COPIED_SHARE = 0.01  # of the events
LATE_SHARE = 0.02  # of the flights
ABORTED_SHARE = 0.002  # of the flights
MALFORMED_SHARE = 0.002  # of the flights
COPIED_WITHIN = 12 * 60  # minutes from an event to its copy
LATE_BY = 6 * 60  # minutes from the newest event of a flight to the late one, at most
ABORTED_TRANSACTION = 250  # records in one aborted transaction
ABORTED_AHEAD = timedelta(days=365)  # from the newest event of a flight to the aborted one
PARTITIONS = 8
# Timestamps are those of 2013: by default retention would delete every segment, and each week would begin a new one.
TOPIC_CONFIGS: Mapping[str, str] = {"retention.ms": "-1", "segment.ms": str(100 * 365 * 24 * 3600 * 1000)}

_encode = msgspec.json.Encoder().encode


class Disturbance(StrEnum):
    """The reason that a record is published."""

    EVENT = "event"
    COPY = "copy"
    LATE = "late"
    ABORTED = "aborted"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True)
class Malformation:
    """A way to spoil a record. ``path`` is where the reason must point; ``$`` is the record as a whole."""

    name: str
    path: str
    spoil: Callable[[bytes], bytes]


class PlannedEvent(NamedTuple):
    """An event, the minute at which it is published, and why. ``malformation`` is set where it is malformed."""

    minute: int
    kind: Disturbance
    event: Event
    malformation: Malformation | None = None

    @property
    def value(self) -> bytes:
        """The value of its record."""
        value = _encode(self.event)
        return self.malformation.spoil(value) if self.malformation else value

    @property
    def record(self) -> Record:
        """The record to publish."""
        return Record(self.event.key, self.value, timestamp_ms=self.minute * 60_000)


@dataclass(frozen=True, slots=True)
class Expected:
    """The records of one seed and limit, and what must come of them (the winners: ``flights.winning_events``)."""

    flights: int
    kinds: Mapping[Disturbance, int]
    statuses: Mapping[Status, int]
    refused: Mapping[bytes, Malformation]  # the raw value of every record that must be refused

    @property
    def records(self) -> int:
        """Records that a reader of committed data meets."""
        return sum(self.kinds.values()) - self.kinds[Disturbance.ABORTED]

    @property
    def superseded(self) -> int:
        """Well-formed records that must not be the row of their flight in the end."""
        return self.records - self.kinds[Disturbance.MALFORMED] - self.flights


def plan_events(seed: int, limit: int | None = None) -> Iterator[PlannedEvent]:
    """All records of the first ``limit`` flights, in the order in which they are to be published."""
    # By minute, then by flight and step. About a day is kept in memory, because flights come by their first event.
    waiting: list[tuple[int, int, PlannedEvent]] = []
    serial = count()
    for events in _events_of_flights(seed, limit):
        begins = events[0].event.minute
        while waiting and waiting[0][0] < begins:
            yield heapq.heappop(waiting)[2]
        for event in events:
            heapq.heappush(waiting, (event.minute, next(serial), event))
    while waiting:
        yield heapq.heappop(waiting)[2]


def expected(seed: int, limit: int | None = None) -> Expected:
    """The right answer to :func:`plan_events` with the same arguments."""
    kinds: Counter[Disturbance] = Counter()
    statuses: Counter[Status] = Counter()
    refused: dict[bytes, Malformation] = {}
    for steps in _events_of_flights(seed, limit):
        kinds.update(step.kind for step in steps)
        true = (step.event for step in steps if step.kind is not Disturbance.ABORTED)
        statuses[max(true, key=lambda event: event.publish_at).status] += 1
        refused |= {step.value: step.malformation for step in steps if step.malformation}
    return Expected(statuses.total(), kinds, statuses, refused)


def _events_of_flights(seed: int, limit: int | None) -> Iterator[list[PlannedEvent]]:
    random = Random(seed)
    malformations = count()
    for row in read_rows(limit):
        steps = [PlannedEvent(event.minute, Disturbance.EVENT, event) for event in events_of(row)]
        newest = steps[-1]
        if random.random() < LATE_SHARE:
            older = random.randrange(len(steps) - 1)
            late = newest.minute + random.randint(1, LATE_BY)
            steps[older] = PlannedEvent(late, Disturbance.LATE, steps[older].event)
        steps += [
            PlannedEvent(step.minute + random.randint(0, COPIED_WITHIN), Disturbance.COPY, step.event)
            for step in steps
            if random.random() < COPIED_SHARE
        ]
        if random.random() < ABORTED_SHARE:
            steps.append(PlannedEvent(newest.minute, Disturbance.ABORTED, _falsified(newest.event)))
        if random.random() < MALFORMED_SHARE:
            malformation = MALFORMATIONS[next(malformations) % len(MALFORMATIONS)]
            steps.append(PlannedEvent(newest.minute, Disturbance.MALFORMED, newest.event, malformation))
        yield steps


def _falsified(event: Event) -> Event:
    """An event that would win over all of its flight, and be wrong in every value that can be."""
    nonsense = Actual(dep_time=1, dep_delay=9999, arr_time=1, arr_delay=9999, air_time=9999)
    status = Status.CANCELLED if event.status is not Status.CANCELLED else Status.ARRIVED
    return msgspec.structs.replace(
        event, publish_at=event.publish_at + ABORTED_AHEAD, status=status, distance=0, actual=nonsense
    )


def _replacing(pattern: bytes, replacement: bytes) -> Callable[[bytes], bytes]:
    return lambda value: re.sub(pattern, lambda _: replacement, value, count=1)


_PUBLISH_AT = rb'"publish_at":"[^"]*"'

MALFORMATIONS = (
    Malformation("truncated", "$", lambda value: value[: len(value) // 2]),
    Malformation("trailing_text", "$", lambda value: value + b" and more"),
    Malformation("not_an_object", "$", lambda value: b"[" + value + b"]"),
    Malformation("bad_utf8", "$", _replacing(rb'"carrier":"', b'"carrier":"\xff')),
    Malformation("duplicate_key", "$.distance", _replacing(rb'"distance":', b'"distance":1,"distance":')),
    Malformation("missing_event_id", "$.event_id", _replacing(rb'"event_id":"[^"]*",', b"")),
    Malformation("empty_publish_at", "$.publish_at", _replacing(_PUBLISH_AT, b'"publish_at":""')),
    Malformation("no_such_day", "$.publish_at", _replacing(_PUBLISH_AT, b'"publish_at":"2013-02-30T00:00:00Z"')),
    Malformation("null_status", "$.status", _replacing(rb'"status":"[^"]*"', b'"status":null')),
    Malformation("nul_in_text", "$.flight.origin", _replacing(rb'"origin":"', rb'"origin":"\u0000')),
    Malformation("text_for_number", "$.flight.number", _replacing(rb'"number":\d+', b'"number":"one"')),
    Malformation("fraction", "$.schedule.arr_time", _replacing(rb'"arr_time":\d+', b'"arr_time":0.5')),
    Malformation("number_too_large", "$.distance", _replacing(rb'"distance":\d+', b'"distance":99999999999999999999')),
)


def publish_flights(
    extra: Mapping[str, str],
    topic: str,
    seed: int,
    limit: int | None = None,
    *,
    replication_factor: int,
    on_progress: OnProgress | None = None,
) -> Summary:
    """Create the topic and publish ``plan_events(seed, limit)`` to it, in that order.

    The summary leaves the aborted records out.

    Raises:
        TopicMismatch: the topic exists with another number of partitions.
        PublishFailed, TransactionOutcomeUnknown, BrokerUnavailable: as :func:`producer.publish`.
    """
    durable = {**TOPIC_CONFIGS, "min.insync.replicas": str(min(2, replication_factor))}
    create_topic(extra, topic, PARTITIONS, replication_factor, durable)
    aborted: list[Record] = []

    def abort() -> None:
        publish(aborted, extra, topic, commit=False, transactional_id=f"{topic}-aborted")
        aborted.clear()

    with rare_collections(), Publisher(extra, topic, on_progress=on_progress) as publisher:
        for planned in plan_events(seed, limit):
            if planned.kind is not Disturbance.ABORTED:
                publisher.send(planned.record)
                continue
            aborted.append(planned.record)
            if len(aborted) == ABORTED_TRANSACTION:
                abort()
        publisher.finish()
    if aborted:
        abort()
    return publisher.summary

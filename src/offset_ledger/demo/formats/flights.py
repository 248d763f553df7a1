"""The records of this demo: flights of 2013 as three topics carry them, and those that no decoder may accept.

Distances are in millimetres, so that an int of 32 bits has room for a flight of 1,334 miles and no longer one: the
third Avro schema, with a long, is the first that a flight to the west coast fits into.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from datetime import datetime
from itertools import cycle
from typing import Any, Self

from offset_ledger.publishing.flights import Actual, Event, events_of, read_rows

MILLIMETRES = 1_609_344  # of a mile
LARGEST_INT = 2**31 - 1
NO_SCHEMA_ID = 2**31 - 1  # a new registry has no schema of this id


@dataclass(frozen=True, slots=True)
class Flight:
    """One state of one flight."""

    event_id: str
    published_at: datetime
    carrier: str
    origin: str
    dest: str
    dep_delay: int | None
    distance: int
    air_time: int | None

    @classmethod
    def of(cls, event: Event) -> Self:
        """Return what the event says."""
        actual = event.actual if isinstance(event.actual, Actual) else Actual()
        which = event.flight
        return cls(
            *(event.event_id, event.publish_at, which.carrier, which.origin, which.dest, actual.dep_delay),
            event.distance * MILLIMETRES,
            actual.air_time,
        )

    def document(self) -> dict[str, Any]:
        """Its fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, slots=True)
class Poison:
    """A way to spoil a framed record, and the code of the reason that it must be refused for."""

    name: str
    code: str
    spoil: Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class Sending:
    """A record to publish: the flight, the version of the schema that it is written with, what spoils it."""

    flight: Flight
    version: int
    poison: Poison | None = None


POISON = (
    Poison("a frame of 3 bytes", "frame", lambda value: value[:3]),
    Poison("another magic byte", "frame", lambda value: b"\x01" + value[1:]),
    Poison("JSON without a frame", "frame", lambda _: b'{"event_id": "AA1"}'),
    Poison("the last byte is missing", "syntax", lambda value: value[:-1]),
    Poison("a byte behind the end", "syntax", lambda value: value + b"\x07"),  # to Protobuf a tag of no wire type
)
UNKNOWN_SCHEMA = Poison(
    "an unknown schema id", "unknown_schema", lambda value: b"\0" + NO_SCHEMA_ID.to_bytes(4, "big") + value[5:]
)
AGAINST_SCHEMA = Poison(
    "a carrier of one letter", "schema", lambda value: re.sub(rb'"carrier":"(.).', rb'"carrier":"\1', value)
)


def flights(limit: int) -> list[tuple[Flight, Flight]]:
    """The first and the last state of so many flights."""
    states = (events_of(row) for row in read_rows(limit))
    return [(Flight.of(events[0]), Flight.of(events[-1])) for events in states]


def one_topic(states: list[tuple[Flight, Flight]], poison: tuple[Poison, ...]) -> list[Sending]:
    """All flights by one schema; of each tenth the first state comes too, later than the last."""
    sendings = [Sending(last, 1) for _, last in states]
    sendings += [Sending(first, 1) for first, _ in states[::10]]
    return [*sendings, *spoiled(sendings, (*poison, UNKNOWN_SCHEMA))]


def avro_waves(states: list[tuple[Flight, Flight]]) -> Iterator[list[Sending]]:
    """Yield what is published before each of three runs, by producers of which some are behind with the schema.

    Records with an unknown schema id end the last wave: a registry has to be there for them.
    """
    short = [each for each in states if each[1].distance <= LARGEST_INT]
    long = [each for each in states if each[1].distance > LARGEST_INT]
    first, second, third = short[::3], short[1::3], short[2::3]
    one = [Sending(last, 1) for _, last in first]
    yield [*one, *spoiled(one, POISON)]
    two = [Sending(last, 1 if n % 5 == 0 else 2) for n, (_, last) in enumerate(second)]
    two += [Sending(last, 2) for _, last in first[::3]]  # published again, with the time in the air
    yield [*two, *spoiled(two, POISON)]
    three = [Sending(last, n % 5 % 3 + 1) for n, (_, last) in enumerate(third)]
    three += [Sending(last, 3) for _, last in long]
    three += [Sending(before, 3) for before, _ in first[::10]]  # too late: an older state
    yield [*three, *spoiled(three, (*POISON, UNKNOWN_SCHEMA))]


def spoiled(sendings: list[Sending], poison: tuple[Poison, ...]) -> list[Sending]:
    """One record for each of these ways, spoiled in it."""
    return [Sending(each.flight, each.version, way) for each, way in zip(cycle(sendings), poison, strict=False)]

"""The topics with a registry: files, flights, records that no decoder may accept, and publishing.

Distances are in millimetres, so that an int of 32 bits has room for a flight of 1,334 miles and no longer one: the
third Avro schema, with a long, is the first that a flight to the west coast fits into.
"""

import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from importlib.resources import files
from itertools import cycle
from pathlib import Path
from typing import Any, Self

from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.outside.schema_registry.client import Registry
from offset_ledger_kit.publishing.disturbances import TOPIC_CONFIGS
from offset_ledger_kit.publishing.flights import Actual, Event, events_of, read_rows
from offset_ledger_kit.publishing.formats.framing import framed
from offset_ledger_kit.publishing.formats.registered import compile_codec
from offset_ledger_kit.publishing.topics import create_topic

PARTITIONS = 4
MILLIMETRES = 1_609_344  # of a mile
LARGEST_INT = 2**31 - 1
NO_SCHEMA_ID = 2**31 - 1  # a new registry has no schema of this id
AVRO, PROTOBUF, JSON_SCHEMA = "flights_avro", "flights_protobuf", "flights_json_schema"
CHANGES = "flights_changes"
PIPELINES = (AVRO, PROTOBUF, JSON_SCHEMA, CHANGES)
_DAGS = '''"""An Airflow ingest DAG for each pipeline file of the demo."""

from pathlib import Path

from offset_ledger import ingest_dags

globals().update(ingest_dags(Path(__file__).parent / "pipelines"))
'''


def text(name: str) -> str:
    """The text of one file."""
    return files("offset_ledger_kit.demo.formats").joinpath("files", name).read_text()


def write_dags(folder: Path) -> None:
    """The DAG file and the pipelines, Avro's as it begins."""
    (folder / "pipelines").mkdir(parents=True)
    for name in PIPELINES:
        file = f"{AVRO}.1" if name == AVRO else name
        (folder / "pipelines" / f"{name}.yaml").write_text(text(f"{file}.yaml"))
    (folder / "formats.py").write_text(_DAGS)


def change_avro(folder: Path, version: int) -> None:
    """Bring the pipeline of Avro to this version, and let Airflow parse it at once."""
    draft = folder / "pipelines" / "draft"
    draft.write_text(text(f"{AVRO}.{version}.yaml"))
    draft.replace(folder / "pipelines" / f"{AVRO}.yaml")
    os.utime(folder / "formats.py")


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
        """Return the state that the event gives."""
        actual = event.actual if isinstance(event.actual, Actual) else Actual()
        which = event.flight
        return cls(
            *(event.event_id, event.publish_at, which.carrier, which.origin, which.dest, actual.dep_delay),
            event.distance * MILLIMETRES,
            actual.air_time,
        )

    def document(self) -> dict[str, Any]:
        """Return its fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, slots=True)
class Poison:
    """A way to spoil a framed record, and the code of the reason that it must be refused for."""

    name: str
    code: str
    spoil: Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class Sending:
    """A record to publish: the flight, the version of the schema that it is written with, and its fault, if any."""

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
    """Return the first and the last state of ``limit`` flights."""
    states = (events_of(row) for row in read_rows(limit))
    return [(Flight.of(events[0]), Flight.of(events[-1])) for events in states]


def one_topic(states: list[tuple[Flight, Flight]], poison: tuple[Poison, ...]) -> list[Sending]:
    """Yield all flights by one schema; of each tenth the first state comes too, later than the last."""
    sendings = [Sending(last, 1) for _, last in states]
    sendings += [Sending(first, 1) for first, _ in states[::10]]
    return [*sendings, *spoiled(sendings, (*poison, UNKNOWN_SCHEMA))]


def avro_waves(states: list[tuple[Flight, Flight]]) -> Iterator[list[Sending]]:
    """Yield what is published before each of three runs, by producers some of which have an old schema.

    Records with an unknown schema id end the last wave: they need a registry.
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
    """Yield one record for each of these ways, spoiled in it."""
    return [Sending(each.flight, each.version, way) for each, way in zip(cycle(sendings), poison, strict=False)]


@dataclass(frozen=True, slots=True)
class Published:
    """A record in its topic."""

    sending: Sending
    partition: int
    offset: int
    schema_id: int
    value: bytes


# The language of each topic's schemas, and their files by version.
SCHEMAS: Mapping[str, tuple[SchemaLanguage, Mapping[int, str]]] = {
    AVRO: (SchemaLanguage.AVRO, {version: f"flight.{version}.avsc" for version in (1, 2, 3)}),
    PROTOBUF: (SchemaLanguage.PROTOBUF, {1: "flight.proto"}),
    JSON_SCHEMA: (SchemaLanguage.JSON, {1: "flight.json"}),
}


class Writer:
    """A producer that writes the flights of a topic by one version of its schema, with the fields that it has."""

    def __init__(self, topic: str, version: int, schema_id: int) -> None:
        language, by_version = SCHEMAS[topic]
        schema = WriterSchema(schema_id, language, text(by_version[version]))
        codec = compile_codec(schema)
        self.schema_id, self._fields, self._serializer = schema_id, codec.cells, framed(topic, schema, codec)

    def value(self, flight: Flight) -> bytes:
        """Return the value of its record."""
        document = {name: each for name, each in flight.document().items() if name in self._fields}
        return self._serializer.serialize(document) or b""


class Topic:
    """One topic, named like its pipeline. A version of its schema is registered when it is first written with."""

    def __init__(self, name: str, kafka: Connection, registry: Registry, replication_factor: int) -> None:
        self.name = name
        self.published: list[Published] = []
        self._extra = dict(kafka.extra)
        self._registry = registry
        self._writers: dict[int, Writer] = {}
        create_topic(self._extra, name, PARTITIONS, replication_factor, TOPIC_CONFIGS)

    def publish(self, sendings: Sequence[Sending]) -> None:
        """Publish these, and return when each is acknowledged.

        Raises:
            PublishFailed, BrokerUnavailable, SchemaRejected, RegistryUnavailable: it is not possible.
        """
        records = []
        for sending in sendings:
            value = self._writer(sending.version).value(sending.flight)
            key = sending.flight.event_id.encode()
            moment = int(sending.flight.published_at.timestamp() * 1000)
            spoiled = sending.poison.spoil(value) if sending.poison else value
            records.append(Record(key, spoiled, timestamp_ms=moment, partition=zlib.crc32(key) % PARTITIONS))
        places: list[tuple[int, int]] = []
        publish(records, self._extra, self.name, on_ack=lambda _, *place: places.append(place))
        for sending, record, (partition, offset) in zip(sendings, records, places, strict=True):
            schema_id = self._writer(sending.version).schema_id
            self.published.append(Published(sending, partition, offset, schema_id, record.value or b""))

    def ends(self, until: Callable[[Published], bool] = lambda _: False) -> dict[int, int]:
        """Return the end of each partition, or the first offset there for which ``until`` is true."""
        ends: dict[int, int] = {}
        stopped = set()
        for each in self.published:
            if each.partition not in stopped and until(each):
                stopped.add(each.partition)
                ends.setdefault(each.partition, each.offset)
            elif each.partition not in stopped:
                ends[each.partition] = each.offset + 1
        return ends

    def _writer(self, version: int) -> Writer:
        if version not in self._writers:
            language, by_version = SCHEMAS[self.name]
            schema_id = self._registry.register(f"{self.name}-value", language, text(by_version[version]))
            self._writers[version] = Writer(self.name, version, schema_id)
        return self._writers[version]

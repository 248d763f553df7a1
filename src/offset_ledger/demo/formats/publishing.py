"""The three topics: schemas registered, records published, and where each record has come to lie."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from offset_ledger.connections import Connection
from offset_ledger.demo.formats import encoding, files
from offset_ledger.demo.formats.flights import Sending
from offset_ledger.model.writer_schema import SchemaLanguage
from offset_ledger.reliability.publishing.feed import TOPIC_CONFIGS
from offset_ledger.reliability.publishing.producer import publish
from offset_ledger.reliability.publishing.record import Record
from offset_ledger.reliability.publishing.topics import create_topic
from offset_ledger.schema_registry.client import Registry

PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class Published:
    """A record in its topic."""

    sending: Sending
    partition: int
    offset: int
    schema_id: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Writing:
    """How a topic is written: the language of its schemas, their files by version, what encodes by one of them."""

    language: SchemaLanguage
    schemas: Mapping[int, str]
    encoder: Callable[[str], encoding.Encode]


WRITINGS: Mapping[str, Writing] = {
    files.AVRO: Writing(
        SchemaLanguage.AVRO, {version: f"flight.{version}.avsc" for version in (1, 2, 3)}, encoding.avro
    ),
    files.PROTOBUF: Writing(SchemaLanguage.PROTOBUF, {1: "flight.proto"}, encoding.protobuf),
    files.JSON_SCHEMA: Writing(SchemaLanguage.JSON, {1: "flight.json"}, encoding.json_schema),
}


class Topic:
    """One topic, named like its pipeline. A version of its schema is registered when it is first written with."""

    def __init__(self, name: str, kafka: Connection, registry: Registry, replication_factor: int) -> None:
        self.name = name
        self.published: list[Published] = []
        self._extra = dict(kafka.extra)
        self._registry = registry
        self._writers: dict[int, tuple[int, encoding.Encode]] = {}
        create_topic(self._extra, name, PARTITIONS, replication_factor, TOPIC_CONFIGS)

    def publish(self, sendings: Sequence[Sending]) -> None:
        """Publish these, and return when each is acknowledged.

        Raises:
            PublishFailed, BrokerUnavailable, SchemaRejected, RegistryUnavailable: it is not possible.
        """
        records = [self._record(sending) for sending in sendings]
        places: list[tuple[int, int]] = []
        publish(records, self._extra, self.name, on_ack=lambda _, *place: places.append(place))
        for sending, record, (partition, offset) in zip(sendings, records, places, strict=True):
            schema_id, _ = self._writer(sending.version)
            self.published.append(Published(sending, partition, offset, schema_id, record.value or b""))

    def ends(self, until: Callable[[Published], bool] = lambda _: False) -> dict[int, int]:
        """The end of each partition, or the first offset there of which ``until`` is true."""
        ends: dict[int, int] = {}
        stopped = set()
        for each in self.published:
            if each.partition not in stopped and until(each):
                stopped.add(each.partition)
                ends.setdefault(each.partition, each.offset)
            elif each.partition not in stopped:
                ends[each.partition] = each.offset + 1
        return ends

    def _record(self, sending: Sending) -> Record:
        schema_id, encode = self._writer(sending.version)
        value = encoding.framed(schema_id, encode(sending.flight.document()))
        key = sending.flight.event_id.encode()
        moment = int(sending.flight.published_at.timestamp() * 1000)
        spoiled = sending.poison.spoil(value) if sending.poison else value
        return Record(key, spoiled, timestamp_ms=moment, partition=zlib.crc32(key) % PARTITIONS)

    def _writer(self, version: int) -> tuple[int, encoding.Encode]:
        if version not in self._writers:
            writing = WRITINGS[self.name]
            schema = files.text(writing.schemas[version])
            schema_id = self._registry.register(f"{self.name}-value", writing.language, schema)
            self._writers[version] = (schema_id, writing.encoder(schema))
        return self._writers[version]

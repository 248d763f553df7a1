"""The three topics: schemas registered, records published, and where each record has come to lie."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fastavro
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.timestamp_pb2 import Timestamp

from offset_ledger.connections import Connection
from offset_ledger.demo.formats import files
from offset_ledger.demo.formats.flights import Sending
from offset_ledger.model.writer_schema import SchemaLanguage
from offset_ledger.reliability.publishing.feed import TOPIC_CONFIGS
from offset_ledger.reliability.publishing.producer import publish
from offset_ledger.reliability.publishing.record import Record
from offset_ledger.reliability.publishing.topics import create_topic
from offset_ledger.schema_registry.client import Registry

Encode = Callable[[Mapping[str, Any]], bytes]


def framed(schema_id: int, payload: bytes) -> bytes:
    """The payload in Confluent's wire format."""
    return b"\0" + schema_id.to_bytes(4, "big") + payload


def avro(schema: str) -> Encode:
    """Documents as Avro's binary encoding."""
    parsed = fastavro.parse_schema(json.loads(schema))

    def encode(document: Mapping[str, Any]) -> bytes:
        written = io.BytesIO()
        fastavro.schemaless_writer(written, parsed, document)
        return written.getvalue()

    return encode


def protobuf(schema: str) -> Encode:
    """Documents as the first message of the file, behind the index that Confluent's serializers write for it."""
    message = _first_message(schema)

    def encode(document: Mapping[str, Any]) -> bytes:
        return b"\0" + bytes(message(**{name: _moment(value) for name, value in document.items()}).SerializeToString())

    return encode


def json_schema(_: str) -> Encode:
    """Documents as JSON."""

    def encode(document: Mapping[str, Any]) -> bytes:
        return json.dumps(document, default=datetime.isoformat).encode()

    return encode


def _first_message(schema: str) -> Any:
    """The class of the first message, from what protoc makes of the file and its imports."""
    with TemporaryDirectory(prefix="offset-ledger-") as folder:
        Path(folder, "schema.proto").write_text(schema)
        options = [f"-I{folder}", "--include_imports", f"--descriptor_set_out={folder}/set", "schema.proto"]
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *options], check=True)
        files = FileDescriptorSet.FromString(Path(folder, "set").read_bytes()).file
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.Add(file)
    name = f"{files[-1].package}.{files[-1].message_type[0].name}"
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def _moment(value: Any) -> Any:
    if not isinstance(value, datetime):
        return value
    stamp = Timestamp()
    stamp.FromDatetime(value)
    return {"seconds": stamp.seconds, "nanos": stamp.nanos}


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
    """The writing of a topic: the language of its schemas, their files by version, what encodes by one of them."""

    language: SchemaLanguage
    schemas: Mapping[int, str]
    encoder: Callable[[str], Encode]


WRITINGS: Mapping[str, Writing] = {
    files.AVRO: Writing(SchemaLanguage.AVRO, {version: f"flight.{version}.avsc" for version in (1, 2, 3)}, avro),
    files.PROTOBUF: Writing(SchemaLanguage.PROTOBUF, {1: "flight.proto"}, protobuf),
    files.JSON_SCHEMA: Writing(SchemaLanguage.JSON, {1: "flight.json"}, json_schema),
}


class Topic:
    """One topic, named like its pipeline. A version of its schema is registered when it is first written with."""

    def __init__(self, name: str, kafka: Connection, registry: Registry, replication_factor: int) -> None:
        self.name = name
        self.published: list[Published] = []
        self._extra = dict(kafka.extra)
        self._registry = registry
        self._writers: dict[int, tuple[int, Encode]] = {}
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
        value = framed(schema_id, encode(sending.flight.document()))
        key = sending.flight.event_id.encode()
        moment = int(sending.flight.published_at.timestamp() * 1000)
        spoiled = sending.poison.spoil(value) if sending.poison else value
        return Record(key, spoiled, timestamp_ms=moment, partition=zlib.crc32(key) % PARTITIONS)

    def _writer(self, version: int) -> tuple[int, Encode]:
        if version not in self._writers:
            writing = WRITINGS[self.name]
            schema = files.text(writing.schemas[version])
            schema_id = self._registry.register(f"{self.name}-value", writing.language, schema)
            self._writers[version] = (schema_id, writing.encoder(schema))
        return self._writers[version]

"""The three topics: schemas, pipeline files in a project folder for Airflow, and the records published to them."""

import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from offset_ledger.connections import Connection
from offset_ledger.demo.formats.flights import Flight, Sending
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.publishing.disturbances import TOPIC_CONFIGS
from offset_ledger.publishing.formats.framing import framed
from offset_ledger.publishing.formats.registered import compile_codec
from offset_ledger.publishing.producer import publish
from offset_ledger.publishing.record import Record
from offset_ledger.publishing.topics import create_topic
from offset_ledger.schema_registry.client import Registry

PARTITIONS = 4
AVRO, PROTOBUF, JSON_SCHEMA = "flights_avro", "flights_protobuf", "flights_json_schema"
PIPELINES = (AVRO, PROTOBUF, JSON_SCHEMA)
_DAGS = '''"""An Airflow ingest DAG for each pipeline file of the demo."""

from pathlib import Path

from offset_ledger import ingest_dags

globals().update(ingest_dags(Path(__file__).parent / "pipelines"))
'''


def text(name: str) -> str:
    """The text of one file."""
    return files("offset_ledger.demo.formats").joinpath("files", name).read_text()


def write_dags(folder: Path) -> None:
    """The DAG file and the pipelines, Avro's as it begins."""
    (folder / "pipelines").mkdir(parents=True)
    for name, file in ((AVRO, f"{AVRO}.1"), (PROTOBUF, PROTOBUF), (JSON_SCHEMA, JSON_SCHEMA)):
        (folder / "pipelines" / f"{name}.yaml").write_text(text(f"{file}.yaml"))
    (folder / "formats.py").write_text(_DAGS)


def change_avro(folder: Path, version: int) -> None:
    """Bring the pipeline of Avro to this version, and let Airflow parse it at once."""
    draft = folder / "pipelines" / "draft"
    draft.write_text(text(f"{AVRO}.{version}.yaml"))
    draft.replace(folder / "pipelines" / f"{AVRO}.yaml")
    os.utime(folder / "formats.py")


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

    def _writer(self, version: int) -> Writer:
        if version not in self._writers:
            language, by_version = SCHEMAS[self.name]
            schema_id = self._registry.register(f"{self.name}-value", language, text(by_version[version]))
            self._writers[version] = Writer(self.name, version, schema_id)
        return self._writers[version]

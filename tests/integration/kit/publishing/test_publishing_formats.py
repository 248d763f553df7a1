"""Publishing by schemas of a registry: other readers, of Python and of Java, find the same records in the topic."""

from __future__ import annotations

import io
import json
import struct
from datetime import date, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import fastavro
import msgspec
import pytest
from google.protobuf import json_format

from offset_ledger.errors import JournalMismatch
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.outside.schema_registry.client import Registry
from offset_ledger_kit.publishing.disturbances import Disturbance, plan_events
from offset_ledger_kit.publishing.file_feed import publish_file
from offset_ledger_kit.publishing.flights import Event
from offset_ledger_kit.publishing.formats.framing import framed
from offset_ledger_kit.publishing.formats.registered import compile_codec
from offset_ledger_kit.publishing.forms import Form
from offset_ledger_kit.publishing.record_file import RecordFile
from offset_ledger_kit.publishing.serializers import STRING
from offset_ledger_kit.sandbox.java import find_java
from offset_ledger_kit.sandbox.registry import API
from offset_ledger_kit.sandbox.registry import Registry as LocalRegistry
from tests.fixtures.flights_schemas import AVRO, JSON_SCHEMA, PROTOBUF
from tests.fixtures.java_clients import JavaClients, java_classes, java_messages, protobuf_jars, serde_jars
from tests.fixtures.protoc import described, message_class
from tests.fixtures.topic_reader import read, values
from tests.integration.kit.publishing.conftest import Command

RECORDS = 1_000
FILES = {
    "avro": ("flights.avsc", AVRO),
    "protobuf": ("flights.proto", PROTOBUF),
    "json_schema": ("f.json", JSON_SCHEMA),
}


@pytest.fixture(scope="module")
def events() -> dict[str, Event]:
    """Flights by event id; the newest of each, because an event id names a flight."""
    planned = (each for each in plan_events(5, 800) if each.kind is Disturbance.EVENT)
    newest = {each.event.event_id: each.event for each in planned}
    return dict(islice(newest.items(), RECORDS))


@pytest.fixture
def file(events: dict[str, Event], tmp_path: Path) -> Path:
    path = tmp_path / "flights.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in events.values()))
    return path


def schema_file(folder: Path, name: str) -> Path:
    path = folder / FILES[name][0]
    path.write_text(FILES[name][1])
    return path


def payloads(extra: dict[str, str], topic: str, registry: Registry, prefix: bytes = b"") -> dict[str, bytes]:
    """By the event id of its header what stands behind the frame of each record, whose id is the latest schema's."""
    latest = registry.latest(f"{topic}-value")
    assert latest is not None
    frame = struct.pack(">bI", 0, latest.schema_id) + prefix
    found = {}
    for record in read(extra, topic).values():
        assert record.value is not None
        assert record.value.startswith(frame)
        found[dict(record.headers)["event_id"].decode()] = record.value[len(frame) :]
    return found


def members(value: Any) -> Any:
    """The value without members that are null."""
    if isinstance(value, dict):
        return {name: members(each) for name, each in value.items() if each is not None}
    return value


def test_fastavro_reads_what_is_published(
    command: Command, extra: dict[str, str], topic: str, registry: Registry, file: Path, events: dict[str, Event],
) -> None:  # fmt: skip
    schema = schema_file(file.parent, "avro")
    arguments = (topic, "--file", file, "--value-serializer", "avro", "--schema", schema)
    code, out, _ = command(*arguments, "--register", "--key", "$.event_id", "--json")
    assert (code, json.loads(out)["acknowledged"]) == (0, len(events))
    said = fastavro.parse_schema(json.loads(AVRO))
    found = {
        event_id: fastavro.schemaless_reader(io.BytesIO(data), said, None)
        for event_id, data in payloads(extra, topic, registry).items()
    }
    expected = {
        event_id: msgspec.to_builtins(event, builtin_types=(datetime, date)) for event_id, event in events.items()
    }
    assert members(found) == members(expected)
    assert {record.key for record in read(extra, topic).values()} == {event_id.encode() for event_id in events}


# Of Apicurio, because Confluent's own are not on Maven Central; with this handler the wire format is Confluent's.
JAVA_SETTINGS = {
    "apicurio.registry.url": "{address}/apis/registry/v2",
    "apicurio.registry.id-handler": "io.apicurio.registry.serde.Legacy4ByteIdHandler",
    "apicurio.registry.use-id": "contentId",
}


def test_a_java_deserializer_reads_what_is_published(
    command: Command, extra: dict[str, str], topic: str, registry_server: LocalRegistry, file: Path,
    events: dict[str, Event],
) -> None:  # fmt: skip
    schema = schema_file(file.parent, "avro")
    assert command(topic, "--file", file, "--format", "avro", "--schema", schema, "--register")[0] == 0
    java = find_java()
    clients = JavaClients(java, extra["bootstrap.servers"], serde_jars(java))
    address = registry_server.address.removesuffix(API)
    settings = {name: value.format(address=address) for name, value in JAVA_SETTINGS.items()}
    settings = {f"value.deserializer.{name}": value for name, value in settings.items()}
    settings["value.deserializer"] = "io.apicurio.registry.serde.avro.AvroKafkaDeserializer"
    options = [part for name, value in settings.items() for part in ("--formatter-property", f"{name}={value}")]
    shown = map(json.loads, clients.console_consumer(topic, len(events), *options))
    found = {each["event_id"]: members(each) for each in shown}
    assert found == {event_id: members(as_avro(msgspec.to_builtins(event))) for event_id, event in events.items()}


def as_avro(event: dict[str, Any]) -> dict[str, Any]:
    """The event as Java shows Avro: days and microseconds since 1970."""
    schedule = event["schedule"]
    day = (date.fromisoformat(schedule["date"]) - date(1970, 1, 1)).days
    return event | {
        "publish_at": microseconds(event["publish_at"]),
        "schedule": schedule | {"date": day, "dep": microseconds(schedule["dep"])},
    }


def microseconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 1_000_000


def test_googles_runtime_reads_what_is_published(
    command: Command, extra: dict[str, str], topic: str, registry: Registry, file: Path, events: dict[str, Event]
) -> None:
    schema = schema_file(file.parent, "protobuf")
    chosen = ("--format", "protobuf", "--schema", schema, "--schema-message", "flights.Event")
    code, _, err = command(topic, "--file", file, *chosen, "--register")
    assert code == 0, err
    message = message_class(described(schema), "flights.Event")
    found = {
        event_id: json_format.MessageToDict(message.FromString(data), preserving_proto_field_name=True)
        for event_id, data in payloads(extra, topic, registry, b"\x02\x04").items()  # the third message of the file
    }
    expected = {event_id: members(msgspec.to_builtins(event)) for event_id, event in events.items()}
    assert found == expected


@pytest.mark.parametrize("message", ["flights.Flight", "flights.Event.Actual"])
def test_googles_java_runtime_finds_the_message_and_reads_it(
    command: Command, extra: dict[str, str], topic: str, registry: Registry, file: Path, events: dict[str, Event],
    message: str,
) -> None:  # fmt: skip
    schema = schema_file(file.parent, "protobuf")
    name = message.rpartition(".")[2].lower()
    some = [event for event in events.values() if event.actual is not msgspec.UNSET][:100]
    expected = [members(msgspec.to_builtins(getattr(event, name))) for event in some]
    file.write_text("".join(f"{json.dumps(each)}\n" for each in expected))
    chosen = ("--format", "protobuf", "--schema", schema, "--schema-message", message, "--partition", "0")
    code, _, err = command(topic, "--file", file, *chosen, "--register")
    assert code == 0, err
    latest = registry.latest(f"{topic}-value")
    assert latest is not None
    descriptors = described(schema)
    with java_classes(protobuf_jars(find_java())) as classes:
        java = java_messages(classes)
        told = [java.read(descriptors, value).split(" ", 2) for value in values(extra, topic)]
    assert {(schema_id, name) for schema_id, name, _ in told} == {(str(latest.schema_id), message)}
    assert [json.loads(text) for _, _, text in told] == expected


def test_json_is_published_as_it_is(
    command: Command, extra: dict[str, str], topic: str, registry: Registry, file: Path, events: dict[str, Event]
) -> None:
    schema = schema_file(file.parent, "json_schema")
    code, _, err = command(topic, "--file", file, "--format", "json_schema", "--schema", schema, "--register")
    assert code == 0, err
    found = {event_id: json.loads(data) for event_id, data in payloads(extra, topic, registry).items()}
    assert found == {event_id: msgspec.to_builtins(event) for event_id, event in events.items()}


def test_nothing_is_sent_unless_every_line_fits(
    command: Command, extra: dict[str, str], topic: str, file: Path
) -> None:
    lines = file.read_text().splitlines()
    lines[1] = lines[1].replace('"distance":', '"distance":0.5,"was":')
    lines[6] = lines[6].replace('"status":"', '"status":"re')
    file.write_text("\n".join(lines))
    code, out, err = command(
        topic, "--file", file, "--format", "avro", "--schema", schema_file(file.parent, "avro"), "--register"
    )
    assert (code, out) == (1, "")
    assert f"{file}:2: avro: $.distance: expected int, found 0.5\n" in err
    assert f"{file}:7: avro: $.status: expected a symbol of enum flights.Status, found 're" in err
    assert values(extra, topic) == []


def test_without_register_the_schema_has_to_be_there(
    command: Command, extra: dict[str, str], topic: str, registry: Registry, file: Path, events: dict[str, Event]
) -> None:
    schema = schema_file(file.parent, "avro")
    chosen = ("--file", file, "--format", "avro")
    code, _, err = command(topic, *chosen, "--schema", schema)
    assert code == 1
    expected = f"the registry does not have the schema of {schema} under {topic}-value; add --register to register it"
    assert expected in err
    code, _, err = command(topic, *chosen)
    assert (code, f"the registry has no schema under {topic}-value; add --schema FILE and --register" in err) == (
        1,
        True,
    )
    assert (registry.latest(f"{topic}-value"), values(extra, topic)) == (None, [])

    registry.register(f"{topic}-value", SchemaLanguage.AVRO, AVRO)
    assert command(topic, *chosen, "--schema", schema)[0] == 0
    assert command(topic, *chosen)[0] == 0
    published = values(extra, topic)
    assert len(published) == 2 * len(set(published)) == 2 * len(events)
    assert registry.versions(f"{topic}-value") == (1,)
    code, _, err = command(topic, "--file", file, "--format", "json_schema")
    assert (code, f"the latest schema of {topic}-value should be JSON, and is AVRO" in err) == (1, True)


@pytest.mark.parametrize(
    ("name", "subject", "expected"),
    [
        ("avro", "record", "flights.Event"),
        ("protobuf", "record", "flights.Event"),
        ("json_schema", "topic_record", "{topic}-flights.Event"),
    ],
)
def test_the_subject_may_be_named_by_the_record(
    command: Command, topic: str, registry: Registry, file: Path, name: str, subject: str, expected: str
) -> None:
    message = ("--schema-message", "flights.Event") if name == "protobuf" else ()
    chosen = ("--schema", schema_file(file.parent, name), *message, "--subject", subject)
    code, _, err = command(topic, "--file", file, "--format", name, *chosen, "--register")
    assert code == 0, err
    latest = registry.latest(expected.format(topic=topic))
    assert latest is not None
    assert registry.latest(f"{topic}-value") is None


def test_keys_have_schemas_too(
    command: Command, extra: dict[str, str], topic: str, registry: Registry, tmp_path: Path
) -> None:
    (tmp_path / "key.avsc").write_text('"long"')
    (tmp_path / "rows.csv").write_text(
        "id,event_id,publish_at\n-1,a,2026-01-01T00:00:00Z\n300,b,2026-01-01T00:00:00Z\n"
    )
    chosen = ("--key", "$.id", "--key-schema", tmp_path / "key.avsc", "--register")
    code, _, err = command(topic, "--file", tmp_path / "rows.csv", *chosen)
    assert code == 0, err
    latest = registry.latest(f"{topic}-key")
    assert latest is not None
    frame = struct.pack(">bI", 0, latest.schema_id)
    keys = {record.key: json.loads(record.value or b"")["event_id"] for record in read(extra, topic).values()}
    assert keys == {frame + b"\x01": "a", frame + b"\xd8\x04": "b"}


CONTRADICTIONS = [
    (("--format", "avro", "--value-serializer", "json"), "--format avro and --value-serializer json are two forms"),
    (("--schema", "a.avsc"), "--schema needs --value-serializer avro or protobuf or json_schema, found json"),
    (("--key-serializer", "long", "--key-schema", "a"), "--key-schema needs --key-serializer avro or protobuf"),
    (("--format", "avro", "--schema-message", "M"), "--schema-message needs --value-serializer protobuf, found avro"),
    (("--register",), "--register needs --schema or --key-schema"),
    (("--format", "avro", "--register"), "without --schema there is nothing to register"),
    (("--format", "avro", "--schema", "nowhere.avsc"), "nowhere.avsc cannot be read (No such file or directory)"),
    (("--format", "avro", "--registry", "no_such"), "connection 'no_such' is not defined"),
]


@pytest.mark.parametrize(("arguments", "reason"), CONTRADICTIONS)
def test_contradictions_are_named(command: Command, arguments: tuple[str, ...], reason: str) -> None:
    code, _, err = command("t", "--file", "f.jsonl", *arguments)
    assert code == 1
    assert reason in err


def test_bytes_alone_are_no_schema_of_a_key(command: Command, topic: str, tmp_path: Path) -> None:
    (tmp_path / "key.avsc").write_text('{"type": "bytes"}')
    chosen = ("--key", "$.id", "--key-schema", tmp_path / "key.avsc", "--register")
    code, _, err = command(topic, "--file", tmp_path / "rows.csv", *chosen)
    assert code == 1
    assert "is bytes alone, which clients write in two ways; make it a record" in err


def test_the_journal_notices_another_schema(extra: dict[str, str], topic: str, file: Path) -> None:
    def checked(schema_id: int) -> Any:
        schema = WriterSchema(schema_id, SchemaLanguage.AVRO, AVRO)
        return RecordFile(file, form=Form(STRING, framed("avro", schema, compile_codec(schema)))).check()

    seen = 0

    def interrupt(*_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == 250:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publish_file(extra, topic, checked(1), transactional_id=topic, records_per_transaction=100, on_ack=interrupt)
    with pytest.raises(JournalMismatch, match="200 records of another file, or by another schema, and not finished it"):
        publish_file(extra, topic, checked(2), transactional_id=topic)
    one = checked(1)
    summary, before = publish_file(extra, topic, one, transactional_id=topic)
    assert (before, summary.records) == (200, one.records - 200)
    assert sorted(values(extra, topic), key=repr) == sorted((each.value for each in one.read()), key=repr)
    assert publish_file(extra, topic, checked(1), transactional_id=topic)[1] == one.records
    assert publish_file(extra, topic, checked(2), transactional_id=topic)[1] == 0

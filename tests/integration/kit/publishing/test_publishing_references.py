"""Publishing by schemas that refer to others: Confluent's deserializers and Google's runtime read what was sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import json_format

from offset_ledger.model.writer_schema import SchemaLanguage
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.schema_registry.client import Reference, Registry
from tests.fixtures.protoc import described, message_class
from tests.fixtures.topic_reader import read, values
from tests.integration.kit.publishing.conftest import Command

AMOUNT = '{"type":"record","name":"Amount","namespace":"shop","fields":[{"name":"cents","type":"long"}]}'
LINE = '{"type":"record","name":"Line","namespace":"shop","fields":[{"name":"price","type":"Amount"}]}'
ORDER = (
    '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"string"},'
    '{"name":"lines","type":{"type":"array","items":"Line"}}]}'
)
MONEY = 'syntax = "proto3";\npackage shop;\n\nmessage Money {\n  int64 cents = 1;\n}\n'
BILL = (
    'syntax = "proto3";\npackage shop;\n\nimport "shop/money.proto";\n\n'
    "message Bill {\n  string id = 1;\n  Money sum = 2;\n}\n"
)
URI = "https://example.com/place.json?v=1"
DRAFT = "http://json-schema.org/draft-07/schema#"
PLACE = {"$schema": DRAFT, "$id": URI, "type": "object", "properties": {"city": {"type": "string"}}}
TRIP = {"$schema": DRAFT, "title": "Trip", "type": "object", "properties": {"to": {"$ref": URI}}}
ORDERS = [{"id": f"o{n}", "lines": [{"price": {"cents": n}}] * (n % 3)} for n in range(20)]


@pytest.fixture
def confluent(registry_connection: Connection) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry_connection.host})


def written(folder: Path, name: str, schema: str, documents: list[object]) -> tuple[str | Path, ...]:
    """The files of records and schema, as arguments."""
    (folder / name).write_text(schema)
    (folder / "records.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in documents))
    return "--file", folder / "records.jsonl", "--schema", folder / name


def lines_of(registry: Registry, subject: Callable[[], str]) -> str:
    """The subject of the lines, which refer to amounts."""
    amount, line = subject(), subject()
    registry.register(amount, SchemaLanguage.AVRO, AMOUNT)
    registry.register(line, SchemaLanguage.AVRO, LINE, [Reference("shop.Amount", amount, 1)])
    return line


def test_types_of_avro_from_other_subjects(
    command: Command, extra: dict[str, str], topic: str, registry: Registry, confluent: SchemaRegistryClient,
    subject: Callable[[], str], tmp_path: Path,
) -> None:  # fmt: skip
    line = lines_of(registry, subject)
    files = written(tmp_path, "order.avsc", ORDER, [*ORDERS])
    chosen = (topic, *files, "--format", "avro", "--schema-reference", f"shop.Line={line}:1")
    code, _, err = command(*chosen)
    assert (code, f"does not have the schema of {tmp_path / 'order.avsc'} under {topic}-value" in err) == (1, True)
    code, _, err = command(*chosen, "--register", "--key", "$.id")
    assert code == 0, err
    deserialize = AvroDeserializer(confluent)
    context = SerializationContext(topic, MessageField.VALUE)
    found = {record.key: deserialize(record.value, context) for record in read(extra, topic).values()}
    assert found == {str(each["id"]).encode(): each for each in ORDERS}
    code, _, err = command(*chosen)  # the registry has it by now, with its references
    assert code == 0, err
    assert registry.versions(f"{topic}-value") == (1,)


def test_imports_of_protobuf_from_other_subjects(
    command: Command, extra: dict[str, str], topic: str, registry: Registry, confluent: SchemaRegistryClient,
    subject: Callable[[], str], tmp_path: Path,
) -> None:  # fmt: skip
    money = subject()
    registry.register(money, SchemaLanguage.PROTOBUF, MONEY)
    bills = [{"id": f"b{n}", "sum": {"cents": str(n)}} for n in range(1, 20)]
    files = written(tmp_path, "bill.proto", BILL, [*bills])
    chosen = ("--format", "protobuf", "--schema-reference", f"shop/money.proto={money}:1", "--key", "$.id")
    code, _, err = command(topic, *files, *chosen, "--register")
    assert code == 0, err
    latest = confluent.get_latest_version(f"{topic}-value")
    frame = b"\0" + latest.schema_id.to_bytes(4, "big") + b"\0"
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/money.proto").write_text(MONEY)
    bill = message_class(described(tmp_path / "bill.proto"), "shop.Bill")
    found = {
        record.key: json_format.MessageToDict(bill.FromString((record.value or b"").removeprefix(frame)))
        for record in read(extra, topic).values()
    }
    assert found == {str(each["id"]).encode(): each for each in bills}
    references = [(each.name, each.subject, each.version) for each in latest.schema.references]
    assert references == [("shop/money.proto", money, 1)]


def test_refs_of_json_schema_to_other_subjects(
    command: Command, extra: dict[str, str], topic: str, registry: Registry, confluent: SchemaRegistryClient,
    subject: Callable[[], str], tmp_path: Path,
) -> None:  # fmt: skip
    place = subject()
    registry.register(place, SchemaLanguage.JSON, json.dumps(PLACE))
    trips = [{"to": {"city": f"city {n}"}} for n in range(20)]
    files = written(tmp_path, "trip.json", json.dumps(TRIP), [*trips])
    chosen = (topic, *files, "--format", "json_schema", "--schema-reference", f"{URI}={place}:1", "--register")
    code, _, err = command(*chosen)
    assert code == 0, err
    deserialize = JSONDeserializer(None, schema_registry_client=confluent)
    context = SerializationContext(topic, MessageField.VALUE)
    found = [deserialize(value, context) for value in values(extra, topic)]
    assert sorted(found, key=repr) == sorted(trips, key=repr)
    written(tmp_path, "trip.json", json.dumps(TRIP), [*trips, {"to": {"city": 1}}])
    code, _, err = command(*chosen)
    assert (code, f"{tmp_path / 'records.jsonl'}:21: json_schema: $.to.city: " in err) == (1, True)
    assert len(values(extra, topic)) == len(trips)


def test_keys_may_refer_to_others(
    command: Command, extra: dict[str, str], topic: str, registry: Registry, confluent: SchemaRegistryClient,
    subject: Callable[[], str], tmp_path: Path,
) -> None:  # fmt: skip
    line = lines_of(registry, subject)
    (tmp_path / "key.avsc").write_text(ORDER.replace('"Order"', '"Key"'))
    (tmp_path / "records.jsonl").write_text("".join(f"{json.dumps({'k': each})}\n" for each in ORDERS))
    chosen = ("--key", "$.k", "--key-schema", tmp_path / "key.avsc", "--key-schema-reference", f"shop.Line={line}:1")
    code, _, err = command(topic, "--file", tmp_path / "records.jsonl", *chosen, "--register")
    assert code == 0, err
    deserialize, context = AvroDeserializer(confluent), SerializationContext(topic, MessageField.KEY)
    found = [deserialize(record.key, context) for record in read(extra, topic).values()]
    assert sorted(found, key=repr) == sorted(ORDERS, key=repr)


def test_what_a_reference_leads_to_has_to_be_there(
    command: Command, extra: dict[str, str], topic: str, registry: Registry, subject: Callable[[], str], tmp_path: Path
) -> None:
    line = lines_of(registry, subject)
    chosen = (topic, *written(tmp_path, "order.avsc", ORDER, [*ORDERS]), "--format", "avro", "--register")
    code, _, err = command(*chosen, "--schema-reference", f"shop.Line={line}:2")
    lost = f"the reference 'shop.Line' leads to version 2 of '{line}', which the schema registry does not have"
    assert (code, f"{lost}; register that first" in err) == (1, True)
    code, _, err = command(*chosen)
    refused = "fastavro, which writes it, refuses the schema (UnknownType: shop.Line)"
    assert (code, f"{tmp_path / 'order.avsc'}: {refused}" in err) == (1, True)
    assert (registry.versions(f"{topic}-value"), values(extra, topic)) == ((), [])


@pytest.mark.parametrize("reference", ["shop.Line", "shop.Line=lines", "=lines:1", "shop.Line=:1", "shop.Line=lines:0"])
def test_a_reference_names_subject_and_version(command: Command, reference: str) -> None:
    chosen = ("--format", "avro", "--schema", "a.avsc", "--schema-reference", reference)
    code, _, err = command("t", "--file", "f.jsonl", *chosen)
    expected = "--schema-reference takes NAME=SUBJECT:VERSION, such as shop.Line=shop.lines-value:1, found "
    assert (code, f"{expected}{reference!r}" in err) == (1, True)


def test_a_reference_is_one_of_a_file(command: Command) -> None:
    code, _, err = command("t", "--file", "f.jsonl", "--format", "avro", "--schema-reference", "shop.Line=lines:1")
    expected = "--schema-reference needs --schema FILE: a registered schema has its own references"
    assert (code, expected in err) == (1, True)

"""The client against a real registry: what it registers comes back whole, and each refusal has its own error."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry import SchemaReference as ConfluentReference

from offset_ledger.errors import ConfigurationError, SchemaRejected
from offset_ledger.model.writer_schema import SchemaLanguage, SchemaReference, WriterSchema
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.schema_registry.client import Compatibility, Reference, Registry, connect_registry

AVRO, PROTOBUF, JSON = SchemaLanguage
AMOUNT = '{"type":"record","name":"Amount","namespace":"shop","fields":[{"name":"cents","type":"long"}]}'
LINE = '{"type":"record","name":"Line","namespace":"shop","fields":[{"name":"price","type":"shop.Amount"}]}'
ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": "line", "type": "shop.Line"}, {"name": "sum", "type": "shop.Amount"}],
    }
)
MONEY = 'syntax = "proto3";\npackage shop;\n\nmessage Money {\n  int64 cents = 1;\n}\n'
BILL = 'syntax = "proto3";\npackage shop;\n\nimport "money.proto";\n\nmessage Bill {\n  Money sum = 1;\n}\n'
DRAFT = "http://json-schema.org/draft-07/schema#"
PLACE = json.dumps({"$schema": DRAFT, "$id": "https://example.com/place.json", "type": "object"})
TRIP = json.dumps(
    {"$schema": DRAFT, "type": "object", "properties": {"to": {"$ref": "https://example.com/place.json"}}}
)


@pytest.fixture
def registry(registry_connection: Connection) -> Registry:
    return connect_registry(registry_connection)


@pytest.fixture
def confluent(registry_connection: Connection) -> SchemaRegistryClient:
    """Confluent's own client of the same registry."""
    return SchemaRegistryClient({"url": registry_connection.host})


def test_a_schema_comes_with_all_it_refers_to_each_before_those_that_need_it(
    confluent: SchemaRegistryClient, registry: Registry, subject: Callable[[], str]
) -> None:
    amount, line, order = subject(), subject(), subject()
    confluent.register_schema(amount, Schema(AMOUNT, "AVRO"))
    confluent.register_schema(line, Schema(LINE, "AVRO", [ConfluentReference("shop.Amount", amount, 1)]))
    needed = [ConfluentReference("shop.Line", line, 1), ConfluentReference("shop.Amount", amount, 1)]
    schema_id = confluent.register_schema(order, Schema(ORDER, "AVRO", needed))
    references = (
        SchemaReference("shop.Amount", amount, 1, AMOUNT),
        SchemaReference("shop.Line", line, 1, LINE),
    )
    expected = WriterSchema(schema_id, AVRO, ORDER, references, ((order, 1),))
    assert registry.schema(schema_id) == expected
    assert (registry.latest(order), registry.version(order, 1)) == (expected, expected)


@pytest.mark.parametrize(
    ("language", "needed", "name", "text"),
    [(PROTOBUF, MONEY, "money.proto", BILL), (JSON, PLACE, "https://example.com/place.json", TRIP)],
    ids=["protobuf", "json"],
)
def test_what_we_register_confluents_client_reads(
    language: SchemaLanguage,
    needed: str,
    name: str,
    text: str,
    registry: Registry,
    confluent: SchemaRegistryClient,
    subject: Callable[[], str],
) -> None:
    first, second = subject(), subject()
    registry.register(first, language, needed)
    schema_id = registry.register(second, language, text, [Reference(name, first, 1)])
    read = confluent.get_schema(schema_id)
    assert (read.schema_type, read.schema_str) == (language, text)
    assert [(each.name, each.subject, each.version) for each in read.references] == [(name, first, 1)]
    references = (SchemaReference(name, first, 1, needed),)
    assert registry.schema(schema_id) == WriterSchema(schema_id, language, text, references, ((second, 1),))


def test_the_same_schema_under_two_subjects_has_one_id_and_both_subjects(
    registry: Registry, subject: Callable[[], str]
) -> None:
    first, second = sorted((subject(), subject()))
    text = AMOUNT.replace("Amount", "Twice")
    ids = {registry.register(each, AVRO, text) for each in (first, second, first)}
    (schema_id,) = ids
    found = registry.schema(schema_id)
    assert found is not None
    assert sorted(found.subjects) == [(first, 1), (second, 1)]
    assert {first, second} <= set(registry.subjects())
    assert (registry.versions(first), registry.registered(first, AVRO, text)) == ((1,), schema_id)


def test_a_subject_that_was_deleted_softly_keeps_its_ids(registry: Registry, subject: Callable[[], str]) -> None:
    first, second = sorted((subject(), subject()))
    text = AMOUNT.replace("Amount", "Deleted")
    schema_id = registry.register(first, AVRO, text)
    registry.register(second, AVRO, text)
    registry._api.ask("DELETE", f"/subjects/{first}")
    assert first not in registry.subjects()
    found = registry.schema(schema_id)
    assert found is not None
    assert sorted(found.subjects) == [(first, 1), (second, 1)]


def test_what_the_registry_does_not_know_is_none_and_is_asked_for_again(
    registry: Registry, subject: Callable[[], str]
) -> None:
    name = subject()
    known = registry.register(subject(), AVRO, AMOUNT.replace("Amount", "Before"))
    # Other workers register schemas too, in between.
    unknown = [number for number in range(known + 1, known + 11) if registry.schema(number) is None]
    assert (registry.latest(name), registry.version(name, 1), registry.versions(name)) == (None, None, ())
    assert registry.registered(name, AVRO, AMOUNT) is None
    registered = registry.register(name, AVRO, AMOUNT.replace("Amount", "After"))
    assert registered in unknown
    found = registry.schema(registered)
    assert found is not None
    assert (found.subjects, registry.latest(name), registry.version(name, 2)) == (((name, 1),), found, None)


def test_an_incompatible_schema_is_refused_with_the_registrys_reason(
    registry: Registry, subject: Callable[[], str]
) -> None:
    name = subject()
    first = registry.register(name, AVRO, AMOUNT)
    assert registry.compatibility(name) == "NONE"
    registry.set_compatibility(name, "BACKWARD")
    assert registry.compatibility(name) == "BACKWARD"
    other = AMOUNT.replace('"long"', '"string"')
    assert registry.check(name, AVRO, other) == Compatibility(False)
    with pytest.raises(SchemaRejected, match=r"^the schema registry refuses it: .*STRING not compatible.*HTTP 409"):
        registry.register(name, AVRO, other)
    assert registry.versions(name) == (1,)
    wider = AMOUNT.replace('"long"', '"double"')
    assert registry.check(name, AVRO, wider) == Compatibility(True)
    assert registry.register(name, AVRO, wider) != first
    assert registry.versions(name) == (1, 2)


@pytest.mark.parametrize(
    ("language", "text"), [(AVRO, "{"), (AVRO, LINE), (PROTOBUF, "message {"), (JSON, "[")], ids=str
)
def test_an_invalid_schema_is_refused(
    language: SchemaLanguage, text: str, registry: Registry, subject: Callable[[], str]
) -> None:
    name = subject()
    with pytest.raises(SchemaRejected, match=r"^the schema registry refuses it: .* \(HTTP 422, code 42201\); correct"):
        registry.register(name, language, text)
    assert registry.versions(name) == ()


def test_a_reference_that_leads_nowhere_is_refused(registry: Registry, subject: Callable[[], str]) -> None:
    with pytest.raises(SchemaRejected, match=r"^the schema registry refuses it: Unresolved reference \(HTTP 422"):
        registry.register(subject(), AVRO, LINE, [Reference("shop.Amount", subject(), 1)])


def test_a_level_that_there_is_not_is_refused(registry: Registry, subject: Callable[[], str]) -> None:
    with pytest.raises(
        ConfigurationError, match=r"^a compatibility level is one of NONE, BACKWARD, .* found 'FORWARDS'"
    ):
        registry.set_compatibility(subject(), "FORWARDS")


def test_subjects_may_have_any_character(registry: Registry, subject: Callable[[], str]) -> None:
    name = f"{subject()}/a b?#%2F.ä"
    schema_id = registry.register(name, AVRO, AMOUNT.replace("Amount", "Odd"))
    assert registry.latest(name) == registry.schema(schema_id)
    assert name in registry.subjects()


def test_a_wrong_path_is_not_an_unknown_schema(registry_connection: Connection) -> None:
    assert registry_connection.host
    host = registry_connection.host.removesuffix("/apis/ccompat/v7")
    registry = connect_registry(replace(registry_connection, host=host))
    with pytest.raises(ConfigurationError, match=r"is no URL of a schema registry: /schemas/ids/1 answers HTTP 404"):
        registry.schema(1)


def test_it_is_ready(registry: Registry) -> None:
    assert registry.ready()

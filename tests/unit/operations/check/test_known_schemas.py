"""The schemas that a diff compares with: the latest of each subject, and those of the ledger that are newer."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from offset_ledger.errors import UnusableSchema
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.operations.check import diff as module
from offset_ledger.operations.check.diff import known_schemas
from offset_ledger.outside.connections import environment_name
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.pipeline_file.source import Format, SchemaFile, SubjectStrategy
from tests.unit.operations.check.test_compare_schemas import pipeline

TEXT = json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]})


class OfTheRegistry(dict[str, WriterSchema]):
    """Subjects with their latest schemas."""

    def latest(self, subject: str) -> WriterSchema | None:
        return self.get(subject)

    def subjects(self) -> tuple[str, ...]:
        return tuple(self)


def schema(schema_id: int, *subjects: tuple[str, int], language: SchemaLanguage = SchemaLanguage.AVRO) -> WriterSchema:
    return WriterSchema(schema_id, language, TEXT, (), subjects)


def framed(strategy: SubjectStrategy) -> Pipeline:
    plain = pipeline()
    return replace(plain, source=replace(plain.source, registry="registry_default", subject=strategy))


def names(
    strategy: SubjectStrategy, latest: dict[str, WriterSchema], kept: list[WriterSchema], patch: Any
) -> list[str]:
    patch.setenv(environment_name("registry_default"), '{"conn_type": "http", "host": "registry"}')
    patch.setattr(module, "connect_registry", lambda _: OfTheRegistry(latest))
    found, notes = known_schemas(framed(strategy), kept)
    return [*(each.name for each in found), *notes]


VALUE, KEY = "orders-value", "orders-key"
V1, V2, V3 = (schema(n, (VALUE, n)) for n in (1, 2, 3))


@pytest.mark.parametrize(
    ("strategy", "latest", "kept", "expected"),
    [
        (SubjectStrategy.TOPIC, {VALUE: V2}, [], ["orders-value version 2"]),
        (SubjectStrategy.TOPIC, {VALUE: V2}, [V1, V2], ["orders-value version 2"]),
        (SubjectStrategy.TOPIC, {VALUE: V2}, [V3], ["orders-value version 2", "orders-value version 3, kept"]),
        (SubjectStrategy.TOPIC, {}, [], ["the registry has no subject orders-value"]),
        (SubjectStrategy.TOPIC, {}, [V1, schema(9, (KEY, 1))],
            ["the registry has no subject orders-value", "orders-value version 1, kept"]),
        (SubjectStrategy.RECORD, {"shop.Order": schema(4, ("shop.Order", 7))}, [schema(3, ("shop.Order", 6))],
            ["shop.Order version 7"]),
        (SubjectStrategy.TOPIC_RECORD,
            {"orders-shop.Order": schema(4, ("orders-shop.Order", 7)), KEY: V1, "others-x": V1}, [],
            ["orders-shop.Order version 7"]),
        (SubjectStrategy.ANY, {"a": schema(4)}, [schema(3, ("a", 1)), schema(5, ("a", 9))], ["a schema id 4"]),
        (SubjectStrategy.RECORD, {}, [],
            ["no subject is known by source.subject: record, because no record was read yet"]),
    ],
)  # fmt: skip
def test_the_schemas_by_subject(
    strategy: SubjectStrategy,
    latest: dict[str, WriterSchema],
    kept: list[WriterSchema],
    expected: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert sorted(names(strategy, latest, kept, monkeypatch)) == sorted(expected)


def test_a_schema_of_another_language_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    other = schema(1, (VALUE, 1), language=SchemaLanguage.JSON)

    with pytest.raises(UnusableSchema, match="orders-value version 1: expected AVRO, it is JSON"):
        names(SubjectStrategy.TOPIC, {VALUE: other}, [], monkeypatch)


ITEM = {"type": "record", "name": "shop.Refund", "fields": [{"name": "why", "type": "string"}]}
UNION = replace(V1, text=json.dumps([json.loads(TEXT), "null", ITEM]))


@pytest.mark.parametrize(
    ("strategy", "schemas", "latest", "expected"),
    [
        (SubjectStrategy.TOPIC, (), UNION, {"(shop.Order)": ["id"], "(shop.Refund)": ["why"]}),
        (SubjectStrategy.TOPIC, ("shop.Refund",), UNION, {"orders-value version 1": ["why"]}),
        (SubjectStrategy.TOPIC, ("shop.Other",), V1, {"no known schema has records of shop.Other": []}),
        (SubjectStrategy.RECORD, ("shop.Order",), schema(1, ("shop.Order", 3)), {"shop.Order version 3": ["id"]}),
        (SubjectStrategy.TOPIC_RECORD, ("x.Y",), V1, {"the registry has no subject orders-x.Y": []}),
    ],
)
def test_only_the_kinds_of_the_pipeline(
    strategy: SubjectStrategy,
    schemas: tuple[str, ...],
    latest: WriterSchema,
    expected: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(environment_name("registry_default"), '{"conn_type": "http", "host": "registry"}')
    subjects = {subject: latest for subject, _ in latest.subjects} | {"shop.Refund": V1}
    monkeypatch.setattr(module, "connect_registry", lambda _: OfTheRegistry(subjects))
    of_kinds = framed(strategy)
    of_kinds = replace(of_kinds, record=replace(of_kinds.record, schemas=schemas))
    found, notes = known_schemas(of_kinds, [])
    read = {each.name: [".".join(field.path) for field in each.fields] for each in found} | {note: [] for note in notes}
    assert len(read) == len(expected)
    for part, fields in expected.items():
        assert [fields for name, fields in read.items() if part in name] == [fields]


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (Format.AVRO, TEXT),
        (Format.PROTOBUF, 'syntax = "proto3"; message Order { int64 id = 1; }'),
        (Format.JSON_SCHEMA, '{"properties": {"id": {"type": "integer"}}}'),
    ],
)
def test_the_schema_of_a_file(form: Format, text: str) -> None:
    plain = pipeline(form=form)
    from_file = replace(plain, source=replace(plain.source, schema=SchemaFile("order.schema", text)))

    ((known,), notes) = known_schemas(from_file, [])

    assert (known.name, [field.path for field in known.fields], notes) == ("order.schema", [("id",)], ())

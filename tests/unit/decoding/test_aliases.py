"""A value that a producer has moved is read where each record has it, in every format, alone and in a batch."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass

from offset_ledger.decoding.arrow import decode_batch
from offset_ledger.decoding.avro.decoder import avro_decoder
from offset_ledger.decoding.formats import compile_decoder
from offset_ledger.decoding.json.decoder import MAX_TREES
from offset_ledger.decoding.outcome import DecodedRow, Refusal
from offset_ledger.decoding.protobuf.schema import compile_schema
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, FieldCondition, Limits, RecordShape
from offset_ledger.pipeline_file.source import Format, Source, SubjectStrategy
from tests.unit.decoding.batches import batch_of

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ABSENT = "absent"
PLACES = (("price", "amount"), ("total",), ("sum",))
"""Where the value is, in the order of the file."""


def shape(nullable: bool, **more: Any) -> RecordShape:
    path, *aliases = PLACES
    column = Column("amount", ColumnType("bigint"), path, nullable, aliases=tuple(aliases))
    return RecordShape(("id",), None, (column, Column("note", ColumnType("text"), ("note",), True)), **more)


def documents() -> list[dict[str, Any]]:
    """A record for each choice of what is at the three places: nothing, null or a number."""
    found = []
    choices = itertools.product((ABSENT, None, 1), (ABSENT, None, 2), (ABSENT, 3))
    for number, (amount, total, sum_) in enumerate(choices):
        record: dict[str, Any] = {"id": f"e{number}", "note": f"n{number}"}
        record |= {} if amount == ABSENT else {"price": {"amount": amount}}
        record |= {} if total == ABSENT else {"total": total}
        record |= {} if sum_ == ABSENT else {"sum": sum_}
        found.append(record)
    return found


def expected(record: Mapping[str, Any], nullable: bool) -> int | str | None:
    """The value of the first place that the record has; ABSENT of one that is refused."""
    there = [record["price"]["amount"]] if "price" in record else []
    there += [record[name] for name in ("total", "sum") if name in record]
    value = there[0] if there else None
    return ABSENT if value is None and not nullable else value


def check(source: Source, record: RecordShape, values: Sequence[bytes], wanted: list[Any], **more: Any) -> None:
    """Alone and in a batch, each record has the value that it should, and the others are refused."""
    decoder = compile_decoder(source, record, Limits(), **more)
    alone = [decoder.decode(value, None, NOON) for value in values]
    assert [each.values[0] if isinstance(each, DecodedRow) else ABSENT for each in alone] == wanted
    batch = decode_batch(decoder, batch_of(list(values)))
    rows = {row["_offset"] - 100: (row["event_id"], row["amount"], row["note"]) for row in batch.rows.to_pylist()}
    by_one = {n: (e.key[0], *e.values) for n, e in enumerate(alone) if isinstance(e, DecodedRow)}
    assert rows == by_one
    assert {row["_offset"] - 100 for row in batch.refusals.to_pylist()} == set(range(len(values))) - rows.keys()


@pytest.mark.parametrize("form", [Format.JSON, Format.JSON_SCHEMA])
@pytest.mark.parametrize("nullable", [True, False])
def test_a_document_is_read_at_the_first_place_that_it_has(form: Format, nullable: bool) -> None:
    registry, head = (None, b"") if form is Format.JSON else ("r", b"\0\0\0\0\1")
    source = Source("k", "t", format=form, registry=registry, subject=SubjectStrategy.ANY)
    schema = WriterSchema(1, SchemaLanguage.JSON, '{"type": "object"}')
    records = documents()
    values = [head + json.dumps(record).encode() for record in records]
    wanted = [expected(record, nullable) for record in records]
    assert {None if nullable else ABSENT, 1, 2, 3} == set(wanted)
    check(source, shape(nullable), values, wanted, lookup=lambda _: {1: schema})


def avro_schema(names: Sequence[str]) -> dict[str, Any]:
    number: Any = ["null", "long"]
    price = {"type": "record", "name": "Price", "fields": [{"name": "amount", "type": number}]}
    fields = [{"name": name, "type": price if name == "price" else number} for name in names]
    return {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}, *fields]}


def avro(names: Sequence[str], record: Mapping[str, Any]) -> tuple[str, bytes]:
    schema = avro_schema(names)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), dict(record))
    return json.dumps(schema), out.getvalue()


def protobuf(names: Sequence[str], record: Mapping[str, Any]) -> tuple[str, bytes]:
    fields = {"price": "Price price = 2;", "total": "optional int64 total = 3;", "sum": "optional int64 sum = 4;"}
    inner = "message Price { optional int64 amount = 1; }"
    text = f'syntax = "proto3"; message Order {{ string id = 1; {"".join(fields[name] for name in names)} }} {inner}'
    compiled = compile_schema(WriterSchema(1, SchemaLanguage.PROTOBUF, text))
    message = GetMessageClass(compiled.file.message_types_by_name["Order"])
    given = {name: value for name, value in record.items() if value is not None}
    return text, b"\0" + bytes(ParseDict(given, message()).SerializeToString())


@pytest.mark.parametrize(
    ("form", "language", "write"),
    [(Format.AVRO, SchemaLanguage.AVRO, avro), (Format.PROTOBUF, SchemaLanguage.PROTOBUF, protobuf)],
    ids=["avro", "protobuf"],
)
@pytest.mark.parametrize("nullable", [True, False])
def test_a_schema_says_where_its_records_are_read(
    form: Format,
    language: SchemaLanguage,
    write: Callable[[Sequence[str], Mapping[str, Any]], tuple[str, bytes]],
    nullable: bool,
) -> None:
    source = Source("k", "t", format=form, registry="r", subject=SubjectStrategy.ANY)
    schemas, values, wanted = {}, [], []
    choices = [names for size in range(4) for names in itertools.combinations(("price", "total", "sum"), size)]
    for id_, names in enumerate(choices, start=1):
        for value in (None, 5):
            has = {name: {"amount": 6} if name == "price" else 6 for name in names}
            first = {} if not names else {names[0]: {"amount": value} if names[0] == "price" else value}
            text, payload = write(names, {"id": f"e{id_}", **has, **first})
            schemas[id_] = WriterSchema(id_, language, text)
            values.append(b"\0" + id_.to_bytes(4, "big") + payload)
            found = value if names else None
            wanted.append(ABSENT if found is None and not nullable else found)
    check(source, shape(nullable), values, wanted, lookup=lambda ids: {id_: schemas[id_] for id_ in ids})


def test_a_value_can_have_moved_into_an_object_of_its_own_name() -> None:
    column = Column("amount", ColumnType("bigint"), ("amount", "value"), aliases=(("amount",),))
    record = RecordShape(("id",), None, (column, Column("note", ColumnType("text"), ("note",), True)))
    values = [b'{"id": "a", "amount": {"value": 1}}', b'{"id": "b", "amount": 2}', b'{"id": "c", "amount": {}}']
    check(Source("k", "t"), record, values, [1, 2, ABSENT])


def test_event_id_and_publish_at_can_have_moved_and_so_can_those_of_a_delete() -> None:
    columns = shape(True).columns
    aliases = {"event_id_aliases": (("key", "id"),), "publish_at_aliases": (("ts",),)}
    moved = RecordShape(("id",), ("at",), columns, delete_when=FieldCondition(("op",), "d"), **aliases)
    moments = ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]
    values = [
        json.dumps(each).encode()
        for each in (
            {"id": "new", "at": moments[0], "ts": "no moment"},
            {"key": {"id": "old"}, "ts": moments[1]},
            {"key": {"id": "gone"}, "ts": moments[0], "op": "d", "total": "x"},
        )
    ]
    batch = decode_batch(compile_decoder(Source("k", "t"), moved, Limits()), batch_of(list(values)))
    found = [(row["event_id"], row["publish_at"].isoformat(), row["_deleted"]) for row in batch.rows.to_pylist()]
    first, second = "2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00"
    assert found == [("new", first, False), ("old", second, False), ("gone", first, True)]


def test_a_record_with_none_of_them_is_refused_by_the_path() -> None:
    outcome = compile_decoder(Source("k", "t"), shape(False), Limits()).decode(b'{"id": "a", "total": "x"}', None, NOON)
    assert isinstance(outcome, Refusal)
    assert [reason.path for reason in outcome.reasons] == ["$.total"]
    outcome = compile_decoder(Source("k", "t"), shape(False), Limits()).decode(b'{"id": "a", "price": {}}', None, NOON)
    assert isinstance(outcome, Refusal)
    assert [reason.path for reason in outcome.reasons] == ["$.price.amount"]


@pytest.mark.parametrize("nullable", [True, False])
def test_records_stay_on_the_fast_way_wherever_they_have_the_value(nullable: bool) -> None:
    decoder = compile_decoder(Source("k", "t"), shape(nullable), Limits())
    values = [json.dumps(each, indent=1).encode() for each in documents()]
    wrong: list[bytes | None] = [b"[]", b"{", b'{"id": "a", "total": 1, "total": 1}', None, b"\xff", b'{"id": 1e5}']

    proven = decoder.prove(batch_of([*wrong, *values]).column("value"))

    assert proven is not None
    wanted = [expected(each, nullable) for each in documents()]
    assert proven.places.tolist() == [place for place, value in enumerate(wanted, len(wrong)) if value != ABSENT]
    assert proven.columns[2] is not None
    assert proven.columns[2].to_pylist() == [value for value in wanted if value != ABSENT]


def test_more_choices_than_are_proven_are_read_one_by_one() -> None:
    names = [f"n{number}" for number in range(6)]
    columns = tuple(Column(name, ColumnType("bigint"), (name,), True, aliases=((f"old_{name}",),)) for name in names)
    choices = list(itertools.product(("", "old_"), repeat=len(names)))
    made = [[f"{prefix}{name}" for prefix, name in zip(each, names, strict=True)] for each in choices]
    records = [dict.fromkeys(each, n) for n, each in enumerate(made)]
    values = [json.dumps({"id": f"e{n}", **record}).encode() for n, record in enumerate(records)]
    decoder = compile_decoder(Source("k", "t"), RecordShape(("id",), None, columns), Limits())

    batch = decode_batch(decoder, batch_of(list(values)))

    assert [[row[name] for name in names] for row in batch.rows.to_pylist()] == [[n] * 6 for n in range(len(choices))]
    proven = decoder.prove(pa.array(values, pa.binary()))
    assert proven is not None
    assert len(proven.places) == 1 + MAX_TREES < len(choices)


def test_two_documents_can_share_a_place() -> None:
    first = Column("first", ColumnType("jsonb"), ("z",), True, aliases=(("a",),))
    second = Column("second", ColumnType("jsonb"), ("q",), True, aliases=(("z",), ("w",)))
    decoder = compile_decoder(Source("k", "t"), RecordShape(("id",), None, (first, second)), Limits())
    values = [
        json.dumps({"id": "e", **each}).encode() for each in ({"w": 1}, {"z": 2}, {"a": 3, "w": 4}, {"q": 5, "z": 6})
    ]
    batch = decode_batch(decoder, batch_of(list(values)))
    wanted = [(None, "1"), ("2", "2"), ("3", "4"), ("6", "5")]
    assert [(row["first"], row["second"]) for row in batch.rows.to_pylist()] == wanted
    assert [getattr(decoder.decode(value, None, NOON), "values", None) for value in values] == wanted


def test_a_path_through_a_map_or_a_branch_of_a_union_is_there() -> None:
    inner = {"type": "record", "name": "In", "fields": [{"name": "b", "type": "long"}]}
    fields = [
        {"name": "m", "type": {"type": "map", "values": "long"}},
        {"name": "u", "type": ["null", inner]},
        {"name": "old", "type": "long"},
    ]
    said = {"type": "record", "name": "R", "fields": fields}
    written: Any = fastavro.parse_schema(json.loads(json.dumps(said)))
    values = []
    for record in ({"m": {"k": 1}, "u": {"b": 2}, "old": 3}, {"m": {}, "u": None, "old": 3}):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, written, record)
        values.append(out.getvalue())
    columns = [("m", "k"), ("u", "b"), ("m", "k", "x"), ("none",)]
    record_shape = RecordShape(
        None,
        None,
        tuple(
            Column(f"c{number}", ColumnType("bigint"), path, True, aliases=(("old",),))
            for number, path in enumerate(columns)
        ),
    )
    decoder = avro_decoder(WriterSchema(1, SchemaLanguage.AVRO, json.dumps(said)), record_shape, Limits())
    outcomes = [decoder.decode(value, b"key", NOON) for value in values]
    assert [getattr(each, "values", None) for each in outcomes] == [(1, 2, 3, 3), (None, None, 3, 3)]

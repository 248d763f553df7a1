"""What no column reads is in ``_rest``, exactly and nothing else; the formats' own libraries say what there was."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from offset_ledger.decoding.arrow import decode_batch
from offset_ledger.decoding.avro.decoder import avro_decoder
from offset_ledger.decoding.decoder import Decoder
from offset_ledger.decoding.formats import compile_decoder
from offset_ledger.decoding.outcome import DecodedRow, Refusal
from offset_ledger.decoding.protobuf.decoder import protobuf_decoder
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.pipeline_file.pipeline import REST, Column, ColumnType, FieldCondition, Limits, RecordShape
from offset_ledger.pipeline_file.source import Format, Source
from tests.examples import examples
from tests.unit.decoding.avro.avro_checks import schema_of
from tests.unit.decoding.avro.avro_oracle import Refused, check_document, document
from tests.unit.decoding.avro.avro_records import Written, branch_name, schemas
from tests.unit.decoding.batches import batch_of
from tests.unit.decoding.protobuf import oracle
from tests.unit.decoding.protobuf.random_messages import fill
from tests.unit.decoding.protobuf.random_schemas import EXAMPLES, case, randoms, seeds

pytestmark = pytest.mark.filterwarnings("ignore")  # fastavro's about logical types that it ignores
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
Path = tuple[str, ...]
many = examples(EXAMPLES, suppress_health_check=list(HealthCheck))


def shape(paths: Iterable[Path], **more: Any) -> RecordShape:
    """A record with a nullable jsonb for each path, and the rest."""
    columns = [Column(f"c{number}", ColumnType("jsonb"), path, True) for number, path in enumerate(paths)]
    return RecordShape(None, None, (*columns, REST), **more)


def inside(paths: Iterable[Path], name: str) -> set[Path]:
    """What is left of the paths behind their first step, of those that go by it."""
    return {path[1:] for path in paths if path[:1] == (name,)}


def remainder(value: Mapping[str, Any], paths: Iterable[Path]) -> dict[str, Any]:
    """The members of an object that no path leads to or through, those of objects in it too."""
    left = {}
    for name, part in value.items():
        below = inside(paths, name)
        if not below:
            left[name] = part
        elif () not in below and isinstance(part, dict) and (inner := remainder(part, below)):
            left[name] = inner
    return left


def check_batch(decoder: Decoder, values: Sequence[bytes]) -> list[str | None]:
    """A batch has the same rests as its records one by one, and refuses the same; the rests of the rows."""
    alone = [decoder.decode(value, b"key", NOON) for value in values]
    batch = decode_batch(decoder, batch_of(list(values), [b"key"] * len(values)))
    rows = {row["_offset"] - 100: row["_rest"] for row in batch.rows.to_pylist()}
    by_one = {number: each.values[-1] for number, each in enumerate(alone) if isinstance(each, DecodedRow)}
    assert {place: rest and document(rest) for place, rest in rows.items()} == {
        place: rest and document(str(rest)) for place, rest in by_one.items()
    }
    assert {row["_offset"] - 100 for row in batch.refusals.to_pylist()} == set(range(len(values))) - rows.keys()
    return list(rows.values())


NAMES = st.sampled_from(["a", "b", "c", "", "é", "a b", '"', "\0"])
SCALARS = st.none() | st.booleans() | st.integers() | st.text('ab é"\\\0\n', max_size=3) | st.just(1.25)
DOCUMENTS = st.dictionaries(
    NAMES,
    st.recursive(SCALARS, lambda each: st.lists(each, max_size=2) | st.dictionaries(NAMES, each, max_size=3)),
    max_size=4,
)


def paths_of(value: Any, path: Path = ()) -> list[Path]:
    """Every path into a document that the pipeline file could name."""
    if not isinstance(value, dict):
        return []
    named = {name: part for name, part in value.items() if name}
    return [each for name, part in named.items() for each in ((*path, name), *paths_of(part, (*path, name)))]


def leads_through_a_scalar(value: Any, paths: Iterable[Path]) -> bool:
    """Whether a path needs members of something that has none."""
    if not isinstance(value, dict):
        return value is not None and any(paths)
    return any(leads_through_a_scalar(part, inside(paths, name)) for name, part in value.items())


def has_nul(value: Any) -> bool:
    return "\\u0000" in json.dumps(value)


@many
@given(st.lists(DOCUMENTS, min_size=1, max_size=4), st.data())
def test_of_a_document_everything_that_no_path_reads(documents: list[dict[str, Any]], data: st.DataObject) -> None:
    every = sorted({path for each in documents for path in paths_of(each)}) or [("a",)]
    paths = data.draw(st.lists(st.sampled_from([*every, ("new",), ("a", "new")]), unique=True, max_size=4))
    decoder = compile_decoder(Source("k", "t"), shape(paths), Limits())
    values = [json.dumps(each, indent=data.draw(st.sampled_from([None, 1]))).encode() for each in documents]
    check_batch(decoder, values)
    for each, value in zip(documents, values, strict=True):
        outcome, left = decoder.decode(value, b"key", NOON), remainder(each, paths)
        if isinstance(outcome, Refusal):
            assert has_nul(each) or leads_through_a_scalar(each, paths)
        else:
            assert isinstance(outcome, DecodedRow)
            assert (None if outcome.values[-1] is None else json.loads(str(outcome.values[-1]))) == (left or None)
            assert not has_nul(left)


def check_avro(written: Written, said: Any, value: Any, paths: set[Path], got: Any) -> bool:
    """Check what is left of a value that paths lead into; whether anything is. Raises Refused where no jsonb has it."""
    said = written.resolve(said)
    if isinstance(said, list):
        name, inner = value
        return check_avro(written, next(each for each in said if branch_name(each) == name), inner, paths, got)
    if said["type"] not in ("record", "map"):
        assert not got
        return False
    types = {each["name"]: each["type"] for each in said.get("fields", [])}
    left = set()
    for name, part in value.items():
        below, type_ = inside(paths, name), types.get(name) or said["values"]
        if not below:
            check_document(written, type_, part, None if got is None else got[name])
            left.add(name)
        elif () not in below and check_avro(written, type_, part, below, None if got is None else got.get(name, {})):
            left.add(name)
    assert got is None or set(got) == left
    return bool(left)


@many
@given(st.data())
def test_of_an_avro_record_everything_that_no_path_reads(data: st.DataObject) -> None:
    schema = data.draw(schemas(flat=data.draw(st.booleans())))
    written = Written(copy.deepcopy(schema))
    every = sorted({path for path, _ in written.places(written.parsed)}) or [("none",)]
    paths = set(data.draw(st.lists(st.sampled_from(every), unique=True, max_size=4)))
    decoder = avro_decoder(schema_of(schema), shape(sorted(paths)), Limits())
    given_values = [written.value(data.draw, written.parsed) for _ in range(3)]
    check_batch(decoder, [written.write(value) for value in given_values])
    for value in given_values:
        outcome = decoder.decode(written.write(value), b"key", NOON)
        try:
            check_avro(written, written.parsed, value, paths, None)
        except Refused:
            assert isinstance(outcome, Refusal)
            continue
        if isinstance(outcome, DecodedRow):
            rest = outcome.values[-1]
            assert check_avro(written, written.parsed, value, paths, document(str(rest)) if rest else {}) == bool(rest)
        else:
            record = replace(shape(sorted(paths)), columns=decoder.record.columns[:-1])
            without = avro_decoder(schema_of(schema), record, Limits())
            assert without.decode(written.write(value), b"key", NOON) == outcome


def message_remainder(message: Any, paths: Iterable[Path]) -> dict[str, Any]:
    """What is left of a message of Google's runtime; raises Refused where no jsonb has it."""
    left = {}
    for field in message.DESCRIPTOR.fields:
        below = inside(paths, field.name)
        if () in below or (field.has_presence and not message.HasField(field.name)):
            continue
        value = getattr(message, field.name)
        if not below:
            left[field.name] = oracle._json_field(value, field)
        elif inner := message_remainder(value, below):
            left[field.name] = inner
    return left


@many
@given(seeds, st.integers(0, 3), randoms)
def test_of_a_message_everything_that_no_path_reads(seed: int, columns: int, random: Random) -> None:
    found = case(seed, flat=random.random() < 0.3)
    with_columns, fields = oracle.shape_of(found.make.DESCRIPTOR, columns)
    record = replace(with_columns, columns=(*with_columns.columns, REST))
    decoder = protobuf_decoder(found.writer, record, Limits(), found.name)
    messages = [fill(random, found.make()) for _ in range(3)]
    check_batch(decoder, [message.SerializePartialToString() for message in messages])
    for message in messages:
        outcome = decoder.decode(message.SerializePartialToString(), b"key", NOON)
        try:
            left = message_remainder(message, [column.path for column in with_columns.columns])
        except oracle.Refused:
            assert isinstance(outcome, Refusal)
            continue
        if isinstance(oracle.expected_row(message, with_columns, fields), set):
            assert isinstance(outcome, Refusal)
        else:
            assert isinstance(outcome, DecodedRow), outcome
            rest = outcome.values[-1]
            assert oracle.same(left, json.loads(str(rest)) if rest else {})


def one(document_: Any, *paths: Path, **more: Any) -> Any:
    decoder = compile_decoder(Source("k", "t"), shape(paths, **more), Limits())
    value = document_ if isinstance(document_, bytes) else json.dumps(document_).encode()
    check_batch(decoder, [value])
    outcome = decoder.decode(value, b"key", NOON)
    if isinstance(outcome, Refusal):
        return [(reason.path, str(reason.code)) for reason in outcome.reasons]
    assert isinstance(outcome, DecodedRow)
    return outcome.values[-1], outcome.deleted


def test_values_stand_as_they_were_written() -> None:
    text = b' {"a": 1, "n": 1.000, "big": 123456789012345678901234567890, "o": {"x" : [1e2, null]}} '
    left = '{"n":1.000,"big":123456789012345678901234567890,"o":{"x" : [1e2, null]}}'
    assert one(text, ("a",)) == (left, False)


@pytest.mark.parametrize(
    ("given_", "paths", "left"),
    [
        ({"customer": {"id": 1, "name": "x"}}, [("customer", "id")], {"customer": {"name": "x"}}),
        ({"customer": {"id": 1}}, [("customer", "id")], None),
        ({"customer": {"id": None}}, [("customer", "id")], None),
        ({"customer": {}}, [("customer", "id")], None),
        ({"customer": None}, [("customer", "id")], None),
        ({"customer": {"id": 1, "name": None}}, [("customer", "id")], {"customer": {"name": None}}),
        ({"customer": {"id": 1, "name": "x"}}, [("customer",), ("customer", "id")], None),
        ({"other": {}, "nothing": None, "empty": []}, [("a",)], {"other": {}, "nothing": None, "empty": []}),
        ({}, [("a",)], None),
    ],
)
def test_objects_that_a_path_leads_into(given_: Any, paths: list[Path], left: Any) -> None:
    rest, _ = one(given_, *paths)
    assert (rest and json.loads(rest)) == left


@pytest.mark.parametrize(
    ("given_", "path", "code"),
    [
        ({"a": 1, "b": "\0"}, "$.b", "nul"),
        ({"o": {"a": 1, "\0c": 2}}, "$.o['\\x00c']", "nul"),
        (b'{"o": {"a": 1, "n": 1e200000}}', "$.o.n", "range"),
        ({"\0": {"a": 1, "b": 2}}, "$['\\x00']", "nul"),
    ],
)
def test_what_no_jsonb_holds_is_refused_where_it_stands(given_: Any, path: str, code: str) -> None:
    assert one(given_, ("o", "a"), ("\0", "a")) == [(path, code)]


def test_a_refused_rest_is_one_reason_of_several() -> None:
    amount = Column("amount", ColumnType("bigint"), ("amount",))
    decoder = compile_decoder(Source("k", "t"), RecordShape(None, None, (amount, REST)), Limits())
    outcome = decoder.decode(b'{"amount": "x", "note": "\\u0000"}', None, NOON)
    assert isinstance(outcome, Refusal)
    assert [reason.path for reason in outcome.reasons] == ["$.amount", "$.note", "_key"]


def test_conditions_read_no_column_and_a_delete_has_no_rest() -> None:
    conditions = {"where": (FieldCondition(("kind",), "order"),), "delete_when": FieldCondition(("op",), "d")}
    assert one({"kind": "order", "op": "c", "a": 1}, ("a",), **conditions) == ('{"kind":"order","op":"c"}', False)
    assert one({"kind": "order", "op": "d", "a": 1, "b": "\0"}, ("a",), **conditions) == (None, True)


def test_of_aliases_the_one_that_is_not_read_is_left() -> None:
    amount = Column("amount", ColumnType("bigint"), ("amount",), True, aliases=(("total",),))
    record = RecordShape(("id",), ("at",), (amount, REST))
    decoder = compile_decoder(Source("k", "t"), record, Limits())
    at = {"id": "e", "at": "2026-01-01T00:00:00Z"}
    different = ({"amount": 1, "total": 2}, {"total": 2, "x": 3}, {"amount": 1})
    values = [json.dumps(at | more).encode() for more in different]
    assert check_batch(decoder, values) == ['{"total":2}', '{"x":3}', None]


def test_a_text_that_nothing_read_has_to_be_one() -> None:
    said = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}]}
    schema = WriterSchema(1, SchemaLanguage.AVRO, json.dumps(said))
    plain, rest = (
        avro_decoder(schema, replace(shape([("a",)]), columns=each), Limits())
        for each in (shape([("a",)]).columns[:1], shape([("a",)]).columns)
    )
    assert isinstance(plain.decode(b"\x02\x02\xff", b"key", NOON), DecodedRow)
    outcome = rest.decode(b"\x02\x02\xff", b"key", NOON)
    assert isinstance(outcome, Refusal)
    assert [(reason.path, str(reason.code)) for reason in outcome.reasons] == [("$.b", "encoding")]
    proven = rest.prove(pa.array([b"\x02\x02\xff", b"\x02\x02a"], pa.binary()))
    assert proven is not None
    assert proven.places.tolist() == [1]


def test_json_schema_has_the_same_rest() -> None:
    schema = WriterSchema(1, SchemaLanguage.JSON, '{"properties": {"b": {"type": "integer"}}}')
    source = Source("k", "t", format=Format.JSON_SCHEMA, registry="r")
    decoder = compile_decoder(source, shape([("a",)]), Limits(), lambda _: {1: schema})
    values = [b"\0\0\0\0\1" + text for text in (b'{"a": 1, "b": 2}', b'{"a": 1}', b'{"b": "x"}')]
    assert check_batch(decoder, values) == ['{"b":2}', None]


def test_numbers_of_a_rest_are_not_rounded() -> None:
    rest, _ = one(b'{"n": 0.10000000000000000000000001}', ("a",))
    assert json.loads(rest, parse_float=Decimal) == {"n": Decimal("0.10000000000000000000000001")}


FIELDS = ("a", "b", "c")


def json_records() -> tuple[Decoder, list[bytes]]:
    return compile_decoder(Source("k", "t"), shape([("a",)]), Limits()), [json.dumps(dict.fromkeys(FIELDS, 1)).encode()]


def avro_records() -> tuple[Decoder, list[bytes]]:
    said = {"type": "record", "name": "R", "fields": [{"name": name, "type": "int"} for name in FIELDS]}
    return avro_decoder(schema_of(said), shape([("a",)]), Limits()), [b"\2\2\2"]


def protobuf_records() -> tuple[Decoder, list[bytes]]:
    text = 'syntax = "proto3"; message R { int32 a = 1; int32 b = 2; int32 c = 3; }'
    schema = WriterSchema(1, SchemaLanguage.PROTOBUF, text)
    return protobuf_decoder(schema, shape([("a",)]), Limits()), [b"\0\x08\1\x10\1\x18\1"]


@pytest.mark.parametrize("records", [json_records, avro_records, protobuf_records])
def test_records_with_a_rest_stay_on_the_fast_way(records: Callable[[], tuple[Decoder, list[bytes]]]) -> None:
    decoder, values = records()
    proven = decoder.prove(pa.array(values, pa.binary()))
    assert proven is not None
    assert [json.loads(each) for each in proven.columns[-1].to_pylist()] == [{"b": 1, "c": 1}]  # type: ignore[union-attr]
    check_batch(decoder, values)

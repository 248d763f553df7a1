"""What is proven of many records at the same time is what the exact reader says of each."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.descriptor import FieldDescriptor as F
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.decoding.outcome import DecodedRow, Refusal, Skip
from offset_ledger.decoding.protobuf.decoder import protobuf_decoder
from offset_ledger.decoding.protobuf.lockstep import ROUNDS
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, FieldCondition, Limits, RecordShape
from tests.examples import examples
from tests.unit.decoding.protobuf.oracle import shape_of
from tests.unit.decoding.protobuf.proofs import check_proofs
from tests.unit.decoding.protobuf.random_messages import damaged, fill
from tests.unit.decoding.protobuf.random_schemas import (
    AT,
    EXAMPLES,
    all_fields,
    case,
    official,
    randoms,
    seeds,
    writer_schema,
)


@examples(EXAMPLES // 3)
@given(seeds, st.integers(0, 3), randoms, st.booleans())
def test_what_is_proven_is_what_is_decoded(seed: int, columns: int, random: Random, flat: bool) -> None:
    found = case(seed, flat)
    shape, _ = shape_of(found.make.DESCRIPTOR, columns, documents=random.random() < 0.6)
    values = [fill(random, found.make()).SerializePartialToString() for _ in range(12)]
    values = [damaged(random, value) if random.random() < 0.5 else value for value in values]
    conditions = [condition(random, found.make.DESCRIPTOR) for _ in range(random.randrange(3))]
    shape = replace(shape, where=tuple(replace(each, negated=random.random() < 0.5) for each in conditions))
    check_proofs(protobuf_decoder(found.writer, shape, Limits(), found.name), shape, values)


def condition(random: Random, descriptor: Any) -> FieldCondition:
    """A condition on one of the message's fields, which holds of messages that have the zero of its type there."""
    path, field = random.choice([*all_fields(descriptor), (("none",), None)])
    zeros = {F.TYPE_STRING: "", F.TYPE_BOOL: False}
    return FieldCondition(path, zeros.get(field.type, 0) if field and random.random() < 0.8 else "a")


@examples(EXAMPLES // 3)
@given(seeds, st.integers(0, 3), randoms)
def test_takes_exactly_the_messages_of_which_a_condition_holds(seed: int, columns: int, random: Random) -> None:
    found = case(seed, flat=True)
    shape, _ = shape_of(found.make.DESCRIPTOR, columns)
    names = [field.name for field in found.make.DESCRIPTOR.fields if field.type == F.TYPE_STRING]
    messages = [fill(random, found.make()) for _ in range(6)]
    values = [message.SerializePartialToString() for message in messages]
    for name in names[:2]:
        equals = str(getattr(random.choice(messages), name))
        where = replace(shape, where=(FieldCondition((name,), equals),))
        decoder = protobuf_decoder(found.writer, where, Limits(), found.name)
        check_proofs(decoder, where, values)
        for message, value in zip(messages, values, strict=True):
            field = message.DESCRIPTOR.fields_by_name[name]
            there = not field.has_presence or message.HasField(name)
            outcome = decoder.decode(value, b"k", AT)
            if there and "\0" in getattr(message, name):
                assert isinstance(outcome, Refusal)
            else:
                assert (outcome == Skip()) is not (there and getattr(message, name) == equals)


@examples(EXAMPLES // 3)
@given(seeds, st.integers(0, 3), randoms)
def test_every_flat_message_that_decodes_is_proven(seed: int, columns: int, random: Random) -> None:
    found = case(seed, flat=True)
    shape, _ = shape_of(found.make.DESCRIPTOR, columns, documents=False)
    shape = replace(shape, **own_names(found.make.DESCRIPTOR)) if random.random() < 0.5 else shape
    decoder = protobuf_decoder(found.writer, shape, Limits(), found.name)
    values = [fill(random, found.make()).SerializePartialToString() for _ in range(12)]
    decoded = {n for n, value in enumerate(values) if isinstance(decoder.decode(value, b"k", AT), DecodedRow)}
    missed = decoded - check_proofs(decoder, shape, values)
    assert all(far_off(found.make.FromString(values[place])) for place in missed)


def own_names(descriptor: Any) -> dict[str, tuple[str]]:
    """Fields of the message that can name its event and its moment, if it has any."""
    texts = [field.name for field in descriptor.fields if field.type in (field.TYPE_STRING, field.TYPE_UINT64)]
    moments = [field.name for field in descriptor.fields if field.message_type]
    return {name: (found[-1],) for name, found in (("event_id", texts), ("publish_at", moments)) if found}


def far_off(message: Any) -> bool:
    """Whether a timestamp of the message is beyond what nanoseconds of 64 bits can count."""
    moments = [value for field, value in message.ListFields() if field.message_type]
    return any(abs(moment.seconds) > 9_000_000_000 for moment in moments)


@examples(EXAMPLES // 5)
@given(seeds, randoms)
def test_framed_records_of_several_messages_are_proven_together(seed: int, random: Random) -> None:
    found = case(seed, flat=True)
    shape, _ = shape_of(found.make.DESCRIPTOR, 0, documents=False)
    heads = {n: b"\x00" if n == 0 else bytes([2, 2 * n]) for n in range(5)}
    own = int(found.name[-1])
    values = []
    for _ in range(20):
        message = fill(random, found.make()).SerializePartialToString()
        index = own if random.random() < 0.7 else random.randrange(5)
        head = b"\x02\x00" if index == 0 and random.random() < 0.3 else heads[index]
        values.append(damaged(random, head + message) if random.random() < 0.2 else head + message)
    framed = protobuf_decoder(found.writer, shape, Limits())
    plain = protobuf_decoder(found.writer, shape, Limits(), found.name)
    places = check_proofs(framed, shape, values)
    for value in values:
        if value.startswith(heads[own]):
            said = framed.decode(value, b"k", AT), plain.decode(value[len(heads[own]) :], b"k", AT)
            assert repr(said[0]) == repr(said[1])
    proven = plain.prove(pa.array([value[len(heads[own]) :] for value in values], pa.binary()))
    wanted = np.zeros(0, np.int64) if proven is None else proven.places
    assert {place for place in wanted.tolist() if values[place].startswith(heads[own])} <= places


WHOLE = """syntax = "proto3"; package t; import "google/protobuf/struct.proto";
message E {
  string id = 1; repeated string texts = 2; repeated int64 packed = 3; repeated int64 loose = 4 [packed = false];
  map<string, double> prices = 5; repeated Line lines = 6; Line line = 7; google.protobuf.Struct more = 8;
  optional bytes raw = 9; double ratio = 10; int64 after = 2048; repeated sint32 last = 3000;
}
message Line { string sku = 1; repeated int64 counts = 2; }"""
PARTS = ("texts", "packed", "loose", "prices", "lines", "line", "more", "raw", "ratio", "last")
MESSAGES: list[dict[str, Any]] = [
    {},
    {"texts": ["a", "ü\n", ""], "packed": [1, 0, -(2**63)], "loose": [5], "last": [-1, 2]},
    {"prices": {"x": 1.5, "": 0.0}, "lines": [{"sku": "s", "counts": [1, 2]}, {}], "line": {}},
    {"line": {"sku": "q"}, "more": {"a": [1, None, {"b": "c"}]}, "raw": b"\xff", "ratio": 0.25},
    {"texts": [str(n) for n in range(ROUNDS)], "lines": [{"sku": "x"}] * ROUNDS, "packed": list(range(ROUNDS))},
]


def expected_parts(message: dict[str, Any]) -> dict[str, Any]:
    """What stands in the columns, as Python has JSON."""
    of_line = {"sku": "", "counts": []}
    found: dict[str, Any] = {name: [] for name in ("texts", "packed", "loose", "lines", "last")}
    found |= {"prices": {}, "line": None, "more": None, "raw": None, "ratio": 0.0, **message}
    found["lines"] = [of_line | each for each in found["lines"]]
    found["line"] = None if found["line"] is None else of_line | found["line"]
    found["raw"] = found["raw"] and base64.b64encode(found["raw"]).decode()
    return found


def test_whole_parts_of_messages_are_proven_as_json() -> None:
    make = official(WHOLE)("t.E")
    values = [make(id=f"e{n}", after=n, **message).SerializeToString() for n, message in enumerate(MESSAGES)]
    columns = [Column(name, ColumnType("jsonb"), (name,), nullable=True) for name in PARTS]
    columns += [
        Column("after", ColumnType("bigint"), ("after",)),
        Column("sku", ColumnType("text"), ("line", "sku"), True),
    ]
    shape = RecordShape(("id",), None, tuple(columns))
    decoder = protobuf_decoder(writer_schema(WHOLE), shape, Limits(), "t.E")
    assert check_proofs(decoder, shape, values) == set(range(len(values)))
    proven = decoder.prove(pa.array(values, pa.binary()))
    assert proven is not None
    for message, *found in zip(
        MESSAGES, *(column.to_pylist() for column in proven.columns[2:-2] if column), strict=True
    ):
        assert [each and json.loads(each) for each in found] == [expected_parts(message)[name] for name in PARTS]


@pytest.mark.parametrize("nullable", [True, False])
def test_what_is_not_set_is_proven_where_it_may_be_null(nullable: bool) -> None:
    make = official(WHOLE)("t.E")
    values = [make(id="a").SerializeToString(), make(id="b", line={}).SerializeToString()]
    shape = RecordShape(("id",), None, (Column("line", ColumnType("jsonb"), ("line",), nullable),))
    decoder = protobuf_decoder(writer_schema(WHOLE), shape, Limits(), "t.E")
    assert check_proofs(decoder, shape, values) == ({0, 1} if nullable else {1})


def test_what_stands_apart_or_is_too_much_is_read_one_by_one() -> None:
    make = official(WHOLE)("t.E")
    one = make(id="a", texts=["x"]).SerializeToString()
    odd = [
        one + make(packed=[1]).SerializeToString() + make(texts=["y"]).SerializeToString(),
        make(id="a", texts=["x"] * (ROUNDS + 1)).SerializeToString(),
        one + b"\x12\x01\xff",
        make(id="a", more={"a": float("inf")}).SerializeToString(),
    ]
    columns = tuple(Column(name, ColumnType("jsonb"), (name,), True) for name in ("texts", "more"))
    shape = RecordShape(("id",), None, columns)
    decoder = protobuf_decoder(writer_schema(WHOLE), shape, Limits(), "t.E")
    assert check_proofs(decoder, shape, [one, *odd, one]) == {0, len(odd) + 1}

"""A schema that is a union: each record is read as the branch that it names."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.decoding.avro.decoder import avro_decoder
from offset_ledger.decoding.decoder import Decoder
from offset_ledger.decoding.outcome import Code, DecodedRow, Refusal, Skip
from offset_ledger.model.writer_schema import SchemaLanguage, SchemaReference, WriterSchema
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, Limits, RecordShape
from tests.unit.decoding.avro.avro_checks import NOW, check_proven, check_row, draw_shape, many, schema_of, spoil
from tests.unit.decoding.avro.avro_records import Written, record_unions

pytestmark = pytest.mark.filterwarnings("ignore")


@many
@given(st.data())
def test_each_branch_is_read_as_the_record_that_it_is(data: st.DataObject) -> None:
    union = data.draw(record_unions(flat=data.draw(st.booleans())))
    written = Written(copy.deepcopy(union))  # type: ignore[arg-type]
    names = [each["name"] for each in union if each != "null"]
    taken = data.draw(st.lists(st.sampled_from(names), unique=True))
    record = replace(draw_shape(data.draw, written), schemas=tuple(taken))
    decoder = avro_decoder(schema_of(union), record, Limits())
    values = [written.value(data.draw, written.parsed) for _ in range(data.draw(st.integers(1, 6)))]
    records = [written.write(value) for value in values]
    for value, each in zip(values, records, strict=True):
        outcome = decoder.decode(each, b"key", NOW)
        if taken and value[0] not in taken:
            assert outcome == Skip()
        elif value[0] == "null":
            assert isinstance(outcome, Refusal)
            assert [reason.detail for reason in outcome.reasons] == ["expected a record, got null"]
        else:
            check_row(outcome, written, value, record)
    skipped = decoder.prove(pa.array(records, pa.binary()))
    others = [n for n, (name, _) in enumerate(values) if taken and name not in taken]
    assert (skipped.skipped.tolist() if skipped else []) == others
    check_proven(decoder, records + [spoil(data.draw, each) for each in records if data.draw(st.booleans())])


ORDER = {"type": "record", "name": "shop.Order",
    "fields": [{"name": "id", "type": "string"}, {"name": "amount", "type": "long"}]}  # fmt: skip
REFUND = {"type": "record", "name": "shop.Refund",
    "fields": [{"name": "amount", "type": "long"}, {"name": "order", "type": "shop.Order"}]}  # fmt: skip
BY_REFERENCE = WriterSchema(1, SchemaLanguage.AVRO, '["shop.Order", "shop.Refund"]',
    (SchemaReference("shop.Order", "shop.Order", 1, json.dumps(ORDER)),
        SchemaReference("shop.Refund", "shop.Refund", 1, json.dumps(REFUND))))  # fmt: skip
SHAPE = RecordShape(None, None, (Column("amount", ColumnType("bigint"), ("amount",)),))
WRITTEN = Written([ORDER, REFUND])  # type: ignore[arg-type]


def values() -> list[bytes]:
    """Orders and refunds in turns."""
    order = {"id": "a", "amount": 7}
    branches = [("shop.Order", order), ("shop.Refund", {"amount": 70, "order": order})]
    return [WRITTEN.write(branches[n % 2]) for n in range(6)]


def outcomes(decoder: Decoder, found: list[bytes]) -> list[Any]:
    """The amounts of rows, True for what is skipped, and the code and detail of a refusal."""
    read = [decoder.decode(value, b"key", NOW) for value in found]
    return [
        each.values[0] if isinstance(each, DecodedRow) else isinstance(each, Skip) or each.reasons[0] for each in read
    ]


@pytest.mark.parametrize(
    ("schemas", "expected"),
    [
        ((), [7, 70] * 3), (("shop.Order",), [7, True] * 3), (("shop.Refund", "shop.Other"), [True, 70] * 3),
        (("shop.Refund", "shop.Order"), [7, 70] * 3), (("Order",), [True, True] * 3),
    ],
)  # fmt: skip
def test_a_union_of_references(schemas: tuple[str, ...], expected: list[Any]) -> None:
    decoder = avro_decoder(BY_REFERENCE, replace(SHAPE, schemas=schemas), Limits())
    assert outcomes(decoder, values()) == expected
    assert check_proven(decoder, values()) == sum(each is not True for each in expected)


@pytest.mark.parametrize(
    ("value", "code", "detail"),
    [
        (b"", Code.SYNTAX, "expected an integer at byte 0, got the end of the record"),
        (b"\x04", Code.SYNTAX, "expected an index below 2 in union, got 2"),
        (b"\x01", Code.SYNTAX, "expected an index below 2 in union, got -1"),
        (b"\x00\x02a\x0e\x00", Code.SYNTAX, "expected the end of the record at byte 3, got 1 byte more"),
    ],
)
def test_a_branch_that_is_not_there_is_refused(value: bytes, code: Code, detail: str) -> None:
    decoder = avro_decoder(BY_REFERENCE, SHAPE, Limits())
    (reason,) = outcomes(decoder, [value])
    assert (reason.path, reason.code, reason.detail) == ("$", code, detail)
    assert check_proven(decoder, [*values(), value, *values()]) == 12


def test_a_long_form_of_the_index_is_the_index() -> None:
    long_form = b"\x82\x00" + values()[1][1:]
    decoder = avro_decoder(BY_REFERENCE, SHAPE, Limits())
    assert outcomes(decoder, [long_form]) == [70]
    assert check_proven(decoder, [*values(), long_form]) == 7


def test_a_branch_that_is_no_record_is_refused_or_of_another_kind() -> None:
    schema = schema_of(["null", "string", ORDER, {"type": "map", "values": "long"}])
    found = [b"\x00", b"\x02\x02a", b"\x04" + values()[0][1:], b"\x06\x00"]
    every = outcomes(avro_decoder(schema, SHAPE, Limits()), found)
    details = [each if isinstance(each, int) else (each.code, each.detail) for each in every]
    assert details == [
        (Code.TYPE, "expected a record, got null"),
        (Code.TYPE, "expected a record, got string"),
        7,
        (Code.TYPE, "expected a record, got map"),
    ]
    orders = avro_decoder(schema, replace(SHAPE, schemas=("shop.Order",)), Limits())
    assert outcomes(orders, found) == [True, True, 7, True]


def test_a_record_of_another_branch_may_be_of_any_size_and_anything() -> None:
    decoder = avro_decoder(BY_REFERENCE, replace(SHAPE, schemas=("shop.Order",)), Limits(value_bytes=10))
    found = [b"\x02" + bytes(100), b"\x00" + bytes(100), b"\x02\xff", values()[0], None]
    read = [decoder.decode(value, b"key", NOW) for value in found]
    assert [each.reasons[0].code if isinstance(each, Refusal) else type(each) for each in read] == [
        *(Skip, Code.TOO_LARGE, Skip, DecodedRow, Code.TOMBSTONE)
    ]

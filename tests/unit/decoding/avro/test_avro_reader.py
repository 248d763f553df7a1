"""Records made by hand, byte by byte: what is refused and where, and which paths lead where."""

from __future__ import annotations

import json
import time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from offset_ledger.decoding.avro.byte_reader import MAX_DEPTH, SPARE_VALUES
from offset_ledger.decoding.avro.decoder import avro_decoder, key_text
from offset_ledger.decoding.avro.steps import MAX_DECIMAL_BYTES
from offset_ledger.decoding.outcome import Code, DecodedRow, Mismatch, Reason, Refusal, SchemaProblem
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, FieldCondition, Limits
from tests.unit.decoding.avro.avro_checks import (
    BOMBS,
    DECIMAL,
    ENUM,
    HUGE,
    INTS,
    NOW,
    TEXTS,
    check_proven,
    column,
    decoder,
    reasons,
    record,
    schema_of,
    shape_of,
)

NO_INTEGER = "expected an integer at byte 0, got the end of the record"


def values(schema: Any, value: bytes, *columns: Column) -> tuple[object, ...]:
    """The values of a record, which are proven to be these or not at all."""
    decodes = decoder(schema, *(columns or (column("f0"),)))
    outcome = decodes.decode(value, b"key", NOW)
    assert isinstance(outcome, DecodedRow), outcome
    check_proven(decodes, [value])
    return outcome.values


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("int", b"\x80\x00", "0"), ("int", b"\x82\x80\x80\x80\x00", "1"),
        ("int", b"\xff\xff\xff\xff\x0f", str(-(2**31))), ("int", b"\xfe\xff\xff\xff\x0f", str(2**31 - 1)),
        ("long", b"\x82\x80\x80\x80\x80\x80\x80\x80\x80\x00", "1"), ("long", b"\xff" * 9 + b"\x01", str(-(2**63))),
        ("long", HUGE, str(2**63 - 1)), (INTS, b"\x04\x02\x04\x02\x06\x00", "[1,2,3]"),
        (INTS, b"\x03\x04\x02\x04\x01\x02\x06\x00", "[1,2,3]"), (INTS, b"\x00", "[]"),
        (TEXTS, b"\x01\x08\x02a\x02b\x00", '{"a":"b"}'),
        ({"type": "array", "items": "null"}, b"\xa0\x9c\x01\x00", None), (ENUM, b"\x02", '"DONE"'),
        (DECIMAL, b"\x04\xff\x85", "-1.23"), ("boolean", b"\x01", "true"),
    ],
)  # fmt: skip
def test_what_is_written_in_another_form_is_read(type_: Any, value: bytes, expected: str | None) -> None:
    (read,) = values(record(type_), value)
    assert read == ("[" + ",".join(["null"] * 9_999 + ["null"]) + "]" if expected is None else expected)


@pytest.mark.parametrize(
    ("type_", "value", "path", "code", "detail"),
    [
        ("int", b"", "$.f0", Code.SYNTAX, NO_INTEGER),
        ("int", b"\x80", "$.f0", Code.SYNTAX, NO_INTEGER),
        ("int", b"\x80\x80\x80\x80\x10", "$.f0", Code.SYNTAX, "expected an integer of 32 bits at byte 0, got more"),
        ("int", b"\x80\x80\x80\x80\x80\x00", "$.f0", Code.SYNTAX, "expected an integer of 32 bits at byte 0, got more"),
        ("long", b"\xff" * 9 + b"\x02", "$.f0", Code.SYNTAX, "expected an integer of 64 bits at byte 0, got more"),
        ("long", b"\x80" * 10 + b"\x00", "$.f0", Code.SYNTAX, "expected an integer of 64 bits at byte 0, got more"),
        ("long", b"\xff" * 200, "$.f0", Code.SYNTAX, "expected an integer of 64 bits at byte 0, got more"),
        ("boolean", b"\x02", "$.f0", Code.SYNTAX, "expected boolean as 0 or 1, got byte 0x02"),
        ("float", b"\0\0\0", "$.f0", Code.SYNTAX, "expected 4 bytes at byte 0, got 3"),
        ("double", b"\0" * 7, "$.f0", Code.SYNTAX, "expected 8 bytes at byte 0, got 7"),
        ("string", b"\x06ab", "$.f0", Code.SYNTAX, "expected 3 bytes at byte 1, got 2"),
        ("string", b"\x01", "$.f0", Code.SYNTAX, "expected a length before byte 1, got -1"),
        ("bytes", HUGE, "$.f0", Code.SYNTAX, "expected 9223372036854775807 bytes at byte 10, got 0"),
        ("string", b"\x04a\xff", "$.f0", Code.ENCODING, "expected UTF-8, got byte 0xff at 1"),
        ("string", b"\x06\xed\xa0\x80", "$.f0", Code.ENCODING, "expected UTF-8, got byte 0xed at 0"),
        ({"type": "fixed", "name": "F", "size": 3}, b"ab", "$.f0", Code.SYNTAX, "expected 3 bytes at byte 0, got 2"),
        (ENUM, b"\x04", "$.f0", Code.SYNTAX, "expected an index below 2 in enum Status, got 2"),
        (ENUM, b"\x01", "$.f0", Code.SYNTAX, "expected an index below 2 in enum Status, got -1"),
        (["null", "int"], b"\x04", "$.f0", Code.SYNTAX, "expected an index below 2 in union, got 2"),
        (["null", "int"], b"\x01", "$.f0", Code.SYNTAX, "expected an index below 2 in union, got -1"),
        ([], b"\x00", "$.f0", Code.SYNTAX, "expected an index below 0 in union, got 0"),
        (DECIMAL, b"\x00", "$.f0", Code.RANGE, "expected decimal of 1 to 4096 bytes, got 0"),
        (INTS, b"\x04\x02", "$.f0[1]", Code.SYNTAX, "expected an integer at byte 2, got the end of the record"),
        (INTS, b"\x04\x02\x04", "$.f0", Code.SYNTAX, "expected an integer at byte 3, got the end of the record"),
        (INTS, b"\x03\x06\x02\x04\x06\x00", "$.f0", Code.SYNTAX, "expected a block of 3 bytes, got 2"),
        (INTS, b"\x03\x02\x02\x04\x00", "$.f0", Code.SYNTAX, "expected a block of 1 byte, got 2"),
        (INTS, b"\x03\x01\x02\x04\x00", "$.f0", Code.SYNTAX, "expected a length before byte 2, got -1"),
        (TEXTS, b"\x04\x02a\x02b\x02a\x02c\x00", "$.f0", Code.DUPLICATE_KEY, "expected each key once, got a again"),
        (TEXTS, b"\x02\x02a\x02\xff\x00", "$.f0.a", Code.ENCODING, "expected UTF-8, got byte 0xff at 0"),
        (TEXTS, b"\x02\x02\xff\x02a\x00", "$.f0", Code.ENCODING, "expected UTF-8, got byte 0xff at 0"),
        (record(record("int", name="C"), name="B"), b"", "$.f0.f0.f0", Code.SYNTAX, NO_INTEGER),
        ("null", b"\x00", "$", Code.SYNTAX, "expected the end of the record at byte 0, got 1 byte more"),
    ],
)  # fmt: skip
def test_bad_bytes_are_refused_with_their_place(type_: Any, value: bytes, path: str, code: Code, detail: str) -> None:
    expected = [Reason(path, code, detail)]
    assert reasons(record(type_), value) == expected
    content = code in (Code.ENCODING, Code.DUPLICATE_KEY, Code.RANGE)
    skipping = decoder(record(type_, "null"), column("f1")).decode(value, b"key", NOW)
    if content:
        assert isinstance(skipping, DecodedRow)
    else:
        assert skipping == Refusal(tuple(expected))


def test_a_large_decimal_is_refused_before_it_is_converted() -> None:
    length = b"\x82\x40"  # 4097
    found = reasons(record(DECIMAL), length + b"\x55" * (MAX_DECIMAL_BYTES + 1), column("f0", "numeric"))
    assert found == [Reason("$.f0", Code.RANGE, "expected decimal of 1 to 4096 bytes, got 4097")]
    assert values(record(DECIMAL), b"\x80\x40" + b"\0" * 4095 + b"\x7b", column("f0", "numeric")) == (Decimal("1.23"),)


@pytest.mark.parametrize(("type_", "value"), BOMBS)
def test_values_without_bytes_are_bounded(type_: Any, value: bytes) -> None:
    start = time.process_time()
    for schema, at in ((record(type_), column("f0")), (record(type_, "null"), column("f1"))):
        (reason,) = reasons(schema, value, at)
        assert reason.code is Code.TOO_LARGE
        assert reason.path.startswith("$.f0")
    assert time.process_time() - start < 4


def test_many_values_of_few_bytes_are_read() -> None:
    items = {"type": "array", "items": record(record(record("boolean", name="C"), name="B"), name="A")}
    columns = tuple(Column(f"c{n}", ColumnType("jsonb"), ("f0",)) for n in range(4))
    first, *others = values(record(items), b"\xd0\x8c\x01" + b"\1" * 9_000 + b"\0", *columns)
    assert first == "[" + ",".join(['{"f0":{"f0":{"f0":true}}}'] * 9_000) + "]"
    assert others == [first] * 3


def test_types_that_double_at_each_step_are_bounded() -> None:
    """A chain of 40 records with two of the next one each has 2 to the power of 40 values, in no bytes."""
    said: Any = record(name="R0")
    for depth in range(1, 41):
        said = record(said, f"R{depth - 1}", name=f"R{depth}")
    start = time.process_time()
    (reason,) = reasons(said, b"")
    assert reason.code is Code.TOO_LARGE
    assert reason.detail == f"expected at most {SPARE_VALUES} values in 0 bytes, got more"
    assert time.process_time() - start < 4


@pytest.mark.parametrize(
    ("link", "step", "end"),
    [
        (["null", "Order"], b"\x02", b"\x00"),
        ({"type": "array", "items": "Order"}, b"\x02", b"\x00"),
        ("Order", b"", b""),
    ],
)
def test_depth_is_bounded(link: Any, step: bytes, end: bytes) -> None:
    for count in (600, 100_000):
        (reason,) = reasons(record(link), step * count + end * (count if step == b"\x02" else 1))
        assert reason.code is Code.DEPTH
        (reason,) = reasons(record(link, "null"), step * count, column("f1"))
        assert reason.code is Code.DEPTH


def test_a_record_of_the_greatest_depth_is_read() -> None:
    links = (MAX_DEPTH - 2) // 2
    (read,) = values(record(["null", "Order"]), b"\x02" * links + b"\x00", column("f0"))
    assert str(read).count("{") == links
    assert values(
        record(["null", "Order"], "int"), b"\x02" * links + b"\x00" + b"\x02" * links + b"\x06", column("f1", "integer")
    ) == (3,)


EITHER = [
    "null",
    {"type": "record", "name": "Card", "fields": [{"name": "number", "type": "string"}]},
    {"type": "record", "name": "Cash",
        "fields": [{"name": "number", "type": "long"}, {"name": "coins", "type": "int"}]},
    {"type": "map", "values": "int"},
    "string",
]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "number", "coins"),
    [
        (b"\x00", None, None), (b"\x02\x02a", "a", None), (b"\x04\x0e\x10", "7", 8),
        (b"\x06\x02\x0ccoins\x21\x03\x00", None, None), (b"\x06\x04\x0acoins\x06\x02x\x01\x00", None, 3),
    ],
)  # fmt: skip
def test_a_path_follows_the_branch(value: bytes, number: str | None, coins: int | None) -> None:
    schema = {"type": "record", "name": "Order", "fields": [{"name": "paid", "type": EITHER}]}
    columns = (column("paid.number", "jsonb"), column("paid.coins", "integer"))
    read = values(schema, value, *columns)
    assert read == (
        None if number is None else json.dumps(json.loads(f'"{number}"' if number == "a" else number)),
        coins,
    )


def test_a_path_into_nothing_is_missing_or_null() -> None:
    schema = {"type": "record", "name": "Order", "fields": [{"name": "paid", "type": EITHER}]}
    columns = (column("paid.number", "jsonb", False), column("paid.coins", "integer", False))
    assert reasons(schema, b"\x00", *columns) == [Reason("$.paid", Code.NULL, "expected a value, got null")]
    no_field = "expected a value, the schema has no such field"
    assert reasons(schema, b"\x02\x02a", *columns) == [Reason("$.paid.coins", Code.MISSING, no_field)]
    nothing = "expected a value, got nothing"
    assert reasons(schema, b"\x06\x00", *columns) == [
        Reason("$.paid.number", Code.MISSING, nothing),
        Reason("$.paid.coins", Code.MISSING, nothing),
    ]
    into_text = Reason("$.paid", Code.TYPE, "expected a record or a map, got string")
    assert reasons(schema, b"\x08\x02a", *columns) == [into_text]
    elsewhere = reasons(schema, b"\x00", column("no.such", "text", False))
    assert elsewhere == [Reason("$.no", Code.MISSING, no_field)]
    assert values(schema, b"\x00", column("no.such", "text"), column("no", "date")) == (None, None)


def test_one_place_can_fill_several_columns() -> None:
    schema = record(record("int", INTS, name="Inner"))
    value = b"\x02\x02\x04\x00"
    columns = (column("f0"), column("f0.f0", "bigint"), column("f0.f0", "text"), column("f0.f1"))
    assert reasons(schema, value, *columns) == [Reason("$.f0.f0", Code.TYPE, "expected text, got int")]
    assert values(schema, value, columns[0], columns[1], columns[3]) == ('{"f0":1,"f1":[2]}', 1, "[2]")
    into = (column("f0.f1"), column("f0.f1.x"))
    assert reasons(schema, value, *into) == [Reason("$.f0.f1", Code.TYPE, "expected a record or a map, got array")]


def test_a_whole_value_goes_into_jsonb_alone() -> None:
    for type_, value, name in (
        (INTS, b"\x00", "array"),
        (TEXTS, b"\x00", "map"),
        (record("null", name="In"), b"", "record In"),
    ):
        assert reasons(record(type_), value, column("f0", "text")) == [
            Reason("$.f0", Code.TYPE, f"expected text, got {name}")
        ]
    (reason,) = reasons(record(TEXTS), b"\x02\x02a\x02\x00\x00")
    assert (reason.path, reason.code) == ("$.f0", Code.NUL)


def test_deletes_are_told_and_never_proven() -> None:
    schema = record("string", ["null", "boolean"])
    decodes = decoder(schema, column("f0", "text"), delete_when=FieldCondition(("f1",), True))
    live, dead, unsaid = b"\x02a\x02\x00", b"\x02b\x02\x01", b"\x02c\x00"
    outcomes = [decodes.decode(value, b"key", NOW) for value in (live, dead, unsaid)]
    assert [(each.deleted, each.values) for each in outcomes if isinstance(each, DecodedRow)] == [
        (False, ("a",)),
        (True, (None,)),
        (False, ("c",)),
    ]
    proven = decodes.prove(pa.array([live, dead, unsaid], pa.binary()))
    assert proven is not None
    assert proven.places.tolist() == [0, 2]
    assert proven.columns[2].to_pylist() == ["a", "c"]


@pytest.mark.parametrize(
    ("said", "key", "expected"),
    [
        ("string", b"\x06a-1", "a-1"),
        ({"type": "string", "logicalType": "uuid"}, b"\x06a-1", "a-1"),
        ("int", b"\x01", "-1"),
        ("long", HUGE, str(2**63 - 1)),
        (ENUM, b"\x02", "DONE"),
        ({"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"}, bytes(range(16)),
            "00010203-0405-0607-0809-0a0b0c0d0e0f"),
    ],
)  # fmt: skip
def test_keys_name_events(said: Any, key: bytes, expected: str) -> None:
    text = key_text(schema_of(said))
    assert text(key) == expected
    for wrong in (key + b"\0", key[:-1]):
        with pytest.raises(Mismatch) as raised:
            text(wrong)
        assert raised.value.code is Code.SYNTAX


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (b"\x00", Code.LENGTH),
        (b"\x82\x10" + b"a" * 1025, Code.LENGTH),
        (b"\x02\x00", Code.NUL),
        (b"\x02\xff", Code.ENCODING),
    ],
)
def test_a_key_that_names_no_event_is_refused(key: bytes, code: Code) -> None:
    with pytest.raises(Mismatch) as raised:
        key_text(schema_of("string"))(key)
    assert raised.value.code is code


@pytest.mark.parametrize(
    ("said", "got"),
    [
        ("bytes", "bytes"),
        ("double", "double"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "timestamp-millis"),
        (["null", "string"], "union"),
        (record("string"), "record Order"),
        (INTS, "array"),
    ],
)
def test_other_keys_are_refused_by_name(said: Any, got: str) -> None:
    with pytest.raises(SchemaProblem) as raised:
        key_text(schema_of(said))
    assert str(raised.value) == f"expected an Avro string, int, long, uuid or enum as a key, got {got}"


def test_a_schema_that_is_no_record_is_refused() -> None:
    with pytest.raises(SchemaProblem, match="expected an Avro record, or a union with one, got string"):
        avro_decoder(schema_of("string"), shape_of((column("f0"),)), Limits())

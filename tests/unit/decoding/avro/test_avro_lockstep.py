"""Which records are proven: those with arrays, maps and unions too, as far as they walk through a schema together."""

from __future__ import annotations

import json
from typing import Any

import pytest

from offset_ledger.decoding.avro.decoder import avro_decoder
from offset_ledger.decoding.avro.lockstep import MAX_ITEMS
from offset_ledger.decoding.outcome import DecodedRow
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.pipeline_file.pipeline import Column, Limits, RecordShape
from tests.unit.decoding.avro.avro_checks import (
    BOMBS,
    DECIMAL,
    EMPTY,
    ENUM,
    INTS,
    NOW,
    TEXTS,
    check_proven,
    column,
    decoder,
    record,
)
from tests.unit.decoding.avro.avro_records import Written

pytestmark = pytest.mark.filterwarnings("ignore")

ITEM = {"type": "array", "items": record("string", ["null", "long"], ENUM, name="Item")}
CHOICE = ["null", "long", record("string", name="Card"), TEXTS]


def proven(schema: Any, values: list[Any], *columns: Column) -> list[bool]:
    """Which of the values are proven, each in a batch of its own and all in one."""
    written = Written(schema)
    decodes = decoder(schema, *columns)
    records = [written.write(value) for value in values]
    found = [check_proven(decodes, [each]) == 1 for each in records]
    assert check_proven(decodes, records) == sum(found)
    return found


def items(count: int) -> list[dict[str, Any]]:
    """So many items, unlike each other."""
    return [
        {"f0": "x" * n, "f1": None if n % 3 else n * 10**15, "f2": "NEW" if n % 2 else "DONE"} for n in range(count)
    ]


def test_arrays_and_maps_are_stepped_over() -> None:
    schema = record(ITEM, "string", TEXTS, "int")
    values = [
        {"f0": items(count), "f1": "y" * count, "f2": {str(n): "z" * n for n in range(maps)}, "f3": count * maps}
        for count, maps in ((0, 0), (1, 3), (7, 1), (0, 9), (MAX_ITEMS, 0), (MAX_ITEMS + 1, 0), (1, MAX_ITEMS + 1))
    ]
    expected = [True] * 5 + [False] * 2
    assert proven(schema, values, column("f1", "text", False), column("f3", "integer", False)) == expected
    assert proven(schema, values, column("f0"), column("f2"), column("f3", "integer")) == expected


def test_blocks_with_their_size_are_left() -> None:
    decodes = decoder(record(INTS, "int"), column("f1", "integer"))
    assert (
        check_proven(decodes, [b"\x04\x02\x04\x00\x02", b"\x03\x04\x02\x04\x00\x02", b"\x02\x02\x02\x04\x00\x02"]) == 2
    )


def test_what_ends_a_block_wrongly_is_not_proven() -> None:
    decodes = decoder(record(INTS, "int"), column("f1", "integer"))
    assert check_proven(decodes, [b"\x01\x02"]) == 0
    two_blocks = (b"\x28" + b"\x02" * 20) * 2 + b"\x00\x02"
    assert isinstance(decodes.decode(two_blocks, b"key", NOW), DecodedRow)
    assert check_proven(decodes, [two_blocks]) == 0


def test_a_union_within_a_union() -> None:
    inner = record(["int", "null", "string"], "boolean", name="Inner")
    schema = record(["null", inner], "int")
    values = [
        {"f0": None if choice is None else ("Inner", {"f0": choice, "f1": True}), "f1": 1}
        for choice in (None, ("null", None), ("int", 5), ("string", "x"), None, ("int", 6))
    ]
    assert proven(schema, values, column("f0.f0"), column("f0.f1", "boolean"), column("f1", "integer")) == [True] * 6


def test_a_decimal_without_bytes_is_not_proven() -> None:
    decodes = decoder(record(DECIMAL), column("f0", "numeric"))
    assert check_proven(decodes, [b"\x00", b"\x02\x07", b"\x10" + b"\x81" * 8, b"\x12" + b"\x00" * 9]) == 2


def test_records_part_at_a_union_and_meet_again() -> None:
    schema = record(CHOICE, "string")
    values = [
        {"f0": choice, "f1": name}
        for choice, name in ((None, "a"), (("long", 7), "b"), (("Card", {"f0": "c"}), "d"), (("map", {"e": "f"}), "g"))
    ]
    assert proven(schema, values, column("f1", "text", False)) == [True] * 4
    assert proven(schema, values, column("f0"), column("f1", "text")) == [True] * 4
    assert proven(schema, values, column("f0", "jsonb", False)) == [False, True, True, True]
    assert proven(schema, values, column("f0.f0", "text")) == [True, False, True, False]
    assert proven(schema, values, column("f0", "bigint")) == [True, True, False, False]


def test_a_whole_record_and_its_parts() -> None:
    schema = record(record("int", "double", name="Inner"), "bytes")
    values = [{"f0": {"f0": n, "f1": n / 7}, "f1": b"\0" * n} for n in range(3)]
    values.append({"f0": {"f0": 3, "f1": float("nan")}, "f1": b""})
    columns = (column("f0"), column("f0.f0", "integer"), column("f0.f1", "double precision"), column("f1"))
    assert proven(schema, values, *columns) == [True, True, True, False]
    assert proven(schema, values, *columns[1:]) == [True] * 4


def test_a_record_within_itself_is_left() -> None:
    schema = record("string", ["null", "Order"])
    values = [{"f0": "a", "f1": None}, {"f0": "b", "f1": {"f0": "c", "f1": None}}]
    assert decoder(schema, column("f0", "text")).prove(EMPTY) is None
    schema = record("string", ["null", "int", "Order"])
    values.append({"f0": "d", "f1": ("int", 5)})
    assert proven(schema, values, column("f0", "text")) == [True, False, True]


@pytest.mark.parametrize(
    ("type_", "columns"),
    [
        ({"type": "array", "items": INTS}, (column("f0"),)),
        ("long", (column("f0", "text"),)),
        ("long", (column("f0.x", "text"),)),
        ("long", (column("none", "text", False),)),
        (TEXTS, (column("f0.key", "text"),)),
        (["null", {"type": "array", "items": "Order"}], (column("f0"),)),
        (record(*["int"] * 1001, name="Wide"), (column("f0.f0", "integer"),)),
    ],
)
def test_some_schemas_are_not_walked_at_all(type_: Any, columns: tuple[Column, ...]) -> None:
    assert decoder(record(type_), *columns).prove(EMPTY) is None


@pytest.mark.parametrize(("type_", "value"), BOMBS)
def test_values_without_bytes_are_not_proven(type_: Any, value: bytes) -> None:
    for at in (column("f0"), column("f1")):
        assert check_proven(decoder(record(type_, "null"), at), [value]) == 0


def test_a_record_may_have_no_columns() -> None:
    written = Written(record("string"))
    schema = WriterSchema(1, SchemaLanguage.AVRO, json.dumps(record("string")))
    decodes = avro_decoder(schema, RecordShape(("f0",), None, ()), Limits())
    value = written.write({"f0": "a"})
    assert decodes.decode(value, None, NOW) == DecodedRow(("a",), NOW, ())
    assert check_proven(decodes, [value]) == 1

"""Arrays of every scalar type: from JSON lists, Avro arrays and repeated fields, element by element or not at all."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import fastavro
import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.decoding.arrow import decode_batch, staging_schema
from offset_ledger.decoding.json.conversions import conversion
from offset_ledger.decoding.json.decoder import JsonDecoder
from offset_ledger.decoding.kinds import kind_of, staged
from offset_ledger.decoding.needed_columns import unfit
from offset_ledger.decoding.outcome import Mismatch, Refusal
from offset_ledger.decoding.protobuf.decoder import protobuf_decoder
from offset_ledger.decoding.subjects import fields_of
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.pipeline_file.column_types import parse_type
from offset_ledger.pipeline_file.located import Refused
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, RecordShape
from offset_ledger.pipeline_file.source import Format
from tests.examples import examples
from tests.unit.decoding.avro.avro_checks import (
    DECIMAL,
    ENUM,
    INTS,
    check_proven,
    column,
    decoder,
    reasons,
    record,
    schema_of,
)
from tests.unit.decoding.batches import batch_of
from tests.unit.decoding.decoding_documents import BAD, COLUMNS, GOOD, KAFKA_TIME, LIMITS, kind
from tests.unit.decoding.protobuf.proofs import check_proofs
from tests.unit.decoding.protobuf.wire_bytes import chunk, varint

SHORT = [literal for literal in BAD if len(literal) < 100]


def array_of(each: Column) -> Column:
    """The column of lists of what the other one takes."""
    return replace(each, type=ColumnType(f"{each.type.name}[]", each.type.args), nullable=True)


def is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
    return True


@pytest.mark.parametrize("each", COLUMNS, ids=lambda each: each.name)
@examples(30)
@given(data=st.data())
def test_a_list_has_the_values_of_its_elements(each: Column, data: st.DataObject) -> None:
    element = st.sampled_from([*GOOD[kind(each)], "null", *filter(is_json, SHORT)])
    lists = data.draw(st.lists(st.lists(element, max_size=4), max_size=5))
    raws = [f"[ {' , '.join(elements)} ]".encode() for elements in lists]
    item, array = conversion(kind_of(each)), conversion(kind_of(array_of(each)))
    expected = list[Any]()
    for elements, raw in zip(lists, raws, strict=True):
        read = list[Any]()
        for text in elements:
            try:
                read.append(None if text == "null" else item.read(text.encode()))
            except Mismatch as mismatch:
                read.append(mismatch)
        wrong = [(n, value) for n, value in enumerate(read, 1) if isinstance(value, Mismatch)]
        if wrong:
            with pytest.raises(Mismatch) as refused:
                array.read(raw)
            number, mismatch = wrong[0]
            assert (refused.value.code, refused.value.detail) == (
                mismatch.code,
                f"element {number} of {len(elements)}: {mismatch.detail}",
            )
        else:
            assert array.read(raw) == read
        expected.append(None if wrong else read)
    wired, of_wired = [], []
    for raw, values in zip(raws, expected, strict=True):
        try:
            wired.append(msgspec.json.decode(raw, type=array.wire))
            of_wired.append(values)
        except msgspec.DecodeError:
            continue
    built, flags = array.build([*wired, None])
    for place, values in enumerate([*of_wired, None]):
        if flags is None or flags[place]:
            assert values is not None or place == len(of_wired)
            assert repr(built[place].as_py()) == repr(staged(kind_of(array_of(each)), [values])[0].as_py())


LISTS = RecordShape(("id",), None,
    (Column("sizes", ColumnType("integer[]"), ("sizes",)),
        Column("names", ColumnType("varchar[]", (3,)), ("names",), transform=("trim",), nullable=True),
        Column("amounts", ColumnType("numeric[]", (5, 2)), ("amounts",), coerce=True, nullable=True),
        Column("days", ColumnType("date[]"), ("days",), split=";", nullable=True),
        Column("whens", ColumnType("timestamptz[]"), ("whens",), encoding="epoch_ms", nullable=True)))  # fmt: skip


@pytest.mark.parametrize(
    ("more", "path", "detail"),
    [
        ({"sizes": [1, 1 << 31]}, "$.sizes", "element 2 of 2: expected integer of 32 bits, got 2147483648"),
        ({"sizes": [[1]]}, "$.sizes", "element 1 of 1: expected integer, got array"),
        ({"sizes": "1"}, "$.sizes", "expected array, got text"),
        ({"sizes": {}}, "$.sizes", "expected array, got object"),
        ({"names": ["abc", "abcd"]}, "$.names", "element 2 of 2: expected at most 3 characters, got 4"),
        ({"names": "abc"}, "$.names", "expected array, got text"),
        ({"amounts": [1, "1,5"]}, "$.amounts", "element 2 of 2: expected numeric in a text, got 1,5"),
        ({"days": "2026-01-01;soon"}, "$.days", "element 2 of 2: expected date as YYYY-MM-DD, got soon"),
        ({"days": ["2026-01-01"]}, "$.days", "expected text, got array"),
        ({"whens": [1 << 62]}, "$.whens", "expected a moment in the years 1 to 9999"),
    ],
)
def test_a_wrong_element_is_named(more: dict[str, Any], path: str, detail: str) -> None:
    value = json.dumps({"id": "a", "sizes": [], **more}).encode()
    refused = JsonDecoder(LISTS, LIMITS).decode(value, None, KAFKA_TIME)
    assert isinstance(refused, Refusal)
    assert [reason.path for reason in refused.reasons] == [path]
    assert detail in refused.reasons[0].detail
    assert decode_batch(JsonDecoder(LISTS, LIMITS), batch_of([value])).rows.num_rows == 0


def test_lists_are_changed_coerced_and_split_element_by_element() -> None:
    more = {"sizes": [3, None], "names": [" abc ", None], "amounts": ["1.50", 2], "days": "2026-01-01;2026-01-02"}
    values: list[bytes | None] = [
        json.dumps({"id": "a", **more, "whens": [0, None]}).encode(),
        json.dumps({"id": "b", "sizes": [], "days": "", "names": None}).encode(),
    ]
    rows = decode_batch(JsonDecoder(LISTS, LIMITS), batch_of(values)).rows
    assert rows.schema == staging_schema(LISTS)
    first, second = rows.select([each.name for each in LISTS.columns]).to_pylist()
    assert (first["sizes"], first["names"]) == ([3, None], ["abc", None])
    assert first["amounts"] == [Decimal("1.50"), Decimal("2.00")]
    assert [day.isoformat() for day in first["days"]] == ["2026-01-01", "2026-01-02"]
    assert [each and each.year for each in first["whens"]] == [1970, None]
    assert second == {"sizes": [], "names": None, "amounts": None, "days": [], "whens": None}


@pytest.mark.parametrize(
    ("written", "sql"),
    [
        ("bigint[]", "bigint[]"),
        ("int8 []", "bigint[]"),
        ("decimal(12,2)[]", "numeric(12,2)[]"),
        ("timestamp with time zone[]", "timestamp with time zone[]"),
        ("varchar(3)[]", "character varying(3)[]"),
    ],
)
def test_array_types_are_written_as_postgres_does(written: str, sql: str) -> None:
    assert parse_type(written).sql == sql


@pytest.mark.parametrize("written", ["text[][]", "timestamp[]", "char(3)[]", "integer[3]", "txt[]", "[]"])
def test_other_arrays_are_refused(written: str) -> None:
    with pytest.raises(Refused):
        parse_type(written)


NULLABLE_TEXTS = {"type": "array", "items": ["null", "string"]}


@pytest.mark.parametrize(
    ("schema", "value", "type_", "expected"),
    [
        (INTS, [1, -2, 3], "bigint[]", [1, -2, 3]),
        (INTS, list(range(100)), "numeric[]", [Decimal(n) for n in range(100)]),
        (["null", INTS], None, "integer[]", None),
        (NULLABLE_TEXTS, ["a", None, ""], "text[]", ["a", None, ""]),
        ({"type": "array", "items": ENUM}, ["NEW"], "text[]", ["NEW"]),
        ({"type": "array", "items": "boolean"}, [True], "boolean[]", [True]),
        ({"type": "array", "items": "double"}, [0.5], "double precision[]", [0.5]),
        ({"type": "array", "items": "bytes"}, [b"\0"], "bytea[]", [b"\0"]),
    ],
)
def test_avro_arrays_are_read_and_proven(schema: Any, value: Any, type_: str, expected: Any) -> None:
    decodes = decoder(record(schema), column("f0", type_))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(record(schema)), {"f0": value})
    written = out.getvalue()
    outcome = decodes.decode(written, b"k", KAFKA_TIME)
    assert not isinstance(outcome, Refusal), outcome
    assert outcome.values == (expected,)  # type: ignore[union-attr]
    assert check_proven(decodes, [written]) == (len(expected or ()) < 33)


def test_an_avro_array_of_decimals_keeps_their_digits() -> None:
    of = record({"type": "array", "items": DECIMAL})
    numbers = Column("f0", parse_type("numeric(9,2)[]"), ("f0",))
    outcome = decoder(of, numbers).decode(b"\x02\x02\x7b\x00", b"k", KAFKA_TIME)
    assert not isinstance(outcome, Refusal)
    assert outcome.values == ([Decimal("1.23")],)  # type: ignore[union-attr]


def test_avro_elements_are_refused_by_their_number() -> None:
    assert [r.detail for r in reasons(record(INTS), b"\x04\x02\x80\x80\x08\x00", column("f0", "smallint[]"))] == [
        "element 2 of 2: expected integer of 16 bits, got 65536"
    ]
    wrong = reasons(record(INTS), b"\x02\x02\x00", column("f0", "text[]"))
    assert [r.detail for r in wrong] == ["elements: expected text, got int"]
    items = {"type": "array", "items": record("int", name="Item")}
    wrong = reasons(record(items), b"\x02\x02\x00", column("f0", "integer[]"))
    assert [r.detail for r in wrong] == ["expected array of single values, got array"]


PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Order {
  repeated int32 sizes = 1;
  repeated string names = 2;
  repeated google.protobuf.Timestamp whens = 3;
  repeated Order parts = 4;
  map<string, int32> counts = 5;
}
"""
REPEATED = RecordShape(
    None,
    None,
    (
        Column("sizes", ColumnType("integer[]"), ("sizes",)),
        Column("names", ColumnType("text[]"), ("names",)),
        Column("whens", ColumnType("timestamptz[]"), ("whens",)),
        Column("all_sizes", ColumnType("jsonb"), ("sizes",)),
    ),
)


def test_repeated_fields_are_arrays() -> None:
    schema = WriterSchema(1, SchemaLanguage.PROTOBUF, PROTO)
    shape = replace(REPEATED, columns=REPEATED.columns[:3])
    decodes = protobuf_decoder(schema, shape, LIMITS, "Order")
    value = b"\x0a\x02\x01\x02\x12\x01a\x12\x00\x1a\x02\x08\x01"
    outcome = decodes.decode(value, b"k", KAFKA_TIME)
    assert not isinstance(outcome, Refusal), outcome
    sizes, names, whens = outcome.values  # type: ignore[union-attr]
    assert (sizes, names, [when.timestamp() for when in whens]) == ([1, 2], ["a", ""], [1.0])  # type: ignore[attr-defined]
    assert check_proofs(decodes, shape, [value, b""]) == {0, 1}
    both = protobuf_decoder(schema, REPEATED, LIMITS, "Order").decode(value, b"k", KAFKA_TIME)
    assert not isinstance(both, Refusal)
    assert both.values[3] == "[1,2]"  # type: ignore[union-attr]
    beyond = chunk(3, b"\x08" + varint(253_402_300_800))
    wrong = protobuf_decoder(schema, shape, LIMITS, "Order").decode(beyond, b"k", KAFKA_TIME)
    assert isinstance(wrong, Refusal)
    detail = "expected a timestamp in the years 1 to 9999, got 253402300800 seconds since 1970"
    assert [(each.path, each.detail) for each in wrong.reasons] == [("$.whens", detail)]


@pytest.mark.parametrize(
    ("type_", "path", "text"),
    [
        ("integer[]", "sizes", None),
        ("text[]", "sizes", "elements: expected text, got int32"),
        ("integer[]", "parts", "elements: expected integer, got Order"),
        ("integer[]", "counts", "write jsonb"),
        ("integer", "sizes", "write jsonb"),
    ],
)
def test_a_schema_is_compared_by_its_elements(type_: str, path: str, text: str | None) -> None:
    fields = fields_of(WriterSchema(1, SchemaLanguage.PROTOBUF, PROTO), "Order")
    found = unfit(fields, (path,), kind_of(Column(path, parse_type(type_), (path,))), False, Format.PROTOBUF)
    assert [text in line for line in found] == [True] if text else found == []


def test_an_avro_schema_is_compared_by_its_elements() -> None:
    fields = fields_of(schema_of(record(INTS, NULLABLE_TEXTS)), None)
    assert fields[0].array is not None
    numbers = kind_of(Column("f0", parse_type("smallint[]"), ("f0",)))
    assert unfit(fields, ("f0",), numbers, False, Format.AVRO) == []
    assert "got string" in unfit(fields, ("f1",), numbers, False, Format.AVRO)[0]


def test_a_column_of_lists_without_values_has_its_type() -> None:
    assert staged(kind_of(LISTS.columns[0]), []).type == pa.list_(pa.int32())

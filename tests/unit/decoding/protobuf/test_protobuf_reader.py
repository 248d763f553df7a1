"""Hand-made bytes: each way to be wrong has its code and its path, and what is right is read to the last digit."""

from __future__ import annotations

import json
import struct
from datetime import UTC, datetime

import pytest

from offset_ledger.decoding.outcome import DecodedRow, Refusal
from offset_ledger.decoding.protobuf.decoder import protobuf_decoder
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, Limits, RecordShape
from tests.unit.decoding.protobuf.proofs import check_proofs
from tests.unit.decoding.protobuf.random_schemas import AT
from tests.unit.decoding.protobuf.wire_bytes import chunk, number, varint

TEXT = """
syntax = "proto3";
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum E { ZERO = 0; ONE = 1; ALSO_ONE = 1; option allow_alias = true; }
message Inner { string s = 1; int32 n = 2; Inner again = 3; optional string maybe = 4; }
message All {
  int32 i32 = 1; uint32 u32 = 2; sint32 s32 = 3; bool b = 4; E e = 5; string s = 6; bytes y = 7; Inner inner = 8;
  repeated int32 many = 9; map<string, int32> m = 10;
  oneof choice { int32 one = 11; string other = 12; Inner third = 13; }
  google.protobuf.Timestamp at = 14; google.protobuf.Duration lasts = 15; google.protobuf.Any any = 16;
  google.protobuf.Struct struct = 17; google.protobuf.Value value = 18; google.protobuf.Int64Value wrapped = 19;
  optional int32 maybe = 20; fixed32 f32 = 21; double d = 22; uint64 u64 = 23;
  repeated E es = 24; repeated Inner inners = 25;
  map<int32, Inner> by = 26; map<bool, google.protobuf.Timestamp> flags = 27;
}
"""
TEXT2 = """
syntax = "proto2";
enum E { ONE = 1; TWO = 2; } enum M { NONE = 0; }
message Two {
  optional E e = 1; required int32 r = 2; optional group G = 3 { optional int32 x = 1; }
  optional string d = 4 [default = "x"];
  oneof choice { E one = 5; int32 other = 6; } repeated E es = 7; map<string, M> m = 8; extensions 100 to 200;
  optional Two again = 9;
}
message Three { required E e = 1; optional int32 x = 2; }
extend Two { optional int32 more = 100; }
"""


def writer(text: str) -> WriterSchema:
    """The text as a registry gives it."""
    return WriterSchema(1, SchemaLanguage.PROTOBUF, text)


def decoded(
    payload: bytes, path: str, type_: str, *args: int, text: str = TEXT, name: str = "All", nullable: bool = True
) -> DecodedRow | Refusal:
    """What becomes of a record with one column; a proof of it says the same."""
    column = Column("c", ColumnType(type_, args), tuple(path.split(".")), nullable)
    shape = RecordShape(None, None, (column,))
    decoder = protobuf_decoder(writer(text), shape, Limits(), name)
    said = decoder.decode(payload, b"k", AT)
    check_proofs(decoder, shape, [payload, b"", payload + payload])
    assert isinstance(said, DecodedRow | Refusal)
    return said


def value(payload: bytes, path: str, type_: str, *args: int, text: str = TEXT, name: str = "All") -> object:
    """The value of the column; a jsonb as Python has it."""
    said = decoded(payload, path, type_, *args, text=text, name=name)
    assert isinstance(said, DecodedRow), said
    (found,) = said.values
    return json.loads(found) if type_ == "jsonb" and isinstance(found, str) else found


def nested(depth: int) -> bytes:
    """A message in a message, so many times."""
    content = b""
    for _ in range(depth - 1):
        content = chunk(3, content)
    return chunk(8, content)


def groups(field: int, depth: int) -> bytes:
    """An unknown group in a group, so many times."""
    return varint(field << 3 | 3) * depth + varint(field << 3 | 4) * depth


@pytest.mark.parametrize(
    ("payload", "path", "code"),
    [
        (*given, code)
        for code, values in [
            ("syntax", [(b"\x08", "$.i32"), (b"\x08\x80", "$.i32"), (b"\x08" + b"\x80" * 10 + b"\x00", "$.i32"),
                (b"\x08" + b"\xff" * 9 + b"\x02", "$.i32"), (b"\x32\x05abc", "$.s"),
                (b"\x32" + b"\x80" * 5 + b"\x00", "$.s"), (b"\x32" + varint(2**32), "$.s"),
                (chunk(8, b"\x0a\x05abc"), "$.inner.s"), (b"\x42\x02\x0a\x05", "$.inner.s"),
                (chunk(9, b"\x01\x80"), "$.many"), (chunk(10, number(3, 1)), "$.m"), (b"\xad\x01\x00\x00", "$.f32"),
                (b"\xb1\x01\x00\x00\x00\x00", "$.d"), (b"\x00\x00", "$"), (b"\x07", "$"), (varint(90 << 3 | 6), "$"),
                (varint(90 << 3 | 7) + b"\x00", "$"), (varint(2**29 << 3) + b"\x00", "$"),
                (b"\x80" * 6 + b"\x01\x00", "$"), (varint(90 << 3), "$"), (varint(90 << 3 | 1) + b"\x00", "$"),
                (varint(90 << 3 | 5) + b"\x00", "$"), (varint(90 << 3 | 2) + b"\x02a", "$"), (varint(90 << 3 | 3), "$"),
                (varint(90 << 3 | 3) + b"\x08", "$"), (varint(90 << 3 | 3) + varint(91 << 3 | 4), "$"),
                (varint(90 << 3 | 4), "$"), (b"\x0c", "$")]),
            ("range", [(number(1, 2**31), "$.i32"), (number(1, 2**32 - 1), "$.i32"), (number(1, -(2**31) - 1), "$.i32"),
                (number(2, 2**32), "$.u32"), (number(2, -1), "$.u32"), (number(3, 2**32), "$.s32"),
                (number(4, 2), "$.b"), (number(5, 2**31), "$.e"), (chunk(8, number(2, 2**31)), "$.inner.n"),
                (chunk(9, varint(2**31)), "$.many")]),
            ("encoding", [(chunk(6, b"\xff"), "$.s"), (chunk(6, b"\xed\xa0\x80"), "$.s"),
                (chunk(8, chunk(3, chunk(1, b"\xff"))), "$.inner.again.s"),
                (chunk(13, chunk(1, b"\xff")), "$.third.s")]),
            ("type", [(chunk(1, b"\x01"), "$.i32"), (number(6, 1), "$.s"), (number(8, 1), "$.inner"),
                (b"\x45\x00\x00\x00\x00", "$.inner"), (chunk(10, number(1, 1)), "$.m.key")]),
            ("depth", [(nested(101), "$.inner" + ".again" * 100), (groups(90, 101), "$")]),
        ]
        for given in values
    ],
)  # fmt: skip
def test_bytes_that_are_no_message_are_refused_with_their_place(payload: bytes, path: str, code: str) -> None:
    said = decoded(payload, "maybe", "integer")
    assert isinstance(said, Refusal), said
    assert [(reason.path, reason.code.value) for reason in said.reasons] == [(path, code)]


@pytest.mark.parametrize(
    ("payload", "path", "type_", "expected"),
    [
        (b"", "i32", "integer", 0),
        (b"", "s", "text", ""),
        (b"", "e", "text", "ZERO"),
        (b"", "y", "bytea", b""),
        (b"", "maybe", "integer", None),
        (b"", "one", "integer", None),
        (b"", "inner", "jsonb", None),
        (b"", "inner.s", "text", None),
        (b"", "wrapped", "bigint", None),
        (b"", "many", "jsonb", []),
        (b"", "m", "jsonb", {}),
        (b"", "at", "timestamptz", None),
        (b"", "none", "integer", None),
        (number(1, -5), "i32", "integer", -5),
        (number(1, 1) + number(1, 2), "i32", "integer", 2),
        (b"\x08\x81\x00", "i32", "integer", 1),
        (number(2, 2**32 - 1), "u32", "bigint", 2**32 - 1),
        (number(3, 2**32 - 1), "s32", "integer", -(2**31)),
        (number(5, 1), "e", "text", "ONE"),
        (number(20, 0), "maybe", "integer", 0),
        (number(11, 5) + chunk(12, b"a"), "one", "integer", None),
        (number(11, 5) + chunk(12, b"a"), "other", "text", "a"),
        (chunk(13, chunk(1, b"a")) + number(11, 5) + chunk(13, number(2, 3)), "third", "jsonb", {"s": "", "n": 3}),
        (chunk(13, chunk(1, b"a")) + chunk(13, number(2, 3)), "third", "jsonb", {"s": "a", "n": 3}),
        (chunk(8, b""), "inner.s", "text", ""),
        (chunk(8, b""), "inner.maybe", "text", None),
        (chunk(8, chunk(1, b"a")) + chunk(8, number(2, 3)), "inner", "jsonb", {"s": "a", "n": 3}),
        (chunk(8, chunk(3, chunk(1, b"a"))) + chunk(8, chunk(3, number(2, 3))), "inner.again.s", "text", "a"),
        (number(9, 1) + chunk(9, b"\x02\x03") + chunk(9, b"") + number(9, 4), "many", "jsonb", [1, 2, 3, 4]),
        (chunk(10, b""), "m", "jsonb", {"": 0}),
        (chunk(10, number(2, 7) + chunk(1, b"k") + number(2, 8)), "m", "jsonb", {"k": 8}),
        (chunk(26, number(1, -1) + chunk(2, chunk(1, b"a")) + chunk(2, number(2, 1))), "by", "jsonb",
            {"-1": {"s": "a", "n": 1}}),
        (chunk(27, number(1, 1)), "flags", "jsonb", {"true": "1970-01-01T00:00:00Z"}),
        (chunk(14, number(1, -1) + number(2, 999_999_000)), "at", "timestamptz",
            datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)),
        (chunk(14, number(1, 253_402_300_799)), "at", "timestamptz", datetime(9999, 12, 31, 23, 59, 59, 0, UTC)),
        (chunk(19, b""), "wrapped", "bigint", 0),
        (chunk(19, number(1, -9)), "wrapped", "jsonb", -9),
        (chunk(17, b""), "struct", "jsonb", {}),
        (chunk(18, number(1, 0)), "value", "jsonb", None),
        (chunk(18, chunk(6, chunk(1, chunk(3, b"x")) + chunk(1, number(1, 0)))), "value", "jsonb", ["x", None]),
        (chunk(17, chunk(1, chunk(1, b"k") + chunk(2, number(4, 1)))), "struct", "jsonb", {"k": True}),
        (b"\xb1\x01" + struct.pack("<d", 0.1), "d", "double precision", 0.1),
        (number(24, 1) + chunk(24, b"\x00\x01"), "es", "jsonb", ["ONE", "ZERO", "ONE"]),
        (chunk(25, b"") + chunk(25, chunk(4, b"y")), "inners", "jsonb",
            [{"s": "", "n": 0}, {"s": "", "n": 0, "maybe": "y"}]),
        (nested(100), "i32", "integer", 0),
        (groups(90, 100) + number(1, 3), "i32", "integer", 3),
        (chunk(90, b"\xff") + number(91, 2**64 - 1) + b"\xe5\x05abcd", "i32", "integer", 0),
    ],
)  # fmt: skip
def test_what_the_specification_says_is_read(payload: bytes, path: str, type_: str, expected: object) -> None:
    found = value(payload, path, type_)
    assert (type(found), found) == (type(expected), expected)


@pytest.mark.parametrize(
    ("payload", "path", "type_", "at", "code", "detail"),
    [
        (number(5, 7), "e", "text", "$.e", "range", "expected a symbol of enum E, got 7"),
        (number(24, 7), "es", "jsonb", "$.es", "range", "expected a symbol of enum E, got 7"),
        (chunk(10, b"") * 2, "m", "jsonb", "$.m", "duplicate_key", "expected each key once, got '' again"),
        (chunk(17, chunk(1, chunk(2, b"\x20\x01")) * 2), "struct", "jsonb", "$.struct", "duplicate_key",
            "expected each key"),
        (chunk(18, b""), "value", "jsonb", "$.value", "syntax", "expected a kind of google.protobuf.Value, got none"),
        (chunk(18, b"\x11" + struct.pack("<d", float("nan"))), "value", "jsonb", "$.value", "range",
            "expected a number of JSON"),
        (chunk(14, number(2, -1)), "at", "timestamptz", "$.at", "range", "expected 0 to 999999999 nanos"),
        (chunk(14, number(2, 10**9)), "at", "timestamptz", "$.at", "range", "expected 0 to 999999999 nanos"),
        (chunk(14, number(1, 253_402_300_800)), "at", "timestamptz", "$.at", "range",
            "expected a timestamp in the years 1 to"),
        (chunk(14, number(1, -62_135_596_801)), "at", "jsonb", "$.at", "range",
            "expected a timestamp in the years 1 to 9999"),
        (chunk(14, number(2, 1)), "at", "timestamptz", "$.at", "precision", ""),
        (chunk(14, b""), "at.seconds", "bigint", "$.at", "type", "expected a message, got google.protobuf.Timestamp"),
        (chunk(15, b""), "lasts", "jsonb", "$.lasts", "type", "got google.protobuf.Duration"),
        (chunk(15, b""), "lasts", "text", "$.lasts", "type", "expected text, got google.protobuf.Duration"),
        (chunk(16, b""), "any", "jsonb", "$.any", "type", "got google.protobuf.Any"),
        (chunk(8, b""), "inner", "text", "$.inner", "type", "expected text, got Inner"),
        (b"", "many", "integer", "$.many", "type", "expected integer, got repeated int32"),
        (b"", "m", "text", "$.m", "type", "expected text, got map<string, int32>"),
        (b"", "i32.x", "integer", "$.i32", "type", "expected a message, got int32"),
        (number(23, 2**63), "u64", "bigint", "$.u64", "range", "expected integer of 64 bits, got 9223372036854775808"),
        (chunk(6, b"\0"), "s", "text", "$.s", "nul", ""),
        (chunk(8, chunk(1, b"\0")), "inner", "jsonb", "$.inner", "nul", ""),
    ],
)  # fmt: skip
def test_a_value_that_no_column_takes_is_refused_by_name(
    payload: bytes, path: str, type_: str, at: str, code: str, detail: str
) -> None:
    said = decoded(payload, path, type_)
    assert isinstance(said, Refusal), said
    ((found),) = said.reasons
    assert (found.path, found.code.value) == (at, code)
    assert detail in found.detail


@pytest.mark.parametrize(
    ("payload", "path", "at", "code"),
    [
        (b"", "maybe", "$.maybe", "null"),
        (b"", "inner.s", "$.inner", "null"),
        (chunk(8, b""), "inner.maybe", "$.inner.maybe", "null"),
        (b"", "wrapped", "$.wrapped", "null"),
        (b"", "none", "$.none", "missing"),
        (chunk(8, b""), "inner.none", "$.inner.none", "missing"),
    ],
)
def test_a_column_that_needs_a_value_gets_one_or_a_refusal(payload: bytes, path: str, at: str, code: str) -> None:
    said = decoded(payload, path, "text", nullable=False)
    assert isinstance(said, Refusal), said
    assert [(reason.path, reason.code.value) for reason in said.reasons] == [(at, code)]


def test_only_google_s_own_files_have_well_known_types() -> None:
    messages = "message Timestamp { string x = 1; } message A { Timestamp at = 1; }"
    text = f'syntax = "proto3"; package google.protobuf; {messages}'
    payload = chunk(1, chunk(1, b"a"))
    assert value(payload, "at", "jsonb", text=text, name="google.protobuf.A") == {"x": "a"}
    assert value(payload, "at.x", "text", text=text, name="google.protobuf.A") == "a"


REQUIRED = number(2, 1)


@pytest.mark.parametrize(
    ("payload", "path", "type_", "expected"),
    [
        (REQUIRED, "e", "text", None),
        (REQUIRED, "d", "text", None),
        (number(1, 9) + REQUIRED, "d", "text", None),
        (number(1, 9) + REQUIRED + number(1, 2), "e", "text", "TWO"),
        (number(6, 5) + number(5, 9) + REQUIRED, "other", "integer", 5),
        (number(5, 1) + number(6, 5) + REQUIRED, "one", "text", None),
        (REQUIRED + b"\x1b\x08\x07\x1c", "g", "jsonb", {"x": 7}),
        (REQUIRED + b"\x1b\x08\x07\x1c", "g.x", "integer", 7),
        (REQUIRED + number(100, 5), "r", "integer", 1),
        (chunk(9, number(1, 1)) + chunk(9, REQUIRED) + REQUIRED, "again.e", "text", "ONE"),
    ],
)
def test_proto2_is_read_as_its_specification_says(payload: bytes, path: str, type_: str, expected: object) -> None:
    found = value(payload, path, type_, text=TEXT2, name="Two")
    assert (type(found), found) == (type(expected), expected)


def test_a_required_enum_has_one_of_its_symbols() -> None:
    assert value(number(1, 2) + number(2, 5), "x", "integer", text=TEXT2, name="Three") == 5
    said = decoded(number(1, 9) + number(2, 5), "x", "integer", text=TEXT2, name="Three")
    assert isinstance(said, Refusal), said
    assert [(reason.path, reason.code.value) for reason in said.reasons] == [("$.e", "missing")]


@pytest.mark.parametrize(
    ("payload", "path", "type_", "at", "code"),
    [
        (b"", "e", "text", "$.r", "missing"),
        (REQUIRED + chunk(9, b""), "e", "text", "$.again.r", "missing"),
        (number(1, 9) + REQUIRED, "e", "text", "$.e", "range"),
        (chunk(7, b"\x01\x09") + REQUIRED, "es", "jsonb", "$.es", "range"),
        (chunk(8, number(2, 9)) + REQUIRED, "m", "jsonb", "$.m", "range"),
        (REQUIRED + b"\x1b\x08\x07", "e", "text", "$.g", "syntax"),
        (REQUIRED + b"\x1b\x08\x07\x24", "e", "text", "$.g", "syntax"),
        (REQUIRED + chunk(3, b""), "e", "text", "$.g", "type"),
    ],
)
def test_proto2_is_refused_where_a_row_would_change_it(
    payload: bytes, path: str, type_: str, at: str, code: str
) -> None:
    said = decoded(payload, path, type_, text=TEXT2, name="Two")
    assert isinstance(said, Refusal), said
    assert [(reason.path, reason.code.value) for reason in said.reasons] == [(at, code)]

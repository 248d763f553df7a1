"""Records behind message indexes, deletes, and keys."""

from __future__ import annotations

import pytest

from offset_ledger.decoding.outcome import Code, DecodedRow, Mismatch, Refusal, SchemaProblem
from offset_ledger.decoding.protobuf.decoder import key_text, protobuf_decoder
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, FieldCondition, Limits, RecordShape
from tests.unit.decoding.protobuf.proofs import check_proofs
from tests.unit.decoding.protobuf.random_schemas import AT, writer_schema
from tests.unit.decoding.protobuf.wire_bytes import chunk, number, varint

TEXT = """
syntax = "proto3";
message Inner { string s = 1; int32 n = 2; }
message All { string s = 6; Inner inner = 8; }
"""


def test_framed_records_are_the_messages_that_their_indexes_name() -> None:
    column = Column("c", ColumnType("text"), ("s",), nullable=True)
    decoder = protobuf_decoder(writer_schema(TEXT), RecordShape(None, None, (column,)), Limits())
    assert decoder.decode(b"\x00" + chunk(1, b"a"), b"k", AT) == DecodedRow(("k",), AT, ("a",))
    assert decoder.decode(b"\x02\x02" + chunk(6, b"b"), b"k", AT) == DecodedRow(("k",), AT, ("b",))
    for payload in (b"", b"\x02\x04", b"\x04\x02\x0c", b"\x01"):
        said = decoder.decode(payload, b"k", AT)
        assert isinstance(said, Refusal)
        assert [(reason.path, reason.code) for reason in said.reasons] == [("$", Code.SYNTAX)]


def test_a_record_may_have_no_columns() -> None:
    decoder = protobuf_decoder(writer_schema(TEXT), RecordShape(("s",), None, ()), Limits(), "All")
    assert decoder.decode(chunk(6, b"a"), b"k", AT) == DecodedRow(("a",), AT, ())
    assert check_proofs(decoder, decoder.record, [chunk(6, b"a"), b""]) == {0}


def test_a_value_of_the_message_can_delete_its_event() -> None:
    column = Column("c", ColumnType("text"), ("s",))
    shape = RecordShape(None, None, (column,), delete_when=FieldCondition(("inner", "n"), 1))
    decoder = protobuf_decoder(writer_schema(TEXT), shape, Limits(), "All")
    assert decoder.decode(chunk(8, number(2, 1)), b"k", AT) == DecodedRow(("k",), AT, (None,), deleted=True)
    assert decoder.decode(chunk(8, number(2, 2)), b"k", AT) == DecodedRow(("k",), AT, ("",))
    assert decoder.decode(b"", b"k", AT) == DecodedRow(("k",), AT, ("",))


KEYS = """
syntax = "proto3"; import "google/protobuf/wrappers.proto";
message T { string id = 5; } message N { optional sint64 id = 1; } message W { google.protobuf.StringValue id = 1; }
message Two { string a = 1; string b = 2; } message B { bytes id = 1; } message L { repeated string id = 1; }
message Z {}
"""


@pytest.mark.parametrize(
    ("name", "index", "key", "expected"),
    [("T", 0, chunk(5, b"e1"), "e1"), ("N", 1, number(1, 3), "-2"), ("W", 2, chunk(1, chunk(1, b"x")), "x")],
)
def test_a_key_is_the_only_field_of_its_message(name: str, index: int, key: bytes, expected: str) -> None:
    assert key_text(writer_schema(KEYS), name)(key) == expected
    assert key_text(writer_schema(KEYS))((varint(2) + varint(2 * index)) + key) == expected


@pytest.mark.parametrize(
    ("name", "key", "code"),
    [
        ("T", b"", "length"), ("T", chunk(5, b"\xff"), "encoding"), ("T", chunk(5, b"\0"), "nul"),
        ("T", b"\x08", "syntax"), ("N", b"", "null"), ("W", b"", "null"),
    ],
)  # fmt: skip
def test_a_key_that_names_no_event_is_refused(name: str, key: bytes, code: str) -> None:
    with pytest.raises(Mismatch) as caught:
        key_text(writer_schema(KEYS), name)(key)
    assert caught.value.code.value == code


@pytest.mark.parametrize(("name", "index"), [("Two", 3), ("B", 4), ("L", 5), ("Z", 6)])
def test_a_key_of_another_form_is_no_key(name: str, index: int) -> None:
    with pytest.raises(SchemaProblem, match=f"expected a key of one text or integer, message {name} is not"):
        key_text(writer_schema(KEYS), name)
    with pytest.raises(Mismatch, match=f"message {name} is not"):
        key_text(writer_schema(KEYS))(varint(2) + varint(2 * index))

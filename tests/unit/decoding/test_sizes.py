"""A record whose JSON would be far larger than the record is refused by itself, in bounded time and memory."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from offset_ledger.decoding.avro.decoder import avro_decoder
from offset_ledger.decoding.decoder import Decoder
from offset_ledger.decoding.json.decoder import JsonDecoder
from offset_ledger.decoding.jsonb import MAX_BYTES
from offset_ledger.decoding.outcome import Code, DecodedRow, Refusal
from offset_ledger.decoding.protobuf.decoder import protobuf_decoder
from offset_ledger.pipeline_file.pipeline import REST, Column, ColumnType, Limits, RecordShape
from tests.unit.decoding.avro.avro_checks import schema_of
from tests.unit.decoding.protobuf.proofs import check_proofs
from tests.unit.decoding.protobuf.random_schemas import AT, writer_schema
from tests.unit.decoding.protobuf.wire_bytes import chunk, varint

MEBIBYTE = 1 << 20
DOC = RecordShape(None, None, (Column("doc", ColumnType("jsonb"), ("doc",), nullable=True),))
EVERYTHING_ELSE = RecordShape(None, None, (REST,))
SHAPES = pytest.mark.parametrize("shape", [DOC, EVERYTHING_ELSE], ids=["column", "rest"])
FIELDS = " ".join(f"int32 field_{n} = {n};" for n in range(1, 21))
PROTO = f'syntax = "proto3"; message Part {{ {FIELDS} }} message Whole {{ repeated Part doc = 1; }}'
EMPTY = '{"field_1":0,' + ",".join(f'"field_{n}":0' for n in range(2, 21)) + "}"


@contextmanager
def bounded(mebibytes: int, seconds: float) -> Iterator[None]:
    """The block adds no more resident memory at its peak, and takes no more processor time."""
    Path("/proc/self/clear_refs").write_text("5")
    before, begun = resident("VmRSS"), time.process_time()
    yield
    assert resident("VmHWM") - before < mebibytes * 1024
    assert time.process_time() - begun < seconds


def resident(name: str) -> int:
    """A line of this process's status, in KiB."""
    (line,) = re.findall(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(line)


def codes(decoder: Decoder, value: bytes) -> list[Code]:
    said = decoder.decode(value, b"k", AT)
    assert isinstance(said, Refusal)
    assert check_proofs(decoder, decoder.record, [value]) == set()
    return [reason.code for reason in said.reasons]


@SHAPES
def test_empty_messages_of_many_fields(shape: RecordShape) -> None:
    decoder = protobuf_decoder(writer_schema(PROTO), shape, Limits(), "Whole")
    with bounded(400, 20):
        assert codes(decoder, chunk(1, b"") * (MEBIBYTE // 2)) == [Code.TOO_LARGE]
    few = decoder.decode(chunk(1, b"") * 9, b"k", AT)
    assert isinstance(few, DecodedRow)
    assert EMPTY in str(few.values[0])
    assert str(few.values[0]).count("field_20") == 9


@SHAPES
def test_a_small_message_does_not_become_a_large_one(shape: RecordShape) -> None:
    """A batch has thousands of them."""
    fields = " ".join(f"int32 field_{n} = {n};" for n in range(1, 201))
    text = f'syntax = "proto3"; message Part {{ {fields} }} message Whole {{ repeated Part doc = 1; }}'
    decoder = protobuf_decoder(writer_schema(text), shape, Limits(), "Whole")
    assert codes(decoder, chunk(1, b"") * 1_000) == [Code.TOO_LARGE]
    assert isinstance(decoder.decode(chunk(1, b"") * 20, b"k", AT), DecodedRow)


@SHAPES
def test_items_of_no_bytes(shape: RecordShape) -> None:
    items = {"type": "array", "items": "null"}
    blocks = (varint(2 * 15_000_000) + b"\0", varint(2 * 50_000) + b"\0")
    decoder = avro_decoder(
        schema_of({"type": "record", "name": "R", "fields": [{"name": "doc", "type": items}]}), shape, Limits()
    )
    for block in blocks:
        with bounded(400, 20):
            assert codes(decoder, block) == [Code.TOO_LARGE]
    assert isinstance(decoder.decode(varint(2 * 9_000) + b"\0", b"k", AT), DecodedRow)


@SHAPES
def test_symbols_that_are_longer_than_their_bytes(shape: RecordShape) -> None:
    text = f'syntax = "proto3"; enum Long {{ {"L" * 50} = 0; }} message Whole {{ repeated Long doc = 1; }}'
    decoder = protobuf_decoder(writer_schema(text), shape, Limits(), "Whole")
    with bounded(400, 20):
        assert codes(decoder, chunk(1, bytes(MEBIBYTE - 8))) == [Code.TOO_LARGE]
    symbols = {"type": "array", "items": {"type": "enum", "name": "E", "symbols": ["L" * 50]}}
    record = {"type": "record", "name": "R", "fields": [{"name": "doc", "type": symbols}]}
    count = MEBIBYTE - 8
    with bounded(400, 20):
        assert codes(avro_decoder(schema_of(record), shape, Limits()), varint(2 * count) + bytes(count + 1)) == [
            Code.TOO_LARGE
        ]


@SHAPES
@pytest.mark.parametrize("text", ['"%s"', "[%s]", '{"a":"%s"}'])
def test_a_document_that_no_jsonb_is_sure_to_hold(shape: RecordShape, text: str) -> None:
    decoder = JsonDecoder(shape, Limits(value_bytes=2 * MAX_BYTES))
    for more, expected in ((0, None), (1, [Code.TOO_LARGE])):
        room = MAX_BYTES + more - len(text) + 2 - (8 if shape is EVERYTHING_ELSE else 0)
        content = b"1" * room if '"' in text else b"1," * ((room - 1) // 2) + b"1" * (2 - room % 2)
        value = b'{"doc":' + text.encode().replace(b"%s", content) + b"}"
        if expected is None:
            assert isinstance(decoder.decode(value, b"k", AT), DecodedRow)
        else:
            assert codes(decoder, value) == expected

"""Bytes that are not what the schema says are refused, each with its place and a reason, and quickly."""

from __future__ import annotations

import base64
import copy
import struct
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.decoding.avro.decoder import avro_decoder
from offset_ledger.decoding.decoder import Decoder
from offset_ledger.decoding.outcome import Code, DecodedRow, Reason, Refusal
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, Limits
from tests.unit.decoding.avro.avro_checks import NOW, check_proven, many, schema_of, shape_of, spoil
from tests.unit.decoding.avro.avro_oracle import document
from tests.unit.decoding.avro.avro_records import Written, schemas

pytestmark = pytest.mark.filterwarnings("ignore")


def columns_of(schema: dict[str, Any]) -> tuple[Column, ...]:
    """Each field of the record as a jsonb."""
    return tuple(Column(each["name"], ColumnType("jsonb"), (each["name"],), nullable=True) for each in schema["fields"])


def whole(schema: dict[str, Any]) -> Decoder:
    """The decoder that reads each field into a jsonb."""
    return avro_decoder(schema_of(schema), shape_of(columns_of(schema)), Limits())


def refused(outcome: Any) -> tuple[Reason, ...]:
    """The reasons of a refusal, which people can read."""
    assert isinstance(outcome, Refusal), outcome
    assert outcome.reasons
    for reason in outcome.reasons:
        assert reason.path.startswith("$")
        assert reason.code in Code
        assert (reason.path + reason.detail).isprintable()
        assert reason.detail.startswith("expected ")
    return outcome.reasons


@many
@given(st.data())
def test_no_cut_and_no_longer_record_is_read(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    written = Written(copy.deepcopy(schema))
    value = written.write(written.value(data.draw, written.parsed))
    decoder = whole(schema)
    cuts = [value[:size] for size in range(len(value))][-40:]
    longer = [value + more for more in (b"\0", b"\1", data.draw(st.binary(min_size=1, max_size=9)))]
    for wrong in cuts + longer:
        refused(decoder.decode(wrong, b"key", NOW))
    assert check_proven(decoder, cuts + longer) == 0


@many
@given(st.data())
def test_what_is_read_of_changed_bytes_is_what_fastavro_reads(data: st.DataObject) -> None:
    schema = data.draw(schemas(logical=False))
    written = Written(copy.deepcopy(schema))
    value = written.write(written.value(data.draw, written.parsed))
    changed = flipped(data.draw, value) if data.draw(st.booleans()) else spoil(data.draw, value)
    decoder = whole(schema)
    outcome = decoder.decode(changed, b"key", NOW)
    check_proven(decoder, [value, changed])
    if isinstance(outcome, DecodedRow):
        stream = BytesIO(changed)
        read: Any = fastavro.schemaless_reader(stream, written.parsed, None)
        assert stream.tell() == len(changed)
        for column, got in zip(decoder.record.columns, outcome.values, strict=True):
            check_same(read[column.name], None if got is None else document(str(got)))
    elif all(reason.code is not Code.TOO_LARGE for reason in refused(outcome)):
        check_not_written(written, changed, outcome)


def flipped(draw: Any, value: bytes) -> bytes:
    """The bytes with one bit changed."""
    found = bytearray(value or b"\0")
    found[draw(st.integers(0, len(found) - 1))] ^= 1 << draw(st.integers(0, 7))
    return bytes(found)


def check_same(read: Any, got: Any) -> None:
    """Check that a jsonb says what fastavro read without logical types."""
    if isinstance(read, dict):
        assert list(read) == list(got)
        for key, part in read.items():
            check_same(part, got[key])
    elif isinstance(read, list):
        assert len(read) == len(got)
        for part, of in zip(read, got, strict=True):
            check_same(part, of)
    elif isinstance(read, bytes):
        assert got == base64.b64encode(read).decode()
    elif isinstance(read, float):
        assert float(got) == read or struct.pack("<f", got) == struct.pack("<f", read)
    else:
        assert type(got) is type(read)
        assert got == read


def check_not_written(written: Written, changed: bytes, outcome: Refusal) -> None:
    """Check that what is refused is nothing that fastavro would write, unless no jsonb can hold it."""
    stream = BytesIO(changed)
    try:
        read: Any = fastavro.schemaless_reader(stream, written.parsed, None)
        again = written.write(read)
    except Exception:  # noqa: BLE001 - whatever it finds
        return
    valid = fastavro.validate(read, written.parsed, raise_errors=False)  # what it writes is not always in range
    if valid and stream.tell() == len(changed) and again == changed:
        assert {reason.code for reason in outcome.reasons} <= {Code.NUL, Code.RANGE}, outcome

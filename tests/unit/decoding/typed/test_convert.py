"""What each column takes of each type of a schema, what it refuses, and with which reason."""

from __future__ import annotations

import json
import math
import struct
from base64 import b64decode
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.decoding.counts import ALL_YEARS
from offset_ledger.decoding.kinds import ColumnKind
from offset_ledger.decoding.outcome import Code, Mismatch
from offset_ledger.decoding.typed.conversions import conversion, json_text, json_value
from offset_ledger.decoding.typed.types import TypeName, ValueType

INT = ValueType(TypeName.INTEGER, "int", bits=32)
LONG = ValueType(TypeName.INTEGER, "long", bits=64)
UINT64 = ValueType(TypeName.INTEGER, "uint64", bits=64, signed=False)
FLOAT = ValueType(TypeName.FLOAT, "float", bits=32)
DOUBLE = ValueType(TypeName.FLOAT, "double", bits=64)
BOOLEAN = ValueType(TypeName.BOOLEAN, "boolean")
STRING = ValueType(TypeName.TEXT, "string")
BYTES = ValueType(TypeName.BYTES, "bytes")
DATE = ValueType(TypeName.DATE, "date")
TIME_MS = ValueType(TypeName.TIME, "time-millis", nanoseconds=1_000_000)
TIME_NS = ValueType(TypeName.TIME, "time-nanos", nanoseconds=1)
MILLIS = ValueType(TypeName.TIMESTAMP, "timestamp-millis", nanoseconds=1_000_000)
MICROS = ValueType(TypeName.TIMESTAMP, "timestamp-micros", nanoseconds=1000)
NANOS = ValueType(TypeName.TIMESTAMP, "timestamp-nanos", nanoseconds=1)
LOCAL = ValueType(TypeName.LOCAL_TIMESTAMP, "local-timestamp-micros", nanoseconds=1000)
GUID = ValueType(TypeName.UUID, "uuid")
DURATION = ValueType(TypeName.DURATION, "duration")
ARRAY = ValueType(TypeName.ARRAY, "array")
OBJECT = ValueType(TypeName.OBJECT, "record")
NULL = ValueType(TypeName.NULL, "null")
SOURCES = (
    *(NULL, BOOLEAN, INT, LONG, UINT64, FLOAT, DOUBLE, STRING, BYTES, DATE, TIME_MS, TIME_NS, MILLIS, MICROS, NANOS),
    *(LOCAL, GUID, DURATION, ARRAY, OBJECT, ValueType(TypeName.DECIMAL, "decimal", scale=2)),
)
A_UUID = UUID("6f1ed002-ab5b-4a61-8d1f-0c6d6c9c3c31")


def scaled(scale: int) -> ValueType:
    return ValueType(TypeName.DECIMAL, "decimal", scale=scale)


def kind(name: str, *args: int, encoding: str = "") -> ColumnKind:
    return ColumnKind(name, args, encoding or {"timestamptz": "rfc3339", "bytea": "base64"}.get(name, ""))


def same(one: object, other: object) -> bool:
    """Whether both are one value of one type, NaN and the zeros told apart."""
    return type(one) is type(other) and repr(one) == repr(other)


@pytest.mark.parametrize(
    ("source", "column", "value", "expected"),
    [
        (BOOLEAN, kind("boolean"), False, False),
        (INT, kind("smallint"), -32768, -32768),
        (LONG, kind("integer"), 2**31 - 1, 2**31 - 1),
        (UINT64, kind("bigint"), 2**63 - 1, 2**63 - 1),
        (FLOAT, kind("real"), 0.10000000149011612, 0.10000000149011612),
        (FLOAT, kind("real"), math.nan, math.nan),
        (DOUBLE, kind("real"), 0.5, 0.5),
        (DOUBLE, kind("real"), -0.0, -0.0),
        (DOUBLE, kind("real"), math.nan, math.nan),
        (DOUBLE, kind("real"), -math.inf, -math.inf),
        (LONG, kind("real"), 16777216, 16777216.0),
        (FLOAT, kind("double precision"), 0.10000000149011612, 0.10000000149011612),
        (DOUBLE, kind("double precision"), 5e-324, 5e-324),
        (DOUBLE, kind("double precision"), math.inf, math.inf),
        (UINT64, kind("double precision"), 2**63, 9223372036854775808.0),
        (UINT64, kind("numeric"), 2**64 - 1, Decimal(2**64 - 1)),
        (INT, kind("numeric", 5, 2), -999, Decimal(-999)),
        (scaled(2), kind("numeric", 5, 2), 99999, Decimal("999.99")),
        (scaled(4), kind("numeric", 5, 2), 12300, Decimal("1.2300")),
        (scaled(-3), kind("numeric", 5, 0), 12, Decimal("1.2E+4")),
        (scaled(0), kind("numeric"), 10**400 + 1, Decimal(10**400 + 1)),
        (scaled(16383), kind("numeric"), 1, Decimal("1E-16383")),
        (scaled(20000), kind("numeric"), 0, Decimal(0)),
        (STRING, kind("text"), "é\ud7ff", "é\ud7ff"),
        (STRING, kind("varchar", 2), "é😀", "é😀"),
        (DATE, kind("date"), -719162, date(1, 1, 1)),
        (DATE, kind("date"), 2932896, date(9999, 12, 31)),
        (STRING, kind("date"), "2024-02-29", date(2024, 2, 29)),
        (TIME_MS, kind("time"), 86_399_999, time(23, 59, 59, 999000)),
        (TIME_NS, kind("time"), 1000, time(0, 0, 0, 1)),
        (STRING, kind("time"), "23:59:59.1000000", time(23, 59, 59, 100000)),
        (STRING, kind("time"), "00:00:00", time(0)),
        (MILLIS, kind("timestamptz"), -1, datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)),
        (MICROS, kind("timestamptz"), 253_402_300_799_999_999, datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)),
        (NANOS, kind("timestamptz"), -1000, datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)),
        (MICROS, kind("timestamptz", encoding="epoch_s"), 1, datetime(1970, 1, 1, 0, 0, 0, 1, UTC)),
        (STRING, kind("timestamptz"), "2026-01-01T00:00:00+01:00", datetime(2025, 12, 31, 23, tzinfo=UTC)),
        (LONG, kind("timestamptz", encoding="epoch_ms"), 1001, datetime(1970, 1, 1, 0, 0, 1, 1000, UTC)),
        (INT, kind("timestamptz", encoding="epoch_s"), -1, datetime(1969, 12, 31, 23, 59, 59, 0, UTC)),
        (LONG, kind("numeric", encoding="unsigned"), -1, Decimal(2**64 - 1)),
        (OBJECT, kind("numeric", encoding="unscaled"), {"scale": 1, "value": "Dw=="}, Decimal("1.5")),
        (LONG, kind("time", encoding="us"), 86_399_123_456, time(23, 59, 59, 123456)),
        (INT, kind("time", encoding="ms"), 86_400_000, "24:00:00"),
        (LONG, replace(kind("time", encoding="ns"), round=True), 1_500, time(0, 0, 0, 2)),
        (TIME_NS, replace(kind("time"), round=True), 86_399_999_999_999, "24:00:00"),
        (STRING, kind("time"), "24:00:00.000", "24:00:00"),
        (STRING, kind("time"), "23:59:59.1Z", time(23, 59, 59, 100000)),
        (STRING, kind("date"), "2024-02-29Z", date(2024, 2, 29)),
        (NANOS, replace(kind("timestamptz"), round=True), 2_500, datetime(1970, 1, 1, 0, 0, 0, 2, UTC)),
        (LONG, replace(kind("timestamptz", encoding="epoch_ns"), round=True), -1, datetime(1970, 1, 1, tzinfo=UTC)),
        (LONG, kind("interval", encoding="us"), -500_000, "-00:00:00.500000"),
        (INT, kind("interval", encoding="s"), 90_061, "25:01:01.000000"),
        (INT, kind("public.positive", encoding="number"), 5, "5"),
        (scaled(2), kind("public.price", encoding="number"), 150, "1.50"),
        (DATE, kind("public.day"), 0, "1970-01-01"),
        (GUID, kind("uuid"), A_UUID.bytes, A_UUID),
        (STRING, kind("uuid"), str(A_UUID).upper(), A_UUID),
        (BYTES, kind("bytea"), b"\xff\0", b"\xff\0"),
        (STRING, kind("bytea"), "/wA=", b"\xff\0"),
        (STRING, kind("bytea", encoding="hex"), "fF00", b"\xff\0"),
        (STRING, kind("event_id"), "é" * 512, "é" * 512),
        (UINT64, kind("event_id"), 2**64 - 1, "18446744073709551615"),
        (GUID, kind("event_id"), A_UUID.bytes, str(A_UUID)),
        (STRING, kind("jsonb"), 'a"\\u0000', '"a\\"\\\\u0000"'),
        (INT, kind("jsonb"), 5, "5"),
        (DOUBLE, kind("jsonb"), 5.0, "5.0"),
        (FLOAT, kind("jsonb"), 0.10000000149011612, "0.1"),
        (FLOAT, kind("jsonb"), 5.0, "5.0"),
        (UINT64, kind("jsonb"), 2**64 - 1, "18446744073709551615"),
        (scaled(2), kind("jsonb"), 1250, "12.50"),
        (scaled(0), kind("jsonb"), 10**400, "1" + "0" * 400),
        (BYTES, kind("jsonb"), b"\xff\0", '"/wA="'),
        (DATE, kind("jsonb"), -719162, '"0001-01-01"'),
        (TIME_NS, kind("jsonb"), 1, '"00:00:00.000000001"'),
        (TIME_MS, kind("jsonb"), 3_600_000, '"01:00:00"'),
        (MILLIS, kind("jsonb"), -1, '"1969-12-31T23:59:59.999Z"'),
        (NANOS, kind("jsonb"), 1_500_000_000, '"1970-01-01T00:00:01.500Z"'),
        (LOCAL, kind("jsonb"), 1, '"1970-01-01T00:00:00.000001"'),
        (GUID, kind("jsonb"), A_UUID.bytes, f'"{A_UUID}"'),
        (ARRAY, kind("jsonb"), [1, None, {"a": [Decimal("0.10")]}], '[1,null,{"a":[0.10]}]'),
        (OBJECT, kind("jsonb"), {"a": True, "é\n": {}}, '{"a":true,"é\\n":{}}'),
    ],
)
def test_a_value_becomes_the_value_of_its_column(
    source: ValueType, column: ColumnKind, value: Any, expected: object
) -> None:
    assert same(conversion(source, column).convert(value), expected)


@pytest.mark.parametrize(
    ("source", "column", "value", "code", "detail"),
    [
        (STRING, kind("integer"), "5", Code.TYPE, "expected integer, got string"),
        (INT, kind("smallint"), 32768, Code.RANGE, "expected integer of 16 bits, got 32768"),
        (UINT64, kind("bigint"), 2**63, Code.RANGE, "expected integer of 64 bits, got 9223372036854775808"),
        (DOUBLE, kind("bigint"), 5.0, Code.TYPE, "expected integer, got double"),
        (BOOLEAN, kind("integer"), True, Code.TYPE, "expected integer, got boolean"),
        (INT, kind("boolean"), 1, Code.TYPE, "expected boolean, got int"),
        (DOUBLE, kind("real"), 0.1, Code.PRECISION, "expected real, got 0.1, which it cannot hold"),
        (DOUBLE, kind("real"), 1e39, Code.RANGE, "expected real, got 1e+39, which it cannot hold"),
        (DOUBLE, kind("real"), 1e-50, Code.RANGE, "expected real, got 1e-50, which it cannot hold"),
        (LONG, kind("real"), 16777217, Code.PRECISION, "expected real, got 16777217, which it cannot hold"),
        (LONG, kind("double precision"), 2**53 + 1, Code.PRECISION,
            "expected double precision, got 9007199254740993, which it cannot hold"),
        (DOUBLE, kind("numeric"), 0.5, Code.TYPE, "expected a decimal or an integer, got double"),
        (scaled(2), kind("numeric", 5, 2), 100000, Code.RANGE, "expected numeric(5,2), got 1000.00"),
        (scaled(3), kind("numeric", 5, 2), 1001, Code.PRECISION, "expected numeric(5,2), got 1.001"),
        (scaled(-3), kind("numeric", 5, 2), 1, Code.RANGE, "expected numeric(5,2), got 1E+3"),
        (INT, kind("numeric", 5, 2), 1000, Code.RANGE, "expected numeric(5,2), got 1000"),
        (scaled(16384), kind("numeric"), 1, Code.RANGE, "expected a number within Postgres's numeric, got 1E-16384"),
        (scaled(-131072), kind("jsonb"), 1, Code.RANGE, "expected a number within Postgres's numeric, got 1E+131072"),
        (scaled(20000), kind("jsonb"), 0, Code.RANGE, "expected a number within Postgres's numeric, got 0E-20000"),
        (STRING, kind("text"), "a\0", Code.NUL, "expected text without NUL, which Postgres cannot hold"),
        (STRING, kind("varchar", 2), "abc", Code.LENGTH, "expected at most 2 characters, got 3"),
        (BYTES, kind("text"), b"a", Code.TYPE, "expected text, got bytes"),
        (INT, kind("text"), 1, Code.TYPE, "expected text, got int"),
        (DATE, kind("date"), 2932897, Code.RANGE,
            f"expected a day in the years 1 to 9999, got day 2932897 since 1970-01-01; {ALL_YEARS}"),
        (DATE, kind("jsonb"), -(2**63), Code.RANGE,
            f"expected a day in the years 1 to 9999, got day {-(2**63)} since 1970-01-01; {ALL_YEARS}"),
        (STRING, kind("date"), "2023-02-29", Code.RANGE, "expected a day of the calendar, got 2023-02-29"),
        (MILLIS, kind("date"), 0, Code.TYPE, "expected date, got timestamp-millis"),
        (TIME_MS, kind("time"), 86_400_001, Code.RANGE,
            "expected a time up to 24:00:00, got 86400001000000 ns since midnight"),
        (TIME_MS, kind("jsonb"), -1, Code.RANGE, "expected a time up to 24:00:00, got -1000000 ns since midnight"),
        (TIME_NS, kind("time"), 1, Code.PRECISION,
            "expected at most microseconds, got 1 ns; write round: true to take the nearest"),
        (STRING, kind("time"), "24:00:00.1", Code.RANGE, "expected a time up to 24:00:00, got 24:00:00.1"),
        (STRING, kind("time"), "23:59:60", Code.RANGE, "expected a time up to 24:00:00, got 23:59:60"),
        (STRING, kind("time"), "1:00:00", Code.FORMAT, "expected time as HH:MM:SS, got 1:00:00"),
        (STRING, kind("time"), "00:00:00.0000001", Code.PRECISION,
            "expected at most microseconds, got 00:00:00.0000001; write round: true to take the nearest"),
        (NANOS, kind("timestamptz"), -1, Code.PRECISION,
            "expected at most microseconds, got -1 ns; write round: true to take the nearest"),
        (MICROS, kind("timestamptz"), 253_402_300_800_000_000, Code.RANGE,
            f"expected a moment in the years 1 to 9999, got 253402300800000000000 ns since 1970; {ALL_YEARS}"),
        (MILLIS, kind("jsonb"), 2**63 - 1, Code.RANGE,
            f"expected a moment in the years 1 to 9999, got {(2**63 - 1) * 1_000_000} ns since 1970"),
        (LONG, kind("timestamptz", encoding="epoch_s"), 2**63 - 1, Code.RANGE,
            f"expected a moment in the years 1 to 9999, got {(2**63 - 1) * 1_000_000_000} ns since 1970; {ALL_YEARS}"),
        (LONG, kind("timestamptz"), 0, Code.TYPE, "expected timestamp, got long"),
        (LONG, kind("interval"), 5, Code.TYPE,
            "expected a text for interval, got long of an unknown unit: write its encoding (s, ms, us or ns)"),
        (scaled(2), kind("public.price"), 5, Code.TYPE,
            "expected a text for public.price, got decimal: write encoding: number to let Postgres read it as it is"),
        (STRING, kind("interval", encoding="us"), "P1D", Code.TYPE, "expected integer, got string"),
        (LONG, kind("interval", encoding="us"), -(2**63), Code.RANGE,
            f"expected an interval, got {-(2**63)}, which is written for all that is longer"),
        (STRING, kind("timestamptz", encoding="epoch_s"), "0", Code.TYPE, "expected integer, got string"),
        (LOCAL, kind("timestamptz"), 0, Code.TYPE,
            "expected timestamp, got local-timestamp-micros: a local timestamp has no time zone"),
        (STRING, kind("uuid"), A_UUID.hex, Code.FORMAT, f"expected uuid, got {A_UUID.hex}"),
        (BYTES, kind("uuid"), A_UUID.bytes, Code.TYPE, "expected uuid, got bytes"),
        (STRING, kind("bytea"), "/w==\n", Code.FORMAT, "expected base64, got /w==\\n"),
        (STRING, kind("event_id"), "", Code.LENGTH, "expected an event id, got an empty text"),
        (STRING, kind("event_id"), "é" * 513, Code.LENGTH, "expected an event id of at most 1024 bytes, got 1026"),
        (STRING, kind("event_id"), "\0", Code.NUL, "expected text without NUL, which Postgres cannot hold"),
        (DOUBLE, kind("event_id"), 1.0, Code.TYPE, "expected text, an integer or a uuid, got double"),
        (DOUBLE, kind("jsonb"), math.nan, Code.RANGE, "expected a number of JSON, got nan"),
        (FLOAT, kind("jsonb"), -math.inf, Code.RANGE, "expected a number of JSON, got -inf"),
        (STRING, kind("jsonb"), "\0", Code.NUL, "expected jsonb without NUL, which Postgres cannot hold"),
        (OBJECT, kind("jsonb"), {"\0": 1}, Code.NUL, "expected jsonb without NUL, which Postgres cannot hold"),
        (DURATION, kind("jsonb"), bytes(12), Code.TYPE, "expected jsonb, got duration: no column takes a duration"),
        (DURATION, kind("bytea"), bytes(12), Code.TYPE, "expected bytes, got duration: no column takes a duration"),
        (NULL, kind("text"), None, Code.TYPE, "expected text, got null"),
    ],
)  # fmt: skip
def test_a_value_that_its_column_cannot_take_is_refused(
    source: ValueType, column: ColumnKind, value: Any, code: Code, detail: str
) -> None:
    with pytest.raises(Mismatch) as raised:
        conversion(source, column).convert(value)
    assert (raised.value.code, raised.value.detail) == (code, detail)


TAKES = {
    "boolean": "boolean",
    "smallint": "int long uint64",
    "integer": "int long uint64",
    "bigint": "int long uint64",
    "numeric": "int long uint64 decimal",
    "real": "int long uint64 float double",
    "double precision": "int long uint64 float double",
    "text": "string",
    "varchar": "string",
    "date": "date string",
    "time": "time-millis time-nanos string",
    "timestamptz": "timestamp-millis timestamp-micros timestamp-nanos string",
    "uuid": "uuid string",
    "bytea": "bytes string",
    "event_id": "int long uint64 string uuid",
}


@pytest.mark.parametrize("name", TAKES)
def test_a_column_takes_the_types_that_it_can_hold_and_no_other(name: str) -> None:
    column = kind(name, 5) if name == "varchar" else kind(name)
    taken = {source.shown for source in SOURCES if not refuses_every_value(source, column)}
    assert taken == set(TAKES[name].split())


def refuses_every_value(source: ValueType, column: ColumnKind) -> bool:
    """Whether the type itself is the reason; nothing of no type is asked of the value before."""
    try:
        conversion(source, column).convert(object())
    except Mismatch as mismatch:
        return mismatch.code is Code.TYPE and f"got {source.shown}" in mismatch.detail
    except (TypeError, AttributeError, struct.error):
        return False
    return False


def test_a_document_that_is_too_deep_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(499):
        deep = [deep]
    assert json_text(deep) == "[" * 500 + "]" * 500
    for outer in ([deep], deeper(100_000)):
        with pytest.raises(Mismatch) as raised:
            json_text(outer)
        assert raised.value.code is Code.DEPTH


def deeper(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    st.decimals(allow_nan=False, allow_infinity=False, places=3),
)


@given(st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text("ab\\u0\n"), inner)))
def test_json_text_says_every_value_as_it_is(value: Any) -> None:
    assert same(json.loads(json_text(value), parse_float=Decimal, parse_int=Decimal), numbers_as_decimals(value))


def numbers_as_decimals(value: Any) -> Any:
    match value:
        case bool() | None | str():
            return value
        case float():
            return Decimal(repr(value))
        case int() | Decimal():
            return Decimal(value)
        case list():
            return [numbers_as_decimals(each) for each in value]
    return {name: numbers_as_decimals(each) for name, each in value.items()}


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_of_4_bytes_keeps_its_value_in_a_document(value: float) -> None:
    written = json.loads(json_text(json_value(FLOAT)(value)))
    assert struct.pack("<f", written) == struct.pack("<f", value)


@given(st.binary())
def test_bytes_stand_in_a_document_as_base64(value: bytes) -> None:
    assert b64decode(json.loads(json_text([json_value(BYTES)(value)]))[0], validate=True) == value

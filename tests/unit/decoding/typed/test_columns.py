"""A column that is built at once has the values that the converter gives one by one, or says that it does not know."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.decoding.kinds import FIRST_MOMENT, LAST_MOMENT, ColumnKind, staged, staged_type
from offset_ledger.decoding.typed.conversions import arrow_type, conversion
from offset_ledger.decoding.typed.types import TypeName, ValueType
from tests.examples import examples
from tests.unit.decoding.typed.test_convert import A_UUID, kind

KINDS = (
    *map(kind, ("boolean", "smallint", "integer", "bigint", "numeric", "real", "double precision", "text", "date")),
    *map(kind, ("time", "timestamptz", "uuid", "bytea", "event_id", "jsonb")),
    *(kind("timestamptz", encoding=each) for each in ("epoch_s", "epoch_ms", "epoch_us")),
    kind("bytea", encoding="hex"),
    *(kind("varchar", limit) for limit in (1, 3)),
    *(kind("numeric", *args) for args in ((1, 0), (3, 3), (5, 2), (19, 0), (20, 0), (38, 10), (200, 100))),
)
UNITS = (1, 1000, 1_000_000, 1_000_000_000)
SOURCES = (
    ValueType(TypeName.BOOLEAN, "boolean"),
    *(ValueType(TypeName.INTEGER, "int", bits, signed) for bits in (32, 64) for signed in (True, False)),
    *(ValueType(TypeName.FLOAT, "float", bits) for bits in (32, 64)),
    *(ValueType(name, name.value) for name in (TypeName.TEXT, TypeName.BYTES, TypeName.DATE, TypeName.UUID)),
    *(ValueType(TypeName.DECIMAL, "decimal", scale=scale) for scale in (-2, 0, 1, 2, 3, 10, 25, 38, 39, 20000)),
    *(ValueType(TypeName.TIME, "time", nanoseconds=unit) for unit in UNITS),
    *(ValueType(TypeName.TIMESTAMP, "timestamp", nanoseconds=unit) for unit in UNITS),
    *(ValueType(name, name.value) for name in (TypeName.LOCAL_TIMESTAMP, TypeName.DURATION)),
)
MEANT = (0, FIRST_MOMENT, LAST_MOMENT, 86_400_000_000, 2**24, 2**53, 2**15, 2**31, 2**63, 2**64, -719_162, 2_932_896)
EDGES = sorted(
    {
        meant * sign * up // down + less
        for meant in (*MEANT, *(10**power for power in range(20)))
        for sign in (1, -1)
        for up, down in ((1, 1), (1000, 1), (1, 1000), (1, 1_000_000))
        for less in (-1, 0, 1)
    }
)
WRITTEN = (
    "2024-02-29", "2023-02-29", "0999-01-01", "12:34:56", "23:59:59.123456", "23:59:59.1234567", "24:00:00", "23:59:60",
    "12:34:56\n", "2026-01-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-01t00:00:00.12+14:59",
    "2026-01-01T00:00:00.12+14:59", "2026-01-01T00:00:00", "9999-12-31T23:59:59-01:00", str(A_UUID),
    str(A_UUID).upper(), "/wA=", "ff00", "é" * 513, "é😀a", 'a"b', "a\\b", "a\0",
)  # fmt: skip


def integers(low: int, high: int) -> st.SearchStrategy[int]:
    inside = [edge for edge in EDGES if low <= edge <= high]
    return st.integers(low, high) | st.sampled_from(inside) | st.integers(max(low, -1000), 1000)


def edges_of(source: ValueType) -> list[Any]:
    """Every edge that a value of the type can have, and null."""
    match source.name:
        case TypeName.BOOLEAN:
            return [True, False, None]
        case TypeName.TEXT:
            return [*WRITTEN, None]
        case TypeName.BYTES | TypeName.DURATION | TypeName.UUID:
            return [bytes(16), b"\xff" * 16, None]
        case TypeName.FLOAT:
            return [*(as_width(float(edge), source.bits) for edge in [*EDGES, 1e-40, 1e38, "nan", "-0"]), None]
    low, high = bounds_of(source)
    return [*(edge for edge in EDGES if low <= edge <= high), low, high, None]


def bounds_of(source: ValueType) -> tuple[int, int]:
    if source.name is not TypeName.INTEGER:
        return -(2**63), 2**63 - 1
    return (-(2 ** (source.bits - 1)), 2 ** (source.bits - 1) - 1) if source.signed else (0, 2**source.bits - 1)


def values_of(source: ValueType) -> st.SearchStrategy[Any]:
    match source.name:
        case TypeName.BOOLEAN:
            return st.booleans()
        case TypeName.FLOAT:
            whole = integers(-(2**63), 2**63).map(float).map(lambda value: as_width(value, source.bits))
            return st.floats(width=source.bits) | st.floats(width=32) | whole
        case TypeName.TEXT:
            return st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.sampled_from(WRITTEN)
        case TypeName.BYTES | TypeName.DURATION:
            return st.binary(max_size=20)
        case TypeName.UUID:
            return st.binary(min_size=16, max_size=16)
    return integers(*bounds_of(source))


def as_width(value: float, bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0]) if bits == 32 else value


def bits_of(column: ColumnKind, values: list[Any]) -> list[Any]:
    """The staged values; of floats their bytes."""
    if column.name not in ("real", "double precision"):
        return values
    form = "<f" if column.name == "real" else "<d"
    return [None if value is None else struct.pack(form, float(value)) for value in values]


PAIRS = [(source, column) for source in SOURCES for column in KINDS if conversion(source, column).build]


@examples(1000)
@given(st.data())
def test_what_is_built_at_once_is_what_the_converter_gives(data: st.DataObject) -> None:
    source, column = data.draw(st.sampled_from(PAIRS))
    values = data.draw(st.lists(st.none() | values_of(source), max_size=8))
    around = data.draw(st.lists(values_of(source), min_size=2, max_size=2))
    check(source, column, values, pa.array([around[0], *values, around[1]], arrow_type(source)).slice(1, len(values)))


@pytest.mark.parametrize(("source", "column"), PAIRS)
def test_at_the_edges_too(source: ValueType, column: ColumnKind) -> None:
    values = edges_of(source)
    check(source, column, values, pa.array(values, arrow_type(source)))


def check(source: ValueType, column: ColumnKind, values: list[Any], given_column: pa.Array) -> None:
    """Check that what is built and good is what the converter gives; it raises for what it refuses."""
    build = conversion(source, column).build
    assert build is not None
    built, flags = build(given_column)
    built.validate(full=True)
    assert built.type == staged_type(column)
    good = [True] * len(values) if flags is None else flags.tolist()
    assert len(built) == len(good) == len(values)
    sure = [(value, got) for value, got, known in zip(values, built.to_pylist(), good, strict=True) if known]
    expected = [None if value is None else conversion(source, column).convert(value) for value, _ in sure]
    one_by_one = staged(column, expected).to_pylist()
    assert bits_of(column, [got for _, got in sure]) == bits_of(column, one_by_one)


@pytest.mark.parametrize(
    ("source", "column", "values"),
    [
        (TypeName.BOOLEAN, kind("boolean"), [True, False]),
        (TypeName.INTEGER, kind("smallint"), [-32768, 32767]),
        (TypeName.INTEGER, kind("bigint"), [-(2**63), 2**63 - 1]),
        (TypeName.INTEGER, kind("numeric", 19, 0), [-(2**63), 2**63 - 1]),
        (TypeName.INTEGER, kind("double precision"), [-(2**53), 2**53]),
        (TypeName.FLOAT, kind("double precision"), [0.1, float("nan"), float("inf")]),
        (TypeName.FLOAT, kind("real"), [0.5, float("nan"), -float("inf"), -0.0]),
        (TypeName.DECIMAL, kind("numeric", 5, 2), [99999, -99999, 0]),
        (TypeName.DECIMAL, kind("numeric", 5, 1), [9990]),
        (TypeName.TEXT, kind("varchar", 2), ["é😀", ""]),
        (TypeName.TEXT, kind("date"), ["2024-02-29"]),
        (TypeName.TEXT, kind("time"), ["23:59:59.5"]),
        (TypeName.TEXT, kind("timestamptz"), ["2026-01-01T00:00:00.123Z"]),
        (TypeName.TEXT, kind("uuid"), [str(A_UUID)]),
        (TypeName.TEXT, kind("event_id"), ["a" * 1024]),
        (TypeName.TEXT, kind("jsonb"), ["é"]),
        (TypeName.UUID, kind("uuid"), [A_UUID.bytes, bytes(16)]),
        (TypeName.BYTES, kind("bytea"), [b"\xff\0", b""]),
        (TypeName.DATE, kind("date"), [-719_162, 2_932_896]),
        (TypeName.TIME, kind("time"), [0, 86_399_999]),
        (TypeName.TIMESTAMP, kind("timestamptz"), [FIRST_MOMENT // 1000, LAST_MOMENT // 1000]),
        (TypeName.INTEGER, kind("timestamptz", encoding="epoch_us"), [FIRST_MOMENT, LAST_MOMENT]),
    ],
)
def test_usual_values_are_all_built_at_once(source: TypeName, column: ColumnKind, values: list[Any]) -> None:
    type_ = ValueType(source, source.value, bits=64, scale=2, nanoseconds=1_000_000)
    build = conversion(type_, column).build
    assert build is not None
    built, flags = build(pa.array([*values, None], arrow_type(type_)))
    assert flags is None
    assert built.is_valid().to_pylist() == [*[True] * len(values), False]

"""What COPY stores is what was decoded, in a real Postgres, to the last byte and digit."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import psycopg2
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg2 import sql
from psycopg2.extensions import connection

from offset_ledger.decoding.arrow import decode_batch, staging_schema
from offset_ledger.decoding.counts import reader
from offset_ledger.decoding.json.conversions import conversion as json_conversion
from offset_ledger.decoding.json.decoder import JsonDecoder
from offset_ledger.decoding.kinds import ColumnKind, kind_of, staged
from offset_ledger.decoding.outcome import DecodedRow
from offset_ledger.decoding.typed.conversions import arrow_type, conversion
from offset_ledger.decoding.typed.types import TypeName, ValueType
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, Tombstone
from offset_ledger.postgres.connection import postgres_arguments
from offset_ledger.postgres.ledger.database import Cursor
from offset_ledger.postgres.ledger.staging import copy_into
from offset_ledger.steps.stage.copy_rows import copy_form
from offset_ledger_kit.sandbox.stack import Stack
from tests.examples import examples
from tests.fixtures.servers import new_database
from tests.unit.decoding.batches import batch_of
from tests.unit.decoding.decoding_documents import COLUMNS, GOOD, KAFKA_TIME, KINDS, LIMITS, SHAPE, documents, kind
from tests.unit.decoding.test_decoding_batch import ALL_LITERALS, good_value, value_with

OWN = {"_partition": "integer", "_offset": "bigint", "_timestamp": "timestamptz", "_key": "bytea", "_headers": "jsonb"}
ROWS = (
    {"event_id": "text", "publish_at": "timestamptz"}
    | {column.name: column.type.sql for column in COLUMNS}
    | OWN
    | {"_deleted": "boolean", "_value": "bytea"}
)
TEXTS_TABLE = {"n": "integer", "t": "text", "b": "bytea"}
FORMS = {
    "jsonb": "{}::text",
    "numeric": "{}::text",
    "timestamptz": "to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US AD')",
    "timestamp": "to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US AD')",
    "real": "float4send({})",
    "double": "float8send({})",
    "date": "to_char({}, 'YYYY-MM-DD AD')",
}
REFUSED = OWN | {"_value": "bytea", "reasons": "jsonb"}


@pytest.fixture(scope="module")
def session(shared_stack: Stack) -> Iterator[connection]:
    """A session in a database of this module's own, with one table of each kind."""
    with new_database(shared_stack) as made, closing(psycopg2.connect(**postgres_arguments(made))) as session:
        session.set_client_encoding("UTF8")
        with session, session.cursor() as cursor:
            # A zone that is not UTC, and a style that swaps day and month: the CSV must not depend on either.
            # Of NULLs in arrays it does: each session of the product sets this, whatever the database says.
            cursor.execute("SET array_nulls = on")
            cursor.execute("SET timezone = 'America/New_York'; SET datestyle = 'SQL, DMY'; SET extra_float_digits = 0")
            for table, columns in {"staged": ROWS, "refused": REFUSED, "texts": TEXTS_TABLE}.items():
                definitions = ", ".join(f'"{name}" {type_}' for name, type_ in columns.items())
                cursor.execute(f"CREATE TEMP TABLE {table} ({definitions})")
        yield session


def stored(session: connection, name: str, table: pa.Table, order: str) -> list[dict[str, Any]]:
    """The table after COPY, and SELECT in forms that lose nothing; both formats of COPY store the same."""
    types = {"staged": ROWS, "refused": REFUSED, "texts": TEXTS_TABLE}[name]
    binary, csv = (stored_by(session, name, types, table, order, binary) for binary in (True, False))
    differ = [{k: (v, c[k]) for k, v in b.items() if v != c[k]} for b, c in zip(binary, csv, strict=True) if b != c]
    assert differ == []
    return binary


def stored_by(
    session: connection,
    name: str,
    types: dict[str, str],
    table: pa.Table,
    order: str,
    binary: bool,
    forms: dict[str, str] = FORMS,
) -> list[dict[str, Any]]:
    """The table after COPY in one format, selected."""
    selected = ", ".join(
        forms.get(types[column].split("(")[0].split(" ")[0], "{}").format(f'"{column}"')
        for column in table.column_names
    )
    try:
        with session.cursor(cursor_factory=Cursor) as cursor:
            form, pieces = copy_form(types, table, binary)
            copy_into(cursor, sql.Identifier(name), table.column_names, form, pieces)
            cursor.execute(f"SELECT {selected} FROM {name} ORDER BY {order}")
            found = [dict(zip(table.column_names, row, strict=True)) for row in cursor.fetchall()]
    finally:
        session.rollback()
    return [{key: bytes(v) if isinstance(v, memoryview) else v for key, v in row.items()} for row in found]


def written(type_: str, value: Any) -> Any:
    """A decoded value in the form that ``stored`` selects."""
    if value is None:
        return None
    if type_ == "real":
        return struct.pack(">f", value)
    if type_ == "double precision":
        return struct.pack(">d", value)
    if type_.startswith("timestamp"):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f AD").rjust(29, "0")
    if type_ == "date":
        return f"{value.isoformat()} AD"
    return str(value) if type_ == "uuid" else value


def same(type_: str, found: Any, expected: Any) -> bool:
    """Whether a stored value is the decoded one."""
    if expected is None or found is None:
        return found is expected
    if type_.startswith("numeric"):
        return Decimal(found) == expected
    if type_ == "jsonb":
        return bool(numbers_as_decimals(found) == numbers_as_decimals(expected))
    return bool(found == written(type_, expected))


def numbers_as_decimals(text: str) -> Any:
    """A JSON text with exact numbers."""
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def check_rows(session: connection, values: list[bytes | None], keys: list[bytes | None]) -> None:
    """Hold that each decoded row is stored as it was decoded."""
    decoder = JsonDecoder(SHAPE, LIMITS)
    batch = batch_of(values, keys)
    found = stored(session, "staged", decode_batch(decoder, batch).rows, "_offset")
    expected = [
        (100 + place, outcome, value, key)
        for place, (value, key) in enumerate(zip(values, keys, strict=True))
        if isinstance(outcome := decoder.decode(value, key, KAFKA_TIME), DecodedRow)
    ]
    assert [row["_offset"] for row in found] == [offset for offset, *_ in expected]
    for row, (offset, outcome, value, key) in zip(found, expected, strict=True):
        own = (outcome.key[0], outcome.publish_at, *outcome.values, 3, offset, KAFKA_TIME, key, None, False, value)
        wrong = {
            name: (row[name], wanted)
            for (name, type_), wanted in zip(ROWS.items(), own, strict=True)
            if not same(type_, row[name], wanted)
        }
        assert wrong == {}


def test_every_literal_of_every_type_is_stored_exactly(session: connection) -> None:
    values: list[bytes | None] = [value_with(name, literal) for name in KINDS for literal in ALL_LITERALS]
    check_rows(session, values, [[None, b"k", b"\\", b""][place % 4] for place in range(len(values))])


@examples(150)
@given(
    st.lists(
        st.tuples(documents(1), st.sampled_from([None, b"", b"\\", b"\\x41", b"a\\\\b", b"\xff", b"\x00"])), max_size=5
    )
)
def test_accepted_records_are_stored_as_decoded(session: connection, records: list[tuple[bytes, bytes | None]]) -> None:
    check_rows(session, [value for value, _ in records], [key for _, key in records])


@examples(150)
@given(st.lists(st.one_of(documents(3), st.binary()), max_size=5))
def test_refusals_are_stored_with_their_bytes(session: connection, values: list[bytes | None]) -> None:
    refusals = decode_batch(JsonDecoder(SHAPE, LIMITS), batch_of(values, values)).refusals
    found = stored(session, "refused", refusals, "_offset")
    expected = refusals.to_pylist()
    assert [(r["_offset"], r["_value"], r["_key"]) for r in found] == [
        (r["_offset"], r["_value"], r["_key"]) for r in expected
    ]
    assert [json.loads(r["reasons"]) for r in found] == [json.loads(r["reasons"]) for r in expected]


SPECIAL = st.sampled_from(
    ["", "\\.", "\\", '"', '""', "\n", "\r\n", ",", "\\N", "NULL", "\\.\n\\.\n", " ", "\t", "\\x41", "\u2028", "'"]
)
TEXTS = st.lists(
    st.one_of(SPECIAL, st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"])))
).map("".join)


@examples(200)
@given(st.lists(st.tuples(st.none() | TEXTS, st.none() | st.binary() | TEXTS.map(str.encode)), max_size=8))
def test_texts_and_bytes_survive_copy(session: connection, rows: list[tuple[str | None, bytes | None]]) -> None:
    table = pa.table(
        [
            pa.array(range(len(rows)), pa.int32()),
            pa.array([t for t, _ in rows], pa.string()),
            pa.array([b for _, b in rows], pa.binary()),
        ],
        names=["n", "t", "b"],
    )
    found = stored(session, "texts", table, "n")
    assert [(row["t"], row["b"]) for row in found] == rows


def test_headers_and_far_timestamps_are_stored(session: connection) -> None:
    headers = [[{"key": 'k"', "value": b"\x00"}, {"key": "k", "value": None}], [{"key": "a", "value": b"b"}], None, []]
    moments = [0, -2000, 253_402_300_800_000_000, -62_135_596_800_001_000]
    batch = batch_of([good_value()] * 4, headers=headers)
    batch = batch.set_column(4, "timestamp", pa.array(moments, pa.int64()).cast(pa.timestamp("us", "UTC")))
    found = stored(session, "staged", decode_batch(JsonDecoder(SHAPE, LIMITS), batch).rows, "_offset")
    assert [r["_headers"] and json.loads(r["_headers"]) for r in found] == [
        [['k"', {"base64": "AA=="}], ["k", None]],
        [["a", "b"]],
        None,
        None,
    ]
    assert [r["_timestamp"] for r in found] == [
        "1970-01-01 00:00:00.000000 AD",
        "1969-12-31 23:59:59.998000 AD",
        "10000-01-01 00:00:00.000000 AD",
        "0001-12-31 23:59:59.999000 BC",
    ]


def test_the_schema_names_the_columns_of_the_staging_table() -> None:
    assert staging_schema(SHAPE).names == list(ROWS)


def test_a_delete_marker_is_stored_without_values(session: connection) -> None:
    decoder = JsonDecoder(replace(SHAPE, tombstone=Tombstone.DELETE), LIMITS)
    (found,) = stored(session, "staged", decode_batch(decoder, batch_of([None], [b"e1"])).rows, "_offset")
    own = {"event_id": "e1", "publish_at": written("timestamptz", KAFKA_TIME), "_partition": 3, "_offset": 100}
    own |= {"_timestamp": written("timestamptz", KAFKA_TIME), "_key": b"e1", "_deleted": True}
    assert {name: value for name, value in found.items() if value is not None} == own


FLOATS = {"real": (st.floats(width=32), ">f"), "double precision": (st.floats(), ">d")}
FIRST, LAST = (
    -210_866_803_200_000_000,
    (1 << 63) - 1,
)  # Postgres's first moment, in 4714 BC, and Arrow's last, in 294247
YEAR_2000 = 946_684_800_000_000
INTEGERS = st.integers(-(10**27), 10**27) | st.integers(-10_001, 10_001)


OF_ANY_YEAR = FORMS | {"timestamptz": "timestamptz_send({})"}


def copied(session: connection, type_: str, values: pa.Array, forms: dict[str, str] = OF_ANY_YEAR) -> list[Any]:
    """What a column of that type holds after COPY in either format, in the order of the values."""
    types = {"n": "integer", "v": type_}
    table = pa.table([pa.array(range(len(values)), pa.int32()), values], names=["n", "v"])
    with session.cursor() as cursor:
        cursor.execute(f"CREATE TEMP TABLE typed (n integer, v {type_})")
        session.commit()
    try:
        binary, csv = (stored_by(session, "typed", types, table, "n", binary, forms) for binary in (True, False))
    finally:
        with session.cursor() as cursor:
            cursor.execute("DROP TABLE typed")
        session.commit()
    assert binary == csv
    return [row["v"] for row in binary]


@pytest.mark.parametrize("type_", FLOATS)
@examples(50)
@given(data=st.data())
def test_every_float_survives_copy(session: connection, type_: str, data: st.DataObject) -> None:
    floats, form = FLOATS[type_]
    values = [None, float("nan"), float("inf"), float("-inf"), -0.0, *data.draw(st.lists(floats, max_size=30))]
    nan = struct.pack(form, float("nan"))
    expected = [v if v is None else nan if v != v else struct.pack(form, v) for v in values]
    kind = ColumnKind(type_, (), "")
    source = ValueType(TypeName.FLOAT, type_, bits=32 if type_ == "real" else 64)
    build = conversion(source, kind).build
    assert build is not None
    assert copied(session, type_, staged(kind, values)) == expected
    assert copied(session, type_, build(pa.array(values, arrow_type(source)))[0]) == expected


@pytest.mark.parametrize(("type_", "places"), [("numeric(38,10)", 10), ("numeric(60,30)", 30), ("numeric(28,0)", 0)])
@examples(50)
@given(values=st.lists(st.none() | INTEGERS, max_size=30))
def test_every_number_of_a_precision_survives_copy(
    session: connection, type_: str, places: int, values: list[int | None]
) -> None:
    scaled = [None if value is None else Decimal(value).scaleb(-places) for value in values]
    kind = ColumnKind("numeric", tuple(map(int, re.findall(r"\d+", type_))), "")
    assert copied(session, type_, staged(kind, scaled)) == [v if v is None else f"{v:f}" for v in scaled]


@examples(150)
@given(st.lists(st.none() | st.tuples(INTEGERS, st.integers(-30, 90)), max_size=30))
def test_every_number_keeps_its_digits(session: connection, parts: list[tuple[int, int] | None]) -> None:
    values = [None if part is None else Decimal(part[0]).scaleb(-part[1]) for part in parts]
    expected = [v if v is None else f"{v:f}" if v else f"{0:.{max(-int(v.as_tuple().exponent), 0)}f}" for v in values]
    assert copied(session, "numeric", staged(ColumnKind("numeric", (), ""), values)) == expected


def test_the_widest_numbers_survive_copy(session: connection) -> None:
    widest = ["9" * 131_072 + "." + "9" * 16_383, "-0." + "0" * 16_382 + "1", "1" + "0" * 131_071, "10000.00001", "0"]
    assert copied(session, "numeric", pa.array([*widest, None])) == [*widest, None]


@examples(50)
@given(st.lists(st.none() | st.integers(FIRST, LAST), max_size=30))
def test_every_moment_survives_copy(session: connection, values: list[int | None]) -> None:
    moments = [FIRST, LAST, 0, None, *values]
    found = copied(session, "timestamptz", pa.array(moments, pa.timestamp("us", "UTC")))
    assert found == [None if value is None else struct.pack(">q", value - YEAR_2000) for value in moments]


SENT = {"timestamp": "timestamptz_send({})", "date": "date_send({})", "time": "time_send({})", "numeric": "{}::text"}
DAYS, MOMENTS = (-2_440_588, 2_145_042_905), (FIRST, 9_224_318_015_999_999_999)


@pytest.mark.parametrize(
    ("type_", "encoding", "bounds", "form", "start"),
    [
        ("date", "epoch_days", DAYS, ">i", 10_957),
        ("timestamp with time zone", "epoch_us", MOMENTS, ">q", YEAR_2000),
        ("time without time zone", "us", (0, 86_400_000_000), ">q", 0),
    ],
)
@examples(50)
@given(data=st.data())
def test_every_day_time_and_moment_of_postgres_survives_copy(
    session: connection, type_: str, encoding: str, bounds: tuple[int, int], form: str, start: int, data: st.DataObject
) -> None:
    counted = [*bounds, 0, None, *data.draw(st.lists(st.none() | st.integers(*bounds), max_size=30))]
    name = {"timestamp with time zone": "timestamptz", "time without time zone": "time"}.get(type_, type_)
    kind = replace(ColumnKind(name, (), encoding), far=True)
    read = reader(kind)
    values = [None if count is None else read(count) for count in counted]
    column = staged(kind, values)
    assert pa.types.is_string(column.type)
    expected = [None if count is None else struct.pack(form, count - start) for count in counted]
    assert copied(session, type_, column, SENT) == expected
    texts = replace(kind, encoding="rfc3339" if name == "timestamptz" else "")
    of_text = json_conversion(texts).read
    iso = [None if value is None else json.dumps(as_iso(str(value))).encode() for value in values]
    assert [None if text is None else of_text(text) for text in iso] == values


def as_iso(written: str) -> str:
    """A day, time or moment as ISO 8601 writes it: 44 BC is -0043, and a year of more than four digits has a sign."""
    day, era, _ = written.partition(" BC")
    found = re.match(r"([0-9]{4,})(-.*)", day)
    if found is None:
        return day
    year = 1 - int(found[1]) if era else int(found[1])
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}{found[2]}".replace(" ", "T")


@pytest.mark.parametrize(
    ("type_", "texts"),
    [
        ("date", ["2026-01-02", "infinity", "-infinity"]),
        ("timestamp with time zone", ["2026-01-02 03:04:05.600000Z", "infinity", "-infinity"]),
        ("numeric", ["-1.50", "NaN", "Infinity", "-Infinity"]),
        ("numeric(60,2)", ["-1.50", "NaN"]),
    ],
)
def test_what_has_no_end_survives_copy(session: connection, type_: str, texts: list[str]) -> None:
    form = SENT[re.split("[ (]", type_)[0]]
    with session.cursor() as cursor:
        cursor.execute(f"SELECT {form.format(f'v::{type_}')} FROM unnest(%s) AS v", [[*texts, None]])
        expected = [bytes(v) if isinstance(v, memoryview) else v for (v,) in cursor.fetchall()]
    assert copied(session, type_, pa.array([*texts, None]), SENT) == expected


def in_sql(value: Any) -> Any:
    """An element as psycopg2 writes it."""
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    return value.isoformat() if isinstance(value, date | time) else str(value) if value is not None else None


@pytest.mark.parametrize("each", COLUMNS, ids=lambda each: each.name)
@examples(20)
@given(data=st.data())
def test_every_array_survives_copy(session: connection, each: Column, data: st.DataObject) -> None:
    """Postgres's own reading of the texts is the oracle: the same array to the last byte."""
    element = st.none() | st.sampled_from(GOOD[kind(each)]).map(str.encode)
    if each.type.name == "text":
        element |= TEXTS.map(lambda text: json.dumps(text).encode())
    lists = data.draw(st.lists(st.none() | st.lists(element, max_size=9), max_size=6))
    read = json_conversion(kind_of(each)).read
    values = [None if some is None else [None if raw is None else read(raw) for raw in some] for some in lists]
    type_ = ColumnType(f"{each.type.name}[]", each.type.args)
    column = staged(kind_of(replace(each, type=type_)), [None, *values])[1:]  # a slice, too, is read from its start
    form = {type_.sql.split("(")[0].split(" ")[0]: "array_send({})"}
    found = copied(session, type_.sql, column, form)
    with session.cursor() as cursor:
        for stored_array, some in zip(found, values, strict=True):
            texts = None if some is None else list(map(in_sql, some))
            cursor.execute(f"SELECT array_send(%s::text[]::{type_.sql})", [texts])
            ((expected,),) = cursor.fetchall()
            assert stored_array == (expected if expected is None else bytes(expected)), some
    session.rollback()


@examples(50)
@given(
    st.lists(st.none() | st.uuids(), min_size=1, max_size=30),
    st.lists(st.none() | st.dates(), max_size=30),
    st.lists(st.none() | st.times(), max_size=30),
    st.lists(st.none() | st.binary(), max_size=30),
)
def test_uuids_dates_times_and_bytes_survive_copy(
    session: connection,
    uuids: list[UUID | None],
    dates: list[date | None],
    times: list[time | None],
    blobs: list[bytes | None],
) -> None:
    texts = [None if value is None else str(value) for value in uuids]
    column = staged(ColumnKind("uuid", (), ""), uuids)
    assert copied(session, "uuid", column[1:]) == texts[1:]  # a slice, too, is read from its start
    days = [None if value is None else f"{value.isoformat()} AD" for value in dates]
    assert copied(session, "date", pa.array(dates, pa.date32())) == days
    clocks = [time(0), time.max, None, *times]
    assert copied(session, "time without time zone", pa.array(clocks, pa.time64("us"))) == clocks
    assert copied(session, "bytea", pa.array(blobs, pa.binary())) == blobs


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("text", pa.array(["a\0b"])),
        ("jsonb", pa.array(['{"a":}'])),
        ("timestamptz", pa.array([FIRST - 1], pa.timestamp("us", "UTC"))),
        ("timestamptz", pa.array([-(1 << 63)], pa.timestamp("us", "UTC"))),
        ("numeric", pa.array(["1.5", "x"])),
        ("numeric", pa.array(["NaN and more"])),
        ("numeric", pa.array(["1e131072"])),
        ("numeric(12,2)", pa.array(["12345678901.00"])),
        ("numeric(60,2)", pa.array(["1" * 59])),
        ("real", pa.array(["1.5 or so"])),
        ("character varying(3)", pa.array(["abcd"])),
        ("integer", pa.array([1 << 40])),
    ],
)
@pytest.mark.parametrize("binary", [True, False], ids=["binary", "csv"])
def test_what_a_type_cannot_hold_is_refused(session: connection, type_: str, values: pa.Array, binary: bool) -> None:
    with session.cursor() as cursor:
        cursor.execute(f"CREATE TEMP TABLE narrow (v {type_})")
    with pytest.raises((psycopg2.DataError, ValueError)):
        stored_by(session, "narrow", {"v": type_}, pa.table([values], names=["v"]), "v", binary)


def test_a_large_table_arrives_in_pieces(session: connection) -> None:
    texts = [str(place) * 100_000 for place in range(40)]
    table = pa.table(
        [pa.array(range(40), pa.int32()), pa.array(texts), pa.nulls(40, pa.binary())], names=["n", "t", "b"]
    )
    _, pieces = copy_form(TEXTS_TABLE, table, True)
    assert max(map(len, pieces)) < 2_500_000
    assert [row["t"] for row in stored(session, "texts", table, "n")] == texts


NUMERICS = {"numeric(12,4)": (12, 4), "numeric(38,38)": (38, 38), "numeric(76,10)": (76, 10), "numeric": ()}
UNSCALED = [0, 1, -1, 12, -12, 9_999, 10**7 - 1, 1 - 10**7, 2**63 - 1, -(2**63), None]


@pytest.mark.parametrize("type_", NUMERICS)
@pytest.mark.parametrize("scale", [0, 2, 4, 19, 38])
def test_decimals_of_a_schema_have_the_digits_of_their_column(session: connection, type_: str, scale: int) -> None:
    kind = ColumnKind("numeric", NUMERICS[type_], "")
    convert, build = _of(ValueType(TypeName.DECIMAL, "decimal", scale=scale), kind)
    built, flags = build(pa.array(UNSCALED, pa.int64()))
    sure = UNSCALED if flags is None else [value for value, good in zip(UNSCALED, flags, strict=True) if good]
    values = [None if value is None else convert(value) for value in sure]
    places = kind.args[1] if kind.args else scale
    expected = [None if value is None else f"{value:.{places}f}" for value in values]
    column = built if flags is None else built.filter(pa.array(flags))
    assert copied(session, type_, column) == copied(session, type_, staged(kind, values)) == expected
    assert None in values
    assert 0 in values


def _of(source: ValueType, kind: ColumnKind) -> tuple[Any, Any]:
    """How single values of a type become values of a kind, and how a column does."""
    both = conversion(source, kind)
    assert both.build is not None
    return both.convert, both.build


@pytest.mark.parametrize(
    ("source", "values"),
    [
        (ValueType(TypeName.INTEGER, "uint64", 64, signed=False), [0, 2**64 - 1, 2**63, None]),
        (ValueType(TypeName.INTEGER, "int64", 64), [0, -(2**63), 2**63 - 1, -1, None]),
    ],
)
@pytest.mark.parametrize(("type_", "args"), [("numeric", ()), ("numeric(20,0)", (20, 0)), ("numeric(22,2)", (22, 2))])
def test_integers_become_numerics(
    session: connection, source: ValueType, values: list[int | None], type_: str, args: tuple[int, ...]
) -> None:
    _, build = _of(source, ColumnKind("numeric", args, ""))
    built, flags = build(pa.array(values, arrow_type(source)))
    zeros = ".00" if args == (22, 2) else ""
    assert flags is None
    assert copied(session, type_, built) == [None if value is None else f"{value}{zeros}" for value in values]


def test_a_number_has_the_scale_of_its_column(session: connection) -> None:
    literals = ["1.1", "1", "-0.0", "-0", "1e1", "0", "12345.67", "1.230000", "0e-99999"]
    batch = batch_of([value_with("price", literal) for literal in literals])
    found = stored(session, "staged", decode_batch(JsonDecoder(SHAPE, LIMITS), batch).rows, "_offset")
    prices = ["1.10", "1.00", "0.00", "0.00", "10.00", "0.00", "12345.67", "1.23", "0.00"]
    assert [row["price"] for row in found] == prices


@pytest.mark.parametrize(
    ("type_", "form", "bits"),
    [
        ("real", ">f4", ["7fc00000", "ffc00000", "7f800001", "7fc12345", "00000001", "80000001", "80000000"]),
        ("double precision", ">f8", ["7ff8000000000001", "fff8000000000000", "0000000000000001", "8000000000000000"]),
    ],
)
def test_every_nan_is_postgres_own_and_no_other_bit_changes(
    session: connection, type_: str, form: str, bits: list[str]
) -> None:
    floats = np.frombuffer(bytes.fromhex("".join(bits)), form)
    packed = ">f" if type_ == "real" else ">d"
    expected = [struct.pack(packed, float("nan") if value != value else value) for value in floats]
    source = ValueType(TypeName.FLOAT, type_, bits=32 if type_ == "real" else 64)
    _, build = _of(source, ColumnKind(type_, (), ""))
    native = floats.astype(form.replace(">", "<"))
    assert copied(session, type_, build(pa.array(native))[0]) == expected

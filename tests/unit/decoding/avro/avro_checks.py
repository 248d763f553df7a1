"""Schemas and records of Avro for tests, and what each decoder of them must agree on."""

from __future__ import annotations

import json
import math
import struct
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
from hypothesis import HealthCheck
from hypothesis import strategies as st

from offset_ledger.decoding.avro.decoder import avro_decoder
from offset_ledger.decoding.decoder import Decoder
from offset_ledger.decoding.kinds import ColumnKind, kinds, staged_type
from offset_ledger.decoding.outcome import Code, DecodedRow, Reason, Refusal, Skip
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.pipeline_file.json_path import format_path
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, Limits, RecordShape
from tests.examples import examples
from tests.unit.decoding.avro.avro_oracle import Refused, check_document, column_value, document, kind_of, place
from tests.unit.decoding.avro.avro_records import Draw, Written


def record(*fields: Any, name: str = "Order", **more: Any) -> dict[str, Any]:
    """A record with fields f0, f1 and so on, of these types."""
    return {"type": "record", "name": name,
        "fields": [{"name": f"f{n}", "type": type_} for n, type_ in enumerate(fields)], **more}  # fmt: skip


EMPTY = pa.array([], pa.binary())
NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = [
    *("boolean", "integer", "bigint", "numeric", "real", "double precision", "text", "varchar", "date", "time"),
    *("timestamptz", "uuid", "bytea", "jsonb"),
]
LIKELY = {
    "boolean": ["boolean"],
    "int": ["integer", "bigint", "numeric", "real"],
    "long": ["bigint", "numeric", "double precision"],
    "float": ["real", "double precision"],
    "double": ["double precision", "real"],
    "string": ["text", "text", "varchar", "uuid", "bytea", "date"],
    "enum": ["text"],
    "bytes": ["bytea"],
    "fixed": ["bytea", "jsonb"],
    "fixed uuid": ["uuid"],
    "decimal": ["numeric"],
    "date": ["date"],
    "time-millis": ["time"],
    "time-micros": ["time"],
    "timestamp-millis": ["timestamptz"],
    "timestamp-micros": ["timestamptz"],
    "timestamp-nanos": ["timestamptz"],
}
CODES = {"missing": Code.MISSING, "null": Code.NULL, "type": Code.TYPE}
many = examples(150, suppress_health_check=list(HealthCheck))


def schema_of(said: Any) -> WriterSchema:
    """The schema as a registry would give it."""
    return WriterSchema(1, SchemaLanguage.AVRO, json.dumps(said))


def draw_column(draw: Draw, written: Written, index: int) -> Column:
    """A column for one of the schema's places, or for none."""
    places = list(written.places(written.parsed))
    path, said = draw(st.sampled_from(places)) if places else (("none",), {"type": "null"})
    if draw(st.integers(0, 29)) == 0:
        path = (*path, "f0")
    branch = written.resolve(draw(st.sampled_from(said))) if isinstance(said, list) and said else said
    likely = LIKELY.get(kind_of(branch), ["jsonb"]) if isinstance(branch, dict) else ["jsonb"]
    name = draw(st.sampled_from(NAMES if draw(st.integers(0, 9)) == 0 else [*likely * 2, "jsonb"]))
    args = {"varchar": [(3,)], "numeric": [(), (8, 2)]}.get(name, [()])
    return Column(f"c{index}", ColumnType(name, draw(st.sampled_from(args))), path, draw(st.integers(0, 3)) > 0)


def shape_of(columns: tuple[Column, ...]) -> RecordShape:
    """A record whose event is named by its key, and was published when Kafka says."""
    return RecordShape(event_id=None, publish_at=None, columns=columns)


def draw_shape(draw: Draw, written: Written) -> RecordShape:
    """A record of up to four columns, of which some name the event and its moment by a place of the schema too."""
    columns = tuple(draw_column(draw, written, index) for index in range(draw(st.integers(1, 4))))
    found: dict[str, list[tuple[str, ...]]] = {"event_id": [], "publish_at": []}
    for path, said in written.places(written.parsed):
        kind = kind_of(said) if isinstance(said, dict) else ""
        if kind in ("string", "enum", "int", "long", "fixed uuid"):
            found["event_id"].append(path)
        if kind.startswith("timestamp-"):
            found["publish_at"].append(path)
    event_id, publish_at = (draw(st.sampled_from([None, *paths])) for paths in found.values())
    return RecordShape(event_id=event_id, publish_at=publish_at, columns=columns)


def all_columns(record: RecordShape) -> tuple[Column, ...]:
    """The columns, and as columns the places of event id and moment."""
    event_id = Column("event_id", ColumnType("event_id"), record.event_id or ())
    publish_at = Column("publish_at", ColumnType("timestamptz"), record.publish_at or ())
    return tuple(each for each in (event_id, publish_at, *record.columns) if each.path)


def expected(written: Written, value: Any, column: Column) -> Any:
    """What the column holds, of a jsonb the schema and the value; raises Refused."""
    try:
        said, found = place(written, written.parsed, value, column.path)
    except Refused as refused:
        if column.nullable and refused.why in ("missing", "null"):
            return None
        raise
    try:
        if column.type.name == "jsonb":
            check_document(written, said, found, None)
            return said, found
        return column_value(said, found, column.type.name, column.type.args)
    except Refused:
        raise Refused(column.path) from None


def check_row(outcome: Any, written: Written, value: Any, record: RecordShape) -> bool:
    """Check the outcome of a record against the value that was written; whether it is a row."""
    wanted, against = [], set()
    columns = all_columns(record)
    for column in columns:
        try:
            wanted.append(expected(written, value, column))
        except Refused as refused:
            against.add((format_path(refused.path), CODES.get(refused.why)))
    if against:
        assert isinstance(outcome, Refusal), outcome
        known = {path for path, code in against if code is None}
        got = {(reason.path, None if reason.path in known else reason.code) for reason in outcome.reasons}
        assert got == {(path, None if path in known else code) for path, code in against}
        return False
    assert isinstance(outcome, DecodedRow), outcome
    read = [outcome.key[0]] * bool(record.event_id) + [outcome.publish_at] * bool(record.publish_at)
    for column, want, got in zip(columns, wanted, [*read, *outcome.values], strict=True):
        if column.type.name == "jsonb" and want is not None:
            check_document(written, *want, document(got))  # type: ignore[call-arg]
        else:
            assert type(got) is type(want), (column, got, want)
            assert repr(got) == repr(want) or got == want, (column, got, want)
    return True


def check_proven(decoder: Decoder, values: list[bytes]) -> int:
    """Check that what is proven is what ``decode`` says; how many records it is."""
    proven = decoder.prove(pa.array(values, pa.binary()))
    if proven is None:
        return 0
    rows = [decoder.decode(values[place], b"key", NOW) for place in proven.places]
    assert all(isinstance(row, DecodedRow) for row in rows)
    assert all(decoder.decode(values[place], b"key", NOW) == Skip() for place in proven.skipped)
    if not rows:
        return 0
    for slot, kind in list(enumerate(kinds(decoder.record)))[2:]:
        column = proven.columns[slot]
        assert column.type == staged_type(kind)
        assert [plain(each, kind) for each in column.to_pylist()] == [plain(row.values[slot - 2], kind) for row in rows]
    check_slot(proven.columns[0], decoder.record.event_id, [row.key[0] for row in rows])
    check_slot(proven.columns[1], decoder.record.publish_at, [row.publish_at for row in rows])
    return len(rows)


def check_slot(column: pa.Array | None, path: tuple[str, ...] | None, expected: list[Any]) -> None:
    """Check the column of a slot that is Kafka's where there is no path."""
    if path is None:
        assert column is None
    else:
        assert column is not None
        assert column.to_pylist() == expected


def plain(value: Any, kind: ColumnKind) -> Any:
    """A value, or what a staged column has of it, as it can be compared."""
    name = kind.name
    if value is None:
        return None
    if name in ("real", "double precision"):
        return "nan" if math.isnan(float(value)) else struct.pack("<f" if name == "real" else "<d", float(value))
    if name == "jsonb":
        return json.dumps(json.loads(value))
    if name == "numeric":
        return Decimal(value) if kind.args else str(value)
    return value.bytes if isinstance(value, UUID) else value


def spoil(draw: Draw, value: bytes) -> bytes:
    """The bytes with a few of them changed, added or cut."""
    found = bytearray(value)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(len(found) - 1, 0)))
        found[place : place + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return bytes(found)


ENUM = {"type": "enum", "name": "Status", "symbols": ["NEW", "DONE"]}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
INTS = {"type": "array", "items": "int"}
HUGE = b"\xfe" + b"\xff" * 8 + b"\x01"  # 2 to the power of 63, less one
TEXTS = {"type": "map", "values": "string"}


def column(path: str, type_: str = "jsonb", nullable: bool = True) -> Column:
    """A column at a path of plain names."""
    return Column(path.replace(".", "_"), ColumnType(type_), tuple(path.split(".")), nullable)


def decoder(schema: Any, *columns: Column, **more: Any) -> Decoder:
    """The decoder of a record with these columns."""
    return avro_decoder(schema_of(schema), RecordShape(None, None, columns, **more), Limits())


def reasons(schema: Any, value: bytes, *columns: Column) -> list[Reason]:
    """Why a record is refused, which nothing proves."""
    decodes = decoder(schema, *(columns or (column("f0"),)))
    outcome = decodes.decode(value, b"key", NOW)
    assert isinstance(outcome, Refusal), outcome
    assert check_proven(decodes, [value]) == 0
    return list(outcome.reasons)


BOMBS: list[tuple[Any, bytes]] = [
    ({"type": "array", "items": "null"}, HUGE),
    ({"type": "array", "items": "null"}, b"\xff" * 9 + b"\x01\x00"),
    ({"type": "array", "items": record(name="Empty")}, b"\xfe\xff\xff\xff\x0f\x00"),
    ({"type": "array", "items": record(*["null"] * 900, name="Wide")}, b"\xc0\x9a\x0c\x00"),
    ({"type": "array", "items": {"type": "fixed", "name": "None", "size": 0}}, b"\xfe\xff\xff\xff\x0f"),
    ({"type": "array", "items": "int"}, b"\xfe\xff\xff\xff\x0f"),
    ({"type": "map", "values": "null"}, b"\xfe\xff\xff\xff\x0f"),
]

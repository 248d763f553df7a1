"""What fastavro writes is read exactly, and nothing else is read at all."""

from __future__ import annotations

import copy
import json
import math
import struct
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from offset_ledger.decoding.avro.decoder import avro_decoder
from offset_ledger.decoding.decoder import Decoder
from offset_ledger.decoding.kinds import ColumnKind, kinds, staged_type
from offset_ledger.decoding.outcome import Code, DecodedRow, Refusal, Skip
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.pipeline_file.json_path import format_path
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, FieldCondition, Limits, RecordShape
from tests.examples import examples
from tests.unit.decoding.avro.avro_oracle import Refused, check_document, column_value, document, kind_of, place
from tests.unit.decoding.avro.avro_records import Draw, Written, schemas

pytestmark = pytest.mark.filterwarnings("ignore")  # fastavro's about logical types that it ignores

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


def draw_condition(draw: Draw, written: Written, value: Any) -> FieldCondition:
    """A condition on one of the schema's places that may hold of the value."""
    path, _ = draw(st.sampled_from([*written.places(written.parsed), (("none",), None)]))
    equals = draw(st.sampled_from(["", "a", True, False, 0, 1]))
    try:
        _, found = place(written, written.parsed, value, path)
    except Refused:
        return FieldCondition(path, equals)
    own = isinstance(found, str | bool | int) and not (isinstance(found, int) and found >> 63 not in (0, -1))
    return FieldCondition(path, found if own and draw(st.booleans()) else equals)


def is_wanted(written: Written, value: Any, condition: FieldCondition) -> bool | None:
    """Whether the condition holds of the value, None where that cannot be told."""
    name = {str: "text", bool: "boolean"}.get(type(condition.equals), "bigint")
    try:
        is_equal = column_value(*place(written, written.parsed, value, condition.path), name) == condition.equals
        return bool(is_equal) is not condition.negated
    except Refused as refused:
        return condition.negated if refused.why in ("missing", "null") else None


@many
@given(st.data())
def test_takes_exactly_the_records_of_which_a_condition_holds(data: st.DataObject) -> None:
    schema = data.draw(schemas(flat=data.draw(st.booleans())))
    written = Written(copy.deepcopy(schema))
    values = [written.value(data.draw, written.parsed) for _ in range(data.draw(st.integers(1, 6)))]
    conditions = [draw_condition(data.draw, written, values[0]) for _ in range(data.draw(st.integers(1, 2)))]
    conditions = [replace(each, negated=data.draw(st.booleans())) for each in conditions]
    record = replace(draw_shape(data.draw, written), where=tuple(conditions))
    decoder = avro_decoder(schema_of(schema), record, Limits())
    records = [written.write(value) for value in values]
    for value, each in zip(values, records, strict=True):
        outcome = decoder.decode(each, b"key", NOW)
        wanted = [is_wanted(written, value, each) for each in conditions]
        if False in wanted:
            assert outcome == Skip()
        elif None in wanted:
            assert isinstance(outcome, Refusal)
        else:
            check_row(outcome, written, value, record)
    check_proven(decoder, records + [spoil(data.draw, each) for each in records if data.draw(st.booleans())])


@many
@given(st.data())
def test_decodes_exactly_what_was_written(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    written = Written(copy.deepcopy(schema))
    record = draw_shape(data.draw, written)
    decoder = avro_decoder(schema_of(schema), record, Limits())
    for _ in range(3):
        value = written.value(data.draw, written.parsed)
        check_row(decoder.decode(written.write(value), b"key", NOW), written, value, record)


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


SURE = {
    "string": ["text", "varchar"], "int": ["integer", "bigint", "numeric", "jsonb"], "long": ["bigint", "numeric"],
    "double": ["double precision", "jsonb"], "fixed": ["bytea", "jsonb"],
}  # fmt: skip


@many
@given(st.data())
def test_proves_all_flat_records_that_are_rows(data: st.DataObject) -> None:
    schema = data.draw(schemas(flat=True))
    written = Written(copy.deepcopy(schema))
    columns = []
    for index, (path, said) in enumerate(written.places(written.parsed)):
        inner = next((each for each in said if each != "null"), "null") if isinstance(said, list) else said
        kind = kind_of(written.resolve(inner))
        for name in SURE.get(kind, [*LIKELY.get(kind, []), "jsonb"]):
            columns.append(
                Column(
                    f"c{index}_{name}",
                    ColumnType(name, (6,) if name == "varchar" else ()),
                    path,
                    data.draw(st.booleans()),
                )
            )
    decoder = avro_decoder(schema_of(schema), shape_of(tuple(columns)), Limits())
    values = [written.write(written.value(data.draw, written.parsed)) for _ in range(data.draw(st.integers(1, 6)))]
    rows = [isinstance(decoder.decode(value, b"key", NOW), DecodedRow) for value in values]
    assert check_proven(decoder, values) == sum(rows)


@many
@given(st.data())
def test_proves_only_what_is_decoded(data: st.DataObject) -> None:
    schema = data.draw(schemas(flat=data.draw(st.booleans())))
    written = Written(copy.deepcopy(schema))
    record = draw_shape(data.draw, written)
    decoder = avro_decoder(schema_of(schema), record, Limits())
    values = [written.write(written.value(data.draw, written.parsed)) for _ in range(data.draw(st.integers(0, 6)))]
    values += [spoil(data.draw, value) for value in values if data.draw(st.booleans())]
    proven = check_proven(decoder, values)
    if decoder.prove(EMPTY) is not None:
        with_nulls = pa.array([None, b"", *values, None], pa.binary())
        within = decoder.prove(with_nulls.slice(2, len(values)))
        around = decoder.prove(with_nulls)
        assert within is not None
        assert around is not None
        assert len(within.places) == proven
        assert [place - 2 for place in around.places if place > 1] == within.places.tolist()


def spoil(draw: Draw, value: bytes) -> bytes:
    """The bytes with a few of them changed, added or cut."""
    found = bytearray(value)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(len(found) - 1, 0)))
        found[place : place + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return bytes(found)

"""What fastavro writes is read exactly, and nothing else is read at all."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.decoding.avro.decoder import avro_decoder
from offset_ledger.decoding.outcome import DecodedRow, Refusal, Skip
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, FieldCondition, Limits
from tests.unit.decoding.avro.avro_checks import (
    EMPTY,
    LIKELY,
    NOW,
    check_proven,
    check_row,
    draw_shape,
    many,
    schema_of,
    shape_of,
    spoil,
)
from tests.unit.decoding.avro.avro_oracle import Refused, column_value, kind_of, place
from tests.unit.decoding.avro.avro_records import Draw, Written, schemas

pytestmark = pytest.mark.filterwarnings("ignore")  # fastavro's about logical types that it ignores


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

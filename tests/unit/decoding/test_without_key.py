"""Rows that are appended have no key: of each format the declared columns and the moment alone are read."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from offset_ledger.decoding.arrow import decode_batch
from offset_ledger.decoding.outcome import DecodedRow
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, FieldCondition
from tests.fixtures.formats import TestFormat
from tests.unit.decoding.batches import batch_of
from tests.unit.decoding.test_where import AMOUNT, DOCUMENTS, FORMATS, KAFKA_TIME, made

ID = Column("id", ColumnType("text"), ("id",))
WITHOUT_KEY = {"event_id": None, "append": True, "columns": (ID, AMOUNT)}


@FORMATS
@pytest.mark.parametrize("where", [(), (FieldCondition(("id",), "e1"),)])
def test_a_row_is_the_moment_and_the_declared_columns(form: TestFormat, where: tuple[FieldCondition, ...]) -> None:
    decoder, values = made(form, **WITHOUT_KEY, where=where)
    expected = {
        place: (each["id"], each.get("amount"))
        for place, each in enumerate(DOCUMENTS)
        if all(each["id"] == condition.equals for condition in where)
    }
    alone = [decoder.decode(value, None, KAFKA_TIME) for value in values]
    decoded = {n: each for n, each in enumerate(alone) if isinstance(each, DecodedRow)}
    assert {n: each.values for n, each in decoded.items()} == expected
    assert {(each.key, each.publish_at, each.deleted) for each in decoded.values()} == {((), KAFKA_TIME, False)}
    batch = decode_batch(decoder, batch_of(list(values)))
    assert batch.rows.column_names[:3] == ["publish_at", "id", "amount"]
    rows = {row["_offset"] - 100: (row["id"], row["amount"]) for row in batch.rows.to_pylist()}
    assert (rows, batch.refusals.num_rows) == (expected, 0)
    proven = decoder.prove(pa.array(values, pa.binary()))
    assert proven is not None
    assert proven.places.tolist() == list(expected)


@FORMATS
def test_a_tombstone_and_a_value_that_is_no_record_are_refused(form: TestFormat) -> None:
    decoder, values = made(form, **WITHOUT_KEY)
    batch = decode_batch(decoder, batch_of([values[0], None, b"\xff"]))
    assert [row["_offset"] - 100 for row in batch.rows.to_pylist()] == [0]
    reasons = {row["_offset"] - 100: json.loads(row["reasons"])[0]["code"] for row in batch.refusals.to_pylist()}
    assert (set(reasons), reasons[1]) == ({1, 2}, "tombstone")


def test_the_moment_may_be_a_value_of_the_record() -> None:
    decoder, _ = made(FORMATS.args[1][0], **WITHOUT_KEY | {"publish_at": ("at",)})
    value = b'{"id": "a", "at": "2026-01-01T00:00:00Z", "amount": 1}'
    (row,) = decode_batch(decoder, batch_of([value])).rows.to_pylist()
    assert (row["publish_at"], row["id"], row["amount"]) == (datetime(2026, 1, 1, tzinfo=UTC), "a", 1)

"""A pipeline reads what is published by a schema as the same rows as what is published as JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from offset_ledger.decoding.formats import compile_decoder
from offset_ledger.decoding.outcome import DecodedRow
from offset_ledger.decoding.subjects import LANGUAGES
from offset_ledger.model.writer_schema import WriterSchema
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, Limits, RecordShape
from offset_ledger.pipeline_file.source import Format, Source, SubjectStrategy
from offset_ledger_kit.publishing.disturbances import Disturbance, plan_events
from offset_ledger_kit.publishing.formats.framing import framed
from offset_ledger_kit.publishing.formats.registered import compile_codec
from offset_ledger_kit.publishing.forms import Form
from offset_ledger_kit.publishing.record_file import RecordFile
from offset_ledger_kit.publishing.serializers import STRING
from tests.fixtures.flights_schemas import AVRO, JSON_SCHEMA, PROTOBUF

NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
COLUMNS = (
    Column("status", ColumnType("text"), ("status",)),
    Column("number", ColumnType("integer"), ("flight", "number")),
    Column("tailnum", ColumnType("text"), ("flight", "tailnum"), nullable=True),
    Column("day", ColumnType("date"), ("schedule", "date")),
    Column("dep", ColumnType("timestamptz"), ("schedule", "dep"), encoding="rfc3339"),
    Column("distance", ColumnType("bigint"), ("distance",)),
    Column("arr_delay", ColumnType("integer"), ("actual", "arr_delay"), nullable=True),
)
SHAPE = RecordShape(("event_id",), ("publish_at",), COLUMNS)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("flights") / "flights.jsonl"
    events = [each.record.value or b"" for each in plan_events(5, 200) if each.kind is Disturbance.EVENT]
    path.write_bytes(b"\n".join(events))
    return path


@pytest.mark.parametrize(
    ("format_", "text", "message"),
    [(Format.AVRO, AVRO, None), (Format.PROTOBUF, PROTOBUF, "flights.Event"), (Format.JSON_SCHEMA, JSON_SCHEMA, None)],
)
def test_the_rows_are_those_of_json(file: Path, format_: Format, text: str, message: str | None) -> None:
    json = compile_decoder(Source("k", "t"), SHAPE, Limits())
    expected = [json.decode(each.value, None, NOON) for each in RecordFile(file).records()]
    assert all(isinstance(row, DecodedRow) for row in expected)
    schema = WriterSchema(300, LANGUAGES[format_], text)
    form = Form(STRING, framed(str(format_), schema, compile_codec(schema, message)))
    values = [each.value for each in RecordFile(file, form=form).records()]
    source = Source("k", "t", format=format_, registry="r", subject=SubjectStrategy.ANY)
    decoder = compile_decoder(source, SHAPE, Limits(), lambda _: {300: schema})
    assert [decoder.decode(value, None, NOON) for value in values] == expected
    proven = decoder.prove(pa.array(values, pa.binary()))
    assert proven is not None
    assert [*proven.places] == [*range(len(values))]

"""Files of records with a schema: each bad line is named, what is missing is stamped, CSV is typed."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest

from offset_ledger.errors import RecordFileError
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger_kit.publishing.formats.framing import framed
from offset_ledger_kit.publishing.formats.registered import compile_codec
from offset_ledger_kit.publishing.forms import Form
from offset_ledger_kit.publishing.record_file import RecordFile
from offset_ledger_kit.publishing.serializers import DOUBLE, JSON, STRING, SchemaSerializer

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FIELDS: dict[str, Any] = {
    "event_id": "string",
    "publish_at": {"type": "long", "logicalType": "timestamp-millis"},
    "seats": ["null", "int"],
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2},
    "note": ["null", "string"],
    "late": "boolean",
}
AVRO = {"type": "record", "name": "Flight", "fields": [{"name": name, "type": said} for name, said in FIELDS.items()]}
PROTO = """syntax = "proto3"; import "google/protobuf/timestamp.proto"; message Flight {
  string event_id = 1; google.protobuf.Timestamp publish_at = 2; optional int32 seats = 3; double price = 4;
  string note = 5; bool late = 6; }"""


def avro(said: Any) -> SchemaSerializer:
    schema = WriterSchema(9, SchemaLanguage.AVRO, json.dumps(said))
    return framed("avro", schema, compile_codec(schema))


def protobuf(text: str) -> SchemaSerializer:
    schema = WriterSchema(9, SchemaLanguage.PROTOBUF, text)
    return framed("protobuf", schema, compile_codec(schema))


FORM = Form(STRING, avro(AVRO), clock=lambda: NOON, stamp_values=True)


def written(folder: Path, text: str, name: str = "records.jsonl") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def values(file: RecordFile) -> list[Any]:
    return [fastavro.schemaless_reader(io.BytesIO((each.value or b"")[5:]), AVRO, None) for each in file.records()]


LINE = {"event_id": "e", "publish_at": "2026-01-01T00:00:00Z", "seats": 5, "note": None, "late": False}
NUMBERS = '"price": 1234567890123456.78}'


def test_a_line_is_written_to_the_last_digit(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps(LINE)[:-1] + ", " + NUMBERS + "\n")
    (record,) = RecordFile(path, form=FORM, key=("event_id",)).records()
    (value,) = values(RecordFile(path, form=FORM))
    assert value == LINE | {"publish_at": datetime(2026, 1, 1, tzinfo=UTC), "price": Decimal("1234567890123456.78")}
    assert record.headers == (("event_id", b"e"), ("publish_at", b"2026-01-01T00:00:00Z"))
    assert (record.key, (record.value or b"")[:5]) == (b"e", b"\0\0\0\0\x09")


def test_what_is_missing_is_stamped_the_same_in_every_reading(tmp_path: Path) -> None:
    path = written(tmp_path, '{"seats": null, "note": null, "late": true, "price": 1}\n' * 2)
    file = RecordFile(path, form=FORM)
    first, second = values(file)
    assert first["publish_at"] == NOON
    assert [each["event_id"] for each in values(file)] == [first["event_id"], second["event_id"]]
    assert first["event_id"] != second["event_id"]
    headers = [dict(record.headers) for record in file.records()]
    assert [each["event_id"].decode() for each in headers] == [first["event_id"], second["event_id"]]
    assert {each["publish_at"] for each in headers} == {b"2026-01-01T12:00:00.000Z"}


def test_a_schema_without_these_fields_gets_headers_alone(tmp_path: Path) -> None:
    said = {"type": "record", "name": "R", "fields": [{"name": "publish_at", "type": "long"}]}
    (record,) = RecordFile(written(tmp_path, '{"publish_at": 5}'), form=Form(STRING, avro(said))).records()
    assert record.value == b"\0\0\0\0\x09\x0a"
    assert dict(record.headers)["publish_at"] == b"5"
    with pytest.raises(RecordFileError, match=r"1: avro: \$\.publish_at: expected a value, found none"):
        RecordFile(written(tmp_path, "{}"), form=Form(STRING, avro(said))).check()


def test_every_bad_line_is_named_with_its_path(tmp_path: Path) -> None:
    good = json.dumps(LINE)[:-1]
    lines = [
        good + ', "price": 0.125}', good + ', "price": 1}', good + ', "price": 1, "more": 1}', good + ', "late": 1}',
        good.replace("5", '"5"') + ', "price": 1}', good + ', "price": NaN}', "[]", good + "}",
    ]  # fmt: skip
    with pytest.raises(RecordFileError) as caught:
        RecordFile(written(tmp_path, "\n".join(lines)), form=FORM).check()
    assert [problem.replace(str(tmp_path), "") for problem in caught.value.problems] == [
        "/records.jsonl:1: avro: $.price: expected decimal(18,2), found 0.125",
        "/records.jsonl:3: avro: $.more: expected a field of Flight, found none of this name",
        "/records.jsonl:4: is no JSON ('late' is twice in one object)",
        "/records.jsonl:5: avro: $.seats: expected int, found '5'",
        "/records.jsonl:6: is no JSON (NaN is no number of JSON)",
        "/records.jsonl:7: should be one JSON object in one line",
        "/records.jsonl:8: avro: $.price: expected a value, found none, and the schema has no default",
    ]


CSV = "event_id,publish_at,seats,price,note,late\ne,2026-01-01T00:00:00Z,5,12.50,,true\n7,0,,3,x,false\n"


def test_rows_of_csv_are_typed_by_the_schema(tmp_path: Path) -> None:
    first, second = values(RecordFile(written(tmp_path, CSV, "r.csv"), "csv", FORM))
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert first == {"event_id": "e", "publish_at": at, "seats": 5, "price": Decimal("12.50"), "note": "", "late": True}
    assert second["publish_at"] == datetime(1970, 1, 1, tzinfo=UTC)
    assert (second["event_id"], second["seats"], second["price"], second["note"]) == ("7", None, Decimal("3.00"), "x")
    bad = CSV.replace("12.50", "1.2.3").replace("false", "no")
    with pytest.raises(RecordFileError) as caught:
        RecordFile(written(tmp_path, bad, "r.csv"), "csv", FORM).check()
    assert [problem.partition(".csv:")[2] for problem in caught.value.problems] == [
        "2: avro: $.price: expected decimal(18,2), found '1.2.3'",
        "3: avro: $.late: expected boolean, found 'no'",
    ]


def test_rows_of_csv_become_messages_of_protobuf(tmp_path: Path) -> None:
    made = protobuf(PROTO)
    path = written(tmp_path, CSV.replace("\n7,0,", "\n7,1970-01-01T00:00:00Z,"), "r.csv")
    first, second = (made.deserialize(each.value) for each in RecordFile(path, "csv", Form(STRING, made)).records())
    assert first == {
        "event_id": "e", "publish_at": "2026-01-01T00:00:00Z", "seats": 5, "price": 12.5, "note": "", "late": True,
    }  # fmt: skip
    assert "seats" not in second
    with pytest.raises(RecordFileError, match=r"r\.csv:2: protobuf: \$\.price: expected double, found ''"):
        RecordFile(written(tmp_path, CSV.replace("12.50", ""), "r.csv"), "csv", Form(STRING, made)).check()


def test_keys_have_schemas_of_their_own(tmp_path: Path) -> None:
    path = written(tmp_path, '{"id": 5, "event_id": "e", "publish_at": 1, "x": [1.5]}\n')
    file = RecordFile(path, form=Form(avro("long"), JSON), key=("id",))
    (record,) = file.records()
    assert (record.key, record.value) == (b"\0\0\0\0\x09\x0a", path.read_bytes().strip())
    (part,) = RecordFile(path, form=Form(avro("long"), JSON), key=("id",), value=("x",)).records()
    assert part.value == b"[1.5]"
    with pytest.raises(RecordFileError, match=r"1: avro: \$: expected string, found 5"):
        RecordFile(path, form=Form(avro("string"), JSON), key=("id",)).check()
    rows = written(tmp_path, "id,x\n5,1.5\n", "r.csv")
    (row,) = RecordFile(rows, "csv", Form(avro("long"), DOUBLE), key=("id",), value=("x",)).records()
    assert (row.key, row.value) == (record.key, DOUBLE.serialize(1.5))


def test_a_null_is_a_tombstone(tmp_path: Path) -> None:
    path = written(tmp_path, '{"id": 5, "v": null}\n')
    (record,) = RecordFile(path, form=Form(avro("long"), avro(AVRO)), key=("id",), value=("v",)).records()
    assert (record.key, record.value) == (b"\0\0\0\0\x09\x0a", None)


def test_the_identity_names_the_schemas() -> None:
    assert (Form().identity, Form(STRING, JSON).identity) == ("", "")
    assert Form(avro("long"), avro(AVRO)).identity == "key avro 0000000009 \nvalue avro 0000000009 \n"

"""Typed values, stamps and files of records."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.errors import RecordFileError, UnserializableValue
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.pipeline import JsonPath
from offset_ledger_kit.publishing.forms import Form
from offset_ledger_kit.publishing.record_file import RecordFile
from offset_ledger_kit.publishing.serializers import (
    BYTES,
    DOUBLE,
    INTEGER,
    JSON,
    LONG,
    SERIALIZERS,
    SHORT,
    STRING,
    Serializer,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FORM = Form(new_id=lambda: "new", clock=lambda: NOON, stamp_values=True)
STAMPS = (("event_id", b"new"), ("publish_at", b"2026-01-01T12:00:00.000Z"))


@pytest.mark.parametrize(
    ("serializer", "value", "data"),
    [
        (STRING, "\u00e4\u20ac", b"\xc3\xa4\xe2\x82\xac"), (SHORT, -2, b"\xff\xfe"),
        (INTEGER, 258, b"\x00\x00\x01\x02"), (LONG, -1, b"\xff" * 8), (DOUBLE, 1.5, b"\x3f\xf8" + b"\x00" * 6),
        (DOUBLE, 2**53, b"\x43\x40" + b"\x00" * 6), (BYTES, b"\x00\xff", b"\x00\xff"),
        (JSON, {"a": ["\u00e4", 1, None]}, b'{"a":["\xc3\xa4",1,null]}'), (LONG, None, None),
    ],
)  # fmt: skip
def test_values_have_kafkas_own_forms(serializer: Serializer, value: Any, data: bytes | None) -> None:
    assert serializer.serialize(value) == data
    assert serializer.deserialize(data) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("string", 5), ("string", "\ud800"), ("short", 2**15), ("integer", True), ("integer", 1.0), ("long", 2**63),
        ("double", "1"), ("double", 2**53 + 1), ("double", 10**400), ("bytes", "text"), ("json", float("nan")),
        ("json", b"x"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(name: str, value: Any) -> None:
    with pytest.raises(UnserializableValue, match=f"^{name} takes "):
        SERIALIZERS[name].serialize(value)


@pytest.mark.parametrize(
    ("name", "data"),
    [("string", b"\xff"), ("short", b"123"), ("integer", b""), ("long", b"1234"), ("double", b"1"), ("json", b"NaN")],
)
def test_bytes_of_another_form_are_refused(name: str, data: bytes) -> None:
    with pytest.raises(UnserializableValue, match=f"^{name} is "):
        SERIALIZERS[name].deserialize(data)


@given(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text())
def test_values_come_back(number: int, double: float, text: str) -> None:
    assert LONG.deserialize(LONG.serialize(number)) == number
    assert DOUBLE.deserialize(DOUBLE.serialize(double)) == double
    assert JSON.deserialize(JSON.serialize([text, number])) == [text, number]


def test_an_object_is_stamped_where_it_lacks_something() -> None:
    record = FORM.record("k", {"a": 1}, [("trace", b"t")])
    assert record.value == b'{"a":1,"event_id":"new","publish_at":"2026-01-01T12:00:00.000Z"}'
    assert (record.key, record.headers) == (b"k", (("trace", b"t"), *STAMPS))
    kept = FORM.record("k", {"event_id": 7, "publish_at": "then"}, timestamp_ms=5, partition=1, topic="t")
    assert kept == Record(
        b"k", b'{"event_id":7,"publish_at":"then"}', (("event_id", b"7"), ("publish_at", b"then")), 5, 1, "t"
    )


def test_headers_that_are_there_are_kept_and_used() -> None:
    record = FORM.record(None, {}, [("event_id", b"mine")])
    assert json.loads(record.value or b"")["event_id"] == "mine"
    assert record.headers == (("event_id", b"mine"), STAMPS[1])


@pytest.mark.parametrize(("value", "headers"), [({}, [("event_id", b"\xff")]), ({"event_id": "\ud800"}, [])])
def test_a_stamp_that_is_no_utf_8_is_refused(value: dict[str, str], headers: list[tuple[str, bytes]]) -> None:
    with pytest.raises(UnserializableValue, match="event_id and publish_at should be UTF-8"):
        FORM.record("k", value, headers)


def test_other_values_are_stamped_in_the_headers_alone() -> None:
    assert Form(LONG, DOUBLE, FORM.new_id, FORM.clock).record(5, 1.5) == Record(
        LONG.serialize(5), DOUBLE.serialize(1.5), STAMPS
    )


def test_values_stay_as_they_are_unless_they_are_to_be_stamped() -> None:
    untouched = Form(new_id=FORM.new_id, clock=FORM.clock)
    assert untouched.record("k", {"a": 1}) == Record(b"k", b'{"a":1}', STAMPS)
    given = untouched.record("k", {"event_id": 7, "publish_at": None})
    assert (given.value, given.headers) == (b'{"event_id":7,"publish_at":null}', (("event_id", b"7"), STAMPS[1]))


# -- files -----------------------------------------------------------------------------------------------------


def written(folder: Path, text: str | bytes, name: str = "records.jsonl") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_complete_line_is_published_unchanged(tmp_path: Path) -> None:
    line = (
        b'{"event_id": "e", "publish_at":"2026-01-01T00:00:00Z", "amount": 1.10, "n": 123456789012345678901234567890}'
    )
    path = written(tmp_path, line + b"\n\n  " + line.replace(b'"e"', b"7") + b"\r\n")
    records = list(RecordFile(path, key=("event_id",), form=Form(JSON)).records())
    assert [record.value for record in records] == [line, line.replace(b'"e"', b"7")]
    assert [record.key for record in records] == [b'"e"', b"7"]
    assert [dict(record.headers)["event_id"] for record in records] == [b"e", b"7"]


def test_a_stamped_line_keeps_its_numbers_and_its_id_from_one_reading_to_the_next(tmp_path: Path) -> None:
    path = written(tmp_path, '{"a": 1.10}\n{"a": 1.10}\n')
    file = RecordFile(path, form=FORM)
    first, second = (record.value or b"" for record in file.records())
    assert first.startswith(b'{"a": 1.10,"event_id":"')
    ids = [json.loads(value)["event_id"] for value in (first, second)]
    assert len({uuid.UUID(text) for text in ids}) == 2
    assert list(file.records()) == list(file.records())


@pytest.mark.parametrize("stamps", [False, True])
@pytest.mark.parametrize("name", ["r.csv", "r.jsonl"])
def test_an_empty_event_id_is_one_that_is_missing(tmp_path: Path, name: str, stamps: bool) -> None:
    path = written(tmp_path, "event_id,n\n,1\n" if name == "r.csv" else '{"event_id": "", "n": 1}\n', name)
    file = RecordFile(path, path.suffix[1:], Form(clock=FORM.clock, stamp_values=stamps))
    (record,) = file.records()
    stamped = dict(record.headers)["event_id"].decode()
    assert uuid.UUID(stamped).version == 5
    assert json.loads(record.value or b"")["event_id"] == (stamped if stamps else "")
    assert list(file.records()) == [record]
    by_form = Form(stamp_values=stamps).record(None, {"event_id": ""})
    if stamps:
        assert json.loads(by_form.value or b"")["event_id"] == dict(by_form.headers)["event_id"].decode()


@pytest.mark.parametrize("value", [None, ("body",)])
def test_a_line_is_published_unchanged_where_only_headers_are_stamped(tmp_path: Path, value: JsonPath | None) -> None:
    line = '{"body": {"a": "x", "event_id": null}}'
    file = RecordFile(written(tmp_path, line + "\n"), form=Form(clock=FORM.clock), value=value)
    (record,) = file.records()
    assert record.value == (line if value is None else '{"a":"x","event_id":null}').encode()
    assert uuid.UUID(dict(record.headers)["event_id"].decode()).version == 5
    assert list(file.records()) == [record]


def test_parts_of_a_line_with_types(tmp_path: Path) -> None:
    path = written(tmp_path, '{"id": 5, "body": {"x": 1.5}}\n{"id": 6, "body": {"x": null}}\n')
    records = list(RecordFile(path, form=Form(LONG, DOUBLE), key=("id",), value=("body", "x")).records())
    assert [(record.key, record.value) for record in records] == [
        (LONG.serialize(5), DOUBLE.serialize(1.5)),
        (LONG.serialize(6), None),
    ]


def test_csv_rows(tmp_path: Path) -> None:
    path = written(tmp_path, 'id,text,raw\n1,"two\nlines",AP8=\n\n2,"a ""b""",\n', "r.csv")
    records = list(RecordFile(path, "csv", FORM, key=("id",)).records())
    assert [(record.key, json.loads(record.value or b"")["text"]) for record in records] == [
        (b"1", "two\nlines"),
        (b"2", 'a "b"'),
    ]
    typed = list(RecordFile(path, "csv", Form(SHORT, BYTES), ("id",), ("raw",)).records())
    assert [(record.key, record.value) for record in typed] == [(b"\x00\x01", b"\x00\xff"), (b"\x00\x02", b"")]


def test_a_stamp_takes_nothing_from_a_line(tmp_path: Path) -> None:
    path = written(tmp_path, '{"a": 1, "a": 2}\n{}\n{"event_id": null, "publish_at": "x", "b": 1.0}\n')
    twice, empty, null = (record.value or b"" for record in RecordFile(path, form=FORM).records())
    assert twice.startswith(b'{"a": 1, "a": 2,"event_id":"')  # for the pipeline to refuse, not for us to choose
    assert json.loads(empty).keys() == {"event_id", "publish_at"}
    assert (null.count(b"event_id"), json.loads(null)["b"], json.loads(null)["publish_at"]) == (1, 1.0, "x")


def test_a_file_without_a_last_line_end_is_the_same_when_it_has_grown(tmp_path: Path) -> None:
    readings = []
    for text in ('{"n": 1}\n{"n": 2}', '{"n": 1}\n{"n": 2}\n{"n": 3}'):
        digest = hashlib.sha256()
        records = RecordFile(written(tmp_path, text), form=FORM).records(digest)
        readings.append((next(records), next(records), digest.hexdigest()))
    assert readings[0] == readings[1]


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    csv = RecordFile(written(tmp_path, b"\xef\xbb\xbfid\r\n7\r\n", "r.csv"), "csv", FORM, key=("id",))
    assert [record.key for record in csv.records()] == [b"7"]
    line = b'{"event_id": 1, "publish_at": "x"}'
    assert [record.value for record in RecordFile(written(tmp_path, b"\xef\xbb\xbf" + line)).records()] == [line]


def test_a_field_of_csv_may_be_as_long_as_a_record(tmp_path: Path) -> None:
    path = written(tmp_path, f"a\n{'x' * 500_000}\n", "r.csv")
    assert len(next(RecordFile(path, "csv").records()).value or b"") > 500_000


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RecordFileError, match="is a pipe, and is read more than once"):
        RecordFile(tmp_path / "pipe").check()


@pytest.mark.parametrize(
    ("text", "more", "lines"),
    [
        ('{"k": 1}\n{"k": \n[1]\n"x"\n', {}, ["2: is no JSON", "3: should be one JSON object", "4: should be one"]),
        ('{"k": 1}\n{"j": 1}\n{"k": null}\n', {"key": ("k",)},
         ["1: string takes a text, found 1", "2: has no key at $.k", "3: has null as its key at $.k"]),
        ('{"k": "x"}\n{"k": 70000}\n', {"value": ("k",), "form": Form(value=SHORT)},
         ["1: short takes a whole number of 16 bits, found 'x'", "2: short takes"]),
        ('{"event_id": [1]}\n', {}, ["1: event_id and publish_at should be texts"]),
        (b'{"k": "\xff"}\n', {}, ["1: is no JSON"]),
        ("a,b\n1,2\n1\n1,2,3\n", {"format": "csv"}, ["3: should have the 2 fields", "4: should have the 2 fields"]),
        ('a\nb\n"x', {"format": "csv"}, ["3: is no CSV (unexpected end of data)"]),
        (b"a\nb\n\xff\n", {"format": "csv"}, ["3: is no CSV (not UTF-8 at byte 0)"]),
        ("a,b,a\n1,2,3\n", {"format": "csv"}, ["1: is no CSV (line 1 has 'a' twice)"]),
        ('{"a": ' + "[" * 20_000 + "]" * 20_000 + "}\n", {}, ["1: is no JSON (maximum recursion depth exceeded"]),
        ("a\nx\n", {"format": "csv", "key": ("a",), "form": Form(LONG)},
         ["2: should have a whole number of 64 bits, found 'x'"]),
        ("a\n*\n", {"format": "csv", "value": ("a",), "form": Form(value=BYTES)}, ["2: should have base64"]),
    ],
)  # fmt: skip
def test_every_bad_line_is_named(tmp_path: Path, text: str | bytes, more: dict[str, Any], lines: list[str]) -> None:
    path = written(tmp_path, text)
    with pytest.raises(RecordFileError) as caught:
        RecordFile(path, **more).check()
    problems = caught.value.problems
    assert len(problems) == len(lines), problems
    assert all(one.startswith(f"{path}:{begin}") for one, begin in zip(problems, lines, strict=True)), problems


def test_many_bad_lines_are_counted_and_no_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(RecordFileError) as caught:
        RecordFile(written(tmp_path, "x\n" * 50)).check()
    assert (len(caught.value.problems), caught.value.problems[-1]) == (21, "... and 30 lines more")
    with pytest.raises(RecordFileError, match="cannot be read"):
        RecordFile(tmp_path / "none.jsonl").check()


def test_the_digest_is_of_the_lines_up_to_the_record(tmp_path: Path) -> None:
    lines = [b'{"n": %d}\n' % n for n in range(5)]
    digest = hashlib.sha256()
    records = RecordFile(written(tmp_path, b"".join(lines))).records(digest)
    for n in range(1, 5):
        next(records)
        assert digest.digest() == hashlib.sha256(b"".join(lines[:n])).digest()


def test_a_file_that_changes_after_its_check_is_noticed(tmp_path: Path) -> None:
    path = written(tmp_path, '{"event_id": 1}\n{"event_id": 2}\n')
    checked = RecordFile(path, form=FORM).check()
    both = list(checked.read())
    written(tmp_path, '{"event_id": 1}\n{"event_id": 2}\n{"event_id": 3}\n')
    assert (checked.records, list(checked.read())) == (2, both)
    written(tmp_path, '{"event_id": 1}\n')
    with pytest.raises(RecordFileError, match="had 2 records when it was checked and has 1"):
        list(checked.read())

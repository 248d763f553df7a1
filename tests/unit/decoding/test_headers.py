"""Kafka headers through the JSON that is kept of them, and the coordinates of dead letters."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offset_ledger.decoding.headers import HEADERS, headers_json, kafka_headers, wrong_names
from offset_ledger.postgres.ledger.dead_letters import RecordPosition
from offset_ledger.steps.report.dead_letters import source_position

ONE = st.tuples(st.text(), st.one_of(st.none(), st.binary(), st.text().map(str.encode)))


@settings(deadline=None)
@given(st.lists(st.lists(ONE, max_size=4), min_size=1, max_size=4))
def test_what_is_kept_of_headers_gives_them_back(records: list[list[tuple[str, bytes | None]]]) -> None:
    arrow = pa.array([[{"key": k, "value": v} for k, v in headers] for headers in records], HEADERS)
    kept = [None if text is None else json.loads(text) for text in headers_json(arrow).to_pylist()]
    assert [kafka_headers(each) for each in kept] == records


def test_names_that_are_not_utf_8_are_kept_and_each_refuses_its_record() -> None:
    records: list[list[tuple[bytes, bytes | None]] | None] = [
        [("é\ufffd".encode(), b"1")], [], None, [(b"caf\xe9", b"1"), (b"\xff", b"2")], [(b"trace", b"\xff")],
        [(b"z", None), (b"a\n\xed\xa0\x80", None)],
    ]  # fmt: skip
    arrow = pa.array([of and [{"key": k, "value": v} for k, v in of] for of in records], HEADERS)
    refused = {place: (reason.path, reason.code, reason.detail) for place, reason in wrong_names(arrow).items()}
    assert refused == {
        3: ("_headers", "encoding", r"expected header names in UTF-8, got caf\xe9"),
        5: ("_headers", "encoding", r"expected header names in UTF-8, got a\n\\xed\\xa0\\x80"),
    }
    assert list(wrong_names(arrow.slice(3, 2))) == [0]
    kept = [None if text is None else json.loads(text) for text in headers_json(arrow).to_pylist()]
    assert [[(name.encode(), value) for name, value in kafka_headers(each)] for each in kept] == [
        of or [] for of in records
    ]


OURS = {"pipeline": b"p", "topic-id": b"t", "partition": b"3", "offset": b"70"}


def headers(**changed: bytes | None) -> list[tuple[str, bytes]]:
    made = {**OURS, **{name.replace("_", "-"): value for name, value in changed.items()}}
    return [(f"offset-ledger.{name}", value) for name, value in made.items() if value is not None]


def test_a_dead_letter_has_its_coordinates_from_the_last_of_equal_headers() -> None:
    assert source_position([("x", b"y"), *headers(offset=b"1"), *headers()], "p") == RecordPosition("t", 3, 70)


@pytest.mark.parametrize(
    "foreign", [[], headers(pipeline=b"q"), headers(offset=None), headers(offset=b"x"), headers(topic_id=b"\xff")]
)
def test_a_record_of_another_producer_has_no_coordinates(foreign: list[tuple[str, bytes]]) -> None:
    assert source_position(foreign, "p") is None

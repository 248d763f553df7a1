"""Kafka headers through the JSON that is kept of them, and the coordinates of dead letters."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offset_ledger.decoding.headers import HEADERS, headers_json, kafka_headers, wrong_names
from offset_ledger.ledger.dead_letters import RecordPosition
from offset_ledger.operations.dead_letter_record import source_position

ONE = st.tuples(st.text(), st.one_of(st.none(), st.binary(), st.text().map(str.encode)))


@settings(deadline=None)
@given(st.lists(st.lists(ONE, max_size=4), min_size=1, max_size=4))
def test_what_is_kept_of_headers_gives_them_back(records: list[list[tuple[str, bytes | None]]]) -> None:
    arrow = pa.array([[{"key": k, "value": v} for k, v in headers] for headers in records], HEADERS)
    kept = [None if text is None else json.loads(text) for text in headers_json(arrow).to_pylist()]
    assert [kafka_headers(each) for each in kept] == records


def test_a_name_that_kafkas_client_has_changed_is_known_by_its_record() -> None:
    records = [
        [("é", b"1")],
        [],
        None,
        [("a\ufffd", b"1"), ("b\ufffd", b"2")],
        [("trace", b"\xff")],
        [("z", None), ("\ufffd\ufffd", None)],
    ]
    arrow = pa.array([of and [{"key": k, "value": v} for k, v in of] for of in records], HEADERS)
    found = {place: (reason.path, reason.code, reason.detail) for place, reason in wrong_names(arrow).items()}
    assert found == {
        3: ("_headers", "encoding", "expected header names in UTF-8, got a\ufffd"),
        5: ("_headers", "encoding", "expected header names in UTF-8, got \ufffd\ufffd"),
    }
    part = wrong_names(arrow.slice(3, 2))
    assert list(part) == [0]


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

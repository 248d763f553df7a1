"""Kafka headers through the JSON that is kept of them, and the coordinates of dead letters."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offset_ledger.decoding.headers import HEADERS, headers_json, kafka_headers
from offset_ledger.ledger.dead_letters import Place
from offset_ledger.steps.dead_letters import place_of

ONE = st.tuples(st.text(), st.one_of(st.none(), st.binary(), st.text().map(str.encode)))


@settings(deadline=None)
@given(st.lists(st.lists(ONE, max_size=4), min_size=1, max_size=4))
def test_what_is_kept_of_headers_gives_them_back(records: list[list[tuple[str, bytes | None]]]) -> None:
    arrow = pa.array([[{"key": k, "value": v} for k, v in headers] for headers in records], HEADERS)
    kept = [None if text is None else json.loads(text) for text in headers_json(arrow).to_pylist()]
    assert [kafka_headers(each) for each in kept] == records


OURS = {"pipeline": b"p", "topic-id": b"t", "partition": b"3", "offset": b"70"}


def headers(**changed: bytes | None) -> list[tuple[str, bytes]]:
    made = {**OURS, **{name.replace("_", "-"): value for name, value in changed.items()}}
    return [(f"offset-ledger.{name}", value) for name, value in made.items() if value is not None]


def test_a_letter_tells_its_coordinates_by_the_last_of_equal_headers() -> None:
    assert place_of([("x", b"y"), *headers(offset=b"1"), *headers()], "p") == Place("t", 3, 70)


@pytest.mark.parametrize(
    "foreign", [[], headers(pipeline=b"q"), headers(offset=None), headers(offset=b"x"), headers(topic_id=b"\xff")]
)
def test_a_record_of_somebody_else_has_no_coordinates(foreign: list[tuple[str, bytes]]) -> None:
    assert place_of(foreign, "p") is None

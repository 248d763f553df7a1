"""Tables at a terminal: values as they are, cut, and a record at a time where lines would be too long."""

from __future__ import annotations

import pytest

from offset_ledger.interfaces.cli.set_up import cut, fitting, shown_bytes


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""), (True, "true"), ("1.50", "1.50"), ("x" * 40, "x" * 40), ("x" * 41, "x" * 39 + "…"),
        ("a\nb\x1b[31m", "a\\nb\\x1b[31m"),
    ],
)  # fmt: skip
def test_a_value_is_cut_to_one_line(value: object, text: str) -> None:
    assert cut(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""), (b"", ""), (b'{"id": 1}', '{"id": 1}'), ("é".encode() * 33, "é" * 32 + "…"),
        (b"\0\0\0\0\x01", "\\x0000000001"), (b"\xff" * 33, "\\x" + "ff" * 32 + "…"), (b"a\x1b[31m", "\\x611b5b33316d"),
    ],
)  # fmt: skip
def test_bytes_are_text_where_they_are_text(value: bytes | None, text: str) -> None:
    assert shown_bytes(value) == text


def test_a_table_or_a_record_at_a_time() -> None:
    rows = [{"event_id": "a", "amount": "1.50"}, {"event_id": "b", "amount": "", "deleted": "true"}]

    assert fitting(rows, 80).splitlines() == [
        "event_id    amount    deleted",
        "----------  --------  ---------",
        "a           1.50",
        "b                     true",
    ]
    assert fitting(rows, 20).splitlines() == [
        "-[ 1 ]---------", "event_id | a", "amount   | 1.50", "-[ 2 ]---------", "event_id | b", "amount   |",
        "deleted  | true",
    ]  # fmt: skip

"""Refused records as they are shown: text, hex, cut off, or masked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.interfaces.page.quarantine import ShownBytes, headers, reasons, show_bytes


@pytest.mark.parametrize("readable", [True, False])
def test_null_is_null_for_everybody(readable: bool) -> None:
    assert show_bytes(None, None, readable) is None


@pytest.mark.parametrize("text", ["", '{"a": 1}', "größer\n\tÄ 漢 🎉"])
def test_text_is_shown_as_text(text: str) -> None:
    size = len(text.encode())
    assert show_bytes(text.encode(), size, readable=True) == ShownBytes(size, size, "text", text)


@pytest.mark.parametrize("content", [b"\x00\x01\xff", b"a\x00b", b"a\x1b[31m", "a\u202eb".encode()])
def test_bytes_that_are_not_plain_text_are_shown_in_hex(content: bytes) -> None:
    shown = show_bytes(content, len(content), readable=True)
    assert shown is not None
    assert (shown.form, shown.shown) == ("hex", len(content))
    assert bytes.fromhex((shown.text or "")[8:55]) == content


def test_hex_has_sixteen_bytes_in_a_line_and_says_where_they_are() -> None:
    shown = show_bytes(bytes(range(20)), 20, readable=True)
    assert shown is not None
    assert (shown.text or "").splitlines() == [
        "000000  00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f  ................",
        f"000010  10 11 12 13{' ' * 36}  ....",
    ]


@pytest.mark.parametrize("end", range(1, 5))
def test_a_character_that_is_cut_in_two_does_not_make_hex_of_a_text(end: int) -> None:
    first = ("a" * 10 + "🎉").encode()[: 10 + end]
    shown = show_bytes(first, 10_000_000, readable=True)
    assert shown == ShownBytes(10_000_000, 14 if end == 4 else 10, "text", "a" * 10 + ("🎉" if end == 4 else ""))


def test_a_whole_value_that_ends_within_a_character_is_not_text() -> None:
    shown = show_bytes("aé".encode()[:2], 2, readable=True)
    assert shown is not None
    assert shown.form == "hex"


@given(st.binary(max_size=100_000), st.integers(0, 10_000_000))
def test_what_is_shown_is_bounded_and_says_how_much_it_is(content: bytes, more: int) -> None:
    shown = show_bytes(content, len(content) + more, readable=True)
    assert shown is not None
    assert shown.size == len(content) + more
    assert shown.shown <= len(content)
    assert len(shown.text or "") <= 4096 * 5 or shown.form == "text"


@given(st.binary(max_size=1000))
def test_who_may_not_read_it_gets_the_size_alone(content: bytes) -> None:
    assert show_bytes(content, len(content), readable=False) == ShownBytes(len(content), 0, "masked", None)


def test_details_quote_the_value_and_are_masked_with_it() -> None:
    found = [{"code": "precision", "path": "$.amount", "detail": "got 12.345"}, {"code": "syntax"}]
    assert reasons(found, readable=True) == [
        {"code": "precision", "path": "$.amount", "detail": "got 12.345"},
        {"code": "syntax", "path": None, "detail": None},
    ]
    assert reasons(found, readable=False) == [
        {"code": "precision", "path": "$.amount"},
        {"code": "syntax", "path": None},
    ]
    assert reasons(None, readable=True) == []


def test_headers_are_bounded_in_number_and_in_size() -> None:
    shown = headers([("trace", b"7f"), ("big", b"x" * 5000), ("none", None)] + [("more", b"")] * 100, readable=True)
    assert len(shown) == 50
    assert shown[0] == {"name": "trace", "value": {"size": 2, "shown": 2, "form": "text", "text": "7f"}}
    assert (shown[1]["value"]["size"], shown[1]["value"]["shown"]) == (5000, 1024)
    assert shown[2] == {"name": "none", "value": None}


def test_masked_headers_keep_their_names() -> None:
    (shown,) = headers([("trace", b"7f")], readable=False)
    assert shown == {"name": "trace", "value": {"size": 2, "shown": 0, "form": "masked", "text": None}}

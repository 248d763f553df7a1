"""Strings of JSON -> text, days, times, moments, UUIDs and bytes."""

from __future__ import annotations

from datetime import date, datetime, time
from uuid import UUID

import msgspec

from offset_ledger.decoding import texts
from offset_ledger.decoding.outcome import Code, Mismatch

_string = msgspec.json.Decoder(str).decode
_KINDS = {b'"': "text", b"{": "object", b"[": "array", b"t": "boolean", b"f": "boolean", b"n": "null"}


def json_kind(raw: bytes) -> str:
    """What JSON calls a value with this text."""
    return _KINDS.get(raw[:1], "number")


def expect(raw: bytes, kind: str, wanted: str) -> bytes:
    """The text, if it is of that kind."""
    if (actual := json_kind(raw)) != kind:
        raise Mismatch(Code.TYPE, f"expected {wanted}, got {actual}")
    return raw


def text(raw: bytes, limit: int | None = None) -> str:
    """A text that Postgres can hold."""
    return texts.text(_plain(raw, "text"), limit)


def day(raw: bytes) -> date:
    """A day written YYYY-MM-DD."""
    return texts.day(_plain(raw, "date as YYYY-MM-DD"))


def time_of_day(raw: bytes) -> time:
    """A time written HH:MM:SS, with or without a fraction."""
    return texts.time_of_day(_plain(raw, "time as HH:MM:SS"))


def moment(raw: bytes) -> datetime:
    """A moment of RFC 3339, in UTC."""
    return texts.moment(_plain(raw, "RFC 3339 timestamp"))


def uuid(raw: bytes) -> UUID:
    """A UUID in its canonical form."""
    return texts.uuid(_plain(raw, "uuid"))


def base64(raw: bytes) -> bytes:
    """Bytes in canonical base64."""
    return texts.base64(_plain(raw, "base64"))


def hexadecimal(raw: bytes) -> bytes:
    """Bytes in hexadecimal."""
    return texts.hexadecimal(_plain(raw, "hexadecimal"))


def _plain(raw: bytes, wanted: str) -> str:
    return _string(expect(raw, "text", wanted))

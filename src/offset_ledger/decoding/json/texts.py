"""Strings of JSON -> text, days, moments, UUIDs and bytes."""

from __future__ import annotations

import binascii
import re
from datetime import UTC, date, datetime, timedelta, timezone
from uuid import UUID

import msgspec

from offset_ledger.decoding.outcome import Code, Mismatch, printable

_string = msgspec.json.Decoder(str).decode
_KINDS = {b'"': "text", b"{": "object", b"[": "array", b"t": "boolean", b"f": "boolean", b"n": "null"}
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(?:[Zz]|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})*")


def shown(raw: bytes) -> str:
    """The JSON of a value as it can stand in a reason."""
    return printable(raw[:400].decode(errors="replace"))


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
    value = _plain(raw, "text")
    if "\0" in value:
        raise Mismatch(Code.NUL, "expected text without NUL, which Postgres cannot hold")
    if limit is not None and len(value) > limit:
        raise Mismatch(Code.LENGTH, f"expected at most {limit} characters, got {len(value)}")
    return value


def day(raw: bytes) -> date:
    """A day written YYYY-MM-DD."""
    value = _plain(raw, "date as YYYY-MM-DD")
    if not _DAY.fullmatch(value):
        raise _malformed("date as YYYY-MM-DD", value)
    try:
        return date.fromisoformat(value)
    except ValueError:
        raise Mismatch(Code.RANGE, f"expected a day of the calendar, got {printable(value)}") from None


def moment(raw: bytes) -> datetime:
    """A moment of RFC 3339, in UTC; digits beyond the microsecond have to be zeros."""
    value = _plain(raw, "RFC 3339 timestamp")
    match = _MOMENT.fullmatch(value)
    if match is None:
        raise _malformed("RFC 3339 timestamp with zone", value)
    *fields, fraction, sign, hours, minutes = match.groups(default="0")
    if fraction[6:].strip("0"):
        raise Mismatch(Code.PRECISION, f"expected at most microseconds, got {printable(value)}")
    zone = timezone(timedelta(hours=int(hours), minutes=int(minutes)) * (-1 if sign == "-" else 1))
    try:
        year, month, day_, hour, minute, second = map(int, fields)
        local = datetime(year, month, day_, hour, minute, second, int(fraction[:6].ljust(6, "0")), zone)
        return local.astimezone(UTC)
    except (ValueError, OverflowError):
        raise Mismatch(Code.RANGE, f"expected a moment of the calendar, got {printable(value)}") from None


def uuid(raw: bytes) -> UUID:
    """A UUID in its canonical form of 36 characters."""
    value = _plain(raw, "uuid")
    if not _UUID.fullmatch(value):
        raise _malformed("uuid", value)
    return UUID(value)


def base64(raw: bytes) -> bytes:
    """Bytes in base64 with its padding, and nothing that another text could also mean."""
    value = _plain(raw, "base64")
    try:
        return base64_bytes(value)
    except ValueError:
        raise _malformed("base64", value) from None


def base64_bytes(value: str) -> bytes:
    """Bytes in canonical base64.

    Raises:
        ValueError: it is not.
    """
    decoded = binascii.a2b_base64(value, strict_mode=True)
    if binascii.b2a_base64(decoded, newline=False).decode() != value:
        raise ValueError(value)
    return decoded


def hexadecimal(raw: bytes) -> bytes:
    """Bytes in hexadecimal, two digits each."""
    value = _plain(raw, "hexadecimal")
    if not _HEX.fullmatch(value):
        raise _malformed("hexadecimal", value)
    return bytes.fromhex(value)


def _plain(raw: bytes, wanted: str) -> str:
    return _string(expect(raw, "text", wanted))


def _malformed(wanted: str, value: str) -> Mismatch:
    return Mismatch(Code.FORMAT, f"expected {wanted}, got {printable(value)}")

"""Texts -> days, times, moments, UUIDs and bytes, written in one way each."""

from __future__ import annotations

import binascii
import re
from datetime import UTC, date, datetime, time, timedelta, timezone
from uuid import UUID

from offset_ledger.decoding.outcome import Code, Mismatch, printable

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?")
_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(?:[Zz]|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})*")


def text(value: str, limit: int | None = None) -> str:
    """A text that Postgres can hold."""
    if "\0" in value:
        raise Mismatch(Code.NUL, "expected text without NUL, which Postgres cannot hold")
    if limit is not None and len(value) > limit:
        raise Mismatch(Code.LENGTH, f"expected at most {limit} characters, got {len(value)}")
    return value


def day(value: str) -> date:
    """A day written YYYY-MM-DD."""
    if not _DAY.fullmatch(value):
        raise _malformed("date as YYYY-MM-DD", value)
    try:
        return date.fromisoformat(value)
    except ValueError:
        raise Mismatch(Code.RANGE, f"expected a day of the calendar, got {printable(value)}") from None


def time_of_day(value: str) -> time:
    """A time written HH:MM:SS, with or without a fraction; digits beyond the microsecond have to be zeros."""
    match = _TIME.fullmatch(value)
    if match is None:
        raise _malformed("time as HH:MM:SS", value)
    *fields, fraction = match.groups(default="0")
    hour, minute, second = map(int, fields)
    try:
        return time(hour, minute, second, _microseconds(fraction, value))
    except ValueError:
        raise Mismatch(Code.RANGE, f"expected a time before 24:00:00, got {printable(value)}") from None


def moment(value: str) -> datetime:
    """A moment of RFC 3339, in UTC; digits beyond the microsecond have to be zeros."""
    match = _MOMENT.fullmatch(value)
    if match is None:
        raise _malformed("RFC 3339 timestamp with zone", value)
    *fields, fraction, sign, hours, minutes = match.groups(default="0")
    microseconds = _microseconds(fraction, value)
    zone = timezone(timedelta(hours=int(hours), minutes=int(minutes)) * (-1 if sign == "-" else 1))
    try:
        year, month, day_, hour, minute, second = map(int, fields)
        return datetime(year, month, day_, hour, minute, second, microseconds, zone).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Mismatch(Code.RANGE, f"expected a moment of the calendar, got {printable(value)}") from None


def uuid(value: str) -> UUID:
    """A UUID in its canonical form of 36 characters."""
    if not _UUID.fullmatch(value):
        raise _malformed("uuid", value)
    return UUID(value)


def base64(value: str) -> bytes:
    """Bytes in base64 with its padding, and nothing that another text could also mean."""
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


def hexadecimal(value: str) -> bytes:
    """Bytes in hexadecimal, two digits each."""
    if not _HEX.fullmatch(value):
        raise _malformed("hexadecimal", value)
    return bytes.fromhex(value)


def _microseconds(fraction: str, value: str) -> int:
    if fraction[6:].strip("0"):
        raise Mismatch(Code.PRECISION, f"expected at most microseconds, got {printable(value)}")
    return int(fraction[:6].ljust(6, "0"))


def _malformed(wanted: str, value: str) -> Mismatch:
    return Mismatch(Code.FORMAT, f"expected {wanted}, got {printable(value)}")

"""Texts -> days, times, moments, UUIDs and bytes, written in one way each: value by value, and a column at once."""

import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta, timezone
from functools import partial
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding import counts, kinds
from offset_ledger.decoding.kinds import Built, ColumnKind, as_flags, check_event_id, content, free_of_nul, kept
from offset_ledger.decoding.outcome import EMPTY, Code, Flags, Mismatch, printable

_DAY = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})Z?")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?Z?")
_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(?:[Zz]|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)
_BEYOND = re.compile(r"-?infinity|([+-][0-9]{4,7}|0000|[0-9]{5,7})(-[0-9]{2}-[0-9]{2}.*)", re.S)
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_UUID_DIGITS = [place for place in range(36) if place not in (8, 13, 18, 23)]

# Python, Arrow and Postgres all have every calendar moment between these.
_SURE_DAY = r"[12][0-9]{3}-[01][0-9]-[0-3][0-9]"
_SURE_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_SURE_MOMENT = rf"{_SURE_DAY}T{_SURE_TIME}(?:Z|[+-](?:0[0-9]|1[0-4]):[0-5][0-9])"
_SURE_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"


@dataclass(frozen=True, slots=True)
class TextForm:
    """The text form of a kind's values: ``read`` defines it, ``build`` takes a column as far as it is sure."""

    wanted: str
    read: Callable[[str], Any]
    build: Callable[[pa.StringArray], Built]


def text_form(kind: ColumnKind) -> TextForm | None:
    """Return how texts are values of that kind; None where no text is one."""
    if kind.name == "varchar":
        return TextForm("text", partial(text, limit=kind.args[0]), partial(_text_column, limit=kind.args[0]))
    if kind.judged and not kind.unit:
        return _FORMS["text", ""]
    form = _FORMS.get((kind.name, kind.encoding))
    if form and (kind.round or kind.far):
        return replace(form, read=_with_options(kind))
    return form


def _with_options(kind: ColumnKind) -> Callable[[str], Any]:
    match kind.name:
        case "date":
            return any_day
        case "time":
            return partial(time_of_day, rounds=kind.round)
        case _:
            return partial(any_moment if kind.far else moment, rounds=kind.round)


def text(value: str, limit: int | None = None) -> str:
    """Check that Postgres can hold the text, and return it."""
    if "\0" in value:
        raise Mismatch(Code.NUL, "expected text without NUL, which Postgres cannot hold")
    if limit is not None and len(value) > limit:
        raise Mismatch(Code.LENGTH, f"expected at most {limit} characters, got {len(value)}")
    return value


def _text_column(column: pa.StringArray, limit: int | None = None) -> Built:
    fitting, flags = (column, None) if limit is None else kept(column, pc.less_equal(pc.utf8_length(column), limit))
    if free_of_nul(fitting):
        return fitting, flags
    free = as_flags(pc.invert(pc.match_substring(fitting, "\0")))
    return fitting, free if flags is None else flags if free is None else flags & free


def day(value: str) -> date:
    """Return the day written YYYY-MM-DD, with or without a Z."""
    match = _DAY.fullmatch(value)
    if match is None or value.startswith("0000"):
        raise _beyond("a day", value) or _malformed("date as YYYY-MM-DD", value)
    try:
        return date.fromisoformat(match[1])
    except ValueError:
        raise Mismatch(Code.RANGE, f"expected a day of the calendar, got {printable(value)}") from None


def any_day(value: str) -> date | str:
    """Return the day, which may be one that only Postgres has."""
    match = _BEYOND.fullmatch(value)
    if match is None or value in counts.INFINITE:
        return day(value) if match is None else value
    near, days = _nearer(match)
    return counts.day((day(near) - kinds.EPOCH.date()).days + days, far=True)


def _beyond(what: str, value: str) -> Mismatch | None:
    return counts.beyond(what, printable(value), far=False) if _BEYOND.fullmatch(value) else None


def _nearer(written: re.Match[str]) -> tuple[str, int]:
    """The same day in a cycle of the calendar about 2000, and how many days are between."""
    year = int(written[1])
    near = 2000 + year % counts.CYCLE_YEARS
    return f"{near}{written[2]}", (year - near) // counts.CYCLE_YEARS * counts.CYCLE_DAYS


def time_of_day(value: str, rounds: bool = False) -> time | str:
    """Return the time written HH:MM:SS, with or without a fraction and a Z.

    Digits beyond the microsecond have to be zeros, unless it ``rounds``.
    """
    match = _TIME.fullmatch(value)
    if match is None:
        raise _malformed("time as HH:MM:SS", value)
    *fields, fraction = match.groups(default="0")
    hour, minute, second = map(int, fields)
    microseconds = ((hour * 60 + minute) * 60 + second) * 1_000_000 + _microseconds(fraction, value, rounds)
    if minute > 59 or second > 59 or microseconds > 86_400_000_000:
        raise Mismatch(Code.RANGE, f"expected a time up to 24:00:00, got {printable(value)}")
    return counts.time_of_day(microseconds, 1000)


def _time_column(column: pa.StringArray) -> Built:
    fitting, flags = kept(column, pc.match_substring_regex(column, f"^{_SURE_TIME}$"))
    moments_of_one_day = pc.binary_join_element_wise("1970-01-01T", fitting, "")
    return moments_of_one_day.cast(pa.timestamp("us")).cast(kinds.TIME), flags


def any_moment(value: str, rounds: bool = False) -> datetime | str:
    """Return the moment, which may be one that only Postgres has; else as :func:`moment`."""
    match = _BEYOND.fullmatch(value)
    if match is None or value in counts.INFINITE:
        return moment(value, rounds) if match is None else value
    near, days = _nearer(match)
    microseconds = (moment(near, rounds) - kinds.EPOCH) // timedelta(microseconds=1)
    return counts.moment(microseconds + days * 86_400_000_000, 1000, far=True)


def moment(value: str, rounds: bool = False) -> datetime:
    """Return a moment of RFC 3339, in UTC; digits beyond the microsecond have to be zeros, unless it ``rounds``."""
    match = _MOMENT.fullmatch(value)
    if match is None or value.startswith("0000"):
        raise _beyond("a moment", value) or _malformed("RFC 3339 timestamp with zone", value)
    *fields, fraction, sign, hours, minutes = match.groups(default="0")
    microseconds = timedelta(microseconds=_microseconds(fraction, value, rounds))
    zone = timezone(timedelta(hours=int(hours), minutes=int(minutes)) * (-1 if sign == "-" else 1))
    try:
        year, month, day_, hour, minute, second = map(int, fields)
        return datetime(year, month, day_, hour, minute, second, tzinfo=zone).astimezone(UTC) + microseconds
    except (ValueError, OverflowError):
        raise Mismatch(Code.RANGE, f"expected a moment of the calendar, got {printable(value)}") from None


def _calendar_column(column: pa.StringArray, pattern: str, type_: pa.DataType) -> Built:
    fitting, flags = kept(column, pc.match_substring_regex(column, f"^{pattern}$"))
    try:
        return fitting.cast(type_), flags
    except pa.ArrowInvalid:  # a day that no month has
        flags = np.fromiter(map(_is_moment, fitting.to_pylist()), np.bool_, len(fitting))
        return pc.if_else(pa.array(flags), fitting, None).cast(type_), flags


def _is_moment(value: str | None) -> bool:
    try:
        return value is not None and datetime.fromisoformat(value) is not None
    except ValueError:
        return False


def uuid(value: str) -> UUID:
    """Return the UUID of a text in its canonical form of 36 characters."""
    if not _UUID.fullmatch(value):
        raise _malformed("uuid", value)
    return UUID(value)


def _uuid_column(column: pa.StringArray) -> Built:
    """The 16 bytes of UUIDs as Postgres writes them."""
    fitting, flags = kept(column, pc.match_substring_regex(column, _SURE_UUID))
    digits = content(fitting.drop_null()).reshape(-1, 36)[:, _UUID_DIGITS]
    packed = pa.py_buffer(binascii.unhexlify(digits.tobytes()))
    values = pa.FixedSizeBinaryArray.from_buffers(kinds.UUID_TYPE, len(digits), [None, packed])
    if not fitting.null_count:
        return values, flags
    valid = kinds.valid_flags(fitting)
    return values.take(pa.array(np.cumsum(valid) - 1, mask=~valid)), flags


def uuid_texts(column: pa.Array) -> pa.StringArray:
    """Return UUIDs of 16 bytes as their 36 characters."""
    valid = kinds.valid_flags(column)
    digits = binascii.hexlify(content(column.cast(pa.binary()).drop_null()).data)
    written = np.full((int(valid.sum()), 36), ord("-"), np.uint8)
    written[:, _UUID_DIGITS] = np.frombuffer(digits, np.uint8).reshape(-1, 32)
    offsets = np.zeros(len(column) + 1, np.int32)
    np.cumsum(valid * 36, out=offsets[1:])
    validity = column.is_valid().buffers()[1] if column.null_count else None
    return pa.StringArray.from_buffers(len(column), pa.py_buffer(offsets), pa.py_buffer(written), validity)


def with_uuid_texts(column: pa.Array) -> pa.Array:
    """Return the column with UUIDs, also those in lists, as their texts."""
    if pa.types.is_list(column.type):
        return kinds.listed(with_uuid_texts(column.flatten()), column.to_pylist())
    return uuid_texts(column) if pa.types.is_fixed_size_binary(column.type) else column


def base64(value: str) -> bytes:
    """Return bytes in base64 with its padding, and nothing that another text could also mean."""
    try:
        return base64_bytes(value)
    except ValueError:
        raise _malformed("base64", value) from None


def base64_bytes(value: str) -> bytes:
    """Return bytes in canonical base64.

    Raises:
        ValueError: it is not.
    """
    decoded = binascii.a2b_base64(value, strict_mode=True)
    if binascii.b2a_base64(decoded, newline=False).decode() != value:
        raise ValueError(value)
    return decoded


def hexadecimal(value: str) -> bytes:
    """Return bytes in hexadecimal, two digits each."""
    try:
        decoded = bytes.fromhex(value)
    except ValueError:
        raise _malformed("hexadecimal", value) from None
    if len(decoded) * 2 != len(value):  # fromhex passes over blanks
        raise _malformed("hexadecimal", value)
    return decoded


def _bytes_column(column: pa.StringArray, read: Callable[[str], bytes]) -> Built:
    decoded: list[bytes | None] = []
    flags = np.ones(len(column), np.bool_)
    for place, value in enumerate(column.to_pylist()):
        try:
            decoded.append(None if value is None else read(value))
        except Mismatch:
            decoded.append(None)
            flags[place] = False
    return pa.array(decoded, pa.binary()), flags


def utf8(column: pa.BinaryArray) -> tuple[pa.StringArray, Flags | None]:
    """Return the column as text, null where it is not UTF-8, and a flag for each value that is; None where all are."""
    try:
        return column.cast(pa.string()), None
    except pa.ArrowInvalid:
        flags = np.fromiter((value is None or is_utf8(value) for value in column.to_pylist()), np.bool_, len(column))
        return pc.if_else(pa.array(flags), column, None).cast(pa.string()), flags


def is_utf8(value: bytes) -> bool:
    """Return whether the bytes are UTF-8."""
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _microseconds(fraction: str, value: str, rounds: bool) -> int:
    if fraction[6:].strip("0"):
        digits = fraction[:30] + ("1" if fraction[30:].strip("0") else "")
        return counts.whole(int(digits) * 1_000_000, 10 ** len(digits), rounds, printable(value))
    return int(fraction[:6].ljust(6, "0"))


def _malformed(wanted: str, value: str) -> Mismatch:
    return Mismatch(Code.FORMAT, f"expected {wanted}, got {printable(value) or EMPTY}")


_FORMS = {
    ("text", ""): TextForm("text", text, _text_column),
    ("event_id", ""): TextForm(
        "text", lambda value: check_event_id(text(value)), lambda column: (column, kinds.event_ids(column))
    ),
    ("date", ""): TextForm("date as YYYY-MM-DD", day, partial(_calendar_column, pattern=_SURE_DAY, type_=pa.date32())),
    ("time", ""): TextForm("time as HH:MM:SS", time_of_day, _time_column),
    ("timestamptz", "rfc3339"): TextForm(
        "RFC 3339 timestamp", moment, partial(_calendar_column, pattern=_SURE_MOMENT, type_=kinds.MOMENT)
    ),
    ("uuid", ""): TextForm("uuid", uuid, _uuid_column),
    ("bytea", "base64"): TextForm("base64", base64, partial(_bytes_column, read=base64)),
    ("bytea", "hex"): TextForm("hexadecimal", hexadecimal, partial(_bytes_column, read=hexadecimal)),
}
"""By the name and the encoding of the kind."""

"""Columns of texts -> the staged columns of what they write, with a flag for each value that certainly is that.

False only means that the decoder reads the record by itself.
"""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding.staged import MOMENT, TIME, Flags, as_flags, free_of_nul

Built = tuple[pa.Array, Flags | None]

# Within these every moment that the calendar has is one that Python, Arrow and Postgres all have.
_DAY = r"[12][0-9]{3}-[01][0-9]-[0-3][0-9]"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_MOMENT = rf"{_DAY}T{_TIME}(?:Z|[+-](?:0[0-9]|1[0-4]):[0-5][0-9])"
_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"


def kept(column: pa.Array, fits: pa.Array) -> Built:
    """The column with null for what does not fit, and the flags."""
    flags = as_flags(fits)
    return (column if flags is None else pc.if_else(pa.array(flags), column, None)), flags


def texts(column: pa.StringArray) -> Built:
    """Texts without NUL."""
    return column, None if free_of_nul(column) else as_flags(pc.invert(pc.match_substring(column, "\0")))


def uuids(column: pa.StringArray) -> Built:
    """UUIDs as Postgres writes them."""
    return column, as_flags(pc.match_substring_regex(column, _UUID))


def days(column: pa.StringArray) -> Built:
    """Days written YYYY-MM-DD."""
    return _on_calendar(column, f"^{_DAY}$", pa.date32())


def times(column: pa.StringArray) -> Built:
    """Times written HH:MM:SS, with or without a fraction."""
    column, flags = kept(column, pc.match_substring_regex(column, f"^{_TIME}$"))
    moments_of_one_day = pc.binary_join_element_wise("1970-01-01T", column, "")
    return moments_of_one_day.cast(pa.timestamp("us")).cast(TIME), flags


def moments(column: pa.StringArray) -> Built:
    """Moments of RFC 3339."""
    return _on_calendar(column, f"^{_MOMENT}$", MOMENT)


def _on_calendar(column: pa.StringArray, pattern: str, type_: pa.DataType) -> Built:
    column, flags = kept(column, pc.match_substring_regex(column, pattern))
    try:
        return column.cast(type_), flags
    except pa.ArrowInvalid:
        flags = np.fromiter(map(_is_moment, column.to_pylist()), np.bool_, len(column))
        return pc.if_else(pa.array(flags), column, None).cast(type_), flags


def _is_moment(value: str | None) -> bool:
    try:
        return value is not None and datetime.fromisoformat(value) is not None
    except ValueError:
        return False


def utf8(column: pa.BinaryArray) -> tuple[pa.StringArray, Flags | None]:
    """The column as text, null where it is not UTF-8, with a flag for each value that is; None where all are."""
    try:
        return column.cast(pa.string()), None
    except pa.ArrowInvalid:
        flags = np.fromiter((value is None or is_utf8(value) for value in column.to_pylist()), np.bool_, len(column))
        return pc.if_else(pa.array(flags), column, None).cast(pa.string()), flags


def is_utf8(value: bytes) -> bool:
    """Whether the bytes are UTF-8."""
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True

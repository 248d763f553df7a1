"""The Arrow columns of staged rows: their types, and which of their values Postgres certainly takes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding.kinds import FIRST_MOMENT, LAST_MOMENT, MAX_EVENT_ID_BYTES, ColumnKind

Flags = npt.NDArray[np.bool_]

MOMENT = pa.timestamp("us", "UTC")
TIME = pa.time64("us")
INTEGERS = {"smallint": pa.int16(), "integer": pa.int32(), "bigint": pa.int64()}
_STAGED = {
    **INTEGERS,
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "time": TIME,
    "timestamptz": MOMENT,
    "bytea": pa.binary(),
}


def staged_type(kind: ColumnKind) -> pa.DataType:
    """The type of the staged Arrow column; numbers that Arrow could round are text."""
    return _STAGED.get(kind.name, pa.string())


def event_ids(column: pa.StringArray) -> Flags | None:
    """Which texts can name an event."""
    size = pc.binary_length(column)
    fits = pc.and_(pc.greater(size, 0), pc.less_equal(size, MAX_EVENT_ID_BYTES))
    if not free_of_nul(column):
        fits = pc.and_(fits, pc.invert(pc.match_substring(column, "\0")))
    return as_flags(fits)


def moments(column: pa.TimestampArray) -> Flags | None:
    """Which of Kafka's timestamps a datetime can hold."""
    microseconds = column.cast(pa.int64())
    return as_flags(pc.and_(pc.greater_equal(microseconds, FIRST_MOMENT), pc.less_equal(microseconds, LAST_MOMENT)))


def free_of_nul(column: pa.StringArray) -> bool:
    """Whether no text of the column has a NUL, which Postgres cannot hold."""
    return bool(content(column).all())


def content(column: pa.StringArray) -> npt.NDArray[np.uint8]:
    """The bytes of all the texts of a column, one after the other."""
    _, offsets, data = column.buffers()
    if not len(column) or data is None:
        return np.zeros(0, np.uint8)
    bounds = np.frombuffer(offsets, np.int32)
    return np.frombuffer(data, np.uint8)[bounds[column.offset] : bounds[column.offset + len(column)]]


def as_flags(flags: pa.Array) -> Flags | None:
    """The flags as numpy's, null counting as True; None where all are True."""
    if pc.all(flags, skip_nulls=True, min_count=0).as_py():
        return None
    result: Flags = pc.fill_null(flags, True).to_numpy(zero_copy_only=False)
    return result

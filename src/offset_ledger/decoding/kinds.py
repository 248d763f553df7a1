"""The kinds of values that a row has: the declared column types with their encodings, and the event id."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from offset_ledger.config.model import Column, ColumnType, RecordShape
from offset_ledger.decoding.outcome import Code, Mismatch

MAX_EVENT_ID_BYTES = 1024
INTEGER_BITS = {"smallint": 16, "integer": 32, "bigint": 64}
EPOCH_UNITS = {"epoch_s": 1_000_000, "epoch_ms": 1_000, "epoch_us": 1}
"""Microseconds in one unit of an encoding."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_MOMENT, LAST_MOMENT = -62_135_596_800_000_000, 253_402_300_799_999_999  # years 1 to 9999, in µs since 1970
_PUBLISH_AT = ColumnType("timestamptz")
_DEFAULT_ENCODING = {"timestamptz": "rfc3339", "bytea": "base64"}


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """A type with its encoding; ``name`` is Postgres's, or ``event_id``."""

    name: str
    args: tuple[int, ...]
    encoding: str


EVENT_ID = ColumnKind("event_id", (), "")


def kinds(record: RecordShape) -> tuple[ColumnKind, ...]:
    """The kind of every slot of the row: event_id, publish_at, then the declared columns."""
    columns = map(kind_of, record.columns)
    return EVENT_ID, _kind(_PUBLISH_AT, record.publish_at_encoding), *columns


def kind_of(column: Column) -> ColumnKind:
    """The kind of a declared column."""
    return _kind(column.type, column.encoding)


def _kind(type_: ColumnType, encoding: str) -> ColumnKind:
    return ColumnKind(type_.name, type_.args, encoding or _DEFAULT_ENCODING.get(type_.name, ""))


def check_event_id(text: str) -> str:
    """The text, if it can be a key: not empty, and short enough for an index."""
    if not text:
        raise Mismatch(Code.LENGTH, "expected an event id, got an empty text")
    if (size := len(text.encode())) > MAX_EVENT_ID_BYTES:
        raise Mismatch(Code.LENGTH, f"expected an event id of at most {MAX_EVENT_ID_BYTES} bytes, got {size}")
    return text

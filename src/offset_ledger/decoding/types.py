"""One reader a Postgres type: the JSON text of a value -> the exact Python value, or a :class:`Mismatch`.

A reader gets text that is already known to be valid UTF-8 and valid JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from offset_ledger.config.model import ColumnType
from offset_ledger.decoding import documents, numbers, texts
from offset_ledger.decoding.outcome import Code, Mismatch
from offset_ledger.decoding.texts import expect

MAX_EVENT_ID_BYTES = 1024
INTEGER_BITS = {"smallint": 16, "integer": 32, "bigint": 64}
EPOCH_UNITS = {"epoch_s": 1_000_000, "epoch_ms": 1_000, "epoch_us": 1}

Read = Callable[[bytes], object]


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """A type with its encoding, and its reader; ``name`` is Postgres's, or ``event_id``."""

    name: str
    args: tuple[int, ...]
    encoding: str
    read: Read


def kind_of(type_: ColumnType, encoding: str = "") -> ColumnKind:
    """How values of that column type are read."""
    encoding = encoding or {"timestamptz": "rfc3339", "bytea": "base64"}.get(type_.name, "")
    return ColumnKind(type_.name, type_.args, encoding, _reader(type_, encoding))


def _reader(type_: ColumnType, encoding: str) -> Read:
    name, args = type_.name, type_.args
    if name in INTEGER_BITS:
        return lambda raw: numbers.integer(raw, INTEGER_BITS[name])
    if name == "timestamptz" and encoding != "rfc3339":
        return lambda raw: numbers.epoch(raw, EPOCH_UNITS[encoding])
    if name == "varchar":
        return lambda raw: texts.text(raw, *args)
    if name == "numeric" and args:
        return lambda raw: numbers.numeric(raw, *args)
    if name == "bytea":
        return {"base64": texts.base64, "hex": texts.hexadecimal}[encoding]
    return _PLAIN[name]


def boolean(raw: bytes) -> bool:
    """``true`` or ``false``."""
    return expect(raw, "boolean", "boolean") == b"true"


def event_id(raw: bytes) -> str:
    """A text or an integer, as the text that names the event."""
    return check_event_id(numbers.integer_text(raw) if raw[:1] in b"-0123456789" else texts.text(raw))


def check_event_id(text: str) -> str:
    """The text, if it can be a key: not empty, and short enough for an index."""
    if not text:
        raise Mismatch(Code.LENGTH, "expected an event id, got an empty text")
    if (size := len(text.encode())) > MAX_EVENT_ID_BYTES:
        raise Mismatch(Code.LENGTH, f"expected an event id of at most {MAX_EVENT_ID_BYTES} bytes, got {size}")
    return text


_PLAIN: dict[str, Read] = {
    "text": texts.text,
    "numeric": numbers.numeric,
    "real": lambda raw: numbers.floating(raw, single=True),
    "double precision": numbers.floating,
    "boolean": boolean,
    "date": texts.day,
    "timestamptz": texts.moment,
    "uuid": texts.uuid,
    "jsonb": documents.document,
}
EVENT_ID = ColumnKind("event_id", (), "", event_id)

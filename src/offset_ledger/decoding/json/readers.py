"""A reader for each kind of value: JSON text -> the exact Python value, or a :class:`Mismatch`.

A reader gets text that is already known to be valid UTF-8 and valid JSON.
"""

from __future__ import annotations

from collections.abc import Callable

from offset_ledger.decoding import jsonb
from offset_ledger.decoding.json import numbers, texts
from offset_ledger.decoding.json.texts import expect
from offset_ledger.decoding.kinds import EPOCH_UNITS, INTEGER_BITS, ColumnKind, check_event_id

Read = Callable[[bytes], object]


def reader(kind: ColumnKind) -> Read:
    """How values of that kind are read."""
    name, args = kind.name, kind.args
    if name in INTEGER_BITS:
        return lambda raw: numbers.integer(raw, INTEGER_BITS[name])
    if name == "timestamptz" and kind.encoding != "rfc3339":
        return lambda raw: numbers.epoch(raw, EPOCH_UNITS[kind.encoding])
    if name == "varchar":
        return lambda raw: texts.text(raw, *args)
    if name == "numeric" and args:
        return lambda raw: numbers.numeric(raw, *args)
    if name == "bytea":
        return {"base64": texts.base64, "hex": texts.hexadecimal}[kind.encoding]
    return _PLAIN[name]


def boolean(raw: bytes) -> bool:
    """``true`` or ``false``."""
    return expect(raw, "boolean", "boolean") == b"true"


def event_id(raw: bytes) -> str:
    """A text or an integer, as the text that names the event."""
    return check_event_id(numbers.integer_text(raw) if raw[:1] in b"-0123456789" else texts.text(raw))


_PLAIN: dict[str, Read] = {
    "event_id": event_id,
    "text": texts.text,
    "numeric": numbers.numeric,
    "real": lambda raw: numbers.floating(raw, single=True),
    "double precision": numbers.floating,
    "boolean": boolean,
    "date": texts.day,
    "time": texts.time_of_day,
    "timestamptz": texts.moment,
    "uuid": texts.uuid,
    "jsonb": jsonb.document,
}

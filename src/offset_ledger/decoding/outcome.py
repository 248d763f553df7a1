"""The fate of records, one by one and many at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.pipeline_file.json_path import format_path

KEY_PATH = "_key"
HEADERS_PATH = "_headers"
WHOLE = "$"


class Code(StrEnum):
    """The reason code of a refusal; stable, for people's queries on the quarantine."""

    TOO_LARGE = "too_large"
    ENCODING = "encoding"
    SYNTAX = "syntax"
    DEPTH = "depth"
    DUPLICATE_KEY = "duplicate_key"
    MISSING = "missing"
    NULL = "null"
    TYPE = "type"
    RANGE = "range"
    PRECISION = "precision"
    FORMAT = "format"
    NUL = "nul"
    LENGTH = "length"
    TOMBSTONE = "tombstone"
    FRAME = "frame"
    UNKNOWN_SCHEMA = "unknown_schema"
    SCHEMA = "schema"
    INPUT = "input"  # by Postgres, of a text that was staged
    CONFLICT = "conflict"  # with a unique constraint of the table
    DELETE = "delete"  # where deletes are refused
    TRUNCATE = "truncate"  # of the table that change events are about


class Reason(msgspec.Struct, frozen=True):
    """One reason of a refusal; its JSON is an element of the quarantine's ``reasons``. Every text is printable."""

    path: str
    code: Code
    detail: str


@dataclass(frozen=True, slots=True)
class DecodedRow:
    """A decoded record; the values are exact, in the order of the columns of the key and of the declared ones."""

    key: tuple[object, ...]
    publish_at: datetime
    values: tuple[object, ...]
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record that cannot become a row without changing it; there is at least one reason."""

    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Skip:
    """A record that is not the pipeline's, or a tombstone of a pipeline that skips them."""


Outcome = DecodedRow | Refusal | Skip


def unless_all(conditions: Iterable[bool | Reason]) -> Refusal | Skip | None:
    """Return a Skip if a condition fails, a Refusal with the reasons if some are in doubt, None if all hold."""
    reasons = list[Reason]()
    for each in conditions:
        if isinstance(each, Reason):
            reasons.append(each)
        elif not each:
            return Skip()
    return Refusal(tuple(reasons)) if reasons else None


Key = bytes | Reason | None
"""Kafka's key, or the text in it, or why there is none."""
Timestamp = datetime | Reason
"""Kafka's timestamp, or why it is no moment."""


class Mismatch(Exception):
    """A value that cannot become its declared type exactly."""

    def __init__(self, code: Code, detail: str) -> None:
        super().__init__(code, detail)
        self.code, self.detail = code, detail

    def at(self, path: str) -> Reason:
        """Return the reason against the value at this path."""
        return Reason(path, self.code, self.detail)


class SchemaProblem(Exception):
    """A writer's schema by which no record can be read; its text is one line that says why."""


class RecordRefused(Exception):
    """The reason against a whole record, or against its extra fields."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


EMPTY = '""'
"""The form of an empty text in messages."""


def printable(text: str, limit: int = 80) -> str:
    """The text as it can stand in a jsonb and in a log: cut, and without control characters or lone surrogates."""
    text = text if len(text) <= limit else text[:limit] + "…"
    return text if text.isprintable() else ascii(text)[1:-1]


def step_of(name: str) -> str:
    """A member's name as a step of a path, for messages."""
    return printable(format_path((name,))[1:])


Places = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def _nowhere() -> Places:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Proven:
    """Records that are known to decode: their places in the batch, ascending, and a column for each slot.

    The slots are those of the key, publish_at and the declared columns; None where they are Kafka's. There may be no
    columns where there are no such records. ``skipped`` are the places of the records that are known to be none of the
    pipeline's.
    """

    places: Places = field(default_factory=_nowhere)
    columns: Sequence[pa.Array | None] = ()
    skipped: Places = field(default_factory=_nowhere)

    def kept(self, flags: Flags) -> Proven:
        """Return only the rows that have a flag."""
        if flags.all():
            return self
        keep = pa.array(flags)
        columns = [None if column is None else column.filter(keep) for column in self.columns]
        return Proven(self.places[flags], columns, self.skipped)

    def at(self, places: Places) -> Proven:
        """Return the records at their places in the batch, from which these were read."""
        return Proven(places[self.places], self.columns, places[self.skipped])


def joined(parts: Sequence[Proven]) -> Proven:
    """Return all parts as one, with ascending places."""
    if len(parts) == 1:
        return parts[0]
    skipped = np.sort(np.concatenate([part.skipped for part in parts])) if parts else _nowhere()
    rows = [part for part in parts if len(part.places)]
    if len(rows) < 2:
        return Proven(rows[0].places, rows[0].columns, skipped) if rows else Proven(skipped=skipped)
    places = np.concatenate([part.places for part in rows])
    order = np.argsort(places)
    columns: list[pa.Array | None] = []
    for pieces in zip(*(part.columns for part in rows), strict=True):
        there = [piece for piece in pieces if piece is not None]
        columns.append(pc.take(pa.concat_arrays(there), pa.array(order)) if there else None)
    return Proven(places[order], columns, skipped)


def with_rest(values: pa.BinaryArray, proven: Proven, slot: int, text_of: Callable[[bytes], str | None]) -> Proven:
    """Return the proven records whose extra fields are JSON that a jsonb can hold, with that in the slot.

    ``text_of`` gives the JSON of the extra fields of a value, None if there are none, and raises RecordRefused.
    """
    if not proven.columns:
        return proven
    texts: list[str | None] = []
    holds = np.ones(len(proven.places), np.bool_)
    for number, value in enumerate(values.take(pa.array(proven.places)).to_pylist()):
        try:
            texts.append(text_of(value))
        except RecordRefused:
            texts.append(None)
            holds[number] = False
    columns = [*proven.columns[:slot], pa.array(texts, pa.string()), *proven.columns[slot + 1 :]]
    return Proven(proven.places, columns, proven.skipped).kept(holds)

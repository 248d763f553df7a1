"""What becomes of one record, and the shape every format's decoder has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from offset_ledger.config.model import RecordShape

KEY_PATH = "_key"
TIMESTAMP_PATH = "_timestamp"
HEADERS_PATH = "_headers"
WHOLE = "$"


class Code(StrEnum):
    """Why a value was refused; stable, for people's queries on the quarantine."""

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


class Reason(msgspec.Struct, frozen=True):
    """One reason of a refusal; its JSON is an element of the quarantine's ``reasons``. Every text is printable."""

    path: str
    code: Code
    detail: str


@dataclass(frozen=True, slots=True)
class DecodedRow:
    """A decoded record; ``values`` are exact, in the order of the declared columns."""

    event_id: str
    publish_at: datetime
    values: tuple[object, ...]
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record that cannot become a row without changing it; there is at least one reason."""

    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Skip:
    """A tombstone of a pipeline that skips them."""


NO_TIMESTAMP = Reason(TIMESTAMP_PATH, Code.MISSING, "expected a record timestamp, Kafka has none (-1)")
FAR_TIMESTAMP = Reason(TIMESTAMP_PATH, Code.RANGE, "expected a moment in the years 1 to 9999")


class Mismatch(Exception):
    """A value that cannot become its declared type exactly."""

    def __init__(self, code: Code, detail: str) -> None:
        super().__init__(code, detail)
        self.code, self.detail = code, detail


@dataclass(frozen=True, slots=True)
class Proven:
    """Records that are known to decode: their places in the batch, ascending, and a column for each slot.

    The slots are event_id, publish_at and the declared columns; the first two are None where they are Kafka's.
    """

    places: npt.NDArray[np.int64]
    columns: Sequence[pa.Array | None]

    @classmethod
    def together(cls, parts: Sequence[Proven]) -> Proven | None:
        """Parts of one batch as one, in its order; None where there are none."""
        if len(parts) < 2:
            return parts[0] if parts else None
        places = np.concatenate([part.places for part in parts])
        order = np.argsort(places)
        pieces = zip(*(part.columns for part in parts), strict=True)
        columns = [None if each[0] is None else pa.concat_arrays(each).take(pa.array(order)) for each in pieces]
        return cls(places[order], columns)

    def only(self, flags: npt.NDArray[np.bool_]) -> Proven:
        """Those of the records, with a flag for each."""
        if flags.all():
            return self
        keep = pa.array(flags)
        return Proven(self.places[flags], [None if column is None else column.filter(keep) for column in self.columns])


class Keys(Protocol):
    """How keys name events."""

    def read(self, key: bytes | None) -> bytes | Reason | None:
        """The event id as UTF-8, or why there is none; None where there is no key."""


class Decoder(Protocol):
    """A format, compiled for one pipeline."""

    @property
    def record(self) -> RecordShape:
        """What it was compiled from."""

    @property
    def keys(self) -> Keys | None:
        """What reads event ids from keys that are more than a text."""

    def decode(
        self, value: bytes | None, key: bytes | Reason | None, timestamp: datetime | Reason
    ) -> DecodedRow | Refusal | Skip:
        """What becomes of one record; never raises.

        ``key`` is Kafka's, or the text in it, or why there is none; ``timestamp`` Kafka's, or why it is no moment.
        """

    def prove(self, values: pa.BinaryArray) -> Proven | None:
        """Those of the values that certainly decode, as columns; None where the format has no such way."""


def printable(text: str, limit: int = 80) -> str:
    """The text as it can stand in a jsonb and in a log: cut, and without control characters or lone surrogates."""
    text = text if len(text) <= limit else text[:limit] + "…"
    return text if text.isprintable() else ascii(text)[1:-1]

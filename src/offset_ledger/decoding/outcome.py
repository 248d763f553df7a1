"""What becomes of one record, and the shape every format's decoder has."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

import msgspec
import pyarrow as pa

from offset_ledger.config.model import RecordShape
from offset_ledger.decoding.proven import Proven

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
    """A record that is none of the pipeline's, or a tombstone of a pipeline that skips them."""


NO_TIMESTAMP = Reason(TIMESTAMP_PATH, Code.MISSING, "expected a record timestamp, Kafka has none (-1)")
FAR_TIMESTAMP = Reason(TIMESTAMP_PATH, Code.RANGE, "expected a moment in the years 1 to 9999")


def unheld_timestamp(milliseconds: int) -> Reason:
    """The reason against a record timestamp that is kept nowhere else: a redrive reads it from here."""
    detail = f"expected a record timestamp of the years 4714 BC to 294,246, got {milliseconds} ms"
    return Reason(TIMESTAMP_PATH, Code.RANGE, detail)


class Mismatch(Exception):
    """A value that cannot become its declared type exactly."""

    def __init__(self, code: Code, detail: str) -> None:
        super().__init__(code, detail)
        self.code, self.detail = code, detail


class Keys(Protocol):
    """How keys name events."""

    def look_up(self, keys: pa.BinaryArray) -> None:
        """Prepare to read these keys."""

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
        """Those of the values that certainly decode, as columns, and those that certainly are none of the pipeline's;
        None where the format has no such way.
        """


def printable(text: str, limit: int = 80) -> str:
    """The text as it can stand in a jsonb and in a log: cut, and without control characters or lone surrogates."""
    text = text if len(text) <= limit else text[:limit] + "…"
    return text if text.isprintable() else ascii(text)[1:-1]

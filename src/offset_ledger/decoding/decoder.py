"""The shape that every format's decoder has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import pyarrow as pa

from offset_ledger.decoding.outcome import Flags, Key, Outcome, Proven, Timestamp
from offset_ledger.decoding.schemas import HeaderFrames
from offset_ledger.pipeline_file.pipeline import RecordShape


class Keys(Protocol):
    """The reader of event ids from keys."""

    def look_up(self, keys: pa.BinaryArray) -> None:
        """Prepare to read these keys."""

    def read(self, key: bytes | None) -> Key:
        """Return the event id as UTF-8, or why there is none; None without a key."""


Given = Sequence[Flags | None]
"""The flags of the values that give each column with a group; None: they give it where it is not NULL."""
GivenBy = Callable[[pa.BinaryArray], Given]


class Decoder(Protocol):
    """A format, compiled for one pipeline from the shape of its records.

    ``keys`` reads event ids from keys that are more than a text, ``frames`` are those that it decodes, for payloads
    with headers in their place. ``key_columns`` reads the columns that are in keys, given keys as values, and ``given``
    tells which columns of groups are in values that have become rows.
    """

    record: RecordShape
    keys: Keys | None = None
    frames: HeaderFrames | None = None
    key_columns: Decoder | None = None
    given: GivenBy | None = None

    def decode(self, value: bytes | None, key: Key, timestamp: Timestamp) -> Outcome:
        """Return what becomes of one record, leaving out columns that are not in its value; never raises."""

    def prove(self, values: pa.BinaryArray) -> Proven | None:
        """Return the values that surely decode, and those that are surely not the pipeline's; None if not provable."""

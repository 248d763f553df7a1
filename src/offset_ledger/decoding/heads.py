"""Records whose first bytes say of which kind they are: each kind has a decoder of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.config.model import Limits, RecordShape
from offset_ledger.decoding import frame
from offset_ledger.decoding.kafka_slots import outcome_unread, tombstone_outcome
from offset_ledger.decoding.outcome import WHOLE, DecodedRow, Decoder, Mismatch, Reason, Refusal, Skip
from offset_ledger.decoding.proven import Places, Proven, joined
from offset_ledger.decoding.staged import Flags

MAX_KINDS = 16
"""Kinds of one batch that are proven; the records of further ones are read one by one."""
T = TypeVar("T")
ReadHead = Callable[[bytes], tuple[Decoder, int]]
"""The decoder of a payload's kind, and where what it reads begins; raises Mismatch."""


class OtherKind:
    """Skips the records of a kind that is none of the pipeline's, without looking into them."""

    keys = None

    def __init__(self, record: RecordShape) -> None:
        self.record = record

    def decode(
        self, value: bytes | None, key: bytes | Reason | None, timestamp: datetime | Reason
    ) -> DecodedRow | Refusal | Skip:
        """Skips all but a tombstone, which has no kind."""
        return tombstone_outcome(self.record, key, timestamp) if value is None else Skip()

    def prove(self, values: pa.BinaryArray) -> Proven:
        """All that have a value are skipped."""
        return Proven(skipped=np.flatnonzero(values.is_valid()))


class HeadedDecoder:
    """Reads the head of each payload, and lets the decoder of its kind read what follows.

    See :class:`~offset_ledger.decoding.outcome.Decoder`.
    """

    keys = None

    def __init__(self, record: RecordShape, limits: Limits, head: ReadHead) -> None:
        self.record = record
        self.head = head
        self._limits = limits

    def decode(
        self, value: bytes | None, key: bytes | Reason | None, timestamp: datetime | Reason
    ) -> DecodedRow | Refusal | Skip:
        """What becomes of one record, by its kind."""
        unread = outcome_unread(self.record, self._limits, value, key, timestamp)
        if value is None or (unread and not is_other(self, value)):
            assert unread is not None
            return unread
        try:
            decoder, at = self.head(value)
        except Mismatch as mismatch:
            return Refusal((Reason(WHOLE, mismatch.code, mismatch.detail),))
        return decoder.decode(value[at:], key, timestamp)

    def prove(self, values: pa.BinaryArray) -> Proven | None:
        """The records of each kind that its decoder proves."""
        length = pc.fill_null(pc.binary_length(values), self._limits.value_bytes + 1).to_numpy(zero_copy_only=False)
        heads = by_head(values, length <= self._limits.value_bytes, self.head)
        parts = [prove_at(decoder, values, places, at) for decoder, places, at in heads]
        return joined(parts) if parts else None


def by_head(
    values: pa.BinaryArray, flags: Flags, head: Callable[[bytes], tuple[T, int]]
) -> Iterator[tuple[T, Places, int]]:
    """What the heads of the flagged values say, the places of those with the same one, and where what follows begins.

    The flags of these are cleared; they stay with those of more than MAX_KINDS different heads.
    """
    for _ in range(MAX_KINDS):
        if not flags.any():
            return
        first = values[int(np.argmax(flags))].as_py()
        try:
            said, at = head(first)
        except Mismatch:
            flags[np.argmax(flags)] = False
            continue
        same = flags & pc.fill_null(pc.starts_with(values, first[:at]), False).to_numpy(zero_copy_only=False)
        flags &= ~same
        yield said, np.flatnonzero(same), at


def prove_at(decoder: Decoder, values: pa.BinaryArray, places: Places, start: int) -> Proven:
    """What the decoder proves of the records at these places, which begin after so many bytes."""
    some = values if len(places) == len(values) else values.take(pa.array(places))
    proven = decoder.prove(frame.without_head(some, start))
    return Proven() if proven is None else proven.at(places)


def is_other(decoder: Decoder, payload: bytes) -> bool:
    """Whether the payload is certainly of a kind that is none of the pipeline's."""
    try:
        while isinstance(decoder, HeadedDecoder):
            decoder, at = decoder.head(payload)
            payload = payload[at:]
    except Mismatch:
        return False
    return isinstance(decoder, OtherKind)

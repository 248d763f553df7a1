"""Records whose first bytes name a schema or a kind: each goes to a decoder of its own."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding import outcome, wire_format
from offset_ledger.decoding.decoder import Decoder
from offset_ledger.decoding.kafka_columns import outcome_unread, tombstone_outcome
from offset_ledger.decoding.outcome import Flags, Key, Mismatch, Outcome, Proven, Reason, Refusal, Skip, Timestamp
from offset_ledger.decoding.schemas import HeaderFrames, Lookup, Schemas
from offset_ledger.model.writer_schema import WriterSchema
from offset_ledger.pipeline_file.pipeline import Limits, RecordShape

ReadKey = Callable[[bytes], str]
"""The event id in a key; raises Mismatch."""


class FramedKeys:
    """The reader of event ids from keys in Confluent's wire format; raises what the lookup of a schema raises."""

    def __init__(self, compile_: Callable[[WriterSchema], ReadKey], lookup: Lookup) -> None:
        self._schemas = Schemas(compile_, lookup, outcome.KEY_PATH)

    def look_up(self, keys: pa.BinaryArray) -> None:
        """Ask for the schemas of all these keys at once."""
        ids = wire_format.schema_ids(keys)
        self._schemas.of(np.unique(ids[ids != wire_format.NO_SCHEMA]).tolist())

    def read(self, key: bytes | None) -> Key:
        """Return the text in the key as UTF-8, or why there is none."""
        if key is None:
            return None
        try:
            reader = self._schemas.one(wire_format.schema_id(key))
            return reader if isinstance(reader, Reason) else reader(key[wire_format.SIZE :]).encode()
        except Mismatch as mismatch:
            return mismatch.at(outcome.KEY_PATH)


class FramedDecoder(Decoder):
    """The decoder of records in Confluent's wire format; see :class:`~offset_ledger.decoding.decoder.Decoder`.

    Both methods raise what the lookup of a schema raises.
    """

    def __init__(
        self,
        record: RecordShape,
        limits: Limits,
        compile_: Callable[[WriterSchema], Decoder],
        lookup: Lookup,
        keys: FramedKeys | None = None,
        frames: HeaderFrames | None = None,
    ) -> None:
        self.record = record
        self.keys, self.frames = keys, frames
        self._limits = limits
        self._schemas = Schemas(compile_, lookup)
        self._batch: dict[int, Decoder | Reason] = {}

    def decode(self, value: bytes | None, key: Key, timestamp: Timestamp) -> Outcome:
        """Return what becomes of one record, by its own schema."""
        unread = outcome_unread(self.record, self._limits, value, key, timestamp)
        if value is None or (unread and not self.record.schemas):
            assert unread is not None
            return unread
        decoder: Decoder | Reason
        try:
            schema_id = wire_format.schema_id(value)
        except Mismatch as mismatch:
            decoder = mismatch.at(outcome.WHOLE)
        else:
            decoder = self._batch.get(schema_id) or self._schemas.one(schema_id)
        if unread and (isinstance(decoder, Reason) or not is_other(decoder, value[wire_format.SIZE :])):
            return unread
        if isinstance(decoder, Reason):
            return Refusal((decoder,))
        return decoder.decode(value[wire_format.SIZE :], key, timestamp)

    def prove(self, values: pa.BinaryArray) -> Proven | None:
        """The records of each schema that its decoder proves."""
        ids = wire_format.schema_ids(values)
        ids[pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False) > self._limits.value_bytes] = (
            wire_format.NO_SCHEMA
        )
        self._batch = self._schemas.of(np.unique(ids[ids != wire_format.NO_SCHEMA]).tolist())
        parts = [
            prove_at(decoder, values, np.flatnonzero(ids == id_), wire_format.SIZE)
            for id_, decoder in self._batch.items()
            if not isinstance(decoder, Reason)
        ]
        return outcome.joined(parts) if parts else None


MAX_KINDS = 16
"""Kinds of one batch that are proven; the records of further ones are read one by one."""
Said = TypeVar("Said")
ReadHead = Callable[[bytes], tuple[Decoder, int]]
"""The decoder of a payload's kind, and where what it reads begins; raises Mismatch."""


class OtherKind(Decoder):
    """The decoder that skips records of a kind that is not the pipeline's, without looking into them."""

    def __init__(self, record: RecordShape) -> None:
        self.record = record

    def decode(self, value: bytes | None, key: Key, timestamp: Timestamp) -> Outcome:
        """Skip every record but a tombstone, which has no kind."""
        return tombstone_outcome(self.record, key, timestamp) if value is None else Skip()

    def prove(self, values: pa.BinaryArray) -> Proven:
        """Skip all that have a value."""
        return Proven(skipped=np.flatnonzero(values.is_valid()))


class HeadedDecoder(Decoder):
    """The decoder that reads the head of each payload, and lets the decoder of its kind read the rest.

    See :class:`~offset_ledger.decoding.decoder.Decoder`.
    """

    def __init__(self, record: RecordShape, limits: Limits, head: ReadHead) -> None:
        self.record = record
        self.head = head
        self._limits = limits

    def decode(self, value: bytes | None, key: Key, timestamp: Timestamp) -> Outcome:
        """Return what becomes of one record, by its kind."""
        unread = outcome_unread(self.record, self._limits, value, key, timestamp)
        if value is None or (unread and not is_other(self, value)):
            assert unread is not None
            return unread
        try:
            decoder, at = self.head(value)
        except Mismatch as mismatch:
            return Refusal((mismatch.at(outcome.WHOLE),))
        return decoder.decode(value[at:], key, timestamp)

    def prove(self, values: pa.BinaryArray) -> Proven | None:
        """The records of each kind that its decoder proves."""
        length = pc.fill_null(pc.binary_length(values), self._limits.value_bytes + 1).to_numpy(zero_copy_only=False)
        heads = by_head(values, length <= self._limits.value_bytes, self.head)
        parts = [prove_at(decoder, values, places, at) for decoder, places, at in heads]
        return outcome.joined(parts) if parts else None


def by_head(
    values: pa.BinaryArray, flags: Flags, head: Callable[[bytes], tuple[Said, int]]
) -> Iterator[tuple[Said, outcome.Places, int]]:
    """Yield each head of the flagged values, the places of those that have it, and the offset at which the rest begins.

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


def prove_at(decoder: Decoder, values: pa.BinaryArray, places: outcome.Places, start: int) -> Proven:
    """Return what the decoder proves of the records at these places, which begin at ``start``."""
    some = values if len(places) == len(values) else values.take(pa.array(places))
    proven = decoder.prove(wire_format.without_head(some, start))
    return Proven() if proven is None else proven.at(places)


def is_other(decoder: Decoder, payload: bytes) -> bool:
    """Return whether the payload is surely of a kind that is not the pipeline's."""
    try:
        while isinstance(decoder, HeadedDecoder):
            decoder, at = decoder.head(payload)
            payload = payload[at:]
    except Mismatch:
        return False
    return isinstance(decoder, OtherKind)

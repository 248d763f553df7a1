"""Readers of payloads: messages of one type, or messages behind Confluent's message indexes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding.outcome import WHOLE, Mismatch, Proven
from offset_ledger.decoding.protobuf.fields import has_path
from offset_ledger.decoding.protobuf.indexes import message_at, message_indexes
from offset_ledger.decoding.protobuf.lockstep_leaves import Unprovable
from offset_ledger.decoding.protobuf.lockstep_reader import LockstepReader
from offset_ledger.decoding.protobuf.reader import ExactReader
from offset_ledger.decoding.protobuf.schema import Message, ProtobufSchema
from offset_ledger.decoding.shape import Node
from offset_ledger.decoding.staged import Flags
from offset_ledger.decoding.typed.decoder import Found, RootOf, Unreadable

MAX_GROUPS = 16
"""Message types of one batch that are proven; the records of further ones are read one by one."""


class MessageReader:
    """Reads payloads that are one message type; see :class:`~offset_ledger.decoding.typed.decoder.Reader`."""

    def __init__(self, schema: ProtobufSchema, message: Message, root_of: RootOf) -> None:
        root = root_of(partial(has_path, schema, message))
        exact = ExactReader(schema, message, root)
        self.read, self.rest = exact.read, exact.rest
        self._lockstep = _lockstep(schema, message, root)

    def prove(self, values: pa.BinaryArray, candidates: Flags, start: int = 0) -> Proven | None:
        """Those that certainly are such messages, after so many bytes before the message."""
        return self._lockstep.prove(values, candidates, start) if self._lockstep else None


class FramedReader:
    """Reads payloads that begin with message indexes; each message type is compiled when it is first seen."""

    def __init__(self, schema: ProtobufSchema, root_of: RootOf) -> None:
        self._schema, self._root_of = schema, root_of
        self._readers: dict[tuple[int, ...], MessageReader] = {}

    def read(self, payload: bytes, found: Found) -> None:
        """See :class:`~offset_ledger.decoding.typed.decoder.Reader`."""
        try:
            reader, at = self._reader(payload)
        except Mismatch as mismatch:
            raise Unreadable(WHOLE, mismatch.code, mismatch.detail) from None
        reader.read(payload[at:], found)

    def rest(self, payload: bytes) -> dict[str, Any]:
        """What is left of a message that was read; raises RestRefused."""
        reader, at = self._reader(payload)
        return reader.rest(payload[at:])

    def prove(self, values: pa.BinaryArray, candidates: Flags) -> Proven | None:
        """Those that certainly are messages of the types that their indexes name."""
        parts = []
        rest = candidates & values.is_valid().to_numpy(zero_copy_only=False)
        for _ in range(MAX_GROUPS):
            if not rest.any():
                break
            first = values[int(np.argmax(rest))].as_py()
            try:
                reader, at = self._reader(first)
            except Mismatch:
                rest[np.argmax(rest)] = False
                continue
            group = rest & pc.fill_null(pc.starts_with(values, first[:at]), False).to_numpy(zero_copy_only=False)
            rest &= ~group
            if proven := _group(reader, values, np.flatnonzero(group), at):
                parts.append(proven)
        return Proven.together(parts)

    def _reader(self, payload: bytes) -> tuple[MessageReader, int]:
        indexes, at = message_indexes(payload)
        if indexes not in self._readers:
            self._readers[indexes] = MessageReader(self._schema, message_at(self._schema, indexes), self._root_of)
        return self._readers[indexes], at


def _lockstep(schema: ProtobufSchema, message: Message, root: Node) -> LockstepReader | None:
    try:
        return LockstepReader(schema, message, root)
    except Unprovable:
        return None


def _group(reader: MessageReader, values: pa.BinaryArray, places: npt.NDArray[np.int64], at: int) -> Proven | None:
    """What is proven of the records of one message type, behind its indexes."""
    own = values if len(places) == len(values) else values.take(pa.array(places))
    proven = reader.prove(own, np.ones(len(places), np.bool_), at)
    return proven and Proven(places[proven.places], proven.columns)

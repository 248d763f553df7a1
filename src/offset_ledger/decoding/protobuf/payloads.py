"""Readers of payloads: messages of one type, or messages behind Confluent's message indexes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding.outcome import WHOLE, Mismatch
from offset_ledger.decoding.protobuf.indexes import message_at, message_indexes
from offset_ledger.decoding.protobuf.lockstep_leaves import Unprovable
from offset_ledger.decoding.protobuf.lockstep_reader import LockstepReader
from offset_ledger.decoding.protobuf.reader import ExactReader
from offset_ledger.decoding.protobuf.schema import Message, ProtobufSchema
from offset_ledger.decoding.proven import Places, Proven, joined
from offset_ledger.decoding.shape import Node
from offset_ledger.decoding.staged import Flags
from offset_ledger.decoding.typed.decoder import Found, Unreadable

MAX_GROUPS = 16
"""Message types of one batch that are proven; the records of further ones are read one by one."""


class MessageReader:
    """Reads payloads that are one message type; see :class:`~offset_ledger.decoding.typed.decoder.Reader`."""

    def __init__(self, schema: ProtobufSchema, message: Message, root: Node) -> None:
        self.read = ExactReader(schema, message, root).read
        self._lockstep = _lockstep(schema, message, root)

    def prove(self, values: pa.BinaryArray, candidates: Flags, start: int = 0) -> Proven | None:
        """Those that certainly are such messages, after so many bytes before the message."""
        return self._lockstep.prove(values, candidates, start) if self._lockstep else None


class FramedReader:
    """Reads payloads that begin with message indexes; each message type is compiled when it is first seen."""

    def __init__(self, schema: ProtobufSchema, root: Node) -> None:
        self._schema, self._root = schema, root
        self._readers: dict[str, MessageReader] = {}

    def read(self, payload: bytes, found: Found) -> None:
        """See :class:`~offset_ledger.decoding.typed.decoder.Reader`."""
        try:
            reader, at = self._reader(payload)
        except Mismatch as mismatch:
            raise Unreadable(WHOLE, mismatch.code, mismatch.detail) from None
        reader.read(payload[at:], found)

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
        return joined(parts) if parts else None

    def _reader(self, payload: bytes) -> tuple[MessageReader, int]:
        indexes, at = message_indexes(payload)
        message = message_at(self._schema, indexes)
        if message.full_name not in self._readers:
            self._readers[message.full_name] = MessageReader(self._schema, message, self._root)
        return self._readers[message.full_name], at


def _lockstep(schema: ProtobufSchema, message: Message, root: Node) -> LockstepReader | None:
    try:
        return LockstepReader(schema, message, root)
    except Unprovable:
        return None


def _group(reader: MessageReader, values: pa.BinaryArray, places: Places, at: int) -> Proven | None:
    """What is proven of the records of one message type, behind its indexes."""
    own = values if len(places) == len(values) else values.take(pa.array(places))
    proven = reader.prove(own, np.ones(len(places), np.bool_), at)
    return proven and proven.at(places)

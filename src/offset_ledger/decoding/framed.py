"""Records that say by their first bytes what they are, by a schema or by a kind: each goes to a decoder of its own.

Where a header says it instead, the first bytes are added.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.config.model import Limits, RecordShape
from offset_ledger.decoding import frame, outcome
from offset_ledger.decoding.headers import last_values
from offset_ledger.decoding.kafka_columns import outcome_unread, tombstone_outcome
from offset_ledger.decoding.kinds import Flags, valid_flags
from offset_ledger.decoding.outcome import (
    Code,
    Decoder,
    Key,
    Mismatch,
    Outcome,
    Proven,
    Reason,
    Refusal,
    Skip,
    Timestamp,
)
from offset_ledger.decoding.typed.types import SchemaProblem
from offset_ledger.model.writer_schema import SchemaRef, WriterSchema

Schema = WriterSchema | SchemaProblem
Lookup = Callable[[frozenset[SchemaRef]], Mapping[SchemaRef, Schema]]
"""The schemas with these ids and GUIDs, or what is wrong with one, without those that the registry does not know.

It raises where the registry cannot be asked.
"""
ReadKey = Callable[[bytes], str]
"""The event id in a key; raises Mismatch."""
T = TypeVar("T", bound=Decoder | ReadKey)


class Schemas(Generic[T]):
    """The known schemas of a pipeline: a decoder each, or the reason at ``path`` why there is none."""

    def __init__(self, compile_: Callable[[WriterSchema], T], lookup: Lookup, path: str = outcome.WHOLE) -> None:
        self._compile = compile_
        self._lookup = lookup
        self._path = path
        self._known: dict[int, T | Reason] = {}

    def of(self, ids: Iterable[int]) -> dict[int, T | Reason]:
        """Return what there is for each id, which the lookup is asked for once."""
        wanted = frozenset(ids)
        if new := wanted - self._known.keys():
            possible = frozenset(id_ for id_ in new if id_ <= frame.LAST_ID)
            schemas = self._lookup(possible) if possible else {}
            for id_ in new:
                detail = f"expected a schema of the registry, got id {id_}, which it does not know"
                self._known[id_] = Reason(self._path, Code.UNKNOWN_SCHEMA, detail)
            for id_ in new & schemas.keys():
                try:
                    if isinstance(schema := schemas[id_], SchemaProblem):
                        raise schema
                    self._known[id_] = self._compile(schema)
                except SchemaProblem as problem:
                    self._known[id_] = Reason(self._path, Code.SCHEMA, f"schema id {id_}: {problem}")
        return {id_: self._known[id_] for id_ in wanted}

    def one(self, schema_id: int) -> T | Reason:
        """Return what there is for this id."""
        return self._known.get(schema_id) or self.of([schema_id])[schema_id]


@dataclass(frozen=True, slots=True)
class Remembered:
    """A lookup that asks for a schema once, by its id or its GUID; what the registry does not know is asked again."""

    lookup: Lookup
    schemas: dict[SchemaRef, Schema] = field(default_factory=dict)

    def __call__(self, refs: frozenset[SchemaRef]) -> dict[SchemaRef, Schema]:
        """The schemas, as the lookup."""
        if new := refs - self.schemas.keys():
            for ref, schema in self.lookup(new).items():
                self.schemas[ref] = schema
                if isinstance(schema, WriterSchema):
                    self.schemas.setdefault(schema.schema_id, schema)
        return {ref: self.schemas[ref] for ref in refs if ref in self.schemas}


class NamedByHeader:
    """Gives payloads the frame of the schema that the last header of this name names, as Confluent's clients do.

    With ``indexed`` the message indexes of Protobuf follow the schema. Without a lookup no payload may have such a
    header: they are texts. It raises what the lookup raises.
    """

    def __init__(self, header: str, lookup: Lookup | None, indexed: bool) -> None:
        self._header, self._lookup, self._indexed = header, lookup, indexed
        self._path = outcome.HEADERS_PATH + outcome.step_of(header)
        self._frames: dict[bytes, bytes | Reason] = {}

    def framed(self, payloads: pa.BinaryArray, headers: pa.ListArray) -> tuple[pa.BinaryArray, dict[int, Reason]]:
        """The payloads with frames, null where there can be none, and by place the reasons why."""
        named = last_values(headers, self._header)
        if named.null_count == len(named):
            return payloads, {}
        encoded = named.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        self._look_up([name for name in names if name not in self._frames])
        frames = [self._frames[name] for name in names]
        prefixes = pa.array([None if isinstance(each, Reason) else each for each in frames], pa.binary())
        prefixes = pc.if_else(named.is_valid(), prefixes.take(encoded.indices), pa.scalar(b"", pa.binary()))
        wrong = valid_flags(named) & valid_flags(payloads) & ~valid_flags(prefixes)
        reasons = {place: frames[encoded.indices[place].as_py()] for place in np.flatnonzero(wrong).tolist()}
        framed = pc.binary_join_element_wise(prefixes, payloads, pa.scalar(b"", pa.binary()))
        return framed, {place: reason for place, reason in reasons.items() if isinstance(reason, Reason)}

    def _look_up(self, names: Iterable[bytes]) -> None:
        read: dict[bytes, tuple[SchemaRef, bytes]] = {}
        for name in names:
            try:
                read[name] = self._read(name)
            except Mismatch as mismatch:
                self._frames[name] = mismatch.at(self._path)
        guids = frozenset(ref for ref, _ in read.values() if isinstance(ref, UUID))
        schemas = self._lookup(guids) if self._lookup and guids else {}
        for name, (ref, indexes) in read.items():
            schema = ref if isinstance(ref, int) else schemas.get(ref)
            if isinstance(schema, int | WriterSchema):
                schema_id = schema if isinstance(schema, int) else schema.schema_id
                self._frames[name] = frame.frame_of(schema_id, indexes)
            elif schema:
                self._frames[name] = Reason(self._path, Code.SCHEMA, f"schema GUID {ref}: {schema}")
            else:
                detail = f"expected a schema of the registry, got GUID {ref}, which it does not know"
                self._frames[name] = Reason(self._path, Code.UNKNOWN_SCHEMA, detail)

    def _read(self, name: bytes) -> tuple[SchemaRef, bytes]:
        """The schema that is named, and the message indexes; raises Mismatch."""
        if self._lookup is None:
            raise Mismatch(Code.FRAME, "expected a key that is text, its schema is named here; add source.key_format")
        ref, indexes = frame.named_schema(name)
        end = 0
        if self._indexed:
            from offset_ledger.decoding.protobuf.schema import message_indexes

            end = message_indexes(indexes)[1]
        if end < len(indexes):
            whole = len(name) - len(indexes) + end
            raise Mismatch(Code.FRAME, f"expected a header of {whole} bytes, got {len(name)}: {name[:40].hex(' ')}")
        return ref, indexes


class HeaderFrames(NamedTuple):
    """What gives values their frames, and keys that are read."""

    values: NamedByHeader
    keys: NamedByHeader | None


class FramedKeys:
    """Reads event ids from keys in Confluent's wire format; raises what the lookup of a schema raises."""

    def __init__(self, compile_: Callable[[WriterSchema], ReadKey], lookup: Lookup) -> None:
        self._schemas = Schemas(compile_, lookup, outcome.KEY_PATH)

    def look_up(self, keys: pa.BinaryArray) -> None:
        """Ask for the schemas of all these keys at once."""
        ids = frame.schema_ids(keys)
        self._schemas.of(np.unique(ids[ids != frame.NO_SCHEMA]).tolist())

    def read(self, key: bytes | None) -> Key:
        """The text in the key as UTF-8, or why there is none."""
        if key is None:
            return None
        try:
            reader = self._schemas.one(frame.schema_id(key))
            return reader if isinstance(reader, Reason) else reader(key[frame.SIZE :]).encode()
        except Mismatch as mismatch:
            return mismatch.at(outcome.KEY_PATH)


class FramedDecoder:
    """Decodes records in Confluent's wire format; see :class:`~offset_ledger.decoding.outcome.Decoder`.

    Both methods raise what the lookup of a schema raises.
    """

    key_columns: Decoder | None = None
    given: outcome.GivenBy | None = None

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
            schema_id = frame.schema_id(value)
        except Mismatch as mismatch:
            decoder = mismatch.at(outcome.WHOLE)
        else:
            decoder = self._batch.get(schema_id) or self._schemas.one(schema_id)
        if unread and (isinstance(decoder, Reason) or not is_other(decoder, value[frame.SIZE :])):
            return unread
        if isinstance(decoder, Reason):
            return Refusal((decoder,))
        return decoder.decode(value[frame.SIZE :], key, timestamp)

    def prove(self, values: pa.BinaryArray) -> Proven | None:
        """The records of each schema that its decoder proves."""
        ids = frame.schema_ids(values)
        ids[pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False) > self._limits.value_bytes] = (
            frame.NO_SCHEMA
        )
        self._batch = self._schemas.of(np.unique(ids[ids != frame.NO_SCHEMA]).tolist())
        parts = [
            prove_at(decoder, values, np.flatnonzero(ids == id_), frame.SIZE)
            for id_, decoder in self._batch.items()
            if not isinstance(decoder, Reason)
        ]
        return outcome.joined(parts) if parts else None


MAX_KINDS = 16
"""Kinds of one batch that are proven; the records of further ones are read one by one."""
Said = TypeVar("Said")
ReadHead = Callable[[bytes], tuple[Decoder, int]]
"""The decoder of a payload's kind, and where what it reads begins; raises Mismatch."""


class OtherKind:
    """Skips the records of a kind that is none of the pipeline's, without looking into them."""

    keys = frames = None
    key_columns: Decoder | None = None
    given: outcome.GivenBy | None = None

    def __init__(self, record: RecordShape) -> None:
        self.record = record

    def decode(self, value: bytes | None, key: Key, timestamp: Timestamp) -> Outcome:
        """Skips all but a tombstone, which has no kind."""
        return tombstone_outcome(self.record, key, timestamp) if value is None else Skip()

    def prove(self, values: pa.BinaryArray) -> Proven:
        """Skip all that have a value."""
        return Proven(skipped=np.flatnonzero(values.is_valid()))


class HeadedDecoder:
    """Reads the head of each payload, and lets the decoder of its kind read what follows.

    See :class:`~offset_ledger.decoding.outcome.Decoder`.
    """

    keys = frames = None
    key_columns: Decoder | None = None
    given: outcome.GivenBy | None = None

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


def prove_at(decoder: Decoder, values: pa.BinaryArray, places: outcome.Places, start: int) -> Proven:
    """Return what the decoder proves of the records at these places, which begin after so many bytes."""
    some = values if len(places) == len(values) else values.take(pa.array(places))
    proven = decoder.prove(frame.without_head(some, start))
    return Proven() if proven is None else proven.at(places)


def is_other(decoder: Decoder, payload: bytes) -> bool:
    """Return whether the payload is certainly of a kind that is none of the pipeline's."""
    try:
        while isinstance(decoder, HeadedDecoder):
            decoder, at = decoder.head(payload)
            payload = payload[at:]
    except Mismatch:
        return False
    return isinstance(decoder, OtherKind)

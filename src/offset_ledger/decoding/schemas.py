"""The schemas that records name, by their first bytes or in a header, and the frames that stand for such a header."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding import outcome, wire_format
from offset_ledger.decoding.headers import last_headers
from offset_ledger.decoding.kinds import valid_flags
from offset_ledger.decoding.outcome import Code, Mismatch, Reason, SchemaProblem
from offset_ledger.model.writer_schema import SchemaRef, WriterSchema

Schema = WriterSchema | SchemaProblem
Lookup = Callable[[frozenset[SchemaRef]], Mapping[SchemaRef, Schema]]
"""The schemas with these ids and GUIDs, or what is wrong with one, without those that the registry does not know.

It raises where the registry cannot be asked.
"""
ReadIndexes = Callable[[bytes], tuple[Any, int]]
"""The indexes that a payload begins with, and where they end; raises Mismatch."""
T = TypeVar("T")


class Schemas(Generic[T]):
    """The known schemas of a pipeline: a decoder each, or the reason at ``path`` why there is none."""

    def __init__(self, compile_: Callable[[WriterSchema], T], lookup: Lookup, path: str = outcome.WHOLE) -> None:
        self._compile = compile_
        self._lookup = lookup
        self._path = path
        self._known: dict[int, T | Reason] = {}

    def of(self, ids: Iterable[int]) -> dict[int, T | Reason]:
        """Return the decoder or reason for each id, which the lookup is asked for once."""
        wanted = frozenset(ids)
        if new := wanted - self._known.keys():
            possible = frozenset(id_ for id_ in new if id_ <= wire_format.LAST_ID)
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
        """Return the decoder or reason for this id."""
        return self._known.get(schema_id) or self.of([schema_id])[schema_id]


@dataclass(frozen=True, slots=True)
class Remembered:
    """A lookup that asks for a schema once, by its id or its GUID, but again for one that the registry lacks."""

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
    """The frames of schemas that the last header of this name names, as Confluent's clients do.

    ``read_indexes`` reads what follows the schema, Protobuf's message indexes. Without a lookup no payload may have
    such a header: they are texts. It raises what the lookup raises.
    """

    def __init__(self, header: str, lookup: Lookup | None, read_indexes: ReadIndexes | None) -> None:
        self._header, self._lookup, self._read_indexes = header, lookup, read_indexes
        self._path = outcome.HEADERS_PATH + outcome.step_of(header)
        self._frames: dict[bytes, bytes | Reason] = {}

    def framed(self, payloads: pa.BinaryArray, headers: pa.ListArray) -> tuple[pa.BinaryArray, dict[int, Reason]]:
        """Return the payloads with frames, null where there can be none, and by place the reasons why."""
        named, _ = last_headers(headers, self._header)
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
                self._frames[name] = wire_format.frame_of(schema_id, indexes)
            elif schema:
                self._frames[name] = Reason(self._path, Code.SCHEMA, f"schema GUID {ref}: {schema}")
            else:
                detail = f"expected a schema of the registry, got GUID {ref}, which it does not know"
                self._frames[name] = Reason(self._path, Code.UNKNOWN_SCHEMA, detail)

    def _read(self, name: bytes) -> tuple[SchemaRef, bytes]:
        """The schema that is named, and the message indexes; raises Mismatch."""
        if self._lookup is None:
            raise Mismatch(Code.FRAME, "expected a key that is text, its schema is named here; add source.key_format")
        ref, indexes = wire_format.named_schema(name)
        end = self._read_indexes(indexes)[1] if self._read_indexes else 0
        if end < len(indexes):
            whole = len(name) - len(indexes) + end
            raise Mismatch(Code.FRAME, f"expected a header of {whole} bytes, got {len(name)}: {name[:40].hex(' ')}")
        return ref, indexes


class HeaderFrames(NamedTuple):
    """The frames of values, and of keys that are read."""

    values: NamedByHeader
    keys: NamedByHeader | None

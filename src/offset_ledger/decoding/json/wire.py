"""The fast path through JSON: msgspec into Structs, then column by column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.config.model import RecordShape
from offset_ledger.decoding.json.documents import duplicate_path
from offset_ledger.decoding.json.proofs import Prover, prover
from offset_ledger.decoding.json.unique import UniqueNames
from offset_ledger.decoding.jsonb import MAX_DEPTH
from offset_ledger.decoding.kinds import kinds
from offset_ledger.decoding.outcome import Proven
from offset_ledger.decoding.shape import Node
from offset_ledger.decoding.staged import Flags
from offset_ledger.decoding.text_columns import is_utf8

Places = npt.NDArray[np.int64]

# Records that are decoded, and made columns, at a time: what fits the processor's caches.
_CHUNK = 200
_PART = 2000
_FAILURES = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Member:
    """A field of a Struct: a value of the row, or another Struct with its members."""

    field: str
    nullable: bool
    slot: int | None
    members: tuple[Member, ...] = ()
    absent: Any = None


class Unsupported(Exception):
    """The paths do not make Structs: two values at one path, or names that msgspec does not take."""


class Wire:
    """The Struct of a record shape, and a prover for each slot."""

    def __init__(self, struct: type[msgspec.Struct], members: tuple[Member, ...], provers: Sequence[Prover]) -> None:
        self._decode = msgspec.json.Decoder(struct).decode
        self._members = members
        self._provers = provers
        self._nullable = dict(_nullables(members))

    @classmethod
    def of(cls, root: Node, record: RecordShape) -> Wire | None:
        """The wire of a record shape; None where its paths do not make Structs."""
        provers = [prover(kind) for kind in kinds(record)]
        try:
            struct, members = _struct(root, provers)
        except Unsupported:
            return None
        return cls(struct, members, provers)

    def prove(self, values: pa.BinaryArray, value_bytes: int) -> Proven:
        """The values that certainly decode; the rest is for the decoder proper."""
        starts = range(0, max(len(values), 1), _PART)
        parts = [self._part(values.slice(start, _PART), value_bytes) for start in starts]
        places = np.concatenate([part.places + start for part, start in zip(parts, starts, strict=True)])
        return Proven(places, [_joined(pieces) for pieces in zip(*(part.columns for part in parts), strict=True)])

    def _part(self, values: pa.BinaryArray, value_bytes: int) -> Proven:
        texts = values.to_pylist()
        places, read = self._read(texts, np.flatnonzero(_candidates(values, texts, value_bytes)))
        valid = np.zeros(len(texts), np.bool_)
        valid[places] = True
        sure = _unique(values, texts, valid)[places]
        columns = [self._column(slot, column, sure) for slot, column in enumerate(read)]
        if not sure.all():
            keep = pa.array(sure)
            columns = [None if column is None else column.filter(keep) for column in columns]
        return Proven(places[sure], columns)

    def _read(self, texts: list[Any], places: Places) -> tuple[Places, list[list[Any]]]:
        """The places of those texts that decode, and their values by slot."""
        values: list[list[Any]] = [[] for _ in self._provers]
        kept: list[int] = []
        for start in range(0, len(places), _CHUNK):
            chunk = places[start : start + _CHUNK].tolist()
            try:
                records = [self._decode(texts[place]) for place in chunk]
            except _FAILURES:
                chunk, records = self._decode_each(texts, chunk)
            kept += chunk
            _collect(self._members, records, values)
        return np.array(kept, np.int64), values

    def _decode_each(self, texts: list[Any], places: list[int]) -> tuple[list[int], list[Any]]:
        kept, records = [], []
        for place in places:
            try:
                records.append(self._decode(texts[place]))
                kept.append(place)
            except _FAILURES:
                continue
        return kept, records

    def _column(self, slot: int, values: list[Any], sure: Flags) -> pa.Array | None:
        """The column of a slot, None for one that is not in the record; clears the flags of what is in doubt."""
        if slot not in self._nullable:
            return None
        built, good = self._provers[slot].build(values)
        if good is not None:
            sure &= good
        if built.null_count and not self._nullable[slot]:
            sure &= built.is_valid().to_numpy(zero_copy_only=False)
        return built


def _joined(pieces: tuple[pa.Array | None, ...]) -> pa.Array | None:
    return None if pieces[0] is None else pa.concat_arrays(pieces)


def _struct(node: Node, provers: Sequence[Prover]) -> tuple[type[msgspec.Struct], tuple[Member, ...]]:
    fields: list[Any] = []
    members = []
    names = {}
    for index, (name, member) in enumerate(node.members.items()):
        field = f"f{index}"
        names[field] = name
        made, wire = _member(field, member, provers)
        members.append(made)
        fields.append((field, wire, None) if member.nullable and not member.aliased else (field, wire))
    try:
        struct = msgspec.defstruct("Record", fields, rename=names, kw_only=True, gc=False)
    except ValueError as error:
        raise Unsupported(str(error)) from None
    return struct, tuple(members)


def _member(field: str, node: Node, provers: Sequence[Prover]) -> tuple[Member, Any]:
    nullable = node.nullable
    if node.members and not node.leaves:
        nullable = nullable and not node.aliased
        struct, members = _struct(node, provers)
        return Member(field, nullable, None, members, struct() if nullable else None), _optional(struct, nullable)
    if node.members or len(node.leaves) != 1:
        raise Unsupported(f"{node.path} has several meanings")
    slot = node.leaves[0].slot
    wire = provers[slot].wire
    return Member(field, nullable, slot), wire if wire is msgspec.Raw else _optional(wire, nullable)


def _optional(wire: Any, nullable: bool) -> Any:
    return wire | None if nullable else wire


def _collect(members: Sequence[Member], records: list[Any], values: list[list[Any]]) -> None:
    for member in members:
        if member.slot is not None:
            values[member.slot].extend(map(attrgetter(member.field), records))
            continue
        column = list(map(attrgetter(member.field), records))
        if member.nullable:
            column = [member.absent if value is None else value for value in column]
        _collect(member.members, column, values)


def _nullables(members: Sequence[Member]) -> Iterator[tuple[int, bool]]:
    for member in members:
        if member.slot is not None:
            yield member.slot, member.nullable
        yield from _nullables(member.members)


def _candidates(values: pa.BinaryArray, texts: list[Any], value_bytes: int) -> Flags:
    """Which values are there, no longer than allowed, certainly shallow, and valid UTF-8."""
    length = pc.fill_null(pc.binary_length(values), value_bytes + 1).to_numpy(zero_copy_only=False)
    candidates: Flags = length <= value_bytes
    for place in np.flatnonzero(candidates & (length > 2 * MAX_DEPTH)):
        candidates[place] = texts[place].count(b"[") + texts[place].count(b"{") <= MAX_DEPTH
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        for place in np.flatnonzero(candidates):
            candidates[place] = is_utf8(texts[place])
    return candidates


def _unique(values: pa.BinaryArray, texts: list[Any], valid: Flags) -> Flags:
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return valid
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    unique = UniqueNames(np.frombuffer(data, np.uint8), bounds).prove(valid)
    for place in np.flatnonzero(valid & ~unique):
        unique[place] = duplicate_path(texts[place].decode()) is None
    return unique

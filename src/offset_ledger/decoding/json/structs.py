"""The members that paths lead to, read from many JSON texts: msgspec into Structs, then column by column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from offset_ledger.decoding.json.proofs import Prover, prover
from offset_ledger.decoding.kinds import ColumnKind
from offset_ledger.decoding.proven import Places
from offset_ledger.decoding.shape import Node
from offset_ledger.decoding.staged import Flags

_CHUNK = 200  # records that are decoded at a time: what fits the processor's caches
_FAILURES = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@dataclass(frozen=True, slots=True)
class _Member:
    """A field of a Struct: a value of the tree, or another Struct with its members."""

    field: str
    nullable: bool
    slot: int | None
    members: tuple[_Member, ...] = ()
    absent: Any = None


class Unsupported(Exception):
    """The paths do not make Structs: two values at one path, or names that msgspec does not take."""


class Structs:
    """The Struct of a tree of paths, whose slots have these kinds; raises :class:`Unsupported`."""

    def __init__(self, root: Node, kinds: Sequence[ColumnKind]) -> None:
        self._provers = [prover(kind) for kind in kinds]
        struct, self._members = _struct(root, self._provers)
        self._decode = msgspec.json.Decoder(struct).decode
        self._nullable = dict(_nullables(self._members))

    def read(self, texts: list[Any], places: Places) -> tuple[Places, list[list[Any]]]:
        """The places of those texts that are JSON with such members, and their values by slot."""
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

    def column(self, slot: int, values: list[Any], sure: Flags) -> pa.Array | None:
        """The column of a slot, None for one that is not in the record; clears the flags of what is in doubt."""
        if slot not in self._nullable:
            return None
        built, good = self._provers[slot].build(values)
        if good is not None:
            sure &= good
        if built.null_count and not self._nullable[slot]:
            sure &= built.is_valid().to_numpy(zero_copy_only=False)
        return built

    def _decode_each(self, texts: list[Any], places: list[int]) -> tuple[list[int], list[Any]]:
        kept, records = [], []
        for place in places:
            try:
                records.append(self._decode(texts[place]))
                kept.append(place)
            except _FAILURES:
                continue
        return kept, records


def _struct(node: Node, provers: Sequence[Prover]) -> tuple[type[msgspec.Struct], tuple[_Member, ...]]:
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


def _member(field: str, node: Node, provers: Sequence[Prover]) -> tuple[_Member, Any]:
    nullable = node.nullable
    if node.members and not node.leaves:
        nullable = nullable and not node.aliased
        struct, members = _struct(node, provers)
        return _Member(field, nullable, None, members, struct() if nullable else None), _optional(struct, nullable)
    if node.members or len(node.leaves) != 1:
        raise Unsupported(f"{node.path} has several meanings")
    slot = node.leaves[0].slot
    wire = provers[slot].wire
    return _Member(field, nullable, slot), wire if wire is msgspec.Raw else _optional(wire, nullable)


def _optional(wire: Any, nullable: bool) -> Any:
    return wire | None if nullable else wire


def _collect(members: Sequence[_Member], records: list[Any], values: list[list[Any]]) -> None:
    for member in members:
        if member.slot is not None:
            values[member.slot].extend(map(attrgetter(member.field), records))
            continue
        column = list(map(attrgetter(member.field), records))
        if member.nullable:
            column = [member.absent if value is None else value for value in column]
        _collect(member.members, column, values)


def _nullables(members: Sequence[_Member]) -> Iterator[tuple[int, bool]]:
    for member in members:
        if member.slot is not None:
            yield member.slot, member.nullable
        yield from _nullables(member.members)

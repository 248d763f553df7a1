"""The fast path through JSON: many texts are read at once, and taken if their meaning is certain.

msgspec reads the members that paths lead to into Structs, which become Arrow column by column. What is in doubt is left
to the decoder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding.envelope import have_rows
from offset_ledger.decoding.json.conversions import conversion
from offset_ledger.decoding.json.unique import UniqueNames, duplicate_path
from offset_ledger.decoding.jsonb import MAX_DEPTH
from offset_ledger.decoding.kinds import ColumnKind, kinds, valid_flags
from offset_ledger.decoding.outcome import Flags, Places, Proven
from offset_ledger.decoding.paths import Node, are_equal, compared, tree_of
from offset_ledger.decoding.texts import is_utf8
from offset_ledger.pipeline_file.pipeline import FieldCondition, RecordShape

_PART = 2000  # records that become columns at a time: they fit the processor's caches
_CHUNK = 200  # records that are decoded at a time, likewise
FAILURES = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Unsupported(Exception):
    """The paths do not make Structs: two values at one path, or names that msgspec does not take."""


class Wire:
    """The lockstep reader of records of one shape; raises :class:`Unsupported`."""

    def __init__(self, root: Node, record: RecordShape) -> None:
        self._row = Structs(root, kinds(record))
        self._where = [_Compared(each) for each in record.where_in_values]
        self._deletes = _Compared(record.delete_when) if record.delete_when and not record.envelope else None
        self._operation = _Operation() if record.envelope else None

    @classmethod
    def of(cls, root: Node, record: RecordShape) -> Wire | None:
        """Return the wire of a record shape; None where its paths do not make Structs."""
        try:
            return cls(root, record)
        except Unsupported:
            return None

    def prove(self, values: pa.BinaryArray, value_bytes: int) -> Proven:
        """Return the values that certainly decode, and those that certainly are skipped."""
        parts = []
        for start in range(0, max(len(values), 1), _PART):
            part = values.slice(start, _PART)
            texts = part.to_pylist()
            places, skipped = np.flatnonzero(_candidates(part, texts, value_bytes)), [np.zeros(0, np.int64)]
            if self._operation:
                places = self._operation.with_rows(texts, places)
            for where in self._where:
                places, others = where.split(texts, places)
                skipped.append(others)
            if self._deletes:
                _, places = self._deletes.split(texts, places)
            places, read = self._row.read(texts, places)
            others = np.sort(np.concatenate(skipped))
            unique = _unique(part, texts, [places, others])
            sure = unique[places]
            columns = [self._row.column(slot, column, sure) for slot, column in enumerate(read)]
            parts.append(Proven(places + start, columns, others[unique[others]] + start).kept(sure))
        slots = zip(*(part.columns for part in parts), strict=True)
        columns = [None if pieces[0] is None else pa.concat_arrays(pieces) for pieces in slots]
        places = np.concatenate([part.places for part in parts])
        return Proven(places, columns, np.concatenate([part.skipped for part in parts]))


class _Operation:
    """The operations of many change events."""

    def __init__(self) -> None:
        condition = FieldCondition(("op",), "")
        self._structs = Structs(tree_of(condition), [compared(condition)])

    def with_rows(self, texts: list[Any], places: Places) -> Places:
        """Return the places of those that surely have a row."""
        places, read = self._structs.read(texts, places)
        sure = np.ones(len(places), np.bool_)
        column = self._structs.column(0, read[0], sure)
        assert column is not None
        return places[sure & have_rows(column)]


class _Compared:
    """A condition, compared with the values of many texts."""

    def __init__(self, condition: FieldCondition) -> None:
        self._condition = condition
        self._number = None if isinstance(condition.equals, str | bool) else str(condition.equals)
        kind = compared(condition) if self._number is None else ColumnKind("numeric", (), "")
        self._structs = Structs(tree_of(condition), [kind])

    def split(self, texts: list[Any], places: Places) -> tuple[Places, Places]:
        """Return the places of the texts for which it surely holds, and of those for which it surely does not."""
        places, read = self._structs.read(texts, places)
        sure = np.ones(len(places), np.bool_)
        column = self._structs.column(0, read[0], sure)
        assert column is not None
        equal = are_equal(self._condition, column)
        if self._number is not None:  # the same number can have a fraction of zeros
            form = rf"^{'-?' if self._number == '0' else ''}{self._number}(?:\.0+)?$"
            is_number = pc.fill_null(pc.match_substring_regex(column, form), False).to_numpy(zero_copy_only=False)
            sure &= equal | ~is_number
        equal = ~equal if self._condition.negated else equal
        return places[sure & equal], places[sure & ~equal]


def _candidates(values: pa.BinaryArray, texts: list[Any], value_bytes: int) -> Flags:
    """Flag the values that are not null, no longer than allowed, surely shallow, and valid UTF-8."""
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


def _unique(values: pa.BinaryArray, texts: list[Any], places: list[Places]) -> Flags:
    """Flag the texts at these places, all valid JSON, that repeat no name."""
    valid = np.zeros(len(texts), np.bool_)
    valid[np.concatenate(places)] = True
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return valid
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    unique = UniqueNames(np.frombuffer(data, np.uint8), bounds).prove(valid)
    for place in np.flatnonzero(valid & ~unique):
        unique[place] = duplicate_path(texts[place].decode()) is None
    return unique


@dataclass(frozen=True, slots=True)
class _Member:
    """A field of a Struct: a value of the tree, or another Struct with its members."""

    field: str
    nullable: bool
    slots: tuple[int, ...]
    members: tuple[_Member, ...] = ()
    absent: Any = None


class Structs:
    """The Struct of a tree of paths, whose slots have these kinds; raises :class:`Unsupported`."""

    def __init__(self, root: Node, slot_kinds: Sequence[ColumnKind]) -> None:
        self._conversions = [conversion(kind) for kind in slot_kinds]
        self._nullable: dict[int, bool] = {}
        struct, self._members = self._struct(root)
        self._decode = msgspec.json.Decoder(struct).decode

    def read(self, texts: list[Any], places: Places) -> tuple[Places, list[list[Any]]]:
        """Return the places of the texts that are JSON with such members, and their values by slot."""
        values: list[list[Any]] = [[] for _ in self._conversions]
        read: list[int] = []
        for start in range(0, len(places), _CHUNK):
            chunk = places[start : start + _CHUNK].tolist()
            try:
                records = [self._decode(texts[place]) for place in chunk]
            except FAILURES:
                chunk, records, doubtful = [], [], chunk
                for place in doubtful:
                    try:
                        records.append(self._decode(texts[place]))
                        chunk.append(place)
                    except FAILURES:
                        continue
            read += chunk
            _collect(self._members, records, values)
        return np.array(read, np.int64), values

    def column(self, slot: int, values: list[Any], sure: Flags) -> pa.Array | None:
        """Return the column of a slot, None if it is not in the record; clear the flags of doubtful values."""
        if slot not in self._nullable:
            return None
        built, flags = self._conversions[slot].build(values)
        if flags is not None:
            sure &= flags
        if built.null_count and not self._nullable[slot]:
            sure &= valid_flags(built)
        return built

    def _struct(self, node: Node) -> tuple[type[msgspec.Struct], tuple[_Member, ...]]:
        fields: list[Any] = []
        members = []
        names = {f"f{index}": name for index, name in enumerate(node.members)}
        for field, member in zip(names, node.members.values(), strict=True):
            made, wire = self._member(field, member)
            members.append(made)
            fields.append((field, wire, None) if member.nullable and not member.aliased else (field, wire))
        try:
            struct = msgspec.defstruct("Record", fields, rename=names, kw_only=True, gc=False)
        except ValueError as error:
            raise Unsupported(str(error)) from None
        return struct, tuple(members)

    def _member(self, field: str, node: Node) -> tuple[_Member, Any]:
        nullable = node.nullable
        if node.members and not node.leaves:
            nullable = nullable and not node.aliased
            struct, members = self._struct(node)
            made = _Member(field, nullable, (), members, struct() if nullable else None)
            return made, struct | None if nullable else struct
        slots = tuple(leaf.slot for leaf in node.leaves)
        # An event id takes what a column of texts or integers takes.
        wire, *others = {self._conversions[slot].wire for slot in slots} - {str | int} or {str | int}
        if node.members or others or (len(slots) > 1 and wire in (bool, msgspec.Raw)):
            raise Unsupported(f"{node.path} has several meanings")
        self._nullable.update(dict.fromkeys(slots, nullable))
        return _Member(field, nullable, slots), wire | None if nullable and wire is not msgspec.Raw else wire


def _collect(members: Sequence[_Member], records: list[Any], values: list[list[Any]]) -> None:
    for member in members:
        for slot in member.slots:
            values[slot].extend(map(attrgetter(member.field), records))
        if member.slots:
            continue
        column = list(map(attrgetter(member.field), records))
        if member.nullable:
            column = [member.absent if value is None else value for value in column]
        _collect(member.members, column, values)

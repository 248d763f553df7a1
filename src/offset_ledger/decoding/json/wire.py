"""The fast path through JSON: many texts are read at once, and taken where they certainly are what they seem."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.config.model import FieldCondition, RecordShape
from offset_ledger.decoding.conditions import compared, holds, tree_of
from offset_ledger.decoding.json.documents import duplicate_path
from offset_ledger.decoding.json.structs import Structs, Unsupported
from offset_ledger.decoding.json.unique import UniqueNames
from offset_ledger.decoding.jsonb import MAX_DEPTH
from offset_ledger.decoding.kinds import ColumnKind, kinds
from offset_ledger.decoding.proven import Places, Proven
from offset_ledger.decoding.shape import Node
from offset_ledger.decoding.staged import Flags
from offset_ledger.decoding.text_columns import is_utf8

_PART = 2000  # records that are made columns at a time: what fits the processor's caches


class Wire:
    """Proves the records of one shape; raises :class:`~offset_ledger.decoding.json.structs.Unsupported`."""

    def __init__(self, root: Node, record: RecordShape) -> None:
        self._row = Structs(root, kinds(record))
        self._where = _Compared(record.where) if record.where else None
        self._deletes = _Compared(record.delete_when) if record.delete_when else None

    @classmethod
    def of(cls, root: Node, record: RecordShape) -> Wire | None:
        """The wire of a record shape; None where its paths do not make Structs."""
        try:
            return cls(root, record)
        except Unsupported:
            return None

    def prove(self, values: pa.BinaryArray, value_bytes: int) -> Proven:
        """The values that certainly decode, and those that certainly are skipped; the decoder reads the others."""
        starts = range(0, max(len(values), 1), _PART)
        parts = [self._part(values.slice(start, _PART), value_bytes) for start in starts]
        places = np.concatenate([part.places + start for part, start in zip(parts, starts, strict=True)])
        skipped = np.concatenate([part.skipped + start for part, start in zip(parts, starts, strict=True)])
        columns = [_joined(pieces) for pieces in zip(*(part.columns for part in parts), strict=True)]
        return Proven(places, columns, skipped)

    def _part(self, values: pa.BinaryArray, value_bytes: int) -> Proven:
        texts = values.to_pylist()
        places, others = np.flatnonzero(_candidates(values, texts, value_bytes)), np.zeros(0, np.int64)
        if self._where:
            places, others = self._where.split(texts, places)
        if self._deletes:
            _, places = self._deletes.split(texts, places)
        places, read = self._row.read(texts, places)
        unique = _unique(values, texts, [places, others])
        sure = unique[places]
        columns = [self._row.column(slot, column, sure) for slot, column in enumerate(read)]
        return Proven(places, columns, others[unique[others]]).kept(sure)


class _Compared:
    """A condition, compared with the values of many texts."""

    def __init__(self, condition: FieldCondition) -> None:
        self._condition = condition
        self._number = None if isinstance(condition.equals, str | bool) else str(condition.equals)
        kind = compared(condition) if self._number is None else ColumnKind("numeric", (), "")
        self._structs = Structs(tree_of(condition), [kind])

    def split(self, texts: list[Any], places: Places) -> tuple[Places, Places]:
        """The places of those texts of which it certainly holds, and of those of which it certainly does not."""
        places, read = self._structs.read(texts, places)
        sure = np.ones(len(places), np.bool_)
        column = self._structs.column(0, read[0], sure)
        assert column is not None
        equal = holds(self._condition, column)
        if self._number is not None:
            sure &= equal | ~_is_number(self._number, column)
        return places[sure & equal], places[sure & ~equal]


def _is_number(number: str, column: pa.StringArray) -> Flags:
    """Which decimals without an exponent are that whole number."""
    form = rf"^{'-?' if number == '0' else ''}{number}(?:\.0+)?$"
    flags: Flags = pc.fill_null(pc.match_substring_regex(column, form), False).to_numpy(zero_copy_only=False)
    return flags


def _joined(pieces: tuple[pa.Array | None, ...]) -> pa.Array | None:
    return None if pieces[0] is None else pa.concat_arrays(pieces)


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


def _unique(values: pa.BinaryArray, texts: list[Any], places: list[Places]) -> Flags:
    """Which of the texts at these places, all valid JSON, repeat no name."""
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

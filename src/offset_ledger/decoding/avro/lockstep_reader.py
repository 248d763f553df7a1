"""The fast reader of records: all walk through the schema together, field by field, and become columns.

Records whose unions take different branches part there and meet again behind. What is not walked so (types that
contain themselves, arrays in arrays, and more than a few items) is left to the exact reader, and so is every record
that is not as most are written: it takes none that the exact reader would refuse or read otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding.avro.cursor import Cursor, Malformed
from offset_ledger.decoding.avro.schema import Array, AvroType, Map, Record, Scalar, Union
from offset_ledger.decoding.avro.values import Parts, Step
from offset_ledger.decoding.lockstep import Cursors
from offset_ledger.decoding.outcome import Mismatch
from offset_ledger.decoding.proven import Proven
from offset_ledger.decoding.shape import Leaf, Node
from offset_ledger.decoding.staged import Flags, content, staged_type
from offset_ledger.decoding.text_columns import utf8
from offset_ledger.decoding.typed.columns import Build, column_builder
from offset_ledger.decoding.typed.convert import json_text
from offset_ledger.decoding.typed.decoder import Found
from offset_ledger.decoding.typed.types import TypeName

MAX_STEPS = 1000
MAX_NESTED = 50


class NotInLockstep(Exception):
    """A schema, or a branch of it, that the records do not walk through together."""


class LockstepReader:
    """Proves the records of one schema; raises :class:`NotInLockstep` where there is no such way."""

    def __init__(self, record: Record, root: Node) -> None:
        self._leaves = {leaf.slot: leaf for leaf in root.descendants()}
        self._slots = max((1, *self._leaves)) + 1
        compiled = _Compiler()
        self._walk = compiled.fill(record, root, 0)
        if any(leaf.slot not in compiled.filled for leaf in self._leaves.values() if not leaf.nullable):
            raise NotInLockstep("a value that has to be there never is")

    def prove(self, values: pa.BinaryArray, candidates: Flags) -> Proven:
        """The records that are certainly read without a reason, as columns."""
        walk = Walk(values, candidates, self._slots)
        self._walk(walk, None)
        proven = walk.cursors.at_end()
        columns = {slot: _joined(walk, leaf) for slot, leaf in self._leaves.items()}
        for slot, leaf in self._leaves.items():
            if not leaf.nullable and columns[slot].null_count:
                proven &= columns[slot].is_valid().to_numpy(zero_copy_only=False)
        places = np.flatnonzero(proven)
        if len(places) < len(proven):
            columns = {slot: column.take(pa.array(places)) for slot, column in columns.items()}
        return Proven(places, [columns.get(slot) for slot in range(self._slots)])


def _joined(walk: Walk, leaf: Leaf) -> pa.Array:
    """The column of a leaf, of what each branch gave."""
    columns = walk.columns[leaf.slot]
    if not columns:
        return pa.nulls(len(walk.cursors.good), staged_type(leaf.kind))
    return columns[0] if len(columns) == 1 else pc.coalesce(*columns)


class _Compiler:
    """The steps through one schema along one tree of paths; ``filled`` are the slots that they lead to."""

    def __init__(self) -> None:
        self.filled = set[int]()
        self._open: list[Record] = []
        self._parts = Parts()
        self._left = MAX_STEPS

    def fill(self, type_: AvroType, node: Node | None, depth: int, in_items: bool = False) -> WalkStep:
        """Walks through values and fills the slots that the node leads to; without a node, steps over them."""
        self._left -= 1
        if depth > MAX_NESTED or self._left < 0:
            raise NotInLockstep("a large schema")
        match type_:
            case Scalar():
                return skip_step(type_) if node is None else self._scalar(type_, node)
            case Record():
                return self._whole(type_, node.leaves if node else [], self._fields(type_, node, depth, in_items))
            case Union():
                return self._union(type_, node, depth, in_items)
            case Array() | Map():
                if in_items or (node is not None and node.members):
                    raise NotInLockstep("items in items, or the items of a map one by one")
                inner = type_.items if isinstance(type_, Array) else type_.values
                step = self.fill(inner, None, depth + 1, in_items=True)
                over = items_step(step, isinstance(type_, Map))
                return self._whole(type_, node.leaves if node else [], over)

    def _scalar(self, scalar: Scalar, node: Node) -> WalkStep:
        if scalar.value.name is TypeName.NULL:
            return skip_step(scalar)
        if node.members:
            raise NotInLockstep("a path through a single value")
        built = [(leaf, column_builder(scalar.value, leaf.kind)) for leaf in node.leaves]
        builds = [(leaf.slot, build) for leaf, build in built if build]
        self.filled.update(slot for slot, _ in builds)
        step = fill_step(scalar, builds) if builds else skip_step(scalar)
        return self._whole(scalar, [leaf for leaf, build in built if not build], step)

    def _fields(self, record: Record, node: Node | None, depth: int, in_items: bool) -> WalkStep:
        if record in self._open:
            raise NotInLockstep("a record that contains itself")
        self._open.append(record)
        members = {} if node is None else node.members
        try:
            steps = [self.fill(each.type, members.get(each.name), depth + 1, in_items) for each in record.fields]
        finally:
            self._open.pop()

        def walk_fields(walk: Walk, where: Where) -> None:
            for step in steps:
                step(walk, where)

        return walk_fields

    def _whole(self, type_: AvroType, leaves: list[Leaf], step: WalkStep) -> WalkStep:
        """Takes the step, and fills the leaves with all that it passes over."""
        if not leaves:
            return step
        if any(leaf.kind.name != "jsonb" for leaf in leaves):
            raise NotInLockstep("values that have to be asked one by one")
        slots = [leaf.slot for leaf in leaves]
        self.filled.update(slots)
        return document_step(step, self._parts.value(type_), slots)

    def _union(self, union: Union, node: Node | None, depth: int, in_items: bool) -> WalkStep:
        branches = []
        for each in union.branches:
            try:
                branches.append(self.fill(each, node, depth + 1, in_items))
            except NotInLockstep:
                branches.append(leave)
        if leave in branches and all(
            step is leave or _is_null(of) for step, of in zip(branches, union.branches, strict=True)
        ):
            raise NotInLockstep("a union of which no branch is")
        steps = [(n, step) for n, step in enumerate(branches) if not _is_null(union.branches[n])]

        def walk_branches(walk: Walk, where: Where) -> None:
            index = indexes(walk.cursors, len(branches), where)
            for number, step in steps:
                takes = index == number
                step(walk, takes if where is None else takes & where)

        return walk_branches


def _is_null(type_: AvroType) -> bool:
    return isinstance(type_, Scalar) and type_.wire == "null"


Where = Flags | None
"""The records that take a step; None for all."""
ReadColumn = Callable[[Cursors, Where], pa.Array]
SkipColumn = Callable[[Cursors, Where], object]


def read_column(scalar: Scalar) -> ReadColumn:
    """Reads a column of the value's ``arrow_type``; null where a record takes no such step."""
    if scalar.value.name is TypeName.DECIMAL:
        read = _spans(scalar)
        return lambda cursors, where: _unscaled(cursors, where, read(cursors, where))
    if scalar.wire == "enum":
        return _symbols(scalar)
    if scalar.wire in ("bytes", "fixed"):
        return _spans(scalar)
    return _READ[scalar.wire]


def skip_column(scalar: Scalar) -> SkipColumn:
    """Steps over the values."""
    if scalar.wire == "null":
        return lambda _cursors, _where: None
    if scalar.wire == "boolean":
        return Cursors.booleans
    if scalar.wire in ("string", "bytes"):
        return lambda cursors, where: cursors.skip(cursors.zigzags(where), where)
    if scalar.wire == "enum":
        return lambda cursors, where: indexes(cursors, len(scalar.symbols), where)
    if scalar.wire in ("int", "long"):
        return integers_32 if scalar.wire == "int" else Cursors.zigzags
    size = {"float": 4, "double": 8}.get(scalar.wire, scalar.size)
    return lambda cursors, where: cursors.skip(np.full(len(cursors.good), size), where)


def indexes(cursors: Cursors, count: int, where: Where) -> npt.NDArray[np.int64]:
    """The indexes of symbols or of branches, of so many."""
    index = integers_32(cursors, where)
    cursors.good &= (index >= 0) & (index < count)
    return index


def integers_32(cursors: Cursors, where: Where) -> npt.NDArray[np.int64]:
    """Integers of 32 bits."""
    values = cursors.zigzags(where)
    cursors.good &= values == values.astype(np.int32)
    return values


def check(cursors: Cursors, flags: Flags, where: Where) -> None:
    """Of the records that take the step, those without their flag are not good."""
    cursors.good &= flags if where is None else flags | ~where


def masked(values: npt.NDArray[Any], where: Where) -> pa.Array:
    """The values as a column, null where a record takes no such step."""
    return pa.array(values) if where is None else pa.array(values, mask=~where)


def _texts(cursors: Cursors, where: Where) -> pa.StringArray:
    texts, flags = utf8(cursors.spans(cursors.zigzags(where), where))
    if flags is not None:
        check(cursors, flags, where)
    return texts


def _symbols(scalar: Scalar) -> ReadColumn:
    symbols = pa.array(scalar.symbols, pa.string())

    def read(cursors: Cursors, where: Where) -> pa.Array:
        index = indexes(cursors, len(symbols), where)
        return symbols.take(pa.array(index, mask=~(cursors.good if where is None else cursors.good & where)))

    return read


def _spans(scalar: Scalar) -> ReadColumn:
    if scalar.wire == "bytes":
        return lambda cursors, where: cursors.spans(cursors.zigzags(where), where)
    size = scalar.size
    return lambda cursors, where: cursors.spans(np.full(len(cursors.good), size), where)


def _unscaled(cursors: Cursors, where: Where, spans: pa.BinaryArray) -> pa.Int64Array:
    """Two's complement of 1 to 8 bytes, the highest first."""
    sizes = pc.fill_null(pc.binary_length(spans), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    fits = (sizes >= 1) & (sizes <= 8)
    check(cursors, fits, where)
    data = np.concatenate([np.zeros(8, np.uint8), content(spans)])
    words = np.ndarray((len(data) - 7,), np.dtype(">i8"), data.data, 0, (1,))
    shift = 64 - 8 * np.where(fits, sizes, 8)
    values = words[np.cumsum(sizes)].astype(np.int64) << shift >> shift
    return pa.array(values, mask=~fits)


_READ: dict[str, ReadColumn] = {
    "boolean": lambda cursors, where: masked(cursors.booleans(where), where),
    "int": lambda cursors, where: masked(integers_32(cursors, where), where),
    "long": lambda cursors, where: masked(cursors.zigzags(where), where),
    "float": lambda cursors, where: masked(cursors.fixed(4, where).view("<f4").reshape(-1), where),
    "double": lambda cursors, where: masked(cursors.fixed(8, where).view("<f8").reshape(-1), where),
    "string": _texts,
}


MAX_ITEMS = 32


class Walk:
    """The cursors, and for each slot the columns of the branches that lead to it."""

    def __init__(self, values: pa.BinaryArray, candidates: Flags, slots: int) -> None:
        self.cursors = Cursors(values, candidates)
        self.columns: list[list[pa.Array]] = [[] for _ in range(slots)]


WalkStep = Callable[[Walk, Where], None]


def skip_step(scalar: Scalar) -> WalkStep:
    """Steps over values without parts."""
    skip = skip_column(scalar)

    def step(walk: Walk, where: Where) -> None:
        skip(walk.cursors, where)

    return step


def fill_step(scalar: Scalar, builds: list[tuple[int, Build]]) -> WalkStep:
    """Fills the slots with values without parts."""
    read = read_column(scalar)

    def step(walk: Walk, where: Where) -> None:
        column = read(walk.cursors, where)
        for slot, build in builds:
            staged, flags = build(column)
            walk.columns[slot].append(staged)
            if flags is not None:
                check(walk.cursors, flags, where)

    return step


def document_step(pass_over: WalkStep, read: Step, slots: list[int]) -> WalkStep:
    """Fills the slots with the JSON of what a step passes over, which the exact reader reads one by one."""

    def step(walk: Walk, where: Where) -> None:
        start = walk.cursors.places()
        pass_over(walk, where)
        spans = walk.cursors.since(start, where)
        column = pa.array([None if span is None else _document(read, span) for span in spans.to_pylist()], pa.string())
        check(walk.cursors, column.is_valid().to_numpy(zero_copy_only=False), where)
        for slot in slots:
            walk.columns[slot].append(column)

    return step


def _document(read: Step, span: bytes) -> str | None:
    """The JSON of a value, None where there is a reason against it."""
    cursor = Cursor(span, Found([]))
    try:
        value = read(cursor)
        return None if cursor.against else json_text(value)
    except (Malformed, Mismatch):
        return None


def leave(walk: Walk, where: Where) -> None:
    """Leave these records to the exact reader."""
    check(walk.cursors, np.zeros(len(walk.cursors.good), np.bool_), where)


def items_step(step: WalkStep, keyed: bool) -> WalkStep:
    """Steps over the items of arrays or maps, the first of all of them, then the second, and so on."""

    def walk_items(walk: Walk, where: Where) -> None:
        cursors = walk.cursors
        rest = np.full(len(cursors.good), MAX_ITEMS)
        open_ = cursors.good.copy() if where is None else cursors.good & where
        while open_.any():
            count = cursors.zigzags(open_)
            check(cursors, (count >= 0) & (count <= rest), open_)
            open_ = cursors.good & open_ & (count > 0)
            rest -= np.where(open_, count, 0)
            for number in range(int(np.max(count, initial=0, where=open_))):
                takes = cursors.good & open_ & (number < count)
                if keyed:
                    cursors.skip(cursors.zigzags(takes), takes)
                step(walk, takes)

    return walk_items

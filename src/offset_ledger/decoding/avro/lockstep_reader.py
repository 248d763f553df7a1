"""The fast reader of records: all walk through the schema together, field by field, and become columns.

Records whose unions take different branches part there and meet again behind. What is not walked so (types that
contain themselves, arrays in arrays, and more than a few items) is left to the exact reader, and so is every record
that is not as most are written: it takes none that the exact reader would refuse or read otherwise.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding.avro.lockstep_scalars import Where, check, indexes, read_column, skip_column
from offset_ledger.decoding.avro.nodes import Array, AvroType, Map, Record, Scalar, Union
from offset_ledger.decoding.lockstep import Cursors
from offset_ledger.decoding.outcome import Proven
from offset_ledger.decoding.shape import Leaf, Node
from offset_ledger.decoding.staged import Flags, staged_type
from offset_ledger.decoding.typed.columns import Build, column_builder
from offset_ledger.decoding.typed.types import TypeName

MAX_STEPS = 1000
MAX_NESTED = 50
MAX_ITEMS = 32


class NotInLockstep(Exception):
    """A schema, or a branch of it, that the records do not walk through together."""


class _Walk:
    """The cursors, and for each slot the columns of the branches that lead to it."""

    def __init__(self, values: pa.BinaryArray, candidates: Flags, slots: int) -> None:
        self.cursors = Cursors(values, candidates)
        self.columns: list[list[pa.Array]] = [[] for _ in range(slots)]


_Step = Callable[[_Walk, Where], None]


class LockstepReader:
    """Proves the records of one schema; raises :class:`NotInLockstep` where there is no such way."""

    def __init__(self, record: Record, root: Node) -> None:
        self._leaves = {leaf.slot: leaf for leaf in root.descendants()}
        self._slots = max(self._leaves, default=1) + 1
        compiled = _Compiler()
        self._walk = compiled.fill(record, root, 0)
        if any(leaf.slot not in compiled.filled for leaf in self._leaves.values() if not leaf.nullable):
            raise NotInLockstep("a value that has to be there never is")

    def prove(self, values: pa.BinaryArray, candidates: Flags) -> Proven:
        """The records that are certainly read without a reason, as columns."""
        walk = _Walk(values, candidates, self._slots)
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


def _joined(walk: _Walk, leaf: Leaf) -> pa.Array:
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
        self._left = MAX_STEPS

    def fill(self, type_: AvroType, node: Node | None, depth: int, in_items: bool = False) -> _Step:
        """Walks through values and fills the slots that the node leads to; without a node, steps over them."""
        self._left -= 1
        if depth > MAX_NESTED or self._left < 0:
            raise NotInLockstep("a large schema")
        match type_:
            case Scalar():
                return _skip(type_) if node is None else self._scalar(type_, node)
            case Record():
                return self._record(type_, node, depth, in_items)
            case Union():
                return self._union(type_, node, depth, in_items)
            case Array() | Map():
                if node is not None or in_items:
                    raise NotInLockstep("an array or a map that has to be read")
                inner = type_.items if isinstance(type_, Array) else type_.values
                return _items(self.fill(inner, None, depth + 1, True), isinstance(type_, Map))

    def _scalar(self, scalar: Scalar, node: Node) -> _Step:
        if scalar.value.name is TypeName.NULL:
            return _skip(scalar)
        if node.members:
            raise NotInLockstep("a path through a single value")
        self.filled.update(leaf.slot for leaf in node.leaves)
        return _fill(scalar, [(leaf.slot, _builder(scalar, leaf)) for leaf in node.leaves])

    def _record(self, record: Record, node: Node | None, depth: int, in_items: bool) -> _Step:
        if record in self._open or (node is not None and node.leaves):
            raise NotInLockstep("a record that contains itself, or has to be read as a whole")
        self._open.append(record)
        members = {} if node is None else node.members
        try:
            steps = [self.fill(each.type, members.get(each.name), depth + 1, in_items) for each in record.fields]
        finally:
            self._open.pop()

        def walk_fields(walk: _Walk, where: Where) -> None:
            for step in steps:
                step(walk, where)

        return walk_fields

    def _union(self, union: Union, node: Node | None, depth: int, in_items: bool) -> _Step:
        branches = []
        for each in union.branches:
            try:
                branches.append(self.fill(each, node, depth + 1, in_items))
            except NotInLockstep:
                branches.append(_leave)
        if _leave in branches and all(
            step is _leave or _is_null(of) for step, of in zip(branches, union.branches, strict=True)
        ):
            raise NotInLockstep("a union of which no branch is")
        steps = [(n, step) for n, step in enumerate(branches) if not _is_null(union.branches[n])]

        def walk_branches(walk: _Walk, where: Where) -> None:
            index = indexes(walk.cursors, len(branches), where)
            for number, step in steps:
                takes = index == number
                step(walk, takes if where is None else takes & where)

        return walk_branches


def _is_null(type_: AvroType) -> bool:
    return isinstance(type_, Scalar) and type_.wire == "null"


def _builder(scalar: Scalar, leaf: Leaf) -> Build:
    build = column_builder(scalar.value, leaf.kind)
    if build is None:
        raise NotInLockstep("values that have to be asked one by one")
    return build


def _skip(scalar: Scalar) -> _Step:
    skip = skip_column(scalar)

    def step(walk: _Walk, where: Where) -> None:
        skip(walk.cursors, where)

    return step


def _fill(scalar: Scalar, builds: list[tuple[int, Build]]) -> _Step:
    read = read_column(scalar)

    def step(walk: _Walk, where: Where) -> None:
        column = read(walk.cursors, where)
        for slot, build in builds:
            staged, flags = build(column)
            walk.columns[slot].append(staged)
            if flags is not None:
                check(walk.cursors, flags, where)

    return step


def _leave(walk: _Walk, where: Where) -> None:
    """Leave these records to the exact reader."""
    check(walk.cursors, np.zeros(len(walk.cursors.good), np.bool_), where)


def _items(step: _Step, keyed: bool) -> _Step:
    """Steps over the items of arrays or maps, the first of all of them, then the second, and so on."""

    def walk_items(walk: _Walk, where: Where) -> None:
        cursors = walk.cursors
        rest = np.full(len(cursors.good), MAX_ITEMS)
        open_ = cursors.good if where is None else cursors.good & where
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

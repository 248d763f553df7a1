"""The fast reader of records: all walk through the schema together, field by field, and become columns.

Records whose unions take different branches part there and meet again behind. What is not walked so (types that
contain themselves, arrays in arrays, and more than a few items) is left to the exact reader, and so is every record
that is not as most are written: it takes none that the exact reader would refuse or read otherwise.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding.avro.lockstep_scalars import Where, indexes
from offset_ledger.decoding.avro.lockstep_steps import (
    Walk,
    WalkStep,
    document_step,
    fill_step,
    items_step,
    leave,
    skip_step,
)
from offset_ledger.decoding.avro.nodes import Array, AvroType, Map, Record, Scalar, Union
from offset_ledger.decoding.avro.values import Parts
from offset_ledger.decoding.proven import Proven
from offset_ledger.decoding.shape import Leaf, Node
from offset_ledger.decoding.staged import Flags, staged_type
from offset_ledger.decoding.typed.columns import column_builder
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

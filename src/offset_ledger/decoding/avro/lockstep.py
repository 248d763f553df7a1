"""The fast reader of records: all walk through the schema together, field by field, and become columns.

Records whose unions take different branches part there and meet again behind. What is not walked so (types that
contain themselves, arrays in arrays, and more than a few items) is left to the exact reader, and so is every record
that is not as most are written: it takes none that the exact reader would refuse or read otherwise.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding.avro.byte_reader import ByteReader
from offset_ledger.decoding.avro.schema import Array, AvroType, Map, Record, Scalar, Union
from offset_ledger.decoding.avro.steps import Parts, Step
from offset_ledger.decoding.kinds import content, staged, staged_type, valid_flags
from offset_ledger.decoding.lockstep import Cursors, masked
from offset_ledger.decoding.outcome import Flags, Mismatch, Proven
from offset_ledger.decoding.paths import Leaf, Node
from offset_ledger.decoding.typed.conversions import Build, Convert, conversion
from offset_ledger.decoding.typed.types import TypeName

MAX_STEPS = 1000
MAX_NESTED = 50
MAX_ITEMS = 32

Where = Flags | None
"""The records that take a step; None for all."""
ReadColumn = Callable[[Cursors, Where], pa.Array]


class NotInLockstep(Exception):
    """A schema, or a branch of it, that records cannot walk through together."""


class Walk:
    """The cursors, and for each slot the columns of the branches that lead to it."""

    def __init__(self, values: pa.BinaryArray, candidates: Flags, slots: int) -> None:
        self.cursors = Cursors(values, candidates)
        self.columns: list[list[pa.Array]] = [[] for _ in range(slots)]


WalkStep = Callable[[Walk, Where], object]


class LockstepReader:
    """The lockstep reader of one schema; raises :class:`NotInLockstep` where the schema cannot be read this way."""

    def __init__(self, record: Record, root: Node) -> None:
        self._leaves = {leaf.slot: leaf for leaf in root.descendants()}
        self._slots = max((1, *self._leaves)) + 1
        compiled = _Compiler()
        self._walk = compiled.fill(record, root, 0)
        if any(leaf.slot not in compiled.filled for leaf in self._leaves.values() if not leaf.nullable):
            raise NotInLockstep("a value that has to be there never is")

    def prove(self, values: pa.BinaryArray, candidates: Flags) -> Proven:
        """Return the records that are certainly read without a reason, as columns."""
        walk = Walk(values, candidates, self._slots)
        self._walk(walk, None)
        proven = walk.cursors.at_end()
        columns = {}
        for slot, leaf in self._leaves.items():
            of_branches = walk.columns[slot] or [pa.nulls(len(proven), staged_type(leaf.kind))]
            columns[slot] = of_branches[0] if len(of_branches) == 1 else pc.coalesce(*of_branches)
            if not leaf.nullable and columns[slot].null_count:
                proven &= valid_flags(columns[slot])
        places = np.flatnonzero(proven)
        if len(places) < len(proven):
            columns = {slot: column.take(pa.array(places)) for slot, column in columns.items()}
        return Proven(places, [columns.get(slot) for slot in range(self._slots)])


class _Compiler:
    """The compiler of the steps through one schema along one tree of paths; ``filled`` are the slots that they fill."""

    def __init__(self) -> None:
        self.filled = set[int]()
        self._open: list[Record] = []
        self._parts = Parts()
        self._left = MAX_STEPS

    def fill(self, type_: AvroType, node: Node | None, depth: int, in_items: bool = False) -> WalkStep:
        """Return the step through values that fills the node's slots; without a node it only passes over them."""
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
                return self._whole(type_, node.leaves if node else [], WalkItems(step, isinstance(type_, Map)))

    def _scalar(self, scalar: Scalar, node: Node) -> WalkStep:
        if scalar.value.name is TypeName.NULL:
            return skip_step(scalar)
        if node.members:
            raise NotInLockstep("a path through a single value")
        built = [(leaf, conversion(scalar.value, leaf.kind).build) for leaf in node.leaves]
        builds = tuple((leaf.slot, build) for leaf, build in built if build)
        self.filled.update(slot for slot, _ in builds)
        step = FillColumns(column_reader(scalar), builds) if builds else skip_step(scalar)
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
        return WalkFields(record.name, tuple(steps))

    def _whole(self, type_: AvroType, leaves: list[Leaf], step: WalkStep) -> WalkStep:
        """Take the step, and fill the leaves with all that it passes over."""
        if not leaves:
            return step
        if any(leaf.kind.name != "jsonb" and not leaf.kind.item for leaf in leaves):
            raise NotInLockstep("values that have to be asked one by one")
        self.filled.update(leaf.slot for leaf in leaves)
        wholes = ((leaf, *self._parts.whole(type_, leaf.kind)) for leaf in leaves)
        return FillWhole(step, tuple((leaf, read, conversion(of, leaf.kind).convert) for leaf, read, of in wholes))

    def _union(self, union: Union, node: Node | None, depth: int, in_items: bool) -> WalkStep:
        branches: list[WalkStep] = []
        for each in union.branches:
            try:
                branches.append(self.fill(each, node, depth + 1, in_items))
            except NotInLockstep:
                branches.append(leave)
        is_null = [isinstance(each, Scalar) and each.wire == "null" for each in union.branches]
        if leave in branches and all(step is leave or null for step, null in zip(branches, is_null, strict=True)):
            raise NotInLockstep("a union of which no branch is")
        steps = tuple((number, step) for number, step in enumerate(branches) if not is_null[number])
        return WalkBranches(len(branches), steps)


@dataclass(frozen=True, slots=True)
class WalkFields:
    """A walk through the fields of a record."""

    name: str
    steps: tuple[WalkStep, ...]

    def __call__(self, walk: Walk, where: Where) -> None:
        """Take the step of each field in turn, for the records at ``where``."""
        for step in self.steps:
            step(walk, where)


@dataclass(frozen=True, slots=True)
class WalkBranches:
    """A walk through the branches of a union, each with the records that take it."""

    count: int
    steps: tuple[tuple[int, WalkStep], ...]

    def __call__(self, walk: Walk, where: Where) -> None:
        """Read the index of the branch, and take each step for the records at ``where`` that name it."""
        index = indexes(walk.cursors, self.count, where)
        for number, step in self.steps:
            takes = index == number
            step(walk, takes if where is None else takes & where)


@dataclass(frozen=True, slots=True)
class WalkItems:
    """A walk over the items of arrays or maps: the first item of every record, then the second, and so on."""

    step: WalkStep
    keyed: bool

    def __call__(self, walk: Walk, where: Where) -> None:
        """Walk over every item of the records at ``where``; one with more than MAX_ITEMS is no longer good."""
        cursors = walk.cursors
        rest = np.full(len(cursors.good), MAX_ITEMS)
        open_ = cursors.good.copy() if where is None else cursors.good & where
        while open_.any():
            count = cursors.zigzags(open_)
            cursors.check((count >= 0) & (count <= rest), open_)
            open_ = cursors.good & open_ & (count > 0)
            rest -= np.where(open_, count, 0)
            for number in range(int(np.max(count, initial=0, where=open_))):
                takes = cursors.good & open_ & (number < count)
                if self.keyed:
                    cursors.skip(cursors.zigzags(takes), takes)
                self.step(walk, takes)


@dataclass(frozen=True, slots=True)
class FillColumns:
    """A step that fills slots with values without parts."""

    read: ReadColumn
    builds: tuple[tuple[int, Build], ...]

    def __call__(self, walk: Walk, where: Where) -> None:
        """Read a column from the records at ``where``, and append what each slot builds of it."""
        column = self.read(walk.cursors, where)
        for slot, build in self.builds:
            staged, flags = build(column)
            walk.columns[slot].append(staged)
            if flags is not None:
                walk.cursors.check(flags, where)


@dataclass(frozen=True, slots=True)
class FillWhole:
    """A step that fills leaves with all that it passes over, JSON or lists, which the exact reader reads one by one."""

    pass_over: WalkStep
    fills: tuple[tuple[Leaf, Step, Convert], ...]

    def __call__(self, walk: Walk, where: Where) -> None:
        """Pass over the value of the records at ``where``, and append what the exact reader makes of those bytes."""
        start = walk.cursors.places()
        self.pass_over(walk, where)
        spans = walk.cursors.since(start, where).to_pylist()
        for leaf, read, convert in self.fills:
            values: list[object] = [None] * len(spans)
            for place, span in enumerate(spans):
                if span is None:
                    continue
                reader = ByteReader(span)
                try:
                    value = read(reader)
                    values[place] = None if reader.against else convert(value)
                except Mismatch:
                    continue
            column = staged(leaf.kind, values)
            walk.cursors.check(valid_flags(column), where)
            walk.columns[leaf.slot].append(column)


def leave(walk: Walk, where: Where) -> None:
    """Leave these records to the exact reader."""
    walk.cursors.check(np.zeros(len(walk.cursors.good), np.bool_), where)


def skip_step(scalar: Scalar) -> WalkStep:
    """Return the step over values without parts."""
    size = {"float": 4, "double": 8}.get(scalar.wire, scalar.size)
    match scalar.wire:
        case "null":
            return lambda _walk, _where: None
        case "boolean":
            return lambda walk, where: walk.cursors.booleans(where)
        case "string" | "bytes":
            return lambda walk, where: walk.cursors.skip(walk.cursors.zigzags(where), where)
        case "enum":
            return lambda walk, where: indexes(walk.cursors, len(scalar.symbols), where)
        case "int":
            return lambda walk, where: integers_32(walk.cursors, where)
        case "long":
            return lambda walk, where: walk.cursors.zigzags(where)
    return lambda walk, where: walk.cursors.skip(np.full(len(walk.cursors.good), size), where)


def column_reader(scalar: Scalar) -> ReadColumn:
    """Return the reader of a column of the value's ``arrow_type``; null where a record takes no such step."""
    if scalar.value.name is TypeName.DECIMAL:
        return lambda cursors, where: _unscaled(cursors, where, _spans(scalar, cursors, where))
    if scalar.wire == "enum":
        symbols = pa.array(scalar.symbols, pa.string())
        return lambda cursors, where: _symbols(symbols, cursors, where)
    if scalar.wire in ("bytes", "fixed"):
        return lambda cursors, where: _spans(scalar, cursors, where)
    return _READ[scalar.wire]


def indexes(cursors: Cursors, count: int, where: Where) -> npt.NDArray[np.int64]:
    """Read the indexes of ``count`` symbols or branches."""
    index = integers_32(cursors, where)
    cursors.good &= (index >= 0) & (index < count)
    return index


def integers_32(cursors: Cursors, where: Where) -> npt.NDArray[np.int64]:
    """Read integers of 32 bits."""
    values = cursors.zigzags(where)
    cursors.good &= values == values.astype(np.int32)
    return values


def _symbols(symbols: pa.StringArray, cursors: Cursors, where: Where) -> pa.StringArray:
    index = indexes(cursors, len(symbols), where)
    return symbols.take(masked(index, cursors.good if where is None else cursors.good & where))


def _spans(scalar: Scalar, cursors: Cursors, where: Where) -> pa.BinaryArray:
    lengths = cursors.zigzags(where) if scalar.wire == "bytes" else np.full(len(cursors.good), scalar.size)
    return cursors.spans(lengths, where)


def _unscaled(cursors: Cursors, where: Where, spans: pa.BinaryArray) -> pa.Int64Array:
    """Two's complement of 1 to 8 bytes, the highest first."""
    sizes = pc.fill_null(pc.binary_length(spans), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    fits = (sizes >= 1) & (sizes <= 8)
    cursors.check(fits, where)
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
    "string": lambda cursors, where: cursors.texts(cursors.spans(cursors.zigzags(where), where)),
}

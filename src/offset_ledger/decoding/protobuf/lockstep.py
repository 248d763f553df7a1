"""Protobuf messages read in lockstep, if each field occurs at most once and in the order of the numbers.

Every official serializer writes them so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding.kinds import staged, staged_type, valid_flags
from offset_ledger.decoding.lockstep import Cursors, masked
from offset_ledger.decoding.outcome import Flags, Mismatch, Places, Proven
from offset_ledger.decoding.paths import Leaf, Node
from offset_ledger.decoding.protobuf.parse import Parser
from offset_ledger.decoding.protobuf.schema import Field, Message, ProtobufSchema
from offset_ledger.decoding.protobuf.values import (
    BILLION,
    SPARE_FILLED,
    TIMESTAMP,
    WELL_KNOWN,
    WRAPPERS,
    Values,
    is_plain_message,
)
from offset_ledger.decoding.protobuf.wire import Wire
from offset_ledger.decoding.typed.conversions import Build, conversion
from offset_ledger.decoding.typed.types import TypeName, ValueType

ROUNDS = 16
"""Values of a repeated field that are stepped over; of a record with more nothing is proven."""
_NO_PATHS = Node("$")
_LAST_SECOND = 9_223_372_035  # beyond it nanoseconds need more than 64 bits
Slots = dict[int, pa.Array]


class LockstepReader:
    """The lockstep reader of messages of one type for the leaves of one tree.

    Raises:
        Unprovable: a leaf needs what is not read this way, such as a date from a text and a jsonb of the same field.
    """

    def __init__(self, schema: ProtobufSchema, message: Message, root: Node) -> None:
        self._schema = schema
        self._unread: dict[str, list[Step]] = {}
        self._documents = Documents(schema)
        self._steps = self._compile(message, root)
        self._slots = 1 + max((1, *(leaf.slot for leaf in root.descendants())))

    def prove(self, values: pa.BinaryArray, candidates: Flags) -> Proven:
        """Prove the candidates; see :class:`~offset_ledger.decoding.typed.decoder.Reader`."""
        slots: Slots = {}
        cursors = Cursors(values, candidates)
        places = np.flatnonzero(walk(cursors, np.ones(len(values), np.bool_), slots, self._steps))
        columns = [slots.get(slot) for slot in range(self._slots)]
        if len(places) < len(values):
            taken = pa.array(places)
            columns = [None if column is None else column.take(taken) for column in columns]
        return Proven(places, columns)

    def _compile(self, message: Message, node: Node) -> list[Step]:
        steps = [self._step(message, field, node.members.get(field.name, _NO_PATHS)) for field in message.fields]
        for name, member in node.members.items():
            if name not in message.by_name:
                steps.append(_absent(member))
        return steps

    def _step(self, message: Message, field: Field, node: Node) -> Step:
        try:
            return self._columns(field, node)
        except Unprovable:
            if not node.leaves:
                raise
        pass_over = self._columns(field, Node(node.path, node.members))
        return self._documents.step(pass_over, message, field, node.leaves)

    def _columns(self, field: Field, node: Node) -> Step:
        """Return the step that fills the leaves with columns of values without parts."""
        if node.members and not is_plain_message(field):
            raise Unprovable
        if field.repeated or field.group:
            if node.leaves or node.members:
                raise Unprovable
            return _no_groups(field) if field.group else self._repeated(field)
        if field.scalar:
            return _scalar(field, node)
        if node.leaves and field.well_known == TIMESTAMP:
            return self._timestamp(field, node)
        if node.leaves and field.well_known in WRAPPERS:
            return self._message(field, Node(node.path, {"value": Node(node.path, leaves=node.leaves)}))
        if node.leaves:
            raise Unprovable
        return self._message(field, node)

    def _steps_of(self, name: str) -> list[Step]:
        """The steps over a message that no path leads into; made when it is first seen, for it can hold itself."""
        if name not in self._unread:
            self._unread[name] = self._compile(self._schema.message(name), _NO_PATHS)
        return self._unread[name]

    def _message(self, field: Field, node: Node) -> Step:
        name = str(field.message)
        steps = self._compile(self._schema.message(name), node) if node.members else None

        def step(state: Walk) -> None:
            here, cursors = state.at(field.tag), state.cursors
            if steps is not None or here.any():
                spans = cursors.spans(cursors.varints(here), here)
                state.inner(spans, here, state.slots, self._steps_of(name) if steps is None else steps)
            if not node.nullable:
                cursors.good &= here | ~state.exists
            state.take(field, here)

        return step

    def _timestamp(self, field: Field, node: Node) -> Step:
        seconds_of, nanos_of = (_captured(each) for each in self._schema.message(TIMESTAMP).fields)
        sinks = Sinks(WELL_KNOWN[TIMESTAMP][0], node.leaves)

        def step(state: Walk) -> None:
            here, cursors = state.at(field.tag), state.cursors
            parts: Slots = {}
            state.inner(cursors.spans(cursors.varints(here), here), here, parts, (seconds_of, nanos_of))
            seconds, nanos = (pc.fill_null(parts[number], 0).to_numpy() for number in (1, 2))
            fits = (seconds >= -_LAST_SECOND) & (seconds <= _LAST_SECOND) & (nanos >= 0) & (nanos < BILLION)
            cursors.good &= fits | ~here
            column = masked(seconds * BILLION + nanos, here)
            sinks.fill(column, state)
            state.take(field, here)

        return step

    def _repeated(self, field: Field) -> Step:
        packed_tag = field.number << 3 | Wire.LEN if field.scalar and field.scalar.packable else 0
        read = column_reader(field) if field.scalar else None

        def step(state: Walk) -> None:
            cursors = state.cursors
            for _ in range(ROUNDS):
                here, packed = state.at(field.tag), state.at(packed_tag) if packed_tag else None
                if not here.any() and (packed is None or not packed.any()):
                    return
                if read:
                    read(cursors, here, here)
                elif here.any():
                    spans = cursors.spans(cursors.varints(here), here)
                    state.inner(spans, here, {}, self._steps_of(str(field.message)))
                state.read_on(here)
                if packed is not None and packed.any():
                    _pass_packed(field, state, packed)

        return step


def _absent(node: Node) -> Step:
    if not node.nullable:
        raise Unprovable
    leaves = [*node.descendants()]

    def step(state: Walk) -> None:
        state.slots.update((leaf.slot, pa.nulls(len(state.exists), staged_type(leaf.kind))) for leaf in leaves)

    return step


def _no_groups(field: Field) -> Step:
    """Messages with groups are left alone."""

    def step(state: Walk) -> None:
        state.cursors.good &= ~state.at(field.tag)
        state.take(field, state.at(field.tag))

    return step


def _scalar(field: Field, node: Node) -> Step:
    assert field.scalar
    read, sinks = column_reader(field), Sinks(field.scalar.type, node.leaves)
    known = field.symbols is not None and (field.required or bool(sinks))

    def step(state: Walk) -> None:
        here, cursors = state.at(field.tag), state.cursors
        if sinks or here.any():
            column = read(cursors, here, here if field.presence else state.exists)
            column = symbols_of(field, column, cursors.good) if known else column
            sinks.fill(column, state)
        state.take(field, here)

    return step


def _captured(field: Field) -> Step:
    read = column_reader(field)

    def step(state: Walk) -> None:
        here = state.at(field.tag)
        state.slots[field.number] = read(state.cursors, here, state.exists)
        state.take(field, here)

    return step


def _pass_packed(field: Field, state: Walk, here: Flags) -> None:
    cursors = state.cursors
    inner = Cursors(cursors.spans(cursors.varints(here), here), here)
    for _ in range(ROUNDS):
        more = inner.has_more()
        if not more.any():
            break
        column_reader(field)(inner, more, more)
    cursors.good &= inner.at_end() | ~here
    state.read_on(here)


class Documents:
    """A reader of fields as the exact reader has them, which has at least as much room for all fields of a message."""

    def __init__(self, schema: ProtobufSchema) -> None:
        self._parser, self._values, self._count = Parser(schema), Values(schema), 0

    def step(self, pass_over: Step, message: Message, field: Field, leaves: list[Leaf]) -> Step:
        """Return the step over a field that fills the leaves with the JSON, or the list, of what it passed.

        Raises:
            Unprovable: a leaf is neither a jsonb nor an array, or they differ.
        """
        kind = leaves[0].kind
        if any(leaf.kind != kind for leaf in leaves) or (kind.name != "jsonb" and not kind.item):
            raise Unprovable
        nullable = all(leaf.nullable for leaf in leaves)
        get, convert = self._values.getter(field), conversion(self._values.type_of(field), kind).convert
        self._count += 1

        def read(span: bytes) -> tuple[object, bool]:
            """Return the value of the field in some bytes, and whether it is surely what it should be."""
            self._values.room = SPARE_FILLED // self._count
            try:
                value = get(self._parser.parse_some(span, message))
                made = None if value is None else convert(value)
            except Mismatch:
                return None, False
            return made, nullable or made is not None

        def step(state: Walk) -> None:
            starts = state.tag_starts()
            pass_over(state)
            spans = state.cursors.between(starts, state.tag_starts(), state.exists)
            known = {None: (None, False), b"": read(b"")}  # no message; one without the field
            readings = [known.get(span) or read(span) for span in spans.to_pylist()]
            column = staged(kind, [value for value, _ in readings])
            state.cursors.check(np.array([sure for _, sure in readings], np.bool_), state.exists)
            state.slots.update(dict.fromkeys((leaf.slot for leaf in leaves), column))

        return step


MAX_DEPTH = 8
"""Messages within messages; of a record with more nothing is proven."""


class Walk:
    """A message in each record that ``exists`` names; the tag of the next field of each is read ahead, 0 at the end."""

    def __init__(self, cursors: Cursors, exists: Flags, slots: Slots, depth: int) -> None:
        self.cursors, self.exists, self.slots, self.depth = cursors, exists, slots, depth
        self._tags = np.zeros(len(exists), np.uint64)
        self._taken: dict[int, Flags] = {}
        self._read_tags(exists)

    def at(self, tag: int) -> Flags:
        """Return where this tag is the next one."""
        next_one: Flags = self._tags == tag
        return self.cursors.good & next_one

    def take(self, field: Field, here: Flags) -> None:
        """Read on, after the value of the field was read where it is; it can be nowhere else."""
        good = self.cursors.good
        if field.required:
            good &= here | ~self.exists
        if field.peers:
            oneof = min(field.number, *field.peers)
            taken = self._taken.get(oneof)
            if taken is not None:
                good &= ~(taken & here)
            self._taken[oneof] = here if taken is None else taken | here
        self.read_on(here)

    def read_on(self, here: Flags) -> None:
        """Read the next tags of these records."""
        if here.any():
            self._read_tags(here)

    def tag_starts(self) -> Places:
        """Return where the next tag of each record begins, or its message ends."""
        starts = self.cursors.places()
        for bits in range(0, 32, 7):
            starts -= self._tags >> np.uint64(bits) != 0
        return starts

    def done(self) -> Flags:
        """Return which records are read to their end."""
        ended: Flags = self._tags == 0
        return self.cursors.at_end() & ended

    def inner(self, spans: pa.BinaryArray, here: Flags, slots: Slots, steps: Sequence[Step]) -> None:
        """Read a message in each of these spans, which must end where they do."""
        self.cursors.good &= walk(Cursors(spans, here), here, slots, steps, self.depth + 1) | ~here

    def _read_tags(self, here: Flags) -> None:
        more = self.cursors.has_more() & here
        tags = self.cursors.varints(more)
        self.cursors.good &= (tags != 0) | ~more
        self._tags = tags if here.all() else np.where(here, tags, self._tags)


Step = Callable[[Walk], None]


def walk(cursors: Cursors, exists: Flags, slots: Slots, steps: Sequence[Step], depth: int = 0) -> Flags:
    """Take the steps, a field each; return the records that are surely read to their end."""
    if depth > MAX_DEPTH:
        return np.zeros(len(exists), np.bool_)
    state = Walk(cursors, exists, slots, depth)
    for step in steps:
        step(state)
    return state.done()


ReadColumn = Callable[[Cursors, Flags, Flags], pa.Array]
"""Reads a value where the second argument says so; where only the third does, there is the zero of the type, and null
elsewhere. What the type cannot hold is no longer good."""


def column_reader(field: Field) -> ReadColumn:
    """Return the reader of the values of a scalar field; enums as numbers."""
    assert field.scalar
    scalar, type_ = field.scalar, field.scalar.type
    match scalar.wire:
        case Wire.LEN:
            if type_.name is TypeName.TEXT:
                return lambda cursors, here, valid: cursors.texts(_bytes(cursors, here, valid))
            return _bytes
        case Wire.I32 | Wire.I64:
            form = "f" if type_.name is TypeName.FLOAT else "i" if type_.signed else "u"
            return partial(_fixed, layout=np.dtype(f"<{form}{type_.bits // 8}"))
    if type_.name is TypeName.BOOLEAN:
        return lambda cursors, here, valid: masked(cursors.booleans(here), valid)
    bits = 32 if field.symbols else type_.bits
    if not type_.signed:
        return partial(_unsigned, bits=bits)
    return partial(_signed, bits=bits, zigzag=type_.shown.startswith("sint"))


def symbols_of(field: Field, numbers: pa.Int64Array, good: Flags) -> pa.StringArray:
    """Return the symbols of an enum; a number that it does not have is not good."""
    assert field.symbols
    known = np.array(sorted(field.symbols.names), np.int64)
    values = pc.fill_null(numbers, int(known[0])).to_numpy()
    places = np.minimum(np.searchsorted(known, values), len(known) - 1)
    good &= known[places] == values
    names = pa.array([field.symbols.names[number] for number in known.tolist()], pa.string())
    return names.take(pa.array(places, mask=~valid_flags(numbers)))


def _unsigned(cursors: Cursors, here: Flags, valid: Flags, bits: int) -> pa.Array:
    values = cursors.varints(here)
    cursors.good &= values <= (1 << bits) - 1
    return masked(values if bits == 64 else values.view(np.int64), valid)


def _signed(cursors: Cursors, here: Flags, valid: Flags, bits: int, zigzag: bool) -> pa.Array:
    values = cursors.zigzags(here) if zigzag else cursors.varints(here).view(np.int64)
    bound = 1 << (bits - 1)
    cursors.good &= (values >= -bound) & (values <= bound - 1)
    return masked(values, valid)


def _fixed(cursors: Cursors, here: Flags, valid: Flags, layout: np.dtype[Any]) -> pa.Array:
    values = cursors.fixed(layout.itemsize, here).view(layout).ravel()
    as_integers = layout.kind in "iu" and layout != np.uint64
    return masked(values.astype(np.int64) if as_integers else values, valid)


def _bytes(cursors: Cursors, here: Flags, valid: Flags) -> pa.Array:
    column = cursors.spans(cursors.varints(here), here)
    if column.null_count == 0:
        return column
    zeros = valid & ~valid_flags(column)
    return pc.if_else(pa.array(zeros), pa.scalar(b"", pa.binary()), column) if zeros.any() else column


class Unprovable(Exception):
    """An error: a leaf cannot be read as a whole column."""


class Sinks:
    """The leaves to be filled with a column of values of one type.

    Raises:
        Unprovable: the values of a leaf have to be asked one by one.
    """

    def __init__(self, type_: ValueType, leaves: list[Leaf]) -> None:
        self._builds: list[tuple[Leaf, Build]] = []
        for leaf in leaves:
            if (build := conversion(type_, leaf.kind).build) is None:
                raise Unprovable
            self._builds.append((leaf, build))

    def __bool__(self) -> bool:
        return bool(self._builds)

    def fill(self, column: pa.Array, state: Walk) -> None:
        """Fill them where the message is; a record that fits no leaf is no longer good."""
        good = state.cursors.good
        for leaf, build in self._builds:
            state.slots[leaf.slot], flags = build(column)
            if flags is not None:
                good &= flags | ~state.exists
            if not leaf.nullable and column.null_count:
                good &= valid_flags(column)

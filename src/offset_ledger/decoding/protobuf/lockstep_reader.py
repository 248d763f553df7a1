"""Many Protobuf messages read at the same time, as every official serializer writes them: each field at most once,
and in the order of the numbers.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding.lockstep import Cursors
from offset_ledger.decoding.protobuf.lockstep_documents import Documents
from offset_ledger.decoding.protobuf.lockstep_leaves import Slots, Unprovable, add_absent, sinks_of
from offset_ledger.decoding.protobuf.lockstep_scalars import column_reader, masked, symbols_of
from offset_ledger.decoding.protobuf.lockstep_walk import Step, Walk, walk
from offset_ledger.decoding.protobuf.schema import Field, Message, ProtobufSchema
from offset_ledger.decoding.protobuf.values import is_plain_message
from offset_ledger.decoding.protobuf.well_known import BILLION, TIMESTAMP, WELL_KNOWN, WRAPPERS
from offset_ledger.decoding.protobuf.wire import Wire
from offset_ledger.decoding.proven import Proven
from offset_ledger.decoding.shape import Node
from offset_ledger.decoding.staged import Flags

ROUNDS = 16
"""Values of a repeated field that are stepped over; of a record with more nothing is proven."""
_NO_PATHS = Node("$")
_LAST_SECOND = 9_223_372_035  # beyond it nanoseconds need more than 64 bits


class LockstepReader:
    """Proves messages of one type for the leaves of one tree.

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
        """See :class:`~offset_ledger.decoding.typed.decoder.Reader`."""
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
        """Fills the leaves with columns of values without parts."""
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
        sinks = sinks_of(WELL_KNOWN[TIMESTAMP][0], node.leaves)

        def step(state: Walk) -> None:
            here, cursors = state.at(field.tag), state.cursors
            parts: Slots = {}
            state.inner(cursors.spans(cursors.varints(here), here), here, parts, (seconds_of, nanos_of))
            seconds, nanos = (pc.fill_null(parts[number], 0).to_numpy() for number in (1, 2))
            fits = (seconds >= -_LAST_SECOND) & (seconds <= _LAST_SECOND) & (nanos >= 0) & (nanos < BILLION)
            cursors.good &= fits | ~here
            column = masked(seconds * BILLION + nanos, here)
            for sink in sinks:
                sink(column, cursors, state.exists, state.slots)
            state.take(field, here)

        return step

    def _repeated(self, field: Field) -> Step:
        packed_tag = field.number << 3 | Wire.LEN if field.scalar and field.scalar.packable else 0

        def step(state: Walk) -> None:
            for _ in range(ROUNDS):
                here, packed = state.at(field.tag), state.at(packed_tag) if packed_tag else None
                if not here.any() and (packed is None or not packed.any()):
                    return
                self._pass(field, state, here)
                state.read_on(here)
                if packed is not None and packed.any():
                    _pass_packed(field, state, packed)

        return step

    def _pass(self, field: Field, state: Walk, here: Flags) -> None:
        cursors = state.cursors
        if field.scalar:
            column_reader(field)(cursors, here, here)
        elif here.any():
            spans = cursors.spans(cursors.varints(here), here)
            state.inner(spans, here, {}, self._steps_of(str(field.message)))


def _absent(node: Node) -> Step:
    if not node.nullable:
        raise Unprovable
    leaves = [*node.descendants()]
    return lambda state: add_absent(leaves, len(state.exists), state.slots)


def _no_groups(field: Field) -> Step:
    """Messages with groups are left alone."""

    def step(state: Walk) -> None:
        state.cursors.good &= ~state.at(field.tag)
        state.take(field, state.at(field.tag))

    return step


def _scalar(field: Field, node: Node) -> Step:
    assert field.scalar
    read, sinks = column_reader(field), sinks_of(field.scalar.type, node.leaves)
    known = field.symbols is not None and (field.required or bool(sinks))

    def step(state: Walk) -> None:
        here, cursors = state.at(field.tag), state.cursors
        if sinks or here.any():
            column = read(cursors, here, here if field.presence else state.exists)
            column = symbols_of(field, column, cursors.good) if known else column
            for sink in sinks:
                sink(column, cursors, state.exists, state.slots)
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

"""The exact reader of records: what defines, value by value, what the bytes of a record say.

What is left of a record, where its columns have taken theirs, is read in a second pass over its bytes.

A path leads through records, the keys of maps and the branches of unions. What no path leads to is stepped over: how it
is written is checked, what is in its texts and bytes is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import pyarrow as pa

from offset_ledger.decoding.avro.cursor import Cursor, Malformed
from offset_ledger.decoding.avro.lockstep_reader import LockstepReader, NotInLockstep
from offset_ledger.decoding.avro.schema import (
    Array,
    AvroType,
    Field,
    Map,
    Record,
    Scalar,
    Union,
    full_name,
    record_or_union,
    shown,
)
from offset_ledger.decoding.avro.values import (
    ABSENT,
    Parts,
    Step,
    branch,
    members_of,
    object_of,
    read_scalar,
    step_of,
    walk,
)
from offset_ledger.decoding.outcome import Code, Mismatch, Reason
from offset_ledger.decoding.proven import Proven
from offset_ledger.decoding.rest import RestRefused
from offset_ledger.decoding.shape import Leaf, Node
from offset_ledger.decoding.staged import Flags
from offset_ledger.decoding.typed.convert import Convert, converter
from offset_ledger.decoding.typed.decoder import Found, Unreadable
from offset_ledger.decoding.typed.types import TypeName, ValueType
from offset_ledger.model.writer_schema import WriterSchema

_NO_FIELD = "expected a value, the schema has no such field"
_NO_KEY = "expected a value, got nothing"
_Put = Callable[[Cursor, object], None]


class AvroReader:
    """Reads the records of one writer's schema; see :class:`~offset_ledger.decoding.typed.decoder.Reader`."""

    def __init__(self, record: Record, root: Node) -> None:
        self._record, self._root = record, root
        self._read = _Paths().fill(record, root)

    def read(self, payload: bytes, reading: Found) -> None:
        """Fill the slots; raises Unreadable."""
        cursor = Cursor(payload, reading)
        try:
            self._read(cursor)
            cursor.finish()
        except Malformed as malformed:
            raise Unreadable(malformed.path, malformed.code, malformed.detail) from None

    def rest(self, payload: bytes) -> dict[str, Any]:
        """What is left of a record; raises RestRefused."""
        return self._rest(payload) if self._rest else {}

    @cached_property
    def _rest(self) -> Callable[[bytes], dict[str, Any]] | None:
        return rest_reader(self._record, self._root)

    def prove(self, values: pa.BinaryArray, candidates: Flags) -> Proven | None:
        """The records that are certainly read without a reason, as columns; None where they cannot walk together."""
        return self._lockstep.prove(values, candidates) if self._lockstep else None

    @cached_property
    def _lockstep(self) -> LockstepReader | None:
        try:
            return LockstepReader(self._record, self._root)
        except NotInLockstep:
            return None


class _Paths:
    """The steps through one schema along one tree of paths."""

    def __init__(self) -> None:
        self._parts = Parts()
        self._fills: dict[tuple[Record, int], Step] = {}

    def fill(self, type_: AvroType, node: Node) -> Step:
        """Reads a value and fills the slots that the node leads to."""
        match type_:
            case Scalar():
                return _scalar(type_, node)
            case Union():
                return branch(type_, lambda each: self.fill(each, node))
            case Array():
                return self._whole(type_, TypeName.ARRAY, node, self._items(type_, node))
            case Map():
                return self._whole(type_, TypeName.OBJECT, node, self._entries(type_, node))
            case Record():
                if (type_, id(node)) not in self._fills:
                    fields = self._fields(type_, node)
                    self._fills[type_, id(node)] = self._whole(type_, TypeName.OBJECT, node, fields)
                return self._fills[type_, id(node)]

    def _fields(self, record: Record, node: Node) -> Step | None:
        if not node.members:
            return None

        def reader(field: Field) -> Step:
            member = node.members.get(field.name)
            return self.fill(field.type, member) if member else self._parts.skip(field.type)

        known = {field.name for field in record.fields}
        absent = [
            _absent(member, Code.MISSING, _NO_FIELD) for name, member in node.members.items() if name not in known
        ]
        return _in_turn([walk(record, reader), *absent])

    def _items(self, array: Array, node: Node) -> Step | None:
        refusal = _refusal(array, node)
        return _in_turn([self._parts.skip(array), refusal]) if refusal else None

    def _entries(self, map_: Map, node: Node) -> Step | None:
        if not node.members:
            return None
        skip = self._parts.skip(map_.values)
        readers = {name: self.fill(map_.values, member) for name, member in node.members.items()}
        absent = {name: _absent(member, Code.MISSING, _NO_KEY) for name, member in node.members.items()}

        def entries(cursor: Cursor) -> None:
            cursor.enter(1)
            seen = set[str]()
            for _ in cursor.items():
                key = cursor.read_key(seen)
                try:
                    readers.get(key, skip)(cursor)
                except Malformed as malformed:
                    malformed.steps.append(step_of(key))
                    raise
            cursor.leave()
            for name, missing in absent.items():
                if name not in seen:
                    missing(cursor)

        return entries

    def _whole(self, type_: AvroType, name: TypeName, node: Node, parts: Step | None) -> Step:
        """Fills the leaves with the whole value, by reading it a second time where paths lead on into its parts."""
        wholes = [self._leaf(type_, ValueType(name, shown(type_)), leaf, node.path) for leaf in node.leaves]
        steps = wholes if parts is None else [*wholes, parts]
        if len(steps) < 2:
            return steps[0] if steps else self._parts.skip(type_)

        def again(cursor: Cursor) -> None:
            start = cursor.mark()
            for step in steps:
                cursor.back(start)
                step(cursor)

        return again

    def _leaf(self, type_: AvroType, source: ValueType, leaf: Leaf, path: str) -> Step:
        put = _put(source, [leaf], path)
        if leaf.kind.name != "jsonb":
            skip = self._parts.skip(type_)
            return lambda cursor: put(cursor, skip(cursor))
        read = self._parts.value(type_)

        def whole(cursor: Cursor) -> None:
            cursor.against = None
            value = read(cursor)
            if cursor.against is not None:
                cursor.reading.reasons.append((leaf.slot, _reason(path, cursor.against)))
            else:
                put(cursor, value)

        return whole


def _scalar(scalar: Scalar, node: Node) -> Step:
    if scalar.value.name is TypeName.NULL:
        return _absent(node, Code.NULL, "expected a value, got null")
    read, put = read_scalar(scalar), _put(scalar.value, node.leaves, node.path)
    refusal = _refusal(scalar, node)
    if refusal is None:
        return lambda cursor: put(cursor, read(cursor))

    def fill(cursor: Cursor) -> None:
        put(cursor, read(cursor))
        refusal(cursor)

    return fill


def _put(source: ValueType, leaves: Iterable[Leaf], path: str) -> _Put:
    """Puts a value into the slots of the leaves, or the reason against it."""
    slots: list[tuple[int, Convert]] = [(leaf.slot, converter(source, leaf.kind)) for leaf in leaves]

    def put(cursor: Cursor, value: object) -> None:
        for slot, convert in slots:
            try:
                cursor.reading.slots[slot] = convert(value)
            except Mismatch as mismatch:
                cursor.reading.reasons.append((slot, _reason(path, mismatch)))

    return put


def _absent(node: Node, code: Code, detail: str) -> Step:
    """Leaves the slots below the node empty; a reason against each that has to have a value."""
    reason = Reason(node.path, code, detail)
    against = [(leaf.slot, reason) for leaf in node.descendants() if not leaf.nullable]
    return lambda cursor: cursor.reading.reasons.extend(against)


def _refusal(type_: AvroType, node: Node) -> Step | None:
    """Refuses the slots that paths lead to through a value without members."""
    reason = Reason(node.path, Code.TYPE, f"expected a record or a map, got {shown(type_)}")
    against = [(leaf.slot, reason) for member in node.members.values() for leaf in member.descendants()]
    return (lambda cursor: cursor.reading.reasons.extend(against)) if against else None


def _in_turn(steps: list[Step]) -> Step:
    if len(steps) == 1:
        return steps[0]

    def in_turn(cursor: Cursor) -> None:
        for step in steps:
            step(cursor)

    return in_turn


def _reason(path: str, mismatch: Mismatch) -> Reason:
    return Reason(path, mismatch.code, mismatch.detail)


def rest_reader(record: Record, root: Node) -> Callable[[bytes], dict[str, Any]] | None:
    """How what is left of the records of a schema is read; None where nothing ever is."""
    step = _Rest().step(record, root)
    if step is None:
        return None

    def read(payload: bytes) -> dict[str, Any]:
        try:
            left = step(Cursor(payload, Found([])))
        except Malformed as malformed:  # a text that was stepped over before
            raise RestRefused(malformed.path, malformed.code, malformed.detail) from None
        return left if isinstance(left, dict) else {}

    return read


class _Rest:
    """The steps through one schema that give what no path of the tree leads to or through."""

    def __init__(self) -> None:
        self._parts = Parts()

    def step(self, type_: AvroType, node: Node) -> Step | None:
        """Gives what is left of a value at this place, ABSENT where nothing is; None where nothing ever is."""
        if node.leaves:
            return None
        match type_:
            case Union():
                steps = {each: self.step(each, node) for each in type_.branches}
                left = branch(type_, lambda each: steps[each] or self._over(each))
                return left if any(steps.values()) else None
            case Record():
                return self._fields(type_, node)
            case Map():
                return self._entries(type_, node)
            case _:
                return None

    def _fields(self, record: Record, node: Node) -> Step | None:
        steps = {field.name: self._member(field.type, node, field.name) for field in record.fields}

        def reader(field: Field) -> Step:
            return steps[field.name] or self._over(field.type)

        return _filled(object_of(record, reader)) if any(steps.values()) else None

    def _entries(self, map_: Map, node: Node) -> Step:
        over, whole = self._over(map_.values), self._parts.value(map_.values)
        steps = {name: self._member(map_.values, node, name) or over for name in node.members}

        def reader(key: str) -> Step:
            return steps[key] if key in steps else _checked(whole, node.path + step_of(key))

        return _filled(members_of(reader))

    def _member(self, type_: AvroType, node: Node, name: str) -> Step | None:
        if member := node.members.get(name):
            return self.step(type_, member)
        return _checked(self._parts.value(type_), node.path + step_of(name))

    def _over(self, type_: AvroType) -> Step:
        skip = self._parts.skip(type_)

        def over(cursor: Cursor) -> object:
            skip(cursor)
            return ABSENT

        return over


def _filled(step: Step) -> Step:
    """The same, ABSENT where the object has no members."""
    return lambda cursor: step(cursor) or ABSENT


def _checked(step: Step, path: str) -> Step:
    """The same; a value that no jsonb can hold is refused."""

    def value(cursor: Cursor) -> object:
        member = step(cursor)
        if cursor.against is not None:
            raise RestRefused.by(path, cursor.against)
        return member

    return value


def branch_at(union: Union, payload: bytes) -> tuple[int, int]:
    """The index of the payload's branch, and where the value begins.

    Raises:
        Mismatch: it does not begin with the index of a branch.
    """
    cursor = Cursor(payload, Found([]))
    try:
        return cursor.read_index(len(union.branches), "union"), cursor.at
    except Malformed as malformed:
        raise Mismatch(malformed.code, malformed.detail) from None


def branch_reader(schema: WriterSchema) -> Callable[[bytes], tuple[str, int]]:
    """What gives the full name of the record, or branch, that a payload is, and where it begins; it raises Mismatch.

    Raises:
        SchemaProblem: the schema is not valid, or neither a record nor a union with one.
    """
    root = record_or_union(schema)
    if not isinstance(root, Union):
        return lambda _: (root.name, 0)

    def read(payload: bytes) -> tuple[str, int]:
        index, at = branch_at(root, payload)
        return full_name(root.branches[index]), at

    return read

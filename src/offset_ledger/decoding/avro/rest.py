"""What is left of a record where its columns have taken theirs, read in a second pass over its bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from offset_ledger.decoding.avro.cursor import Cursor, Malformed
from offset_ledger.decoding.avro.nodes import AvroType, Field, Map, Record, Union
from offset_ledger.decoding.avro.scalars import Step
from offset_ledger.decoding.avro.values import ABSENT, Parts, branch, members_of, object_of, step_of
from offset_ledger.decoding.rest import RestRefused
from offset_ledger.decoding.shape import Node
from offset_ledger.decoding.typed.decoder import Found


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

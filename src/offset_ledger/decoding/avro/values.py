"""Whole parts of a record: stepped over, or read as they stand in a jsonb."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from offset_ledger.config.json_path import format_path
from offset_ledger.decoding.avro.cursor import Cursor, Malformed
from offset_ledger.decoding.avro.schema import Array, AvroType, Field, Map, Record, Scalar, Union
from offset_ledger.decoding.outcome import Code, Mismatch, printable
from offset_ledger.decoding.typed.convert import json_value
from offset_ledger.decoding.typed.types import TypeName

ABSENT = object()
"""What stands for a member that an object does not have."""


class Parts:
    """The steps over the types of one schema; each record is compiled once, when the first one comes."""

    def __init__(self) -> None:
        self._skips: dict[Record, Step] = {}
        self._values: dict[Record, Step] = {}

    def skip(self, type_: AvroType) -> Step:
        """Checks how the value is written and steps over it."""
        match type_:
            case Scalar():
                return skip_scalar(type_)
            case Record():
                if type_ not in self._skips:
                    self._skips[type_] = walk(type_, lambda field: self.skip(field.type))
                return self._skips[type_]
            case Union():
                return branch(type_, self.skip)
            case Array():
                return _skip_items(self.skip(type_.items))
            case Map():
                return _skip_items(self.skip(type_.values), skip_bytes)

    def value(self, type_: AvroType) -> Step:
        """Reads the value as JSON has it; what JSON cannot have is noted in the cursor's ``against``."""
        match type_:
            case Scalar():
                return _json_scalar(type_)
            case Record():
                if type_ not in self._values:
                    self._values[type_] = object_of(type_, lambda field: self.value(field.type))
                return self._values[type_]
            case Union():
                return branch(type_, self.value)
            case Array():
                return _list(self.value(type_.items))
            case Map():
                values = self.value(type_.values)
                return members_of(lambda _: values)


def step_of(name: str) -> str:
    """A member's name as a step of a path, for messages."""
    return printable(format_path((name,))[1:])


def walk(record: Record, reader: Callable[[Field], Step]) -> Step:
    """Takes the fields of a record in their order, each by its reader; what these return is lost."""
    steps: list[tuple[str, Step]] = []
    width = 1 + len(record.fields)

    def fields(cursor: Cursor) -> None:
        cursor.enter(width)
        if not steps:
            steps.extend([(step_of(field.name), reader(field)) for field in record.fields])
        for name, step in steps:
            try:
                step(cursor)
            except Malformed as malformed:
                malformed.steps.append(name)
                raise
        cursor.leave()

    return fields


def branch(union: Union, reader: Callable[[AvroType], Step]) -> Step:
    """Takes the branch of a union that the record names."""
    branches = [reader(each) for each in union.branches]
    count = len(branches)

    def named(cursor: Cursor) -> object:
        cursor.enter(1)
        value = branches[cursor.read_index(count, "union")](cursor)
        cursor.leave()
        return value

    return named


def object_of(record: Record, reader: Callable[[Field], Step]) -> Step:
    """Reads the fields of a record, each by its reader, without those that are ABSENT."""
    steps: list[tuple[str, str, Step]] = []
    width = 1 + len(record.fields)

    def value(cursor: Cursor) -> dict[str, object]:
        cursor.enter(width)
        if not steps:
            steps.extend([(field.name, step_of(field.name), reader(field)) for field in record.fields])
        members = {}
        for name, at, step in steps:
            try:
                member = step(cursor)
            except Malformed as malformed:
                malformed.steps.append(at)
                raise
            if member is not ABSENT:
                members[name] = member
        cursor.leave()
        return members

    return value


def _skip_items(skip: Step, skip_key: Step = Cursor.read_null) -> Step:
    def items(cursor: Cursor) -> None:
        cursor.enter(1)
        for index, _ in enumerate(cursor.items()):
            try:
                skip_key(cursor)
                skip(cursor)
            except Malformed as malformed:
                malformed.steps.append(f"[{index}]")
                raise
        cursor.leave()

    return items


def _list(read: Step) -> Step:
    def value(cursor: Cursor) -> list[object]:
        cursor.enter(1)
        items: list[object] = []
        for _ in cursor.items():
            try:
                items.append(read(cursor))
            except Malformed as malformed:
                malformed.steps.append(f"[{len(items)}]")
                raise
        cursor.leave()
        return items

    return value


def members_of(reader: Callable[[str], Step]) -> Step:
    """Reads the entries of a map, each by the reader of its key, without those that are ABSENT."""

    def value(cursor: Cursor) -> dict[str, object]:
        cursor.enter(1)
        members: dict[str, object] = {}
        seen = set[str]()
        for _ in cursor.items():
            key = cursor.read_key(seen)
            try:
                member = reader(key)(cursor)
            except Malformed as malformed:
                malformed.steps.append(step_of(key))
                raise
            if member is not ABSENT:
                members[key] = member
        cursor.leave()
        return members

    return value


def _json_scalar(scalar: Scalar) -> Step:
    read, convert = read_scalar(scalar), json_value(scalar.value)

    def value(cursor: Cursor) -> object:
        written = read(cursor)
        try:
            return convert(written)
        except Mismatch as mismatch:
            cursor.against = cursor.against or mismatch
            return None

    return value


MAX_DECIMAL_BYTES = 4096  # some 9,800 digits; the time to convert grows with their square
Step = Callable[[Cursor], Any]

_READ: dict[str, Step] = {
    "null": Cursor.read_null,
    "boolean": Cursor.read_boolean,
    "int": Cursor.read_int,
    "long": Cursor.read_long,
    "float": Cursor.read_float,
    "double": Cursor.read_double,
    "bytes": Cursor.read_bytes,
    "string": Cursor.read_string,
}


def read_scalar(scalar: Scalar) -> Step:
    """Reads the value, as its :class:`~offset_ledger.decoding.typed.types.TypeName` says."""
    if scalar.wire == "enum":
        return _symbol(scalar)
    read = _fixed(scalar.size) if scalar.wire == "fixed" else _READ[scalar.wire]
    return _unscaled(read) if scalar.value.name is TypeName.DECIMAL else read


def skip_scalar(scalar: Scalar) -> Step:
    """Steps over the value; what is in a text or in bytes is not looked at."""
    if scalar.wire in ("string", "bytes"):
        return skip_bytes
    if scalar.wire in ("float", "double", "fixed"):
        size = {"float": 4, "double": 8}.get(scalar.wire, scalar.size)
        return lambda cursor: cursor.skip(size)
    return read_scalar(scalar)


def skip_bytes(cursor: Cursor) -> None:
    """Step over a length and so many bytes."""
    cursor.skip(cursor.read_long())


def _symbol(scalar: Scalar) -> Step:
    symbols, shown = scalar.symbols, scalar.value.shown
    return lambda cursor: symbols[cursor.read_index(len(symbols), shown)]


def _fixed(size: int) -> Step:
    return lambda cursor: cursor.span(size)


def _unscaled(read: Step) -> Step:
    def unscaled(cursor: Cursor) -> int:
        written = read(cursor)
        if not 0 < len(written) <= MAX_DECIMAL_BYTES:
            detail = f"expected decimal of 1 to {MAX_DECIMAL_BYTES} bytes, got {len(written)}"
            raise Malformed(Code.RANGE, detail)
        return int.from_bytes(written, signed=True)

    return unscaled

"""The steps through a record: each checks how one value is written, and reads it, or passes over it.

Values are read as a jsonb has them. A step is a method of a small class, so that a traceback says what it did; an
object that is called would take two of Python's frames, and records are nested deep.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from offset_ledger.decoding.avro.byte_reader import ByteReader
from offset_ledger.decoding.avro.schema import Array, AvroType, Field, Map, Record, Scalar, Union, item_type, shown
from offset_ledger.decoding.kinds import ColumnKind
from offset_ledger.decoding.outcome import Code, Mismatch, step_of
from offset_ledger.decoding.typed.conversions import Convert, json_value
from offset_ledger.decoding.typed.decoder import Malformed
from offset_ledger.decoding.typed.types import TypeName, ValueType

Step = Callable[[ByteReader], Any]

MAX_DECIMAL_BYTES = 4096  # some 9,800 digits; the time to convert grows with their square
ABSENT = object()
"""The mark of a member that an object does not have."""
_READ: dict[str, Step] = {
    "null": ByteReader.read_null,
    "boolean": ByteReader.read_boolean,
    "int": ByteReader.read_int,
    "long": ByteReader.read_long,
    "float": ByteReader.read_float,
    "double": ByteReader.read_double,
    "bytes": ByteReader.read_bytes,
    "string": ByteReader.read_string,
}


def read_scalar(scalar: Scalar) -> Step:
    """Return the step that reads the value, as its :class:`~offset_ledger.decoding.typed.types.TypeName` says."""
    if scalar.wire == "enum":
        return ReadSymbol(scalar.symbols, scalar.value.shown).read_symbol
    read = Fixed(scalar.size).read_fixed if scalar.wire == "fixed" else _READ[scalar.wire]
    return ReadUnscaled(read).read_unscaled if scalar.value.name is TypeName.DECIMAL else read


def skip_bytes(reader: ByteReader) -> None:
    """Skip a length and that many bytes."""
    reader.skip(reader.read_long())


@dataclass(frozen=True, slots=True)
class ReadSymbol:
    """The step that reads a symbol of an enum."""

    symbols: tuple[str, ...]
    shown: str

    def read_symbol(self, reader: ByteReader) -> str:
        """Return the symbol that the index names."""
        return self.symbols[reader.read_index(len(self.symbols), self.shown)]


@dataclass(frozen=True, slots=True)
class Fixed:
    """The steps over a fixed number of bytes."""

    size: int

    def read_fixed(self, reader: ByteReader) -> bytes:
        """Return the next ``size`` bytes."""
        return reader.span(self.size)

    def skip_fixed(self, reader: ByteReader) -> None:
        """Skip the next ``size`` bytes."""
        reader.skip(self.size)


@dataclass(frozen=True, slots=True)
class ReadUnscaled:
    """The step that reads bytes as the unscaled value of a decimal."""

    read: Step

    def read_unscaled(self, reader: ByteReader) -> int:
        """Return the unscaled value; raises Malformed if its size is out of bounds."""
        written = self.read(reader)
        if not 0 < len(written) <= MAX_DECIMAL_BYTES:
            raise Malformed(f"expected decimal of 1 to {MAX_DECIMAL_BYTES} bytes, got {len(written)}", Code.RANGE)
        return int.from_bytes(written, signed=True)


@dataclass(frozen=True, slots=True)
class ReadJson:
    """The step that reads a single value as JSON has it; what JSON cannot have is noted in ``against``."""

    read: Step
    convert: Convert

    def read_json(self, reader: ByteReader) -> object:
        """Return the value as JSON, or None with the reason in ``against``."""
        written = self.read(reader)
        try:
            return self.convert(written)
        except Mismatch as mismatch:
            reader.against = reader.against or mismatch
            return None


class Fields:
    """The fields of a record, each with a step, which is made when the first record comes: it can contain itself."""

    def __init__(self, record: Record, step_for: Callable[[Field], Step]) -> None:
        self._record, self._step_for = record, step_for
        self._width = 1 + len(record.fields)

    def __repr__(self) -> str:
        return f"<fields of {shown(self._record)}>"

    @cached_property
    def _steps(self) -> list[tuple[str, str, Step]]:
        return [(field.name, step_of(field.name), self._step_for(field)) for field in self._record.fields]

    def take_fields(self, reader: ByteReader) -> None:
        """Take the steps in their order, without their results."""
        reader.enter(self._width)
        for _, at, step in self._steps:
            try:
                step(reader)
            except Malformed as malformed:
                malformed.steps.append(at)
                raise
        reader.leave()

    def read_object(self, reader: ByteReader) -> dict[str, object]:
        """Read the fields as an object, without those that are ABSENT."""
        reader.enter(self._width)
        members = {}
        for name, at, step in self._steps:
            try:
                member = step(reader)
            except Malformed as malformed:
                malformed.steps.append(at)
                raise
            if member is not ABSENT:
                members[name] = member
        reader.leave()
        return members


class TakeBranch:
    """The step that takes the branch of a union that the record names."""

    def __init__(self, union: Union, step_for: Callable[[AvroType], Step]) -> None:
        self._branches = [step_for(each) for each in union.branches]

    def __repr__(self) -> str:
        return f"<TakeBranch of {self._branches}>"

    def take_branch(self, reader: ByteReader) -> object:
        """Return the value of the branch that the index names."""
        reader.enter(1)
        value = self._branches[reader.read_index(len(self._branches), "union")](reader)
        reader.leave()
        return value


@dataclass(frozen=True, slots=True)
class Items:
    """The items of an array, or the entries of a map."""

    step: Step
    skip_key: Step = ByteReader.read_null

    def skip_items(self, reader: ByteReader) -> None:
        """Skip every item, and each key before it if the items are entries of a map."""
        reader.enter(1)
        for index, _ in enumerate(reader.items()):
            try:
                self.skip_key(reader)
                self.step(reader)
            except Malformed as malformed:
                malformed.steps.append(f"[{index}]")
                raise
        reader.leave()

    def read_list(self, reader: ByteReader) -> list[object]:
        """Return the items of an array in their order."""
        reader.enter(1)
        items: list[object] = []
        for _ in reader.items():
            try:
                items.append(self.step(reader))
            except Malformed as malformed:
                malformed.steps.append(f"[{len(items)}]")
                raise
        reader.leave()
        return items


@dataclass(frozen=True, slots=True)
class ReadMap:
    """The step that reads the entries of a map as an object, without those that are ABSENT."""

    step_for: Callable[[str], Step]

    def read_map(self, reader: ByteReader) -> dict[str, object]:
        """Return the entries by key; a key that is there twice is refused."""
        reader.enter(1)
        members: dict[str, object] = {}
        seen = set[str]()
        for _ in reader.items():
            key = reader.read_key(seen)
            try:
                member = self.step_for(key)(reader)
            except Malformed as malformed:
                malformed.steps.append(step_of(key))
                raise
            if member is not ABSENT:
                members[key] = member
        reader.leave()
        return members


class Parts:
    """The steps over whole values of one schema; each record has one of each."""

    def __init__(self) -> None:
        self._skips: dict[Record, Step] = {}
        self._values: dict[Record, Step] = {}

    def skip(self, type_: AvroType) -> Step:
        """Return the step that checks how the value is written and passes over it."""
        match type_:
            case Scalar("string" | "bytes"):  # their contents are not checked
                return skip_bytes
            case Scalar("float" | "double" | "fixed" as wire):
                return Fixed({"float": 4, "double": 8}.get(wire, type_.size)).skip_fixed
            case Scalar():
                return read_scalar(type_)
            case Record():
                if type_ not in self._skips:
                    self._skips[type_] = Fields(type_, lambda field: self.skip(field.type)).take_fields
                return self._skips[type_]
            case Union():
                return TakeBranch(type_, self.skip).take_branch
            case Array():
                return Items(self.skip(type_.items)).skip_items
            case Map():
                return Items(self.skip(type_.values), skip_bytes).skip_items

    def value(self, type_: AvroType) -> Step:
        """Return the step that reads the value as JSON has it, or notes in ``against`` why JSON cannot have it."""
        match type_:
            case Scalar():
                return ReadJson(read_scalar(type_), json_value(type_.value)).read_json
            case Record():
                if type_ not in self._values:
                    self._values[type_] = Fields(type_, lambda field: self.value(field.type)).read_object
                return self._values[type_]
            case Union():
                return TakeBranch(type_, self.value).take_branch
            case Array():
                return Items(self.value(type_.items)).read_list
            case Map():
                values = self.value(type_.values)
                return ReadMap(lambda _: values).read_map

    def whole(self, type_: AvroType, kind: ColumnKind) -> tuple[Step, ValueType]:
        """Return the step that reads the value for a column of that kind, and the type of the result.

        A value that no such column takes is passed over.
        """
        source = ValueType(TypeName.ARRAY if isinstance(type_, Array) else TypeName.OBJECT, shown(type_))
        if kind.name == "jsonb" or kind.encoding == "unscaled":
            return self.value(type_), source
        if not kind.item or not isinstance(type_, Array) or (item := item_type(type_)) is None:
            return self.skip(type_), source
        step = TakeBranch(type_.items, self._single).take_branch if isinstance(type_.items, Union) else None
        return Items(step or self._single(type_.items)).read_list, replace(source, item=item)

    def _single(self, type_: AvroType) -> Step:
        return read_scalar(type_) if isinstance(type_, Scalar) else self.skip(type_)

"""The decoder of Avro records, for one writer's schema, and keys in Avro that name an event.

Its exact reader defines, value by value, what the bytes of a record say. What is left of a record, where its columns
have taken theirs, is read in a second pass over its bytes.

A path leads through records, the keys of maps and the branches of unions. What no path leads to is stepped over: how it
is written is checked, what is in its texts and bytes is not.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import pyarrow as pa

from offset_ledger.decoding.avro.byte_reader import ByteReader
from offset_ledger.decoding.avro.lockstep import LockstepReader, NotInLockstep
from offset_ledger.decoding.avro.schema import (
    Array,
    AvroType,
    Field,
    Map,
    Record,
    Scalar,
    Union,
    full_name,
    has_path,
    parse,
    record_or_union,
    shown,
)
from offset_ledger.decoding.avro.steps import ABSENT, Fields, Parts, ReadMap, Step, TakeBranch, read_scalar
from offset_ledger.decoding.by_schema import HeadedDecoder, OtherKind
from offset_ledger.decoding.decoder import Decoder
from offset_ledger.decoding.kinds import EVENT_ID_KIND
from offset_ledger.decoding.outcome import Code, Flags, Mismatch, Proven, Reason, RecordRefused, SchemaProblem, step_of
from offset_ledger.decoding.paths import Node
from offset_ledger.decoding.typed.conversions import Convert, conversion
from offset_ledger.decoding.typed.decoder import Found, Malformed, TypedDecoder
from offset_ledger.decoding.typed.types import TypeName
from offset_ledger.model.writer_schema import WriterSchema
from offset_ledger.pipeline_file.pipeline import Limits, RecordShape


def avro_decoder(schema: WriterSchema, record: RecordShape, limits: Limits) -> Decoder:
    """Return the decoder of the records that a schema wrote.

    Each branch of a union is read by itself, and one that is not among ``record.schemas`` is skipped.

    Raises:
        SchemaProblem: the schema is not valid, or neither a record nor a union with one.
    """
    written = record_or_union(schema)
    if isinstance(written, Record):
        return _of_record(written, record, limits)
    union = written

    def of_branch(branch: AvroType) -> Decoder | str:
        """Return the decoder of a branch, or the branch itself if it is not a record."""
        if record.schemas and full_name(branch) not in record.schemas:
            return OtherKind(record)
        return _of_record(branch, record, limits) if isinstance(branch, Record) else shown(branch)

    branches = [of_branch(branch) for branch in union.branches]

    def head(payload: bytes) -> tuple[Decoder, int]:
        index, at = branch_at(union, payload)
        branch = branches[index]
        if isinstance(branch, str):
            raise Mismatch(Code.TYPE, f"expected a record, got {branch}")
        return branch, at

    return HeadedDecoder(record, limits, head)


def _of_record(written: Record, record: RecordShape, limits: Limits) -> Decoder:
    return TypedDecoder(record, limits, lambda root_of: AvroReader(written, root_of(partial(has_path, written))))


def branch_at(union: Union, payload: bytes) -> tuple[int, int]:
    """Return the index of the payload's branch, and where the value begins.

    Raises:
        Malformed: it does not begin with the index of a branch.
    """
    reader = ByteReader(payload)
    return reader.read_index(len(union.branches), "union"), reader.at


def branch_reader(schema: WriterSchema) -> Callable[[bytes], tuple[str, int]]:
    """Return a reader of the full name of a payload's record or branch, and of where it begins; it raises Mismatch.

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


_NAMES_AN_EVENT = (TypeName.TEXT, TypeName.INTEGER, TypeName.UUID)


def key_text(schema: WriterSchema) -> Callable[[bytes], str]:
    """Return the reader of an event id from a key of that schema; it raises :class:`Mismatch`.

    Raises:
        SchemaProblem: the schema is not valid, or not of a single value that can name an event.
    """
    type_ = parse(schema)
    if not isinstance(type_, Scalar) or type_.value.name not in _NAMES_AN_EVENT:
        raise SchemaProblem(f"expected an Avro string, int, long, uuid or enum as a key, got {shown(type_)}")
    read, convert = read_scalar(type_), conversion(type_.value, EVENT_ID_KIND).convert

    def text(key: bytes) -> str:
        reader = ByteReader(key)
        value = read(reader)
        reader.finish()
        return str(convert(value))

    return text


class AvroReader:
    """The reader of one writer's schema; see :class:`~offset_ledger.decoding.typed.decoder.Reader`."""

    def __init__(self, record: Record, root: Node) -> None:
        self._record, self._root = record, root
        self._read = _Compiler().fill(record, root)

    def read(self, payload: bytes, reading: Found) -> None:
        """Fill the slots; raises RecordRefused."""
        reader = ByteReader(payload, reading)
        try:
            self._read(reader)
            reader.finish()
        except Malformed as malformed:
            raise malformed.refused() from None

    def rest(self, payload: bytes) -> dict[str, Any]:
        """Return the extra fields of a record; raises RecordRefused."""
        if self._rest is None:
            return {}
        try:
            left = self._rest(ByteReader(payload))
        except Malformed as malformed:  # a text that was stepped over before
            raise malformed.refused() from None
        return left if isinstance(left, dict) else {}

    @cached_property
    def _rest(self) -> Step | None:
        return _RestCompiler().left(self._record, self._root)

    def prove(self, values: pa.BinaryArray, candidates: Flags) -> Proven | None:
        """Return the records that are certainly read without a reason; None where they cannot walk together."""
        return self._lockstep.prove(values, candidates) if self._lockstep else None

    @cached_property
    def _lockstep(self) -> LockstepReader | None:
        try:
            return LockstepReader(self._record, self._root)
        except NotInLockstep:
            return None


@dataclass(frozen=True, slots=True)
class _Fill:
    """A step that reads a value into the slots of the leaves, or the reason against it."""

    read: Step
    slots: tuple[tuple[int, Convert], ...]
    path: str

    def fill(self, reader: ByteReader) -> None:
        reader.against = None
        value = self.read(reader)
        for slot, convert in self.slots:
            try:
                if reader.against is not None:
                    raise reader.against
                reader.reading.slots[slot] = convert(value)
            except Mismatch as mismatch:
                reader.reading.reasons.append((slot, mismatch.at(self.path)))


@dataclass(frozen=True, slots=True)
class _Refuse:
    """A step that notes a reason against the slots of leaves that are not here."""

    reasons: tuple[tuple[int, Reason], ...]

    def refuse(self, reader: ByteReader) -> None:
        reader.reading.reasons.extend(self.reasons)


@dataclass(frozen=True, slots=True)
class _Steps:
    """A step of several: one after the other, or each of them ``again`` over the same value."""

    steps: tuple[Step, ...]
    again: bool = False

    def take_steps(self, reader: ByteReader) -> None:
        start = reader.mark()
        for step in self.steps:
            if self.again:
                reader.back(start)
            step(reader)


@dataclass(frozen=True, slots=True)
class _FillEntries:
    """A step that reads the entries of a map that paths lead to, and skips the others."""

    steps: dict[str, Step]
    skip: Step
    absent: dict[str, Step]

    def fill_entries(self, reader: ByteReader) -> None:
        reader.enter(1)
        seen = set[str]()
        for _ in reader.items():
            key = reader.read_key(seen)
            try:
                self.steps.get(key, self.skip)(reader)
            except Malformed as malformed:
                malformed.steps.append(step_of(key))
                raise
        reader.leave()
        for name, missing in self.absent.items():
            if name not in seen:
                missing(reader)


class _Compiler:
    """The compiler of the steps through one schema along one tree of paths."""

    def __init__(self) -> None:
        self._parts = Parts()
        self._records: dict[tuple[Record, int], Step] = {}

    def fill(self, type_: AvroType, node: Node) -> Step:
        """Return the step that reads a value and fills the slots that the node leads to."""
        match type_:
            case Scalar() if type_.value.name is TypeName.NULL:
                return _absent(node, Code.NULL, "got null")
            case Scalar():
                slots = tuple((leaf.slot, conversion(type_.value, leaf.kind).convert) for leaf in node.leaves)
                fill = _Fill(read_scalar(type_), slots, node.path).fill
                return _Steps((fill, refusal)).take_steps if (refusal := _no_members(type_, node)) else fill
            case Union():
                return TakeBranch(type_, lambda each: self.fill(each, node)).take_branch
            case Array():
                refusal = _no_members(type_, node)
                skipped = _Steps((self._parts.skip(type_), refusal)).take_steps if refusal else None
                return self._whole(type_, node, skipped)
            case Map():
                if not node.members:
                    return self._whole(type_, node, None)
                steps = {name: self.fill(type_.values, member) for name, member in node.members.items()}
                absent = {name: _absent(each, Code.MISSING, "got nothing") for name, each in node.members.items()}
                entries = _FillEntries(steps, self._parts.skip(type_.values), absent).fill_entries
                return self._whole(type_, node, entries)
            case Record():
                if (type_, id(node)) not in self._records:
                    fields = self._fields(type_, node) if node.members else None
                    self._records[type_, id(node)] = self._whole(type_, node, fields)
                return self._records[type_, id(node)]

    def _fields(self, record: Record, node: Node) -> Step:
        def step_for(field: Field) -> Step:
            member = node.members.get(field.name)
            return self.fill(field.type, member) if member else self._parts.skip(field.type)

        known = {field.name for field in record.fields}
        absent = [
            _absent(member, Code.MISSING, "the schema has no such field")
            for name, member in node.members.items()
            if name not in known
        ]
        fields = Fields(record, step_for).take_fields
        return _Steps((fields, *absent)).take_steps if absent else fields

    def _whole(self, type_: AvroType, node: Node, parts: Step | None) -> Step:
        """Fill the leaves with the whole value; read it a second time where paths lead on into its parts."""
        steps: list[Step] = []
        for leaf in node.leaves:
            read, source = self._parts.whole(type_, leaf.kind)
            steps.append(_Fill(read, ((leaf.slot, conversion(source, leaf.kind).convert),), node.path).fill)
        steps += [parts] if parts else []
        if not steps:
            return self._parts.skip(type_)
        return steps[0] if len(steps) == 1 else _Steps(tuple(steps), again=True).take_steps


def _absent(node: Node, code: Code, instead: str) -> Step:
    """Leave the slots below the node empty, with a reason against each that needs a value."""
    reason = Reason(node.path, code, f"expected a value, {instead}")
    return _Refuse(tuple((leaf.slot, reason) for leaf in node.descendants() if not leaf.nullable)).refuse


def _no_members(type_: AvroType, node: Node) -> Step | None:
    """Refuse the slots that paths lead to through a value without members."""
    reason = Reason(node.path, Code.TYPE, f"expected a record or a map, got {shown(type_)}")
    against = [(leaf.slot, reason) for member in node.members.values() for leaf in member.descendants()]
    return _Refuse(tuple(against)).refuse if against else None


@dataclass(frozen=True, slots=True)
class _Over:
    """A step over a value of which nothing is left."""

    skip: Step

    def pass_over(self, reader: ByteReader) -> object:
        self.skip(reader)
        return ABSENT


@dataclass(frozen=True, slots=True)
class _LeftIn:
    """A step that reads the extra fields of an object, ABSENT where it has none."""

    read: Step

    def read_left(self, reader: ByteReader) -> object:
        return self.read(reader) or ABSENT


@dataclass(frozen=True, slots=True)
class _LeftWhole:
    """A step that reads an extra value whole, and refuses one that no jsonb can hold."""

    read: Step
    path: str

    def read_left_whole(self, reader: ByteReader) -> object:
        value = self.read(reader)
        if reader.against is not None:
            raise RecordRefused(reader.against.at(self.path))
        return value


class _RestCompiler:
    """The compiler of the steps through one schema to the extra fields, to which no path of the tree leads."""

    def __init__(self) -> None:
        self._parts = Parts()

    def left(self, type_: AvroType, node: Node) -> Step | None:
        """Return the step that reads the rest of a value here, ABSENT if nothing is left; None if nothing ever is."""
        if node.leaves:
            return None
        match type_:
            case Union():
                branches = {each: self.left(each, node) for each in type_.branches}
                if not any(branches.values()):
                    return None
                return TakeBranch(
                    type_, lambda each: branches[each] or _Over(self._parts.skip(each)).pass_over
                ).take_branch
            case Record():
                fields = {field.name: self._member(field.type, node, field.name) for field in type_.fields}
                if not any(fields.values()):
                    return None
                return _LeftIn(
                    Fields(
                        type_, lambda field: fields[field.name] or _Over(self._parts.skip(field.type)).pass_over
                    ).read_object
                ).read_left
            case Map():
                over, whole = _Over(self._parts.skip(type_.values)).pass_over, self._parts.value(type_.values)
                entries = {name: self._member(type_.values, node, name) or over for name in node.members}
                return _LeftIn(
                    ReadMap(
                        lambda key: entries.get(key) or _LeftWhole(whole, node.path + step_of(key)).read_left_whole
                    ).read_map
                ).read_left
            case _:
                return None

    def _member(self, type_: AvroType, node: Node, name: str) -> Step | None:
        if member := node.members.get(name):
            return self.left(type_, member)
        return _LeftWhole(self._parts.value(type_), node.path + step_of(name)).read_left_whole

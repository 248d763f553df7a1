"""The decoder of Avro records, for one writer's schema, keys in Avro that name an event, and the fields of a schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from offset_ledger.config.model import JsonPath, Limits, RecordShape
from offset_ledger.decoding.avro.byte_reader import ByteReader
from offset_ledger.decoding.avro.reader import AvroReader, branch_at
from offset_ledger.decoding.avro.schema import (
    AvroType,
    Field,
    Map,
    Record,
    Scalar,
    Union,
    branches_of,
    full_name,
    parse,
    record_or_union,
    shown,
)
from offset_ledger.decoding.avro.steps import read_scalar
from offset_ledger.decoding.framed import HeadedDecoder, OtherKind
from offset_ledger.decoding.kinds import EVENT_ID
from offset_ledger.decoding.outcome import Code, Decoder, Mismatch
from offset_ledger.decoding.typed.conversions import conversion
from offset_ledger.decoding.typed.decoder import TypedDecoder
from offset_ledger.decoding.typed.types import MAX_NESTED, SchemaField, SchemaProblem, TypeName, ValueType, at_most
from offset_ledger.model.writer_schema import WriterSchema


def avro_decoder(schema: WriterSchema, record: RecordShape, limits: Limits) -> Decoder:
    """Return the decoder of the records that a schema wrote.

    Of a union each branch is read by itself, and one that is none of ``record.schemas`` is skipped.

    Raises:
        SchemaProblem: the schema is not valid, or neither a record nor a union with one.
    """
    written = record_or_union(schema)
    if isinstance(written, Record):
        return _of_record(written, record, limits)
    union = written

    def of_branch(branch: AvroType) -> Decoder | str:
        """The decoder of a branch, or what it is instead of a record."""
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


_NAMES_AN_EVENT = (TypeName.TEXT, TypeName.INTEGER, TypeName.UUID)


def key_text(schema: WriterSchema) -> Callable[[bytes], str]:
    """Return what reads an event id from a key of that schema, or raises :class:`Mismatch`.

    Raises:
        SchemaProblem: the schema is not valid, or not of a single value that can name an event.
    """
    type_ = parse(schema)
    if not isinstance(type_, Scalar) or type_.value.name not in _NAMES_AN_EVENT:
        raise SchemaProblem(f"expected an Avro string, int, long, uuid or enum as a key, got {shown(type_)}")
    read, convert = read_scalar(type_), conversion(type_.value, EVENT_ID).convert

    def text(key: bytes) -> str:
        reader = ByteReader(key)
        value = read(reader)
        reader.finish()
        return str(convert(value))

    return text


MAX_ALIASES = 100
"""Paths that a field had before; aliases at each of many levels make more of them than can be counted."""


def schema_fields(schema: WriterSchema, name: str | None = None) -> tuple[SchemaField, ...]:
    """The fields in the schema's order, of a union those of the record of this full name, or of its first one.

    A record that contains itself, or has no fields, is one field.

    Raises:
        SchemaProblem: the schema is not valid, has no such record, or too many fields.
    """
    records = _records(schema)
    if name is not None and name not in records:
        raise SchemaProblem(f"expected record {name} in the schema, which has {', '.join(records)}")
    record = records[name] if name else next(iter(records.values()))
    return at_most(_members(record, _At(), (record,)))


def record_names(schema: WriterSchema) -> tuple[str, ...]:
    """The full name of the record, or of each record of a union.

    Raises:
        SchemaProblem: the schema is not valid, or has no record.
    """
    return tuple(_records(schema))


def _records(schema: WriterSchema) -> dict[str, Record]:
    return {each.name: each for each in branches_of(record_or_union(schema)) if isinstance(each, Record)}


def has_path(type_: AvroType, path: JsonPath) -> bool:
    """Return whether a path leads to a field, in some branch of the unions on its way; a map can have any key."""
    if not path:
        return True
    match type_:
        case Record():
            return any(field.name == path[0] and has_path(field.type, path[1:]) for field in type_.fields)
        case Union():
            return any(has_path(branch, path) for branch in type_.branches)
        case Map():
            return has_path(type_.values, path[1:])
        case _:
            return False


@dataclass(frozen=True, slots=True)
class _At:
    """A place in the schema: its path, those that it had before, and whether it can be null or missing."""

    path: JsonPath = ()
    aliases: tuple[JsonPath, ...] = ()
    nullable: bool = False

    def member(self, field: Field) -> _At:
        """The place of a field of the record here."""
        every = ((*before, name) for name in (field.name, *field.aliases) for before in (self.path, *self.aliases))
        path, *aliases = islice(every, 1 + MAX_ALIASES)
        return _At(path, tuple(dict.fromkeys(aliases)), self.nullable)

    def field(self, type_: ValueType | None, shown_: str) -> SchemaField:
        """The field here."""
        return SchemaField(self.path, type_, shown_, self.nullable, self.aliases)


def _members(record: Record, at: _At, within: tuple[Record, ...]) -> Iterator[SchemaField]:
    for field in record.fields:
        yield from _field(field.type, at.member(field), within)


def _field(type_: AvroType, at: _At, within: tuple[Record, ...]) -> Iterator[SchemaField]:
    match type_:
        case Scalar() if type_.value.name is TypeName.NULL:
            yield replace(at, nullable=True).field(None, type_.value.shown)
        case Scalar():
            yield at.field(type_.value, type_.value.shown)
        case Union():
            values = [each for each in type_.branches if not (isinstance(each, Scalar) and each.wire == "null")]
            at = replace(at, nullable=at.nullable or len(values) < len(type_.branches))
            if len(values) == 1:
                yield from _field(values[0], at, within)
            else:
                yield at.field(None, f"union of {', '.join(map(shown, values))}" if values else "null")
        case Record() if type_.fields and type_ not in within and len(at.path) < MAX_NESTED:
            yield from _members(type_, at, (*within, type_))
        case _:
            yield at.field(None, shown(type_))

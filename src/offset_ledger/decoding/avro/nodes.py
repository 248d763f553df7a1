"""The types of an Avro schema, as a tree in which every name is resolved."""

from __future__ import annotations

from dataclasses import dataclass, field

from offset_ledger.decoding.typed.types import ValueType


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value without parts: a primitive, or a fixed or an enum of that ``name``; ``wire`` is how it is written."""

    wire: str
    value: ValueType
    name: str = ""
    size: int = 0
    symbols: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record; ``aliases`` are names that it had before."""

    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """A record, which may contain itself."""

    name: str
    fields: list[Field] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    """An array."""

    items: AvroType


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """A map; its keys are strings."""

    values: AvroType


@dataclass(frozen=True, slots=True, eq=False)
class Union:
    """One of several types, which each value names by its index."""

    branches: tuple[AvroType, ...]


AvroType = Scalar | Record | Array | Map | Union


def branches_of(type_: AvroType) -> tuple[AvroType, ...]:
    """The branches of a union, or the type itself."""
    return type_.branches if isinstance(type_, Union) else (type_,)


def full_name(type_: AvroType) -> str:
    """The full name of a named type, and of another one what Avro calls it, as Java's ``getFullName`` says."""
    if isinstance(type_, Scalar):
        return type_.name or type_.wire
    return type_.name if isinstance(type_, Record) else type(type_).__name__.lower()


def shown(type_: AvroType) -> str:
    """What Avro calls the type."""
    if isinstance(type_, Scalar):
        return type_.value.shown
    return f"record {type_.name}" if isinstance(type_, Record) else type(type_).__name__.lower()

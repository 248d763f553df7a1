"""The types of an Avro schema from its text, read as strictly as by Java's parser, and its fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import msgspec

from offset_ledger.decoding.outcome import SchemaProblem, printable
from offset_ledger.decoding.typed.types import MAX_NESTED as MAX_NESTED_RECORDS
from offset_ledger.decoding.typed.types import SchemaField, TypeName, ValueType, at_most
from offset_ledger.model.writer_schema import WriterSchema
from offset_ledger.pipeline_file.pipeline import JsonPath

MAX_SCHEMA_BYTES = 4 * 1024 * 1024
MAX_NESTED = 100  # far from Python's own limit of frames
_NAME = re.compile(r"[^\W\d]\w*")
_FULL_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_TOO_DEEP = f"expected an Avro schema of at most {MAX_NESTED} nested types, got more"


def record_or_union(schema: WriterSchema) -> Record | Union:
    """Return the record that a schema is, or a union with a branch that is one.

    Raises:
        SchemaProblem: it is not valid, or neither.
    """
    root = parse(schema)
    if isinstance(root, Record | Union) and any(isinstance(each, Record) for each in branches_of(root)):
        return root
    raise SchemaProblem(f"expected an Avro record, or a union with one, got {shown(root)}")


def parse(schema: WriterSchema) -> AvroType:
    """The type that a schema is, with the names of its references.

    Raises:
        SchemaProblem: it is not a valid schema of Avro, or larger or deeper than any that people write.
    """
    texts = [*dict.fromkeys(reference.text for reference in schema.references), schema.text]
    if (size := sum(len(text) for text in texts)) > MAX_SCHEMA_BYTES:
        raise SchemaProblem(f"expected an Avro schema of at most {MAX_SCHEMA_BYTES} characters, got {size}")
    names = _Names()
    types = []
    for text in texts:
        try:
            said = msgspec.json.decode(text)
        except RecursionError:
            raise SchemaProblem(_TOO_DEEP) from None
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            raise SchemaProblem(f"expected an Avro schema in JSON: {printable(str(error))}") from None
        types.append(names.parse(said, "", "schema", 0))
    return types[-1]


PRIMITIVES = {
    "null": ValueType(TypeName.NULL, "null"),
    "boolean": ValueType(TypeName.BOOLEAN, "boolean"),
    "int": ValueType(TypeName.INTEGER, "int", bits=32),
    "long": ValueType(TypeName.INTEGER, "long", bits=64),
    "float": ValueType(TypeName.FLOAT, "float", bits=32),
    "double": ValueType(TypeName.FLOAT, "double", bits=64),
    "bytes": ValueType(TypeName.BYTES, "bytes"),
    "string": ValueType(TypeName.TEXT, "string"),
}


class _Names:
    """The named types that were defined so far."""

    def __init__(self) -> None:
        self._defined: dict[str, AvroType] = {}

    def parse(self, said: Any, namespace: str, place: str, depth: int) -> AvroType:
        """Return the type of a part of a schema; ``place`` is its position, for messages."""
        if depth > MAX_NESTED:
            raise SchemaProblem(_TOO_DEEP)
        if isinstance(said, str):
            return self._named(said, namespace, place)
        if isinstance(said, list):
            branches = tuple(self.parse(each, namespace, place, depth + 1) for each in said)
            kinds = [full_name(branch) for branch in branches]
            if len(set(kinds)) < len(kinds) or "union" in kinds:
                raise _problem(place, "a union of different types and no unions", kinds)
            return Union(branches)
        kind = said.get("type") if isinstance(said, dict) else None
        if not isinstance(kind, str):
            raise _problem(place, "a type", said)
        if kind in ("record", "error"):
            return self._record(said, namespace, place, depth)
        if kind in ("array", "map"):
            part = _needed(said, "items" if kind == "array" else "values", place)
            inner = self.parse(part, namespace, place, depth + 1)
            return Array(inner) if kind == "array" else Map(inner)
        if kind in ("enum", "fixed"):
            name, _ = _full_name(said, namespace, place)
            made = _enum(name, said) if kind == "enum" else _fixed(name, said)
            self._define(name, made, place)
            return made
        if kind in PRIMITIVES:
            return Scalar(kind, meaning(kind, 0, PRIMITIVES[kind], said))
        return self._named(kind, namespace, place)

    def _named(self, name: str, namespace: str, place: str) -> AvroType:
        if name in PRIMITIVES:
            return Scalar(name, PRIMITIVES[name])
        known = self._defined.get(f"{namespace}.{name}") if namespace and "." not in name else None
        known = known or self._defined.get(name)
        if known is None:
            raise _problem(place, "a type that is defined", name)
        return known

    def _record(self, said: Mapping[str, Any], namespace: str, place: str, depth: int) -> Record:
        name, inside = _full_name(said, namespace, place)
        record = Record(name)
        self._define(name, record, place)
        fields = _needed(said, "fields", name)
        if not isinstance(fields, list):
            raise _problem(name, "a list of fields", fields)
        for each in fields:
            field_name = each.get("name") if isinstance(each, dict) else None
            if not isinstance(field_name, str) or not _NAME.fullmatch(field_name):
                raise _problem(name, "a field with a name", each)
            at = f"{name}.{field_name}"
            type_ = self.parse(_needed(each, "type", at), inside, at, depth + 1)
            before = each["aliases"] if isinstance(each.get("aliases"), list) else []
            aliases = (alias for alias in before if isinstance(alias, str) and _NAME.fullmatch(alias))
            record.fields.append(Field(field_name, type_, tuple(dict.fromkeys(aliases))))
        if len({each.name for each in record.fields}) < len(fields):
            raise _problem(name, "fields of different names", [each.name for each in record.fields])
        return record

    def _define(self, name: str, type_: AvroType, place: str) -> None:
        if name in self._defined or name in PRIMITIVES:
            raise _problem(place, "a new name", name)
        self._defined[name] = type_


def _enum(name: str, said: Mapping[str, Any]) -> Scalar:
    symbols = _needed(said, "symbols", name)
    if not isinstance(symbols, list) or not all(isinstance(each, str) and _NAME.fullmatch(each) for each in symbols):
        raise _problem(name, "a list of symbols", symbols)
    if len(set(symbols)) < len(symbols):
        raise _problem(name, "different symbols", symbols)
    return Scalar("enum", ValueType(TypeName.TEXT, f"enum {name}"), name, symbols=tuple(symbols))


def _fixed(name: str, said: Mapping[str, Any]) -> Scalar:
    size = _needed(said, "size", name)
    if type(size) is not int or size < 0:
        raise _problem(name, "a size", size)
    plain = ValueType(TypeName.BYTES, f"fixed {name}")
    return Scalar("fixed", meaning("fixed", size, plain, said), name, size)


def _full_name(said: Mapping[str, Any], namespace: str, place: str) -> tuple[str, str]:
    """The full name of a type that is defined here, and the namespace within it."""
    name = said.get("name")
    if not isinstance(name, str) or not _FULL_NAME.fullmatch(name):
        raise _problem(place, "a name", name)
    if "." in name:
        return name, name.rpartition(".")[0]
    own = said.get("namespace")
    if own is None:
        own = namespace
    if not isinstance(own, str) or (own and not _FULL_NAME.fullmatch(own)):
        raise _problem(place, "a namespace", own)
    return (f"{own}.{name}" if own else name), own


def _needed(said: Mapping[str, Any], key: str, place: str) -> Any:
    if key not in said:
        raise SchemaProblem(f"{printable(place)}: expected {key!r} in the Avro schema, got none")
    return said[key]


def _problem(place: str, wanted: str, got: object) -> SchemaProblem:
    return SchemaProblem(
        f"{printable(place)}: expected {wanted} in the Avro schema, got {printable(msgspec.json.encode(got).decode())}"
    )


_MILLIS, _MICROS, _NANOS = 1_000_000, 1_000, 1
_ON_INTEGERS = {
    ("int", "date"): (TypeName.DATE, 0),
    ("int", "time-millis"): (TypeName.TIME, _MILLIS),
    ("long", "time-micros"): (TypeName.TIME, _MICROS),
    ("long", "timestamp-millis"): (TypeName.TIMESTAMP, _MILLIS),
    ("long", "timestamp-micros"): (TypeName.TIMESTAMP, _MICROS),
    ("long", "timestamp-nanos"): (TypeName.TIMESTAMP, _NANOS),
    ("long", "local-timestamp-millis"): (TypeName.LOCAL_TIMESTAMP, _MILLIS),
    ("long", "local-timestamp-micros"): (TypeName.LOCAL_TIMESTAMP, _MICROS),
    ("long", "local-timestamp-nanos"): (TypeName.LOCAL_TIMESTAMP, _NANOS),
}
_ON_FIXED = {("uuid", 16): TypeName.UUID, ("duration", 12): TypeName.DURATION}


def meaning(wire: str, size: int, plain: ValueType, attributes: Mapping[str, Any]) -> ValueType:
    """Return the type that attributes of a schema give to a value written as ``wire``; ``plain`` if they give none."""
    name = attributes.get("logicalType")
    if not isinstance(name, str):
        return plain
    if name == "decimal" and wire in ("bytes", "fixed"):
        # That many bytes of two's complement hold at least this many decimal digits.
        digits = int((8 * size - 1) * 0.30102999566398120) if size else 0
        precision, scale = attributes.get("precision"), attributes.get("scale", 0)
        if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or precision < 1:
            return plain
        if wire == "fixed" and precision > digits:
            return plain
        return ValueType(TypeName.DECIMAL, f"decimal({precision},{scale})", scale=scale)
    if wire == "fixed" and (name, size) in _ON_FIXED:
        return ValueType(_ON_FIXED[name, size], name)
    if (wire, name) in _ON_INTEGERS:
        type_name, nanoseconds = _ON_INTEGERS[wire, name]
        return ValueType(type_name, name, nanoseconds=nanoseconds)
    return plain


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
    """A union: each value names one of its types by index."""

    branches: tuple[AvroType, ...]


AvroType = Scalar | Record | Array | Map | Union


def branches_of(type_: AvroType) -> tuple[AvroType, ...]:
    """The branches of a union, or the type itself."""
    return type_.branches if isinstance(type_, Union) else (type_,)


def full_name(type_: AvroType) -> str:
    """Return the full name of a named type, and Avro's word for any other, as Java's ``getFullName`` does."""
    if isinstance(type_, Scalar):
        return type_.name or type_.wire
    return type_.name if isinstance(type_, Record) else type(type_).__name__.lower()


def item_type(type_: AvroType) -> ValueType | None:
    """Return the type of the items of an array of single values, which may be null; None of any other type."""
    if not isinstance(type_, Array):
        return None
    values = [each for each in branches_of(type_.items) if not is_null(each)]
    return values[0].value if len(values) == 1 and isinstance(values[0], Scalar) else None


def is_null(type_: AvroType) -> bool:
    """Return whether the type has no value but null."""
    return isinstance(type_, Scalar) and type_.wire == "null"


def shown(type_: AvroType) -> str:
    """Return Avro's name for the type."""
    if isinstance(type_, Scalar):
        return type_.value.shown
    return f"record {type_.name}" if isinstance(type_, Record) else type(type_).__name__.lower()


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

    def field(self, type_: ValueType | None, shown_: str, array: ValueType | None = None) -> SchemaField:
        """The field here."""
        return SchemaField(self.path, type_, shown_, self.nullable, self.aliases, array)


def _members(record: Record, at: _At, within: tuple[Record, ...]) -> Iterator[SchemaField]:
    for each in record.fields:
        yield from _field(each.type, at.member(each), within)


def _field(type_: AvroType, at: _At, within: tuple[Record, ...]) -> Iterator[SchemaField]:
    match type_:
        case Scalar() if is_null(type_):
            yield replace(at, nullable=True).field(None, type_.value.shown)
        case Scalar():
            yield at.field(type_.value, type_.value.shown)
        case Union():
            values = [each for each in type_.branches if not is_null(each)]
            at = replace(at, nullable=at.nullable or len(values) < len(type_.branches))
            if len(values) == 1:
                yield from _field(values[0], at, within)
            else:
                yield at.field(None, f"union of {', '.join(map(shown, values))}" if values else "null")
        case Record() if type_.fields and type_ not in within and len(at.path) < MAX_NESTED_RECORDS:
            yield from _members(type_, at, (*within, type_))
        case Array():
            yield at.field(None, shown(type_), ValueType(TypeName.ARRAY, shown(type_), item=item_type(type_)))
        case _:
            yield at.field(None, shown(type_))

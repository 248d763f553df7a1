"""Documents -> Avro: each value is written as its type in the schema, if it is that value exactly."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fastavro import parse_schema

from offset_ledger.errors import ConfigurationError, error_line
from offset_ledger.model.writer_schema import WriterSchema
from offset_ledger.reliability.publishing.formats import exact
from offset_ledger.reliability.publishing.formats.exact import Misfit, refuse, shown

Write = Callable[[Any], bytes]
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_BITS = {"int": 32, "long": 64}
_FLOATS = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}
_UNITS = {"millis": 1_000_000, "micros": 1_000, "nanos": 1}


def long(value: int) -> bytes:
    """A number as zigzag and base 128."""
    left = (value << 1) ^ (value >> 63)
    written = bytearray()
    while left > 0x7F:
        written.append(left & 0x7F | 0x80)
        left >>= 7
    written.append(left)
    return bytes(written)


def scalar_writer(said: Mapping[str, Any], default: bool) -> Write:
    """What writes a value of the type.

    A ``default`` of a schema is of the type alone, whatever its logical type, and bytes are a text of as many
    characters.
    """
    kind = said["type"]
    logical = None if default else said.get("logicalType")
    if kind == "null":
        return lambda value: b"" if value is None else refuse("null", value)
    if kind == "boolean":
        return lambda value: b"\1" if exact.boolean(value) else b"\0"
    if kind in _BITS:
        read = _whole(kind, logical)
        return lambda value: long(read(value))
    if kind in _FLOATS:
        return _float(kind, default)
    if kind == "enum":
        return _symbol(said)
    if kind == "string":
        return _text(logical)
    return _bytes(said, logical, default)


def _whole(kind: str, logical: str | None) -> Callable[[Any], int]:
    name, _, unit = (logical or "").rpartition("-")
    if (kind, logical) == ("int", "date"):
        return exact.day
    if (kind, logical) in (("int", "time-millis"), ("long", "time-micros")):
        return lambda value: exact.clock(value, _UNITS[unit])
    if kind == "long" and name in ("timestamp", "local-timestamp") and unit in _UNITS:
        return lambda value: exact.moment(value, _UNITS[unit], name != "timestamp")
    bound = 2 ** (_BITS[kind] - 1)
    return lambda value: exact.integer(value, kind, -bound, bound - 1)


def _float(kind: str, default: bool) -> Write:
    pack, single = _FLOATS[kind].pack, kind == "float"
    if default:
        return lambda value: pack(value) if type(value) in (int, float) else refuse(kind, value)
    return lambda value: pack(exact.floating(value, kind, single))


def _symbol(said: Mapping[str, Any]) -> Write:
    written = {symbol: long(index) for index, symbol in enumerate(said["symbols"])}
    name = f"a symbol of enum {said['name']}"

    def symbol(value: Any) -> bytes:
        encoded = written.get(value) if isinstance(value, str) else None
        return refuse(name, value) if encoded is None else encoded

    return symbol


def _text(logical: str | None) -> Write:
    if logical == "uuid":
        return lambda value: _sized(str(exact.uuid(value)).encode())
    return lambda value: _sized(exact.text(value, "string"))


def _bytes(said: Mapping[str, Any], logical: str | None, default: bool) -> Write:
    size = said.get("size") if said["type"] == "fixed" else None
    name = "bytes" if size is None else f"fixed {said['name']} of {size} bytes"
    read = _latin if default else lambda value: exact.binary(value, name)
    if logical == "decimal" and type(said.get("precision")) is int:  # else it is none, and ignored as Avro says
        return _decimal(int(said["precision"]), int(said.get("scale", 0)), size)
    if (logical, size) == ("uuid", 16):
        return lambda value: exact.uuid(value).bytes

    def written(value: Any) -> bytes:
        data = read(value)
        if size is None:
            return _sized(data)
        return data if len(data) == size else refuse(name, value)

    return written


def _decimal(precision: int, scale: int, size: int | None) -> Write:
    def decimal(value: Any) -> bytes:
        number = exact.unscaled(value, precision, scale)
        if size is not None:
            return number.to_bytes(size, signed=True)
        return _sized(number.to_bytes(((number + (number < 0)).bit_length() + 8) // 8, signed=True))

    return decimal


def _latin(value: Any) -> bytes:
    try:
        return str(value).encode("latin-1") if isinstance(value, str) else refuse("a text of bytes", value)
    except UnicodeEncodeError:
        return refuse("a text of bytes", value)


def _sized(data: bytes) -> bytes:
    return long(len(data)) + data


Named = Mapping[str, Mapping[str, Any]]
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class AvroType:
    """A schema as fastavro resolved it: ``root`` with full names, ``named`` the types of these names."""

    root: Any
    named: Named

    @property
    def record(self) -> Mapping[str, Any] | None:
        """The record that it is, if it is one."""
        root = self.named.get(self.root, self.root) if isinstance(self.root, str) else self.root
        return root if isinstance(root, dict) and root["type"] in ("record", "error") else None


def parse_avro(schema: WriterSchema) -> AvroType:
    """The types of a schema.

    Raises:
        ConfigurationError: it is no schema of Avro.
    """
    named: dict[str, Any] = {}
    try:
        for reference in schema.references:
            parse_schema(json.loads(reference.text), named_schemas=named)
        return AvroType(parse_schema(json.loads(schema.text), named_schemas=named), named)
    except Exception as error:  # noqa: BLE001 - KeyError, TypeError and others, by what is wrong in it
        raise ConfigurationError(f"it is no Avro schema ({error_line(error)}); correct it") from None


def avro_writer(type_: AvroType) -> Write:
    """What writes a value as the type; it raises Misfit."""
    return _Compiler(type_.named).writer(type_.root)


@dataclass(frozen=True, slots=True)
class _Compiler:
    """Makes the writers of one schema. ``defaults``: they write what a schema gives as default of a field."""

    named: Named
    defaults: bool = False
    records: dict[str, _Record] = field(default_factory=dict)

    def writer(self, said: Any) -> Write:
        """What writes a value as this part of the schema says."""
        if isinstance(said, list):
            return self._union(said)
        if isinstance(said, str):
            return scalar_writer({"type": said}, self.defaults) if said in PRIMITIVES else self.writer(self.named[said])
        kind = said["type"]
        if kind in ("record", "error"):
            return self._record(said)
        if kind == "array":
            return _array(self.writer(said["items"]))
        if kind == "map":
            return _map(self.writer(said["values"]))
        if isinstance(kind, str) and (kind in PRIMITIVES or kind in ("enum", "fixed")):
            return scalar_writer(said, self.defaults)
        return self.writer(kind)

    def _record(self, said: Mapping[str, Any]) -> Write:
        name = said["name"]
        if name not in self.records:
            self.records[name] = record = _Record(name)
            physical = self if self.defaults else _Compiler(self.named, defaults=True)
            for each in said["fields"]:
                default = _default(physical, each) if "default" in each else None
                record.fields[each["name"]] = self.writer(each["type"]), default
        return self.records[name].write

    def _union(self, said: list[Any]) -> Write:
        branches = [(_branch_name(each), self.writer(each)) for each in said]
        prefixes = [long(index) for index in range(len(branches))]
        named = [(name, prefix, write) for (name, write), prefix in zip(branches, prefixes, strict=True)]
        return _first_branch(named) if self.defaults else _only_branch(named)


@dataclass(frozen=True, slots=True)
class _Record:
    """A record; its fields are added after it, because they may hold it."""

    name: str
    fields: dict[str, tuple[Write, Callable[[], bytes] | None]] = field(default_factory=dict)

    def write(self, value: Any) -> bytes:
        """The fields in the order of the schema."""
        if not isinstance(value, Mapping):
            refuse(f"record {self.name}", value)
        written = []
        for name, (write, default) in self.fields.items():
            member = value.get(name, _ABSENT)
            try:
                if member is not _ABSENT:
                    written.append(write(member))
                elif default is not None:
                    written.append(default())
                else:
                    raise Misfit("expected a value, found none, and the schema has no default")
            except Misfit as misfit:
                misfit.steps.append(name)
                raise
        if len(value) > len(self.fields) or not value.keys() <= self.fields.keys():
            unknown = Misfit(f"expected a field of {self.name}, found none of this name")
            unknown.steps.append(next(name for name in value if name not in self.fields))
            raise unknown
        return b"".join(written)


def _default(physical: _Compiler, said: Mapping[str, Any]) -> Callable[[], bytes]:
    """The bytes of a field's default, made when they are needed: a record may hold itself."""
    made: list[bytes] = []

    def default() -> bytes:
        if not made:
            made.append(physical.writer(said["type"])(said["default"]))
        return made[0]

    return default


def _array(write: Write) -> Write:
    def items(value: Any) -> bytes:
        if not isinstance(value, list | tuple):
            refuse("array", value)
        return _block([_at(index, write, each) for index, each in enumerate(value)])

    return items


def _map(write: Write) -> Write:
    name_of = scalar_writer({"type": "string"}, False)

    def entries(value: Any) -> bytes:
        if not isinstance(value, Mapping):
            refuse("map", value)
        return _block([name_of(name) + _at(name, write, each) for name, each in value.items()])

    return entries


def _block(items: list[bytes]) -> bytes:
    return long(len(items)) + b"".join(items) + b"\0" if items else b"\0"


def _at(step: str | int, write: Write, value: Any) -> bytes:
    try:
        return write(value)
    except Misfit as misfit:
        misfit.steps.append(step)
        raise


_Branches = list[tuple[str, bytes, Write]]


def _first_branch(branches: _Branches) -> Write:
    """A default is of the first branch that takes it."""

    def first(value: Any) -> bytes:
        for _, prefix, write in branches:
            try:
                return prefix + write(value)
            except Misfit:
                continue
        return refuse("a default of a branch", value)

    return first


def _only_branch(branches: _Branches) -> Write:
    """Writes a value as the only branch that takes it, or as the one that an object with its name gives."""
    names = ", ".join(name for name, _, _ in branches)
    others = [name for name, _, _ in branches if name != "null"]

    def only(value: Any) -> bytes:
        fits, misfits = _tried(branches, value)
        if len(fits) == 1:
            return fits[0][1]
        if fits:
            both = " and ".join(dict.fromkeys(name for name, _ in fits))
            raise Misfit(
                f'expected a value of one branch, found {shown(value)}, which fits {both}; write {{"{fits[0][0]}": …}}'
            )
        if value is not None and len(others) == 1:
            raise misfits[others[0]]
        return refuse(f"one of {names}", value)

    return only


def _tried(branches: _Branches, value: Any) -> tuple[list[tuple[str, bytes]], dict[str, Misfit]]:
    """The branches that take the value, as it is or inside an object with their name, and what the others say."""
    fits, misfits = list[tuple[str, bytes]](), dict[str, Misfit]()
    for name, prefix, write in branches:
        for inner in _readings(name, value):
            try:
                fits.append((name, prefix + write(inner)))
            except Misfit as misfit:
                misfits[name] = misfit
    return fits, misfits


def _readings(name: str, value: Any) -> list[Any]:
    """The value itself, and what an object with nothing but the name of the branch holds."""
    inside = isinstance(value, Mapping) and len(value) == 1 and name in value and name != "null"
    return [value, value[name]] if inside else [value]


def _branch_name(said: Any) -> str:
    if isinstance(said, str):
        return said
    return str(said.get("name") or (said["type"] if isinstance(said["type"], str) else _branch_name(said["type"])))

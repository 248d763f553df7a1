"""The columns of a record: name, type, path, and whether all of them can stand in one record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import yaml

from offset_ledger.config.column_types import ENCODINGS, parse_type
from offset_ledger.config.document import Refused, Section, Value, describe, entries, flow
from offset_ledger.config.json_path import format_path, parse_path
from offset_ledger.config.model import Column, ColumnType, JsonPath
from offset_ledger.config.names import check_column_name
from offset_ledger.config.schema import COLUMN, COLUMNS, MAX_COLUMNS
from offset_ledger.config.values import boolean, is_null, one_of, text

NO_PATH: JsonPath = ()


@dataclass(frozen=True, slots=True)
class Place:
    """A path, the value of the file that reads it, and the type it is read as."""

    value: Value
    path: JsonPath
    type: str


def json_path(value: Value) -> JsonPath:
    """A path into the record."""
    return parse_path(text(value))


def read_columns(value: Value, others: Iterable[Place]) -> tuple[Column, ...]:
    """The columns in file order; ``others`` are the places that the rest of the record reads."""
    found = entries(value, flow(COLUMNS["examples"][0]))
    if not 1 <= len(found) <= MAX_COLUMNS:
        raise Refused(f"{len(found)} columns, where a table takes 1 to {MAX_COLUMNS}", "declare that many", value.line)
    columns = [(entry, entry.read(_column_named(name), None)) for name, entry in found.items()]
    read = [(entry, column) for entry, column in columns if column]
    check_places([*others, *(Place(entry, it.path, it.type.name) for entry, it in read if it.path)])
    return tuple(column for _, column in read)


def check_places(places: Iterable[Place]) -> None:
    """Note each place that cannot stand in one record with an earlier one: only jsonb has members inside it."""
    leaves: dict[JsonPath, Place] = {}
    above: dict[JsonPath, Place] = {}
    for place in places:
        if refused := _conflict(place, leaves, above):
            place.value.note(refused)
        if place.path not in leaves or leaves[place.path].type == "jsonb":
            leaves[place.path] = place
        for prefix in _prefixes(place.path):
            above.setdefault(prefix, place)


def _prefixes(path: JsonPath) -> list[JsonPath]:
    return [path[:length] for length in range(1, len(path))]


def _conflict(place: Place, leaves: dict[JsonPath, Place], above: dict[JsonPath, Place]) -> Refused | None:
    shown = format_path(place.path)
    for prefix in _prefixes(place.path):
        if (leaf := leaves.get(prefix)) and leaf.type != "jsonb":
            wrong = f"{shown} lies inside {format_path(prefix)}, which {leaf.value.where} reads as {leaf.type}"
            return Refused(wrong, "drop one of them, or read the outer one as jsonb", place.value.line)
    if place.type == "jsonb":
        return None
    if (leaf := leaves.get(place.path)) and leaf.type != "jsonb":
        return Refused(f"{shown} is read by {leaf.value.where} already", "drop one of them", place.value.line)
    if inner := above.get(place.path):
        wrong = f"{shown} is read as {place.type}, and {inner.value.where} reads {format_path(inner.path)} inside it"
        return Refused(wrong, "drop one of them, or read the outer one as jsonb", place.value.line)
    return None


def _column_named(name: str) -> Callable[[Value], Column | None]:
    def read(value: Value) -> Column | None:
        try:
            check_column_name(name)
        except Refused as refused:
            value.note(Refused(refused.wrong, refused.right, value.line))
        if isinstance(value.node, yaml.MappingNode):
            return _long_form(name, value)
        return _column(name, _short_form(name, value), (name,))

    return read


def _short_form(name: str, value: Value) -> ColumnType:
    if not isinstance(value.node, yaml.ScalarNode) or is_null(value):
        wrong = f"expected a type or a mapping with one, found {describe(value.node)}"
        raise Refused(wrong, f"write for example {name}: text", value.line)
    return _type(value)


def _long_form(name: str, value: Value) -> Column | None:
    section = Section(value, COLUMN)
    kind = section.take("type", _type, None)
    path = section.take("path", json_path, NO_PATH) if section.entry("path") else (name,)
    nullable = section.take("nullable", boolean, False)
    encoding = section.take("encoding", _encoding_of(kind), "")
    return _column(name, kind, path, nullable, encoding) if kind else None


def _column(name: str, kind: ColumnType, path: JsonPath, nullable: bool = False, encoding: str = "") -> Column:
    return Column(name, kind, path, nullable, encoding or ENCODINGS.get(kind.name, ("",))[0])


def _type(value: Value) -> ColumnType:
    return parse_type(text(value))


def _encoding_of(kind: ColumnType | None) -> Callable[[Value], str]:
    def read(value: Value) -> str:
        if kind and kind.name not in ENCODINGS:
            raise Refused(f"{kind.name} has no encodings", "drop the key; only timestamptz and bytea have one")
        return one_of(text(value), ENCODINGS[kind.name]) if kind else ""

    return read

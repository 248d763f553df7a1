"""The properties of a JSON Schema, with those of the objects in it.

What a schema says by ``$ref`` and ``allOf`` counts as if it stood there; ``anyOf`` and ``oneOf`` only where all but one
of their branches are null. Conditions, patterns and properties without a type say nothing about columns.
"""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

import msgspec

from offset_ledger.decoding.outcome import SchemaProblem, printable
from offset_ledger.decoding.typed.types import (
    MAX_FIELDS,
    MAX_NESTED,
    TOO_MANY_FIELDS,
    SchemaField,
    TypeName,
    ValueType,
    at_most,
)
from offset_ledger.model.writer_schema import WriterSchema
from offset_ledger.pipeline_file.pipeline import JsonPath

MAX_PARTS = 10 * MAX_FIELDS
_SCALARS = {"string": TypeName.TEXT, "integer": TypeName.INTEGER, "number": TypeName.DECIMAL}
_SCALARS["boolean"] = TypeName.BOOLEAN
_OF_VALUE = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


def schema_fields(schema: WriterSchema) -> tuple[SchemaField, ...]:
    """The properties in the schema's order; an object that contains itself, or has no properties, is one field.

    A number is a decimal. ``shown`` has the format of a text in brackets: string (date-time).

    Raises:
        SchemaProblem: the schema is not JSON, or deeper than any that people write, or has too many fields.
    """
    documents = {each.name: _document(each.text) for each in schema.references}
    root = _Reader({**documents, "": _document(schema.text)})
    try:
        return at_most(root.members(root.merged("", root.documents[""], ()), (), False))
    except RecursionError:
        raise SchemaProblem("expected a JSON Schema of fewer nested objects") from None


def _document(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise SchemaProblem(f"expected a JSON Schema in JSON: {printable(str(error))}") from None


class _Merged:
    """The sum of what a schema says about one value; ``within`` are the references that led to it."""

    def __init__(self, within: tuple[tuple[str, str], ...]) -> None:
        self.within = within
        self.types: set[str] | None = None
        self.properties: dict[str, tuple[str, Any]] = {}
        self.required = set[str]()
        self.said: dict[str, Any] = {}
        self.circular = False

    def narrow(self, types: set[str]) -> None:
        """Keep only these types."""
        self.types = types if self.types is None else self.types & types

    @property
    def shown(self) -> str:
        """The types as the schema names them, a text with its format."""
        types = " or ".join(sorted((self.types or {"any value"}) - {"null"})) or "null"
        word = self.said.get("format") or self.said.get("contentEncoding")
        return f"{types} ({printable(word)})" if types == "string" and isinstance(word, str) else types


class _Reader:
    def __init__(self, documents: Mapping[str, Any]) -> None:
        self.documents = documents
        self._parts = 0

    def members(self, merged: _Merged, path: JsonPath, nullable: bool) -> Iterator[SchemaField]:
        """The properties of an object at this path."""
        for name, (document, said) in merged.properties.items():
            member = self.merged(document, said, merged.within)
            absent = nullable or name not in merged.required or member.types is None or "null" in member.types
            types, at = (member.types or set()) - {"null"}, (*path, name)
            if types == {"object"} and member.properties and not member.circular and len(at) < MAX_NESTED:
                yield from self.members(member, at, absent)
            else:
                type_ = _scalar(next(iter(types)), member.said) if len(types) == 1 else None
                yield SchemaField(at, type_, member.shown, absent)

    def merged(self, document: str, said: Any, within: tuple[tuple[str, str], ...]) -> _Merged:
        """Return everything that a part of a document says about its value."""
        merged = _Merged(within)
        self._merge(document, said, merged)
        return merged

    def _merge(self, document: str, said: Any, merged: _Merged) -> None:
        if not isinstance(said, dict):
            return
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise SchemaProblem(TOO_MANY_FIELDS)
        if isinstance(reference := said.get("$ref"), str):
            self._follow(document, reference, merged)
        merged.said.update(said)
        if types := _types(said):
            merged.narrow(types)
        for name, member in _mapping(said.get("properties")).items():
            merged.properties[name] = document, member
        merged.required.update(each for each in _list(said.get("required")) if isinstance(each, str))
        for each in _list(said.get("allOf")):
            self._merge(document, each, merged)
        for word in ("anyOf", "oneOf"):
            if branches := _list(said.get(word)):
                self._choose(document, branches, merged)

    def _choose(self, document: str, branches: list[Any], merged: _Merged) -> None:
        read = [self.merged(document, each, merged.within) for each in branches]
        values = [each for each in read if each.types != {"null"}]
        if all(each.types is not None for each in read):
            merged.narrow(set[str]().union(*(each.types or () for each in read)))
        if len(values) == 1:
            merged.within, merged.circular = values[0].within, merged.circular or values[0].circular
            merged.properties |= values[0].properties
            merged.required |= values[0].required
            merged.said |= values[0].said

    def _follow(self, document: str, reference: str, merged: _Merged) -> None:
        name, _, pointer = reference.partition("#")
        name = name or document
        if (name, pointer) in merged.within:
            merged.circular = True
            merged.narrow({"object"})
        elif name in self.documents:
            merged.within = (*merged.within, (name, pointer))
            said = self.documents[name]
            for step in unquote(pointer).split("/")[1:]:
                said = _mapping(said).get(step.replace("~1", "/").replace("~0", "~"))
            self._merge(name, said, merged)


def _types(said: Mapping[str, Any]) -> set[str]:
    match said.get("type"):
        case str() as one:
            return {one}
        case list() as several:
            return {each for each in several if isinstance(each, str)}
    values = [said["const"]] if "const" in said else _list(said.get("enum"))
    if values:
        return {_OF_VALUE.get(type(each), "null") for each in values}
    return {"object"} if "properties" in said else set()


def _scalar(name: str, said: Mapping[str, Any]) -> ValueType | None:
    if name not in _SCALARS:
        return None
    low, high = said.get("minimum"), said.get("maximum")
    small = type(low) is int and type(high) is int and -(1 << 31) <= low <= high < 1 << 31
    return ValueType(_SCALARS[name], name, bits=(32 if small else 64) if name == "integer" else 0)


def _mapping(said: Any) -> Mapping[str, Any]:
    return said if isinstance(said, dict) else {}


def _list(said: Any) -> list[Any]:
    return said if isinstance(said, list) else []

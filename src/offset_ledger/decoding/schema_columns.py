"""The fields of writer's schemas -> columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from offset_ledger.config.column_types import MAX_PRECISION
from offset_ledger.config.model import JsonPath
from offset_ledger.decoding.inferred import Inferred
from offset_ledger.decoding.schema_fit import decimal_digits
from offset_ledger.decoding.typed.types import SchemaField, TypeName, ValueType

_TYPES = {
    TypeName.BOOLEAN: "boolean",
    TypeName.INTEGER: "bigint",
    TypeName.TEXT: "text",
    TypeName.BYTES: "bytea",
    TypeName.DECIMAL: "numeric",
    TypeName.DATE: "date",
    TypeName.TIME: "time",
    TypeName.TIMESTAMP: "timestamptz",
    TypeName.UUID: "uuid",
}
_NO_ZONE = "a local timestamp has no time zone, so only jsonb takes it"
_REFUSED = "google.protobuf.Any"
_WHOLE_MICROSECONDS = "nanoseconds: a record whose moment is no whole microsecond is quarantined"


def schema_columns(schemas: Sequence[Sequence[SchemaField]]) -> tuple[Inferred, ...]:
    """The columns that take the values of all these schemas, the latest last; nullable where one has no such field."""
    by_path: dict[JsonPath, list[SchemaField]] = {}
    names = _names(schemas)
    for fields in schemas:
        for field in fields:
            by_path.setdefault(names.get(field.path, field.path), []).append(field)
    whole = {path for path in by_path if any(path[:depth] in by_path for depth in range(1, len(path)))}
    outer = {path[:depth] for path in whole for depth in range(1, len(path)) if path[:depth] in by_path}
    return tuple(
        replace(_together(path, fields, path in outer, len(schemas)), path=path, aliases=_of(path, names))
        for path, fields in by_path.items()
        if path not in whole
    )


def _names(schemas: Sequence[Sequence[SchemaField]]) -> dict[JsonPath, JsonPath]:
    """The latest name of each earlier one, as far as the schemas say it and no field of theirs has both."""
    names: dict[JsonPath, JsonPath] = {}
    for fields in reversed(schemas):
        here = {field.path for field in fields}
        for field in fields:
            for alias in field.aliases:
                if alias not in here:
                    names.setdefault(alias, names.get(field.path, field.path))
    latest = {field.path for field in schemas[-1]} if schemas else set()
    return {alias: path for alias, path in names.items() if alias not in latest and alias != path}


def _of(path: JsonPath, names: dict[JsonPath, JsonPath]) -> tuple[JsonPath, ...]:
    return tuple(alias for alias, latest in names.items() if latest == path)


def _together(path: JsonPath, fields: Sequence[SchemaField], outer: bool, schemas: int) -> Inferred:
    columns = [_column(field) for field in fields]
    nullable = any(each.nullable for each in columns) or len(columns) < schemas
    if outer or len({each.type for each in columns}) > 1:
        kinds = sorted({field.shown for field in fields} | ({"record"} if outer else set()))
        return Inferred(path, "jsonb", nullable or outer, f"{' and '.join(kinds)}, by the version of the schema")
    return replace(columns[-1], nullable=nullable)


def _column(field: SchemaField) -> Inferred:
    type_ = field.type
    if type_ is None:
        refused = field.shown == _REFUSED
        doubt = f"{_REFUSED}, whose type the schema does not say" if refused else ""
        return Inferred(field.path, "" if refused else "jsonb", field.nullable, doubt)
    doubt = _WHOLE_MICROSECONDS if type_.name is TypeName.TIMESTAMP and type_.nanoseconds == 1 else ""
    match type_.name:
        case TypeName.DURATION:
            return Inferred(field.path, "", field.nullable, "no column takes a duration")
        case TypeName.LOCAL_TIMESTAMP:
            return Inferred(field.path, "jsonb", field.nullable, _NO_ZONE)
    return Inferred(field.path, column_type(type_), field.nullable, doubt)


def column_type(type_: ValueType) -> str:
    """The column type that takes each value of the schema's type exactly, as far as one does."""
    if type_.name is TypeName.FLOAT:
        return "real" if type_.bits == 32 else "double precision"
    if type_.name is TypeName.INTEGER and not type_.signed and type_.bits == 64:
        return "numeric(20,0)"
    digits = decimal_digits(type_.shown)
    if digits and digits[0] <= MAX_PRECISION:
        return f"numeric({digits[0]},{digits[1]})"
    return _TYPES.get(type_.name, "jsonb")

"""The fit of a schema and the column that reads it: what would be refused, and what to write instead."""

import re

from offset_ledger.config.model import JsonPath
from offset_ledger.config.source import Format
from offset_ledger.decoding.kinds import EPOCH_UNITS, INTEGER_BITS, ColumnKind
from offset_ledger.decoding.typed.conversions import refusal
from offset_ledger.decoding.typed.types import SchemaField, TypeName, ValueType

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_EXACT = {"real": 24, "double precision": 53}
"""How many bits of an integer a float has."""
_NUMBERS = {*INTEGER_BITS, *_EXACT, "numeric", "jsonb"}


def unfit(fields: tuple[SchemaField, ...], path: JsonPath, kind: ColumnKind, nullable: bool, form: Format) -> list[str]:
    """What differs between a schema and the column that reads the path, in words; nothing where all values fit."""
    for field in fields:
        if field.path == path:
            misfit = refused(field, kind, form) or limited(field, kind, form)
            texts = [f"{field.shown} in the schema, {shown(kind)} in the file: {misfit}"] if misfit else []
            if field.nullable and not nullable:
                texts.append(
                    "can be null or missing in the schema, not nullable in the file: such records are quarantined"
                )
            return texts
    if (text := elsewhere(fields, path, kind, form)) is not None:
        return [text] if text else []
    return ["not in the schema: NULL" if nullable else GONE]


def elsewhere(fields: tuple[SchemaField, ...], path: JsonPath, kind: ColumnKind, form: Format) -> str | None:
    """What is wrong with a path to a record, or into a field, if anything; None where the schema has nothing there."""
    if any(field.path[: len(path)] == path for field in fields):
        return "" if kind.name == "jsonb" else f"a record in the schema, {kind.name} in the file: {_WHOLE}"
    for field in fields:
        if path[: len(field.path)] == field.path:
            # Only some languages have values that a path can lead into.
            scalar = field.type is not None or form is Format.PROTOBUF or field.shown in ("array", "null")
            return f"a path into {field.shown}, which has no fields: records are quarantined" if scalar else ""
    return None


GONE = "not in the schema, and not nullable: records are quarantined"
_WHOLE = "records are quarantined; write jsonb, or the path of a value in it"
_NO_NUMBER = "records are quarantined; write numeric"


def refused(field: SchemaField, kind: ColumnKind, form: Format) -> str | None:
    """Return what becomes of the field's records where no value of it can stand in a column of that kind."""
    if field.type is None:
        may_be_scalar = is_union(field) or field.shown in ("any value", "null")
        return None if kind.name == "jsonb" or may_be_scalar else _WHOLE
    if form is Format.JSON_SCHEMA and field.type.name is TypeName.DECIMAL:
        return None if kind.name in (*_NUMBERS, "event_id") or kind.encoding in EPOCH_UNITS else _NO_NUMBER
    why = refusal(field.type, kind)
    return None if why is None else f"records are quarantined ({why})"


def limited(field: SchemaField, kind: ColumnKind, form: Format) -> str | None:
    """Which values of the field a column of that kind refuses, where it takes others, and what to write instead."""
    if field.type is None or refused(field, kind, form):
        return None
    source = field.type
    if form is Format.JSON_SCHEMA and source.name is TypeName.DECIMAL:
        if kind.name in INTEGER_BITS or kind.encoding in EPOCH_UNITS:
            return "values with a fraction are quarantined; write numeric"
        return "values with a fraction are quarantined" if kind.name == "event_id" else None
    if kind.encoding in EPOCH_UNITS:
        return None
    if source.name is TypeName.INTEGER:
        return _integer_limit(source, kind)
    if source.name is TypeName.FLOAT and kind.name == "real" and source.bits == 64:
        return "values that a real cannot hold are quarantined; write double precision"
    written = decimal_digits(source.shown) if source.name is TypeName.DECIMAL and kind.name == "numeric" else None
    if written and kind.args:
        precision, scale = written
        if scale > kind.args[1] or precision - scale > kind.args[0] - kind.args[1]:
            return f"values with more digits are quarantined; write numeric({precision},{scale})"
    if source.nanoseconds == 1 and kind.name in ("timestamptz", "time"):
        return "values between two microseconds are quarantined"
    return None


def shown(kind: ColumnKind) -> str:
    """The type as a pipeline file writes it."""
    args = f"({','.join(map(str, kind.args))})" if kind.args else ""
    return f"{kind.name}{args}"


def is_union(field: SchemaField) -> bool:
    """Return whether the field has values of several types, by its schema."""
    return field.type is None and (field.shown.startswith("union of") or " or " in field.shown)


def _integer_limit(source: ValueType, kind: ColumnKind) -> str | None:
    reach = source.bits - (1 if source.signed else 0)  # the values are below 2 to the power of this
    if kind.name in INTEGER_BITS and (held := INTEGER_BITS[kind.name] - 1) < reach:
        return f"values from 2^{held} on are quarantined; write {_wider(reach)}"
    if kind.name in _EXACT and (held := _EXACT[kind.name]) < reach:
        return f"values above 2^{held} that it cannot hold are quarantined; write {_wider(reach)}"
    if kind.name == "numeric" and kind.args and (digits := kind.args[0] - kind.args[1]) < len(str(2**reach)):
        return f"values from 10^{digits} on are quarantined; write {_wider(reach)}"
    return None


def _wider(reach: int) -> str:
    return "integer" if reach < 32 else "bigint" if reach < 64 else "numeric"


def decimal_digits(shown: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal as its schema shows it."""
    written = _DECIMAL.fullmatch(shown)
    return (int(written[1]), int(written[2])) if written else None

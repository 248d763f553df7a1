"""The columns that records, or the fields of schemas, suggest: where each value is, what type takes it, and a name."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from offset_ledger.decoding.typed.types import SchemaField, TypeName, ValueType
from offset_ledger.pipeline_file.column_types import ENCODINGS, MAX_PRECISION, parse_type
from offset_ledger.pipeline_file.json_path import format_path
from offset_ledger.pipeline_file.names import MAX_COLUMNS, POSTGRES_NAME_BYTES, RESERVED_COLUMNS
from offset_ledger.pipeline_file.pipeline import Column, JsonPath


@dataclass(frozen=True, slots=True)
class Inferred:
    """A value of the records and the type that takes it; no ``type`` where none does. ``doubt``: what is unsure.

    ``aliases`` are the paths that it had before. ``encoding``: where it is not the type's first one. ``keeps``: a
    record may lack the value and leave what the row has. ``named``: the path that the column is named after, if not its
    own.
    """

    path: JsonPath
    type: str
    nullable: bool
    doubt: str = ""
    aliases: tuple[JsonPath, ...] = ()
    encoding: str = ""
    keeps: bool = False
    coerce: bool = False
    named: JsonPath = ()


@dataclass(frozen=True, slots=True)
class Proposed:
    """A column of the proposed file, and the doubts about it."""

    column: Column
    doubt: str


def limited(inferred: Sequence[Inferred]) -> tuple[Inferred, ...]:
    """Return the columns that a table has room for: objects stay whole if they have too many members."""
    if len(inferred) <= MAX_COLUMNS:
        return tuple(inferred)
    by_root = {each.path[0]: replace(each) for each in reversed(inferred)}
    doubt = "its members are more than a table has columns for"
    whole = [
        each if len(each.path) == 1 else Inferred(each.path[:1], "jsonb", True, doubt)
        for each in reversed(by_root.values())
    ]
    return tuple(
        each if place < MAX_COLUMNS else replace(each, type="", doubt=f"a table takes {MAX_COLUMNS} columns")
        for place, each in enumerate(whole)
    )


def named(inferred: Iterable[Inferred]) -> tuple[Proposed, ...]:
    """A column with a name of its own for each that some type takes."""
    taken, proposed = set(RESERVED_COLUMNS), list[Proposed]()
    for each in inferred:
        if each.type:
            type_ = parse_type(each.type)
            number, name = 1, column_name(each.named or each.path)
            free = name
            while free in taken:
                number += 1
                free = f"{name[: POSTGRES_NAME_BYTES - len(str(number)) - 1]}_{number}"
            taken.add(free)
            encoding = each.encoding or ENCODINGS.get(type_.name, ("",))[0]
            group = free if each.keeps else ""
            column = Column(
                free, type_, each.path, each.nullable, encoding, each.aliases, group=group, coerce=each.coerce
            )
            proposed.append(Proposed(column, each.doubt))
    return tuple(proposed)


def column_name(path: JsonPath) -> str:
    """The path as a name that Postgres takes unquoted: ``$.customer.firstName`` is customer_first_name."""
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", "_".join(path))
    name = re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")
    return (name if name[:1].isalpha() else f"c_{name}".rstrip("_"))[:POSTGRES_NAME_BYTES]


def left_out(inferred: Iterable[Inferred]) -> list[str]:
    """A line for each value that no column takes."""
    return [f"{format_path(each.path)} is left out: {each.doubt}" for each in inferred if not each.type]


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
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
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
    columns = []
    for path, fields in by_path.items():
        if path in whole:
            continue
        types = [_column_type(field) for field in fields]
        nullable = any(field.nullable for field in fields) or len(fields) < len(schemas)
        aliases = tuple(alias for alias, latest in names.items() if latest == path)
        type_, doubt = types[-1]
        if path in outer or len({each for each, _ in types}) > 1:
            kinds = sorted({field.shown for field in fields} | ({"record"} if path in outer else set()))
            type_, doubt = "jsonb", f"{' and '.join(kinds)}, by the version of the schema"
        columns.append(Inferred(path, type_, nullable or path in outer, doubt, aliases))
    return tuple(columns)


def _names(schemas: Sequence[Sequence[SchemaField]]) -> dict[JsonPath, JsonPath]:
    """Return the latest name of each earlier one, if the schemas say it and no field of theirs has both."""
    names: dict[JsonPath, JsonPath] = {}
    for fields in reversed(schemas):
        here = {field.path for field in fields}
        for field in fields:
            for alias in field.aliases:
                if alias not in here:
                    names.setdefault(alias, names.get(field.path, field.path))
    latest = {field.path for field in schemas[-1]} if schemas else set()
    return {alias: path for alias, path in names.items() if alias not in latest and alias != path}


def _column_type(field: SchemaField) -> tuple[str, str]:
    """Return the type of the column for a field, empty if none takes it, and the doubts about it."""
    type_ = field.type
    if type_ is None and field.shown == _REFUSED:
        return "", f"{_REFUSED}, whose type the schema does not say"
    if type_ is None:
        return "jsonb", ""
    match type_.name:
        case TypeName.DURATION:
            return "", "no column takes a duration"
        case TypeName.LOCAL_TIMESTAMP:
            return "jsonb", _NO_ZONE
    return column_type(type_), _WHOLE_MICROSECONDS if (type_.name, type_.nanoseconds) == (TypeName.TIMESTAMP, 1) else ""


def column_type(type_: ValueType) -> str:
    """Return the column type that takes each value of the schema's type exactly, if there is one."""
    if type_.name is TypeName.FLOAT:
        return "real" if type_.bits == 32 else "double precision"
    if type_.name is TypeName.INTEGER and not type_.signed and type_.bits == 64:
        return "numeric(20,0)"
    digits = decimal_digits(type_.shown)
    if digits and digits[0] <= MAX_PRECISION:
        return f"numeric({digits[0]},{digits[1]})"
    return _TYPES.get(type_.name, "jsonb")


def decimal_digits(shown: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal as its schema shows it."""
    written = _DECIMAL.fullmatch(shown)
    return (int(written[1]), int(written[2])) if written else None

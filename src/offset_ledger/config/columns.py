"""The columns of a record: name, type, path, and how each value is written."""

import yaml

from offset_ledger.config.column_types import (
    ALIAS_PATTERN,
    ALIASES,
    ENCODINGS,
    NUMERIC_PATTERN,
    PLAIN,
    VARCHAR_PATTERN,
    parse_type,
)
from offset_ledger.config.json_path import PATH_PATTERN, format_path, parse_path
from offset_ledger.config.keys import Key, Kind, Object, Section, read_mapping, read_or_note, section
from offset_ledger.config.located import Refused, Value, describe, is_null
from offset_ledger.config.model import Column, ColumnType, JsonPath
from offset_ledger.config.names import COLUMN_PATTERN, RESERVED_COLUMNS, check_column_name
from offset_ledger.config.values import FLAG, different, one_of, text

MAX_COLUMNS = 1589  # of the 1600 of a Postgres table, up to eleven are offset-ledger's own
MISREAD: JsonPath = ()
PATH: Kind[JsonPath] = Kind(lambda value: parse_path(text(value)), {"type": "string", "pattern": PATH_PATTERN})
ALIASES_KEY = Key(
    different(PATH, right="write [$.old_name]", minItems=1),
    "Where the value is in records that do not have the path: the first of these that the record has.",
    (["$.old_name"],),
)
TYPE: Kind[ColumnType] = Kind(
    lambda value: parse_type(text(value)),
    {
        "description": "A Postgres type: one of the list, varchar(n), numeric(p,s), or a usual alias such as int8.",
        "type": "string",
        "anyOf": [
            {"enum": list(PLAIN)},
            {"pattern": VARCHAR_PATTERN},
            {"pattern": NUMERIC_PATTERN},
            {"pattern": ALIAS_PATTERN},
        ],
        "examples": ["integer", "varchar(3)", "numeric(12,2)"],
    },
)


def _encodings(name: str) -> Object:
    written = [name, *(alias for alias, canonical in ALIASES.items() if canonical == name)]
    return {"properties": {"type": {"enum": written}, "encoding": {"enum": list(ENCODINGS[name])}}}


def _long_form(said: Section) -> Column | None:
    kind: ColumnType | None = said.given.get("type")
    if kind is None:
        return None
    path = said.given.get("path", MISREAD) if "path" in said.entries else (said.value.key,)
    if path in said.given.get("aliases", ()):
        said.entries["aliases"].note(Refused(f"{format_path(path)} is the path already", "list where it was before"))
    return said.make(Column, name=said.value.key, path=path, encoding=_encoding(said, kind))


def _encoding(said: Section, kind: ColumnType) -> str:
    known = ENCODINGS.get(kind.name, ("",))
    try:
        if "encoding" not in said.given:
            return known[0]
        if kind.name not in ENCODINGS:
            raise Refused(f"{kind.name} has no encodings", "drop the key; only timestamptz and bytea have one")
        return one_of(said.given["encoding"], known)
    except Refused as refused:
        said.entries["encoding"].note(refused)
        return ""


LONG_FORM: Kind[Column | None] = section(
    Column,
    "A column and the place of its value in the record.",
    {
        "type": TYPE,
        "path": Key(PATH, "Where the value is; $.<column name> where absent.", ("$.actual.dep_delay",)),
        "aliases": ALIASES_KEY,
        "nullable": Key(FLAG, "Whether null, or no such member, becomes NULL; otherwise it is quarantined.", (True,)),
        "encoding": Key(
            Kind(text, {"enum": [encoding for name in ENCODINGS for encoding in ENCODINGS[name]]}),
            "How timestamptz (rfc3339 where absent) or bytea (base64 where absent) is written.",
            ("epoch_ms",),
        ),
    },
    ("type",),
    _long_form,
    also={"if": {"required": ["encoding"]}, "then": {"anyOf": [_encodings(name) for name in ENCODINGS]}},
)


def _column(value: Value) -> Column | None:
    try:
        check_column_name(name := value.key)
    except Refused as refused:
        value.note(Refused(refused.wrong, refused.right, value.line))
    if isinstance(value.node, yaml.MappingNode):
        return LONG_FORM.read(value)
    if not isinstance(value.node, yaml.ScalarNode) or is_null(value.node):
        wrong = f"expected a type or a mapping with one, found {describe(value.node)}"
        raise Refused(wrong, f"write for example {name}: text", value.line)
    kind = TYPE.read(value)
    return Column(name, kind, (name,), encoding=ENCODINGS.get(kind.name, ("",))[0])


COLUMN = Kind(_column, {"anyOf": [TYPE.schema, LONG_FORM.schema]})


def _columns(value: Value) -> tuple[Column, ...]:
    entries = read_mapping(value, COLUMNS.schema["examples"][0]).values()
    if not 1 <= len(entries) <= MAX_COLUMNS:
        raise Refused(
            f"{len(entries)} columns, where a table takes 1 to {MAX_COLUMNS}", "declare that many", value.line
        )
    return tuple(column for entry in entries for column in read_or_note(COLUMN, entry) if column)


COLUMNS: Kind[tuple[Column, ...]] = Kind(
    _columns,
    {
        "type": "object",
        "description": "The declared columns in table order: name: type, or name: with a mapping of the keys below.",
        "minProperties": 1,
        "maxProperties": MAX_COLUMNS,
        "propertyNames": {"pattern": COLUMN_PATTERN, "not": {"enum": list(RESERVED_COLUMNS)}},
        "additionalProperties": COLUMN.schema,
        "examples": [{"carrier": "text"}],
    },
)

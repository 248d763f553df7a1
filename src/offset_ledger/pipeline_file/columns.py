"""The section ``record.columns`` of a pipeline file: the declared columns, and where each takes its values from."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from itertools import combinations

import yaml

from offset_ledger.pipeline_file.column_types import (
    ENCODINGS,
    NUMBERS,
    ROUNDED,
    TYPE_SCHEMA,
    UNSCALED,
    encodings_of,
    is_count,
    parse_type,
    usual_names,
)
from offset_ledger.pipeline_file.json_path import PATH_PATTERN, format_path, parse_path
from offset_ledger.pipeline_file.keys import Attributes, Key, Kind, Section, read_mapping, read_or_note, section
from offset_ledger.pipeline_file.located import CORE, Refused, Value, describe, is_null, is_text
from offset_ledger.pipeline_file.names import (
    COLUMN_PATTERN,
    MAX_COLUMNS,
    OWN_COLUMNS,
    RESERVED_COLUMNS,
    SYSTEM_COLUMNS,
    check_column_name,
)
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, JsonPath
from offset_ledger.pipeline_file.values import (
    FLAG,
    TEXT,
    different,
    filled_text,
    matching,
    one_of,
    one_or_more,
    text,
    word,
)

PATH: Kind[JsonPath] = Kind(lambda value: parse_path(text(value)), {"type": "string", "pattern": PATH_PATTERN})
ALIASES_KEY = Key(
    different(PATH, right="write [$.old_name]", minItems=1),
    "Where the value is in records that do not have the path: the first of these that the record has.",
    (["$.old_name"],),
)
TYPE: Kind[ColumnType] = Kind(lambda value: parse_type(text(value)), TYPE_SCHEMA)


NAME: Kind[str] = Kind(lambda value: check_column_name(text(value), ()), {"type": "string", "pattern": COLUMN_PATTERN})
PLACES = ("path", "key", "header", "value")
_CONSTANTS = {  # as JSON, by type; the decoder knows which are exact
    "boolean": ("true|false", "true or false"),
    **dict.fromkeys(NUMBERS, ("[-0-9].*", "a number")),
    **dict.fromkeys(("smallint", "integer", "bigint"), ("-?[0-9]+", "a whole number")),
    "jsonb": ("(?!)", "no constant"),
}


def _constant(value: Value) -> str:
    """A single value, as JSON."""
    node = value.node
    if is_text(node):
        return json.dumps(node.value)
    if node.tag == CORE + "bool":
        return str(node.value).lower()
    if node.tag not in (CORE + "int", CORE + "float"):
        raise Refused(f"expected a single value, found {describe(node)}", "write a text, a number, true or false")
    return str(Decimal(node.value))


def _long_form(said: Section) -> Column | None:
    kind: ColumnType | None = said.given.get("type")
    if kind is None:
        return None
    own = () if {"key", "header", "value"} & said.entries.keys() else (said.value.key,)
    path = said.given.get("path", ()) if "path" in said.entries else own
    if path in said.given.get("aliases", ()):
        said.entries["aliases"].note(Refused(f"{format_path(path)} is the path already", "list where it was before"))
    known = encodings_of(kind.name)
    encoding = known[0]
    if "encoding" in said.given:
        try:
            if len(known) == 1:
                raise Refused(f"{kind.name} has no encodings", "drop the key")
            encoding = said.given["encoding"]
            if not ("unscaled" in known and re.fullmatch(UNSCALED[1:-1], encoding)):
                one_of(encoding, [word for word in known if word])
        except Refused as refused:
            said.entries["encoding"].note(refused)
    default = said.given.pop("value", said.given.get("default"))
    group = said.given.pop("group", said.value.key if said.given.pop("absent", "") else "")
    said.given.pop("absent", "")
    column = said.make(Column, name=said.value.key, path=path, encoding=encoding, default=default, group=group)
    noted = set[str]()
    for key, wrong, right in _contradictions(column, said.entries):
        if key in said.entries and key not in noted:
            noted.add(key)
            said.entries[key].note(Refused(wrong, right))
    return column


def _contradictions(column: Column, given: Mapping[str, Value]) -> Iterator[tuple[str, str, str]]:
    """Yield what the keys of a column cannot say together: the key, what is wrong with it, and what would be right."""
    name, brackets, _ = column.type.name.partition("[]")  # a rule about texts holds for lists of them
    is_literal = name in (*NUMBERS, "boolean") or is_count(column.encoding)
    first, *others = [key for key in PLACES if key in given] or ["path"]
    for key in others:
        yield key, f"{first} says already where the value is", "keep one of the two"
    if first == "value":
        for key in ("default", "coerce", "transform", "split", "encoding", "round", "years"):
            yield key, "a constant is taken as it is written", "drop it"
    if first != "path":
        yield "aliases", f"a {first} has no aliases", "drop it"
    for key in ("absent", "group"):
        if first != "path":
            yield key, f"a {first} is never absent", "drop it"
        if not column.nullable:
            yield key, "a record without it may be the first one of its row", "add nullable: true"
    if column.nullable and column.default is not None:
        yield "nullable", "a column with a value or a default is never NULL", "keep one of the two"
    if column.coerce and (column.of_text or not is_literal):
        yield "coerce", "it is read from text anyway", "drop it"
    if name not in ("date", "timestamptz"):
        yield "years", f"{name} has no years", "drop it"
    if name not in ROUNDED:
        yield "round", f"{name} has no microseconds", "drop it"
    if column.split is not None and not brackets and name != "jsonb":
        yield "split", f"a split text is a list, and the type is {name}", f"write type: {name}[], or jsonb"
    is_text_read = column.of_text or column.coerce if is_literal else name not in ("jsonb", "bytea")
    if not is_text_read and column.split is None:
        yield "transform", f"{name} is not read from text", "add coerce: true" if is_literal else "drop it"
    if column.of_text and (brackets or name == "jsonb") and column.split is None:
        yield "type", f"a {first} is text and no {'list' if brackets else 'JSON'}", "write text, or add split"
    if column.of_text and name == "bytea":
        yield "encoding", f"the bytes of the {first} are taken as they are", "drop it"
    pattern, wanted = _CONSTANTS.get("jsonb" if brackets else name, ('".*', "a text"))
    if column.default is not None and not re.fullmatch(pattern, column.default):
        for key in ("value", "default"):
            yield key, f"expected {wanted} for {name}, found {column.default}", "correct one of the two"


def _by_encodings() -> dict[tuple[str, ...], list[str]]:
    names: dict[tuple[str, ...], list[str]] = {}
    for name, encodings in ENCODINGS.items():
        names.setdefault(encodings, []).extend(usual_names(name))
    return names


CONSTANT = Kind(_constant, {"type": ["string", "number", "boolean"]})
KEY_PATTERN = rf"^\$$|{PATH_PATTERN}"
LONG_FORM: Kind[Column | None] = section(
    Column,
    "A column and the place of its value in the record.",
    {
        "type": TYPE,
        "path": Key(PATH, "Where the value is; $.<column name> where absent.", ("$.actual.dep_delay",)),
        "aliases": ALIASES_KEY,
        "nullable": Key(FLAG, "Whether null, or no such member, becomes NULL; otherwise it is quarantined.", (True,)),
        "key": Key(
            Kind(
                lambda value: () if text(value) == "$" else PATH.read(value), {"type": "string", "pattern": KEY_PATTERN}
            ),
            "Where the value is in the Kafka key, by source.key_format; $ is the whole key as text.",
            ("$.customer_id", "$"),
        ),
        "header": Key(filled_text(), "The name of the Kafka header with the value; the last one counts.", ("source",)),
        "value": Key(CONSTANT, "The same value in every row.", ("web", 1, True), attribute="value"),
        "default": Key(CONSTANT, "The value instead of null, or where there is none.", ("unknown", 0, False)),
        "coerce": Key(FLAG, "Whether a text with a number, true or false, or an epoch is read as such.", (True,)),
        "transform": Key(
            one_or_more(word("lower", "upper", "trim"), "lower, upper or trim", "write one, or [trim, lower]"),
            "What is done to the text first, in this order.",
            ("lower", ["trim", "upper"]),
        ),
        "split": Key(
            matching(r"^[\s\S]+$", "a separator", 'write for example ","'),
            "The separator at which the text is split into a list of texts.",
            (",",),
        ),
        "encoding": Key(
            Kind(
                text,
                {
                    "anyOf": [
                        {"enum": [*dict.fromkeys(word for words in ENCODINGS.values() for word in words if word)]},
                        {"pattern": UNSCALED},
                    ]
                },
            ),
            "How timestamptz (rfc3339 where absent) or bytea (base64 where absent) is written; epoch_days: a date as "
            "the number of days since 1970; s, ms, us, ns: the unit of a number for interval or time (since midnight); "
            "number: a number for another type that Postgres reads from text, as it is written; json: a text for jsonb "
            "is a JSON document; unsigned: negative numbers for numeric are 2^64 more; unscaled: decimals for numeric "
            "are structs of scale and value, unscaled(2) the value alone, in base64.",
            ("epoch_ms",),
        ),
        "round": Key(FLAG, "Whether a time, moment or interval is rounded to microseconds, or else refused.", (True,)),
        "years": Key(
            Kind(lambda value: bool(one_of(text(value), ("all",))), {"enum": ["all"]}),
            "all: a date or timestamptz may be any that Postgres holds: infinity, years before 1 and after 9999 too.",
            ("all",),
            attribute="far",
        ),
        "absent": Key(word("keep"), "keep: a record without the value leaves what the row has.", ("keep",)),
        "group": Key(
            NAME,
            "Columns of one group are kept together, where a record has none of them, or else all written.",
            ("address",),
        ),
        "description": Key(TEXT, "What it is: the comment of the column.", ("Minutes after the planned departure",)),
    },
    ("type",),
    _long_form,
    also={
        "not": {"anyOf": [{"required": list(pair)} for pair in combinations(PLACES, 2)]},
        "if": {"required": ["encoding"]},
        "then": {
            "anyOf": [
                {"properties": {"type": {"enum": names}, "encoding": {"enum": [*filter(None, encodings)]}}}
                for encodings, names in _by_encodings().items()
            ]
            + [
                {"properties": {"type": {"pattern": r"\."}, "encoding": {"const": "number"}}},
                {"properties": {"type": {"pattern": "^(?:numeric|dec)"}, "encoding": {"pattern": "^uns"}}},
            ]
        },
    },
)


def _column(value: Value, own: Collection[str]) -> Column | None:
    try:
        check_column_name(name := value.key, own)
    except Refused as refused:
        value.note(Refused(refused.wrong, refused.right, value.line))
    if isinstance(value.node, yaml.MappingNode):
        return LONG_FORM.read(value)
    if not isinstance(value.node, yaml.ScalarNode) or is_null(value.node):
        wrong = f"expected a type or a mapping with one, found {describe(value.node)}"
        raise Refused(wrong, f"write for example {name}: text", value.line)
    kind = TYPE.read(value)
    return Column(name, kind, (name,), encoding=encodings_of(kind.name)[0])


_COLUMN_SCHEMA = {"anyOf": [TYPE.schema, LONG_FORM.schema]}
AUTO, OTHERS = "auto", "*"


def _columns(value: Value) -> Attributes:
    if is_text(value.node) and value.node.value == AUTO:
        return Attributes(columns=(), sampled=True)
    entries = dict(read_mapping(value, COLUMNS.schema["examples"][0]))
    if others := entries.pop(OTHERS, None):
        read_or_note(word(AUTO), others)
    return Attributes(columns=_declared(value, entries, 0), sampled=others is not None)


def _declared(
    value: Value,
    entries: Mapping[str, Value],
    least: int = 1,
    most: int = MAX_COLUMNS,
    own: Collection[str] = OWN_COLUMNS,
) -> tuple[Column, ...]:
    if not least <= len(entries) <= most:
        raise Refused(f"{len(entries)} columns, where a table takes {least} to {most}", "declare that many", value.line)
    kind = Kind(lambda each: _column(each, own), _COLUMN_SCHEMA)
    return tuple(column for entry in entries.values() for column in read_or_note(kind, entry) if column)


_OTHERS = {"const": AUTO, "description": "Other columns besides the declared ones, as auto alone.", "examples": [AUTO]}
_NAMES = {"pattern": COLUMN_PATTERN, "not": {"enum": list(RESERVED_COLUMNS)}}
COLUMNS: Kind[Attributes] = Kind(
    _columns,
    {
        "description": "The declared columns in table order: name: type, or name: with a mapping of the keys below; or "
        "auto: the first plan takes them from a sample of the topic. {} for a table with nothing but a key.",
        "anyOf": [
            {"const": AUTO},
            {
                "type": "object",
                "maxProperties": MAX_COLUMNS,
                "properties": {OTHERS: _OTHERS},
                "propertyNames": {"anyOf": [{"const": OTHERS}, _NAMES]},
                "additionalProperties": _COLUMN_SCHEMA,
            },
        ],
        "examples": [{"carrier": "text"}, AUTO, {}],
    },
)
_MAX_KEY_COLUMNS = 32  # of an index of Postgres
_OWN_BESIDE_KEY = ("publish_at",)
_KEY_EXAMPLE = {"order_id": "bigint", "tenant": "uuid"}
KEY_COLUMNS: Kind[tuple[Column, ...]] = Kind(
    lambda value: _declared(value, read_mapping(value, _KEY_EXAMPLE), most=_MAX_KEY_COLUMNS, own=_OWN_BESIDE_KEY),
    {
        "type": "object",
        "description": "The columns by which a row is known: name: type, or name: with what a column has.",
        "minProperties": 1,
        "maxProperties": _MAX_KEY_COLUMNS,
        "propertyNames": {"pattern": COLUMN_PATTERN, "not": {"enum": [*_OWN_BESIDE_KEY, *SYSTEM_COLUMNS]}},
        "additionalProperties": _COLUMN_SCHEMA,
        "examples": [_KEY_EXAMPLE],
    },
)

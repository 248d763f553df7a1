"""Column types: Postgres's names and their usual aliases, written one way, and the types of other systems."""

import re
from contextlib import suppress
from difflib import get_close_matches

from offset_ledger.pipeline_file.located import Refused, quoted
from offset_ledger.pipeline_file.pipeline import JUDGED, ColumnType

ALIASES = {
    "int2": "smallint",
    "int": "integer",
    "int4": "integer",
    "int8": "bigint",
    "decimal": "numeric",
    "dec": "numeric",
    "float4": "real",
    "float": "double precision",
    "float8": "double precision",
    "bool": "boolean",
    "time without time zone": "time",
    "timestamp with time zone": "timestamptz",
    "character varying": "varchar",
}
NUMBERS = ("smallint", "integer", "bigint", "numeric", "real", "double precision")
PLAIN = ("text", *NUMBERS, "boolean", "date", "time", "timestamptz", "uuid", "jsonb", "bytea")
ROUNDED = ("time", "timestamptz", "interval")
MAX_VARCHAR = 10_485_760
MAX_PRECISION = 1000
_UNITS = ("s", "ms", "us", "ns")
ENCODINGS = {
    "timestamptz": ("rfc3339", *(f"epoch_{unit}" for unit in _UNITS)),
    "bytea": ("base64", "hex"),
    "date": ("", "epoch_days"),  # or as a text, which needs no word
    "jsonb": ("", "json"),
    "numeric": ("", "unsigned", "unscaled"),  # and unscaled(2)
    "time": ("", *_UNITS),
    "interval": ("", *_UNITS),
    **dict.fromkeys((name for name in JUDGED if name != "interval"), ("", "number")),
}
ENCODINGS |= {f"{name}[]": encodings for name, encodings in ENCODINGS.items()}


def encodings_of(type_name: str) -> tuple[str, ...]:
    """Return the encodings of a type, first the one that needs no key; one of the database has those of JUDGED."""
    return ENCODINGS.get(type_name) or (("", "number") if "." in type_name else ("",))


UNSCALED = r"^unscaled\([0-9]{1,5}\)$"
"""The encoding of decimals whose scale only the file knows."""


def is_count(encoding: str) -> bool:
    """Return whether values of the encoding are integers."""
    return encoding.startswith("epoch") or encoding in _UNITS


_UP_TO_1000 = "[1-9][0-9]{0,2}|1000"
_ARRAY = r"(?: *\[\])?$"
_NAME = '(?:[a-z_][a-z0-9_$]*|"[A-Za-z0-9_$ -]+")'
_OF_DATABASE = rf"{_NAME}\.{_NAME}(?:\([A-Za-z0-9]+(?:,[A-Za-z0-9]+)*\))?"
TYPE_SCHEMA = {
    "description": "A Postgres type: one of the list, varchar(n), numeric(p,s), a usual alias such as int8, or another "
    "type of the database with its schema; and the array of each.",
    "type": "string",
    "anyOf": [
        {"enum": [name + brackets for brackets in ("", "[]") for name in (*PLAIN, *JUDGED)]},
        {"pattern": rf"^(?:varchar|character varying) ?\( *[1-9][0-9]{{0,7}} *\){_ARRAY}"},
        {"pattern": rf"^(?:numeric|decimal|dec) ?\( *(?:{_UP_TO_1000}) *(?:, *(?:0|{_UP_TO_1000}) *)?\){_ARRAY}"},
        {"pattern": f"^(?:{'|'.join(alias for alias, name in ALIASES.items() if name != 'varchar')}){_ARRAY}"},
        {"pattern": f"^{_OF_DATABASE}{_ARRAY}"},
    ],
    "examples": ["integer", "varchar(3)", "numeric(12,2)", "text[]", "public.order_status"],
}
_ZONELESS = ("timestamp has no zone, so the moment it means depends on who reads it", "write timestamptz")
_DAYLESS = ("a time with a zone has no day, so the moment it means cannot be told", "write time or timestamptz")
_REFUSED = {
    "timestamp": _ZONELESS,
    "timestamp without time zone": _ZONELESS,
    "timetz": _DAYLESS,
    "time with time zone": _DAYLESS,
    "char": ("char pads values with blanks", "write varchar(n) or text"),
    "character": ("character pads values with blanks", "write varchar(n) or text"),
    "bpchar": ("bpchar ignores trailing blanks", "write varchar(n) or text"),
    "json": ("json values cannot be compared", "write jsonb"),
    "serial": ("serial makes values up and a record has to carry them", "write integer"),
    "bigserial": ("bigserial makes values up and a record has to carry them", "write bigint"),
}


def parse_type(text: str) -> ColumnType:
    """Return the column type under its canonical name; refuse what Postgres or exactness does not allow."""
    if text.endswith("[]"):
        if "[" in (item := text[:-2].rstrip()):
            raise Refused(f"an array has one dimension here, and {text} more", "write one [], or jsonb")
        of = parse_type(item)
        return ColumnType(f"{of.name}[]", of.args)
    if text.startswith("pg_catalog."):
        raise Refused(f"{text} has the schema of Postgres's own types", "write its name without a schema")
    if re.fullmatch(_OF_DATABASE, text):
        return ColumnType(text)
    # The number of ``timestamp(3) with time zone`` is in the middle.
    number = r" *(-?(?:0|[1-9][0-9]*)) *"
    match = re.fullmatch(rf"([a-z][a-z0-9_ ]*?)(?: ?\({number}(?:,{number})?\)(| with(?:out)? time zone))?", text)
    if match is None:
        raise _unknown(text)
    first_words, first, second, rest = match.groups(default="")
    written, args = first_words + rest, tuple(int(digits) for digits in (first, second) if digits)
    name = ALIASES.get(written, written)
    if written in _REFUSED:
        raise Refused(*_REFUSED[written])
    if name == "varchar":
        if len(args) != 1:
            raise Refused(f"{written} needs one length", f"write {written}(50), or text for any length")
        if not 1 <= args[0] <= MAX_VARCHAR:
            raise Refused(f"the length {args[0]} is not in 1 to {MAX_VARCHAR}", "write another length, or text")
        return ColumnType(name, args)
    if name == "numeric":
        if args and not 1 <= args[0] <= MAX_PRECISION:
            right = "write numeric(p,s) or plain numeric"
            raise Refused(f"the precision {args[0]} is not in 1 to {MAX_PRECISION}", right)
        if len(args) == 2 and not 0 <= args[1] <= args[0]:
            right = "write numeric(p,s) with s digits of p"
            raise Refused(f"the scale {args[1]} is not in 0 to the precision {args[0]}", right)
        return ColumnType(name, args if len(args) != 1 else (args[0], 0))
    if name not in PLAIN and name not in JUDGED:
        raise _unknown(text)
    if args and name == "timestamptz":
        raise Refused(f"{text} would round moments", "write timestamptz, which keeps microseconds")
    if args and name == "time":
        raise Refused(f"{text} would round times", "write time, which keeps microseconds")
    if args:
        raise Refused(f"{written} takes no number in brackets", f"write {name}")
    return ColumnType(name)


def _unknown(text: str) -> Refused:
    """Suggest a type, never one that is only spelled like it and would refuse the values."""
    if text.count("(") > text.count(")"):
        right = 'between { and } write it in quotes: "numeric(12,2)"'
        return Refused(f"{quoted(text)} ends inside its brackets", right)
    wrong, lower = f"{quoted(text)} is not a column type", text.lower()
    if ours := native(text):
        return Refused(wrong, f"write {ours}")
    if lower != text:
        with suppress(Refused):
            parse_type(lower)
            return Refused(wrong, f"did you mean {lower}?")
    known = [*PLAIN, *ALIASES, "varchar", *NAMES, *JUDGED]
    close = get_close_matches(lower.split("(")[0].strip(), known, n=1, cutoff=0.75)
    if not close:
        types = ", ".join(("text", "varchar(n)", *NUMBERS[:4], "numeric(p,s)", *PLAIN[5:], "inet", "interval"))
        own = "write your own with its schema, such as public.mood"
        return Refused(wrong, f"the types are {types} and others of Postgres; {own}")
    return Refused(wrong, f"write {native(close[0])}" if close[0] in NAMES else f"did you mean {close[0]}?")


def usual_names(name: str) -> list[str]:
    """The type under its canonical name and its aliases."""
    item, brackets, _ = name.partition("[]")
    return [name, *(alias + brackets for alias, canonical in ALIASES.items() if canonical == item)]


_CALLED = {
    "timestamptz": "datetime datetime2 datetime64 datetimetz datetimeoffset smalldatetime instant timestamp_tz "
    "timestamp_ltz timestamp_ntz timestamp-millis timestamp-micros timestamp_ms timestamp_us timestamp_s",
    "date": "date32 date64",
    "time": "time32 time64 time-millis time-micros localtime timeofday",
    "double precision": "double float64",
    "real": "single float32 float16 half",
    "bigint": "long longlong int64 uint32",
    "integer": "int32 int24 mediumint uint16",
    "smallint": "short int16 tinyint uint8 byte year",
    "numeric(20,0)": "uint64 ulong",
    "numeric(p,s)": "number decimal128 decimal256 bigdecimal money smallmoney",
    "text": "string str utf8 large_string char varchar2 nvarchar nvarchar2 nchar clob longtext mediumtext tinytext "
    "enum keyword category duration",
    "boolean": "bit logical",
    "jsonb": "json object struct record row map dict array list variant",
    "bytea": "bytes binary large_binary varbinary blob longblob fixed fixed_size_binary raw",
    "uuid": "guid uniqueidentifier",
}
_BY_NAME = {name: ours for ours, names in _CALLED.items() for name in names.split()}
_UNSIGNED = {
    "tinyint": "smallint",
    "smallint": "integer",
    "int": "bigint",
    "integer": "bigint",
    "bigint": "numeric(20,0)",
}
_SPARK = {
    "integertype": "integer",
    "floattype": "real",
    "decimaltype": "numeric(p,s)",
    "timestamptype": "timestamptz",
    "datetype": "date",
    "timetype": "time",
    "booleantype": "boolean",
}
NAMES = tuple(_BY_NAME)


def native(text: str) -> str | None:
    """Return what to write here for a type of another system; None if it is not known.

    Spark's classes (``LongType``) and sizes in brackets (``datetime64[ns]``) are understood.
    """
    name = text.lower().strip()
    if unsigned := re.fullmatch(r"(\w+) unsigned", name):
        return _UNSIGNED.get(unsigned[1])
    size = re.search(r"[(\[] *\d", name)
    name = re.split(r"[(\[<]", name)[0].strip()
    ours = _SPARK.get(name) or _BY_NAME.get(name) or _BY_NAME.get(name.removesuffix("type"))
    return "varchar(n) or text" if ours == "text" and size else ours

"""What other systems call the types of a column, and the type here that takes their values exactly."""

from __future__ import annotations

import re

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
    "enum keyword category interval duration",
    "boolean": "bit logical",
    "jsonb": "json object struct record row map dict array list variant hstore",
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
    """What to write here for a type of another system; None where it is not known.

    Spark's classes (``LongType``) and sizes in brackets (``datetime64[ns]``) are understood.
    """
    name = text.lower().strip()
    if unsigned := re.fullmatch(r"(\w+) unsigned", name):
        return _UNSIGNED.get(unsigned[1])
    size = re.search(r"[(\[] *\d", name)
    name = re.split(r"[(\[<]", name)[0].strip()
    ours = _SPARK.get(name) or _BY_NAME.get(name) or _BY_NAME.get(name.removesuffix("type"))
    return "varchar(n) or text" if ours == "text" and size else ours

"""The types that a writer's schema can give a value, whatever its language."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class TypeName(StrEnum):
    """A type of single values, and the Python value that a reader gives of it."""

    NULL = "null"  # None
    BOOLEAN = "boolean"  # bool
    INTEGER = "integer"  # int; ``bits`` and ``signed`` bound it
    FLOAT = "float"  # float, of 32 or 64 ``bits``; NaN and the infinities too
    TEXT = "text"  # str: a string, or the symbol of an enum; NUL may be in it, lone surrogates not
    BYTES = "bytes"  # bytes
    DECIMAL = "decimal"  # int: the unscaled value, to be divided by ten to the power of ``scale``
    DATE = "date"  # int: days since 1970-01-01
    TIME = "time"  # int: since midnight, in units of ``nanoseconds``
    TIMESTAMP = "timestamp"  # int: since 1970-01-01T00:00:00Z, in units of ``nanoseconds``
    LOCAL_TIMESTAMP = "local timestamp"  # int: as TIMESTAMP, in a time zone that nobody knows
    UUID = "uuid"  # bytes: 16
    DURATION = "duration"  # bytes: months, days and milliseconds, which no column takes
    ARRAY = "array"  # list of JSON values
    OBJECT = "object"  # dict of JSON values, from a record, a message or a map


@dataclass(frozen=True, slots=True)
class ValueType:
    """A type with what bounds it; ``shown`` is how the schema's language calls it, for messages."""

    name: TypeName
    shown: str
    bits: int = 0
    signed: bool = True
    scale: int = 0
    nanoseconds: int = 0

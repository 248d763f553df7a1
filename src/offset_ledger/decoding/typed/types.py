"""The types that a writer's schema can give a value, its fields with their paths, and the faults of a schema."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from offset_ledger.decoding.outcome import SchemaProblem
from offset_ledger.pipeline_file.pipeline import JsonPath


class TypeName(StrEnum):
    """A type of single values, and the Python value that a reader makes of it."""

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
    ARRAY = "array"  # list of values of the type ``item``, of JSON values without one
    OBJECT = "object"  # dict of JSON values, from a record, a message or a map


@dataclass(frozen=True, slots=True)
class ValueType:
    """A type with its bounds; ``shown`` is the name in the schema's language, for messages."""

    name: TypeName
    shown: str
    bits: int = 0
    signed: bool = True
    scale: int = 0
    nanoseconds: int = 0
    item: "ValueType | None" = None


MAX_FIELDS = 10_000
TOO_MANY_FIELDS = f"expected a schema of at most {MAX_FIELDS} fields, got more"
MAX_NESTED = 100
"""Records within records; the fields of a deeper one are not looked at."""


@dataclass(frozen=True, slots=True)
class SchemaField:
    """A value without fields of its own; ``type`` is None where only a jsonb takes it, ``shown`` is the schema's word.

    ``nullable`` is whether it can be null or missing, by itself or with what it stands in. ``aliases`` are the paths
    that it had before, as the schema says. ``array`` is the type of a list, which an array takes too.
    """

    path: JsonPath
    type: ValueType | None
    shown: str
    nullable: bool
    aliases: tuple[JsonPath, ...] = ()
    array: ValueType | None = None


def at_most(fields: Iterator[SchemaField]) -> tuple[SchemaField, ...]:
    """Return all fields of a schema, listed lazily: records nested twice at each level have too many to count.

    Raises:
        SchemaProblem: they are more than MAX_FIELDS.
    """
    listed_fields = tuple(islice(fields, MAX_FIELDS + 1))
    if len(listed_fields) > MAX_FIELDS:
        raise SchemaProblem(TOO_MANY_FIELDS)
    return listed_fields

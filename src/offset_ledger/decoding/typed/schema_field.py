"""What a writer's schema has at a path, whatever its language."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from offset_ledger.config.model import JsonPath
from offset_ledger.decoding.schema_problem import SchemaProblem
from offset_ledger.decoding.typed.types import ValueType

MAX_FIELDS = 10_000
MAX_NESTED = 100
"""Records within records; the fields of a deeper one are not looked at."""


@dataclass(frozen=True, slots=True)
class SchemaField:
    """A value without fields of its own; ``type`` is None where only a jsonb takes it, ``shown`` is the schema's word.

    ``nullable`` is whether it can be null or missing, by itself or with what it stands in. ``aliases`` are the paths
    that it had before, as the schema says.
    """

    path: JsonPath
    type: ValueType | None
    shown: str
    nullable: bool
    aliases: tuple[JsonPath, ...] = ()


def too_many() -> SchemaProblem:
    """What is wrong with a schema of more fields than anybody writes."""
    return SchemaProblem(f"expected a schema of at most {MAX_FIELDS} fields, got more")


def at_most(fields: Iterator[SchemaField]) -> tuple[SchemaField, ...]:
    """All fields of a schema; one that nests records twice at each level has more of them than can be counted.

    Raises:
        SchemaProblem: they are more than MAX_FIELDS.
    """
    listed_fields = tuple(islice(fields, MAX_FIELDS + 1))
    if len(listed_fields) > MAX_FIELDS:
        raise too_many()
    return listed_fields

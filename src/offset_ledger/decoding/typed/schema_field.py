"""What a writer's schema has at a path, whatever its language."""

from __future__ import annotations

from dataclasses import dataclass

from offset_ledger.config.model import JsonPath
from offset_ledger.decoding.typed.types import ValueType


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

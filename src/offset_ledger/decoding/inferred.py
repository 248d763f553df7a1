"""The columns that records call for: where each value is, what type takes it, and a name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from offset_ledger.config.column_types import ENCODINGS, parse_type
from offset_ledger.config.columns import MAX_COLUMNS
from offset_ledger.config.json_path import format_path
from offset_ledger.config.model import Column, JsonPath
from offset_ledger.config.names import POSTGRES_NAME_BYTES, RESERVED_COLUMNS


@dataclass(frozen=True, slots=True)
class Inferred:
    """A value of the records and the type that takes it; no ``type`` where none does. ``doubt``: what is unsure.

    ``aliases`` are the paths that it had before.
    """

    path: JsonPath
    type: str
    nullable: bool
    doubt: str = ""
    aliases: tuple[JsonPath, ...] = ()


@dataclass(frozen=True, slots=True)
class Proposed:
    """A column of the proposed file, and what is unsure of it."""

    column: Column
    doubt: str


def limited(inferred: Sequence[Inferred]) -> tuple[Inferred, ...]:
    """Those that a table has room for: whole objects where their members are too many, then the first columns."""
    if len(inferred) <= MAX_COLUMNS:
        return tuple(inferred)
    by_root = {each.path[0]: replace(each) for each in reversed(inferred)}
    whole = [each if len(each.path) == 1 else _object(each.path) for each in reversed(by_root.values())]
    return tuple(
        each if place < MAX_COLUMNS else replace(each, type="", doubt=f"a table takes {MAX_COLUMNS} columns")
        for place, each in enumerate(whole)
    )


def _object(path: JsonPath) -> Inferred:
    return Inferred(path[:1], "jsonb", True, "its members are more than a table has columns for")


def named(inferred: Iterable[Inferred]) -> tuple[Proposed, ...]:
    """A column with a name of its own for each that some type takes."""
    taken, proposed = set(RESERVED_COLUMNS), list[Proposed]()
    for each in inferred:
        if each.type:
            type_ = parse_type(each.type)
            name = _unique(column_name(each.path), taken)
            encoding = ENCODINGS.get(type_.name, ("",))[0]
            column = Column(name, type_, each.path, each.nullable, encoding, each.aliases)
            proposed.append(Proposed(column, each.doubt))
    return tuple(proposed)


def column_name(path: JsonPath) -> str:
    """The path as a name that Postgres takes unquoted: ``$.customer.firstName`` is customer_first_name."""
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", "_".join(path))
    name = re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")
    return (name if name[:1].isalpha() else f"c_{name}".rstrip("_"))[:POSTGRES_NAME_BYTES]


def _unique(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name[: POSTGRES_NAME_BYTES - len(str(number)) - 1]}_{number}"
    taken.add(free)
    return free


def left_out(inferred: Iterable[Inferred]) -> list[str]:
    """A line for each value that no column takes."""
    return [f"{format_path(each.path)} is left out: {each.doubt}" for each in inferred if not each.type]

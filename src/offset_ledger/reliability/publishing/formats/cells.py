"""The fields of a CSV row, which are texts, as the values that a schema has there."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


class Cell(NamedTuple):
    """What a field may hold beside numbers and booleans: a text as it is, null, and a text or a moment of the kit's."""

    text: bool = True
    null: bool = False
    string: bool = False
    moment: bool = False


TEXT = Cell()


def typed_cell(text: str, cell: Cell) -> Any:
    """A text where texts may stand; else null of nothing, and a number or a boolean as JSON writes them."""
    if cell.text:
        return text
    if not text and cell.null:
        return None
    if text in ("true", "false"):
        return text == "true"
    match = _NUMBER.fullmatch(text)
    if match is None or len(text) > 4_000:
        return text
    return Decimal(text) if match[1] or match[2] else int(text)


def row_reader(cells: Mapping[str, Cell]) -> Callable[[Mapping[str, str]], dict[str, Any]]:
    """Reads whole rows; a field that is no member stays a text."""
    return lambda row: {name: typed_cell(text, cells.get(name, TEXT)) for name, text in row.items()}

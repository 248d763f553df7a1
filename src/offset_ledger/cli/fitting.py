"""Tables that fit the terminal: values cut, and a record at a time where a line would be too long."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Any

_CELL, _BYTES = 40, 32


def cut(value: Any, limit: int = _CELL) -> str:
    """The text of a value in one line, cut; NULL is empty."""
    if value is None:
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    text = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def shown_bytes(value: bytes | None) -> str:
    """The first bytes: as text where they are text, else as Postgres prints a bytea."""
    if value is None:
        return ""
    text = value.decode(errors="surrogateescape")
    if (head := text[:_BYTES]).isprintable():
        return head + ("…" if len(text) > _BYTES else "")
    return f"\\x{value[:_BYTES].hex()}" + ("…" if len(value) > _BYTES else "")


def fitting(rows: Sequence[Mapping[str, str]], width: int | None = None) -> str:
    """A table with a line for each row, or a block for each where that is wider than the terminal.

    A text stays as it is: a table would make 1.5 of 1.50.
    """
    from tabulate import tabulate

    names = list(dict.fromkeys(name for row in rows for name in row))
    full = [[row.get(name, "") for name in names] for row in rows]
    text = tabulate(full, headers=names, disable_numparse=True)
    if max(map(len, text.splitlines())) <= (width or shutil.get_terminal_size().columns):
        return text
    size = max(map(len, names))
    blocks = []
    for number, row in enumerate(rows, start=1):
        lines = [f"{name:{size}} | {value}".rstrip() for name, value in row.items()]
        blocks.append("\n".join([f"-[ {number} ]".ljust(max(map(len, lines)), "-"), *lines]))
    return "\n".join(blocks)

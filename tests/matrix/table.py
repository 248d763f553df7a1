"""The support matrix as docs/support.md has it: a table between two markers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

BEGIN, END = "<!-- matrix: written by make matrix -->", "<!-- end of the matrix -->"
HEAD = "| component | version | date | tests |\n|---|---|---|---|\n"
_ROW = re.compile(r"^\| (\w[\w ]*) \| ([\d.]+) \| (\d{4}-\d\d-\d\d) \| (.+) \|$", re.MULTILINE)
_BLOCK = re.compile(f"{re.escape(BEGIN)}\n(.*?){re.escape(END)}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Row:
    """One version of one component, and what came of the tests with it."""

    component: str
    version: str
    date: str
    result: str


def read(page: Path) -> list[Row]:
    """The rows of the page."""
    return [Row(*match) for match in _ROW.findall(_block(page.read_text()))]


def write(page: Path, rows: Iterable[Row]) -> None:
    """Let the page have these rows and no others."""
    lines = "".join(f"| {row.component} | {row.version} | {row.date} | {row.result} |\n" for row in rows)
    text = page.read_text()
    page.write_text(text.replace(_block(text), f"{HEAD}{lines}"))


def replace_row(page: Path, new: Row) -> None:
    """Let the page have this row in place of the one of the same version, which it has."""
    same = (new.component, new.version)
    write(page, [new if (row.component, row.version) == same else row for row in read(page)])


def _block(text: str) -> str:
    (block,) = _BLOCK.findall(text)
    return str(block)

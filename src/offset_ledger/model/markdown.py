"""Texts that records may have a part in, as they can stand in Markdown: shown as they are, and never live."""

from __future__ import annotations

import re

_PIPE = re.compile(r"(\\*)\|")


def code(text: str, limit: int = 2000) -> str:
    """The text as code in one cell of a table, cut to ``limit`` characters.

    Escapes would not do: Airflow's pages make links of addresses after they have read the escapes. In a table a
    backslash before a pipe is doubled where it would otherwise end the cell.
    """
    shown = visible(text, limit)
    fence = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    return f"{fence} {_PIPE.sub(_escaped, shown)} {fence}"


def visible(text: str, limit: int) -> str:
    """The text in one line, cut to ``limit`` characters; line ends and what cannot be seen are escaped."""
    cut = text if len(text) <= limit else text[:limit] + "…"
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in cut)


def _escaped(pipe: re.Match[str]) -> str:
    before = pipe[1]
    return before + "\\" * (len(before) % 2) + "\\|"

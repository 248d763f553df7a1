"""The report of a lab: what its seed drew, the result as data, and the same as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tabulate import tabulate


@dataclass(frozen=True, slots=True)
class Report:
    """``plan``: what the seed drew; ``rows``: the result, in counts; ``text``: for people."""

    plan: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    text: str


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows under their names."""
    return tabulate([{key.replace("_", " "): value for key, value in row.items()} for row in rows], headers="keys")

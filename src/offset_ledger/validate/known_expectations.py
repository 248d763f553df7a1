"""Expectations that are right beyond doubt, by a table of Great Expectations' arguments: the import takes seconds.

The table is written by ``python -m offset_ledger.validate.known_table`` and counts for one version only. Whatever it
does not show to be right is left to Great Expectations itself, whose messages say what is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any

from offset_ledger.validate.known_arguments import are_bounds, is_right

_ENTRY_KEYS = frozenset({"type", "kwargs", "meta", "id", "severity", "description"})
_SEVERITIES = ("critical", "warning", "info")


@dataclass(frozen=True, slots=True)
class Facts:
    """What a suite needs to know of an expectation; ``parameters`` are suite parameters without a value."""

    names_rows: bool
    runs_on_postgres: bool
    parameters: tuple[str, ...] = ()


def facts_of(entry: Mapping[str, Any]) -> Facts | None:
    """The facts about an entry of a suite file that Great Expectations accepts; None where only it can tell."""
    known = table().get(str(entry.get("type")))
    if known is None or not _is_plain(entry) or not _are_right(known, entry["kwargs"]):
        return None
    return Facts(known["names_rows"], known["runs_on_postgres"])


def table() -> Mapping[str, Mapping[str, Any]]:
    """Expectation types by name, of the version of Great Expectations that is installed."""
    try:
        return table_of(version("great-expectations"))
    except PackageNotFoundError:  # importable, but without the metadata that has its version
        return {}


@cache
def table_of(installed: str) -> Mapping[str, Mapping[str, Any]]:
    """Expectation types by name; none of a version that the table was not written for."""
    written = json.loads(files(__package__).joinpath("known_expectations.json").read_text(encoding="utf-8"))
    types: Mapping[str, Mapping[str, Any]] = written["types"]
    return types if written["version"] == installed else {}


def _is_plain(entry: Mapping[str, Any]) -> bool:
    texts = (entry.get(key) for key in ("id", "description") if entry.get(key) is not None)
    severity = entry.get("severity", "critical") in _SEVERITIES
    return entry.keys() <= _ENTRY_KEYS and severity and all(isinstance(text, str) for text in texts)


def _are_right(known: Mapping[str, Any], kwargs: Mapping[str, Any]) -> bool:
    arguments: Mapping[str, Any] = known["arguments"]
    if not set(known["required"]) <= kwargs.keys() <= arguments.keys():
        return False
    right = all(is_right(arguments[name], value) for name, value in kwargs.items())
    return right and ("min_value" not in arguments or are_bounds(kwargs))

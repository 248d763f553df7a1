"""Whether all paths of a record can stand in one record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from offset_ledger.config.document import Value
from offset_ledger.config.json_path import format_path
from offset_ledger.config.located import Refused
from offset_ledger.config.model import JsonPath


@dataclass(frozen=True, slots=True)
class ReadPath:
    """A path, the value of the file that reads it, and the type it is read as."""

    value: Value
    path: JsonPath
    type: str


def check_paths(paths: Iterable[ReadPath]) -> None:
    """Note each path that cannot stand in one record with an earlier one: only jsonb has members inside it.

    Those of one value of the file are never read of the same record.
    """
    leaves: dict[JsonPath, ReadPath] = {}
    above: dict[JsonPath, ReadPath] = {}
    for each in paths:
        if refused := _conflict(each, leaves, above):
            each.value.note(refused)
        if each.path not in leaves or leaves[each.path].type == "jsonb":
            leaves[each.path] = each
        for prefix in _prefixes(each.path):
            above.setdefault(prefix, each)


def _prefixes(path: JsonPath) -> list[JsonPath]:
    return [path[:length] for length in range(1, len(path))]


def _conflict(each: ReadPath, leaves: dict[JsonPath, ReadPath], above: dict[JsonPath, ReadPath]) -> Refused | None:
    shown, line = format_path(each.path), each.value.line
    for prefix in _prefixes(each.path):
        if (leaf := leaves.get(prefix)) and leaf.type != "jsonb" and leaf.value is not each.value:
            wrong = f"{shown} lies inside {format_path(prefix)}, which {leaf.value.where} reads as {leaf.type}"
            return Refused(wrong, "drop one of them, or read the outer one as jsonb", line)
    if each.type == "jsonb":
        return None
    if (leaf := leaves.get(each.path)) and leaf.type != "jsonb":
        return Refused(f"{shown} is read by {leaf.value.where} already", "drop one of them", line)
    if (inner := above.get(each.path)) and inner.value is not each.value:
        wrong = f"{shown} is read as {each.type}, and {inner.value.where} reads {format_path(inner.path)} inside it"
        return Refused(wrong, "drop one of them, or read the outer one as jsonb", line)
    return None

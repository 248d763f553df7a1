"""Checks of a JSON text as a whole: its member names, and that its characters are whole."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from offset_ledger.config.json_path import format_path
from offset_ledger.decoding.outcome import Code, Mismatch, printable

_LONE = re.compile("[\ud800-\udfff]")  # in a text that was read: what stands in a pair is one character there


class _Duplicate(Exception):
    pass


class _Members(list[tuple[str, Any]]):
    """The members of one object as they stand in the text."""


def _unique(members: list[tuple[str, Any]]) -> None:
    if len(dict(members)) != len(members):
        raise _Duplicate


def _nothing(_: str) -> None:
    """Numbers are not converted: int() refuses a very long one."""


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


_NUMBERS: dict[str, Any] = {"parse_int": _nothing, "parse_float": _nothing, "parse_constant": _no_constant}
_check = json.JSONDecoder(object_pairs_hook=_unique, **_NUMBERS).decode
_members = json.JSONDecoder(object_pairs_hook=_Members, **_NUMBERS).decode


def duplicate_path(text: str) -> str | None:
    """The path of the first member that repeats a name of its object, None if there is none; the text is valid JSON."""
    try:
        _check(text)
    except _Duplicate:
        return _find_duplicate(_members(text))
    except ValueError as error:
        raise Mismatch(Code.SYNTAX, f"expected a JSON object: {printable(str(error))}") from None
    return None


def _find_duplicate(root: Any) -> str:
    pending: list[tuple[str, Any]] = [("$", root)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, _Members):
            names = set[str]()
            for name, _ in value:
                if name in names:
                    return path + _step(name)
                names.add(name)
            pending += [(path + _step(name), member) for name, member in value]
        elif isinstance(value, list):
            pending += [(f"{path}[{index}]", member) for index, member in enumerate(value)]
    raise AssertionError("expected a repeated name, found none")


def lone_surrogate(text: str) -> tuple[str, str] | None:
    """The path of the first text or member name with half a character, and that half; None if there is none."""
    try:
        pending: list[tuple[str, Any]] = [("$", _members(text))]
    except ValueError:  # it is no JSON for another reason
        return None
    while pending:
        path, value = pending.pop()
        if isinstance(value, str) and (half := _LONE.search(value)):
            return path, printable(half[0])
        if isinstance(value, _Members):
            steps = [(path + _step(name), name, member) for name, member in value]
            pending += [each for at, name, member in reversed(steps) for each in ((at, member), (at, name))]
        elif isinstance(value, list):
            pending += [(f"{path}[{index}]", member) for index, member in reversed([*enumerate(value)])]
    return None


def _step(name: str) -> str:
    return printable(format_path((name,))[1:])

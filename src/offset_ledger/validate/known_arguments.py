"""Arguments of expectations that Great Expectations accepts beyond doubt, by their kind; values without its import."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

Kind = str | list[str]  # a name of _KINDS, or the choice between these texts

_EXACT = 2**53  # whole numbers up to here are floats too
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


def is_right(kind: Kind, value: Any) -> bool:
    """Whether the value is one of this kind."""
    return value in kind if isinstance(kind, list) else _KINDS[kind](value)


def are_bounds(kwargs: Mapping[str, Any]) -> bool:
    """Whether there is a min_value or max_value, and the first is not above the second."""
    given = [kwargs[name] for name in ("min_value", "max_value") if name in kwargs]
    same = len({isinstance(each, str) for each in given}) == 1
    return same and given == sorted(given)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and abs(value) < _EXACT


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (str, bool)) or _is_number(value)


def _is_bound(value: Any) -> bool:
    return _is_day(value) if isinstance(value, str) else _is_number(value)


def _is_day(text: str) -> bool:
    try:
        return re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text) is not None and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _is_query(value: Any) -> bool:
    return isinstance(value, str) and "{batch}" in value and not set("{}") & set(value.replace("{batch}", ""))


def _is_condition(value: Any) -> bool:
    match value:
        case {"type": "nullity", "column": {"name": str() as name, **more}, "is_null": bool(), **rest}:
            return name != "" and not more and not rest
        case {"type": "comparison", "column": {"name": str() as name, **more}, "operator": operator, **rest}:
            return name != "" and not more and rest.keys() == {"parameter"} and _compares(operator, rest["parameter"])
    return False


def _compares(operator: Any, parameter: Any) -> bool:
    if operator in ("IN", "NOT_IN"):
        return _list_of(_is_text)(parameter) or _list_of(_is_number)(parameter)
    return operator in _COMPARISONS and _is_scalar(parameter)


def _list_of(is_right: Callable[[Any], bool], at_least: int = 1) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and len(value) >= at_least and all(map(is_right, value))


_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "text": _is_text,
    "flag": lambda value: isinstance(value, bool),
    "integer": lambda value: type(value) is int and _is_number(value),
    "number": _is_number,
    "bound": _is_bound,
    "share": lambda value: _is_number(value) and 0 <= value <= 1,
    "query": _is_query,
    "condition": _is_condition,
    "columns": _list_of(_is_text, at_least=2),
    "texts": _list_of(_is_text),
    "values": _list_of(_is_scalar),
}

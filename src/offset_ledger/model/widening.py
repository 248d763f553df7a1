"""Which changes of a column's type keep every value that it has."""

from __future__ import annotations

import re

_WIDER = {
    "smallint": {"integer", "bigint", "numeric"},
    "integer": {"bigint", "numeric"},
    "bigint": {"numeric"},
    "real": {"double precision"},
}
_VARCHAR = re.compile(r"character varying\((\d+)\)")
_NUMERIC = re.compile(r"numeric\((\d+),(\d+)\)")


def widens(before: str, after: str) -> bool:
    """Whether the second type, as Postgres's format_type() prints it, has every value of the first, and more."""
    if text := _VARCHAR.fullmatch(before):
        longer = _VARCHAR.fullmatch(after)
        return after == "text" or bool(longer and int(longer[1]) > int(text[1]))
    if number := _NUMERIC.fullmatch(before):
        other = _NUMERIC.fullmatch(after)
        return after == "numeric" or bool(other and before != after and _has_digits_of(number, other))
    return after in _WIDER.get(before, ())


def _has_digits_of(number: re.Match[str], other: re.Match[str]) -> bool:
    """Whether the other has as many digits before the point, and after it."""
    precision, scale, precision_after, scale_after = (int(text) for text in (*number.groups(), *other.groups()))
    return scale_after >= scale and precision_after - scale_after >= precision - scale

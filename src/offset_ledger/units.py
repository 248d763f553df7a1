"""Sizes and spans of time as people write and read them."""

from __future__ import annotations

import re
from datetime import timedelta

from offset_ledger.errors import ConfigurationError

_SIZES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_LARGEST = 2**63 - 1
_SPANS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LONGEST = timedelta(days=365_000)
_LONGEST_MILLISECONDS = 365_000 * 86_400_000


def parse_size(text: str) -> int:
    """Bytes of ``200``, ``100MB`` or ``1GiB``.

    Raises:
        ConfigurationError: it is no size.
    """
    size = _parse(text, _SIZES, "B", "a size such as 200, 100MB or 1GiB")
    if size > _LARGEST:
        raise ConfigurationError(f"expected a size of at most {_LARGEST} bytes, found {text!r}")
    return int(size)


def parse_span(text: str) -> timedelta:
    """The span of ``90s``, ``36h`` or ``7d``.

    Raises:
        ConfigurationError: it is no span.
    """
    seconds = _parse(text, _SPANS, "s", "a span such as 90s, 36h or 7d")
    if seconds > _LONGEST.total_seconds():
        raise ConfigurationError(f"expected a span of at most {show_span(_LONGEST)}, found {text!r}")
    return timedelta(seconds=seconds)


def kafka_span(milliseconds: str) -> timedelta:
    """A setting of Kafka's that ends in ``.ms``; 1,000 years stand for all that is longer, which no calendar holds."""
    return timedelta(milliseconds=min(int(milliseconds), _LONGEST_MILLISECONDS))


def kept_for(milliseconds: str) -> timedelta | None:
    """What ``retention.ms`` keeps; None where time deletes nothing: below 0, and from 1,000 years on."""
    return kafka_span(milliseconds) if 0 <= int(milliseconds) < _LONGEST_MILLISECONDS else None


def _parse(text: str, units: dict[str, int], without: str, expected: str) -> float:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    unit = (
        {name.lower(): factor for name, factor in units.items()}.get((found[2] or without).lower()) if found else None
    )
    if found is None or unit is None:
        raise ConfigurationError(f"expected {expected}, found {text!r}; the units are {', '.join(units)}")
    return float(found[1]) * unit


def show_size(size: float) -> str:
    """``1.1 GB``: decimal units, as disks are sold."""
    for name in ("TB", "GB", "MB", "kB"):
        if size >= _SIZES[name]:
            return f"{_number(size / _SIZES[name])} {name}"
    return f"{size:.0f} bytes"


def show_span(span: timedelta) -> str:
    """``17.7 days``, ``5.2 hours``, ``12 minutes`` or ``3 seconds``."""
    seconds = abs(span.total_seconds())
    for name, factor, least in (("days", 86_400, 2), ("hours", 3600, 1), ("minutes", 60, 1)):
        if seconds >= factor * least:
            return _with_unit(_number(seconds / factor), name)
    return _with_unit(f"{seconds:.0f}", "seconds")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _with_unit(number: str, unit: str) -> str:
    return f"{number} {unit.removesuffix('s') if number == '1' else unit}"

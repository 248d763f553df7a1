"""Sizes and spans of time as people write and read them."""

import re
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise

from offset_ledger.errors import ConfigurationError

_SIZES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_LARGEST = 2**63 - 1
_SPANS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SPAN_NAMES = (("days", 86_400, 2), ("hours", 3600, 1), ("minutes", 60, 1), ("seconds", 1, 0))
_DURATION_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_SHORTEST = 0.001
_LONGEST = timedelta(days=365_000)
_LONGEST_MILLISECONDS = 365_000 * 86_400_000


def parse_size(text: str) -> int:
    """Bytes of ``200``, ``100MB`` or ``1GiB``.

    Raises:
        ConfigurationError: the text is not a size.
    """
    size = _parse(text, _SIZES, "B", "a size such as 200, 100MB or 1GiB")
    if size > _LARGEST:
        raise ConfigurationError(f"expected a size of at most {_LARGEST} bytes, found {text!r}")
    return int(size)


def parse_span(text: str) -> timedelta:
    """The span of ``90s``, ``36h`` or ``7d``.

    Raises:
        ConfigurationError: the text is not a span of time.
    """
    seconds = _parse(text, _SPANS, "s", "a span such as 90s, 36h or 7d")
    if seconds > _LONGEST.total_seconds():
        raise ConfigurationError(f"expected a span of at most {show_span(_LONGEST)}, found {text!r}")
    return timedelta(seconds=seconds)


def kafka_span(milliseconds: str) -> timedelta:
    """A setting of Kafka's that ends in ``.ms``; cut off at 1,000 years, for no calendar holds more."""
    return timedelta(milliseconds=min(int(milliseconds), _LONGEST_MILLISECONDS))


def kept_for(milliseconds: str) -> timedelta | None:
    """The time that ``retention.ms`` keeps; None where time deletes nothing: below 0, and from 1,000 years on."""
    return kafka_span(milliseconds) if 0 <= int(milliseconds) < _LONGEST_MILLISECONDS else None


def _parse(text: str, units: dict[str, int], default_unit: str, expected: str) -> float:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    factors = {name.lower(): factor for name, factor in units.items()}
    factor = factors.get((match[2] or default_unit).lower()) if match else None
    if match is None or factor is None:
        raise ConfigurationError(f"expected {expected}, found {text!r}; the units are {', '.join(units)}")
    return float(match[1]) * factor


def show_size(size: float) -> str:
    """``1.1 GB``: decimal units, as disks are sold."""
    for name in ("TB", "GB", "MB", "kB"):
        if size >= _SIZES[name]:
            return f"{show_number(size / _SIZES[name])} {name}"
    return f"{size:.0f} bytes"


def show_span(span: timedelta) -> str:
    """``17.7 days``, ``5.2 hours`` or ``12 minutes``, for a sentence."""
    seconds = abs(span.total_seconds())
    name, size, _ = next(unit for unit in _SPAN_NAMES if seconds >= unit[1] * unit[2])
    number = show_number(seconds / size if size > 1 else round(seconds))
    return f"{number} {name.removesuffix('s') if number == '1' else name}"


def show_number(value: float) -> str:
    """Return the number with three significant digits and no exponent: ``0.00012``, ``12.3`` or ``12,345``."""
    if value and abs(value) < 1:
        return f"{Decimal(f'{value:.3g}'):f}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def show_share(share: float, digits: int = 2) -> str:
    """``4.83%``; a small share is never shown as 0, nor one just below all as 100%."""
    smallest = 10 ** -(digits + 2)
    if 0 < share < smallest:
        return f"< {smallest * 100:.{digits}f}%"
    if 1 - smallest < share < 1:
        return f"> {100 - smallest * 100:.{digits}f}%"
    text = f"{share * 100:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}%"


def show_duration(seconds: float) -> str:
    """``4.2 s``, ``15 min``, ``1 h 20 min`` or ``4,830 d``, for a table: its two largest units."""
    if seconds < 60:
        return f"{show_number(seconds)} s" if seconds >= _SHORTEST or not seconds else "< 0.001 s"
    (unit, size), (smaller, step) = next(pair for pair in pairwise(_DURATION_UNITS) if seconds >= pair[0][1])
    whole, rest = divmod(round(seconds / step), size // step)
    return f"{whole:,} {unit} {rest} {smaller}" if rest and whole < 100 else f"{whole:,} {unit}"


def counted(number: int, noun: str) -> str:
    """``1 batch``, ``2 batches`` or ``1,000 offsets``; ``noun`` in the singular."""
    plural = f"{noun}es" if noun.endswith(("ch", "s", "x")) else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"

"""Decimals within Postgres's ``numeric``, to the last digit, and the shortest text of a 4-byte float."""

import math
import struct
from collections.abc import Callable
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal

from offset_ledger.decoding.outcome import Code, Mismatch

MAX_DIGITS_BEFORE_POINT = 131_072
MAX_DIGITS_AFTER_POINT = 16_383
NOT_FINITE = {
    **{"NaN": "NaN", "Infinity": "Infinity", "-Infinity": "-Infinity"},
    **{"NAN": "NaN", "POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity"},  # of Debezium's decimals
}
"""The texts for what no number of JSON is, as Postgres and Python read them."""
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


def numeric(value: Decimal, shown: Callable[[], str], precision: int | None = None, scale: int = 0) -> Decimal:
    """Return the decimal if it fits ``numeric(precision, scale)``, or Postgres's own limits, without rounding.

    ``shown`` gives the number as a reason has it.
    """
    before = after = 0  # digits at each side of the point, without leading and trailing zeros
    if value:
        shortest = value.normalize(_EXACT)
        before, after = max(shortest.adjusted() + 1, 0), max(-_exponent(shortest), 0)
    if precision is not None and (before > precision - scale or after > scale):
        code = Code.RANGE if before > precision - scale else Code.PRECISION
        raise Mismatch(code, f"expected numeric({precision},{scale}), got {shown()}")
    if before > MAX_DIGITS_BEFORE_POINT or after > MAX_DIGITS_AFTER_POINT:
        raise _too_long(shown)
    # Trailing zeros could still exceed Postgres's limits, as in 0e-20000.
    return value if -MAX_DIGITS_AFTER_POINT <= _exponent(value) <= 0 else value.normalize(_EXACT)


def check_written(value: Decimal, shown: Callable[[], str]) -> None:
    """Check that Postgres takes the number with every digit it is written with, as a jsonb hands it over."""
    numeric(value, shown)
    if -_exponent(value) > MAX_DIGITS_AFTER_POINT:
        raise _too_long(shown)


def whole(value: Decimal) -> str | None:
    """The digits of an integer; None for a number with a fraction, or of more digits than any ``numeric``."""
    if value.adjusted() > MAX_DIGITS_BEFORE_POINT or value != value.to_integral_value():
        return None
    return f"{value:.0f}" if value else "0"


def scaled(unscaled: int, scale: int) -> Decimal:
    """The unscaled value divided by ten to the power of the scale."""
    return Decimal(unscaled).scaleb(-scale, _EXACT)


def _exponent(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    return exponent


def _too_long(shown: Callable[[], str]) -> Mismatch:
    return Mismatch(Code.RANGE, f"expected a number within Postgres's numeric, got {shown()}")


SINGLE = struct.Struct("<f")


def single_text(value: float) -> str:
    """The shortest text that names the 4-byte float nearest to the value."""
    exact = single(value)
    if not exact or not math.isfinite(exact):
        return repr(exact)
    texts = (f"{exact:.{digits}g}" for digits in range(1, 10))
    return next(text for text in texts if single(float(text)) == exact)


def single(value: float) -> float:
    """Return the nearest 4-byte float."""
    try:
        return float(SINGLE.unpack(SINGLE.pack(value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)

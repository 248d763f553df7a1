"""Numbers of JSON -> integers, decimals, floats and moments, without a float in between."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal

from offset_ledger.decoding.floats import SINGLE, single_text
from offset_ledger.decoding.json.texts import expect, shown
from offset_ledger.decoding.kinds import EPOCH
from offset_ledger.decoding.outcome import Code, Mismatch

MAX_DIGITS_BEFORE_POINT = 131_072
MAX_DIGITS_AFTER_POINT = 16_383
_INTEGER = re.compile(rb"-?[0-9]+")
_EXPONENT = re.compile(rb"[eE][+-]?0*([0-9]*)\Z")
_EXPONENT_DIGITS = 6
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


def integer_text(raw: bytes) -> str:
    """An integer as its decimal text; ``1.0`` and ``1e2`` are not integers."""
    expect(raw, "number", "integer")
    if not _INTEGER.fullmatch(raw):
        raise Mismatch(Code.TYPE, f"expected integer, got {shown(raw)}")
    return "0" if raw == b"-0" else raw.decode()


def integer(raw: bytes, bits: int) -> int:
    """An integer that fits into so many bits."""
    text = integer_text(raw)
    bound = 1 << (bits - 1)
    if len(text) > 20 or not -bound <= (value := int(text)) < bound:
        raise Mismatch(Code.RANGE, f"expected integer of {bits} bits, got {shown(raw)}")
    return value


def epoch(raw: bytes, microseconds: int) -> datetime:
    """A moment, as the number of units of so many microseconds since 1970."""
    try:
        return EPOCH + timedelta(microseconds=integer(raw, 64) * microseconds)
    except OverflowError:
        raise Mismatch(Code.RANGE, f"expected moment in the years 1 to 9999, got {shown(raw)}") from None


def numeric(raw: bytes, precision: int | None = None, scale: int = 0) -> Decimal:
    """A decimal that fits ``numeric(precision, scale)``, or Postgres's own limits, without rounding."""
    value = _decimal(raw)
    before, after = _digits(value)
    if precision is not None and (before > precision - scale or after > scale):
        code = Code.RANGE if before > precision - scale else Code.PRECISION
        raise Mismatch(code, f"expected numeric({precision},{scale}), got {shown(raw)}")
    if before > MAX_DIGITS_BEFORE_POINT or after > MAX_DIGITS_AFTER_POINT:
        raise Mismatch(Code.RANGE, f"expected a number within Postgres's numeric, got {shown(raw)}")
    # Trailing zeros could still exceed Postgres's limits, as in 0e-20000.
    return value if -MAX_DIGITS_AFTER_POINT <= _exponent(value) <= 0 else value.normalize(_EXACT)


def check_literal(raw: bytes) -> None:
    """Check that Postgres takes the number as it is written, which is how a jsonb hands it over."""
    numeric(raw)
    if -_exponent(_decimal(raw)) > MAX_DIGITS_AFTER_POINT:
        raise Mismatch(Code.RANGE, f"expected a number within Postgres's numeric, got {shown(raw)}")


def floating(raw: bytes, single: bool = False) -> float:
    """A float whose shortest text is the very number that was written."""
    written = _decimal(raw)
    value = float(raw)
    shortest = single_text(value) if single else repr(value)
    if Decimal(shortest) == written:
        return value if not single else float(SINGLE.unpack(SINGLE.pack(value))[0])
    name = "real" if single else "double precision"
    code = Code.PRECISION if shortest not in ("0.0", "-0.0", "inf", "-inf") else Code.RANGE
    raise Mismatch(code, f"expected {name}, got {shown(raw)}, which it cannot hold")


def _decimal(raw: bytes) -> Decimal:
    expect(raw, "number", "number")
    exponent = _EXPONENT.search(raw)
    if exponent and len(exponent[1]) > _EXPONENT_DIGITS:
        raise Mismatch(Code.RANGE, f"expected a number with an exponent of six digits, got {shown(raw)}")
    return Decimal(raw.decode())


def _digits(value: Decimal) -> tuple[int, int]:
    """Digits before and after the point, without leading and trailing zeros."""
    if not value:
        return 0, 0
    shortest = value.normalize(_EXACT)
    return max(shortest.adjusted() + 1, 0), max(-_exponent(shortest), 0)


def _exponent(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    return exponent

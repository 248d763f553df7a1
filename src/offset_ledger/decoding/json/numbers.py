"""Numbers of JSON -> integers, decimals, floats and moments, without a float in between."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import Decimal

from offset_ledger.decoding import decimals
from offset_ledger.decoding.decimals import SINGLE, single_text
from offset_ledger.decoding.json.texts import expect
from offset_ledger.decoding.jsonb import number, shown
from offset_ledger.decoding.kinds import EPOCH
from offset_ledger.decoding.outcome import Code, Mismatch

_INTEGER = re.compile(rb"-?[0-9]+")


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
    return decimals.numeric(_decimal(raw), lambda: shown(raw), precision, scale)


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
    return number(expect(raw, "number", "number"))

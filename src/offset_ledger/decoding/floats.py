"""The shortest text of a 4-byte float, which Python has no function for."""

from __future__ import annotations

import math
import struct

SINGLE = struct.Struct("<f")


def single_text(value: float) -> str:
    """The shortest text that names the 4-byte float nearest to the value."""
    try:
        nearest = SINGLE.pack(value)
    except OverflowError:
        return "inf" if value > 0 else "-inf"
    exact = float(SINGLE.unpack(nearest)[0])
    if not exact or not math.isfinite(exact):
        return repr(exact)
    texts = (f"{exact:.{digits}g}" for digits in range(1, 10))
    return next(text for text in texts if _packs_to(text, nearest))


def _packs_to(text: str, packed: bytes) -> bool:
    try:
        return SINGLE.pack(float(text)) == packed
    except OverflowError:  # the largest floats round up at few digits
        return False

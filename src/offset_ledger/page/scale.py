"""Partitions beside each other: on one scale, the largest lag first, in steps of colour when there are many. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offset_ledger.page.positions import Position

STEPS = 5


@dataclass(frozen=True, slots=True)
class Scaled:
    """A partition among the others.

    ``length``: its log as a share of the longest one. ``lag_length``: its lag as a share of the largest one.
    ``step``: 0 without lag, else 1 to 5, equal factors of lag apart; None if the lag is not known.
    """

    position: Position
    length: float
    lag_length: float
    step: int | None


def on_one_scale(positions: Sequence[Position]) -> tuple[Scaled, ...]:
    """The largest lag first; a partition whose lag is not known is before all others."""
    longest = max((_length(each) for each in positions), default=0)
    largest = max((each.lag or 0 for each in positions), default=0)
    ordered = sorted(positions, key=lambda each: (each.lag is not None, -(each.lag or 0), each.partition))
    return tuple(
        Scaled(each, _share(_length(each), longest), _share(each.lag or 0, largest), step_of(each.lag, largest))
        for each in ordered
    )


def limits(largest: int) -> tuple[int, ...]:
    """The largest lag of each step of colour, from the first one on."""
    return tuple(round(largest ** (n / STEPS)) for n in range(1, STEPS + 1)) if largest else ()


def step_of(lag: int | None, largest: int) -> int | None:
    """The step of colour of this lag, where ``largest`` is the largest one."""
    if not lag:
        return lag
    return next(n for n, limit in enumerate(limits(largest), start=1) if lag <= limit)


def _length(each: Position) -> int:
    if each.high_watermark is None or each.log_start is None:
        return 0
    return each.high_watermark - min(each.log_start, each.log_start if each.cursor is None else each.cursor)


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0

"""The geometry of small charts, in a box of 0 to 1: the templates draw it as inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_GAP = 0.2  # of a bar's place
_VISIBLE = 0.015  # of the height: a small value is never shown as none


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle from the bottom; ``place`` is that of its value in what was drawn."""

    place: int
    x: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Bars:
    """The bars of one measure, and the value at the top of the box."""

    bars: tuple[Bar, ...]
    top: float


def bars(values: Sequence[float | None], least_top: float = 0.0, places: int = 20) -> Bars:
    """A bar for each value, oldest left; None has no bar.

    The box ends at the highest value, or at ``least_top`` where that is higher; with fewer values than ``places`` the
    bars keep to the left and do not grow wider than they would be with so many.
    """
    top = max([least_top, *(value for value in values if value is not None)])
    step = 1 / max(len(values), places, 1)
    drawn = tuple(
        Bar(place, round((place + _GAP / 2) * step, 5), round(step * (1 - _GAP), 5), _height(value, top))
        for place, value in enumerate(values)
        if value is not None
    )
    return Bars(drawn, top)


def _height(value: float, top: float) -> float:
    if not value or not top:
        return 0.0
    return round(max(value / top, _VISIBLE), 5)

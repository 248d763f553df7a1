"""The geometry of small charts, in a box of 0 to 1: the templates draw it as inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_GAP = 0.2  # of the width of a slot
_MIN_HEIGHT = 0.015  # so that a small value is visible


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle from the bottom; ``index`` is that of its value."""

    index: int
    x: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Bars:
    """The bars of one measure, and the value at the top of the box."""

    bars: tuple[Bar, ...]
    top: float


def bars(values: Sequence[float | None], min_top: float = 0.0, slots: int = 20) -> Bars:
    """A bar for each value, oldest left; None has no bar.

    The box ends at the highest value, or at ``min_top`` if that is higher. With fewer values than ``slots`` the bars
    stay as narrow as with that many, on the left.
    """
    top = max([min_top, *(value for value in values if value is not None)])
    step = 1 / max(len(values), slots, 1)
    drawn = tuple(
        Bar(index, round((index + _GAP / 2) * step, 5), round(step * (1 - _GAP), 5), _height(value, top))
        for index, value in enumerate(values)
        if value is not None
    )
    return Bars(drawn, top)


def _height(value: float, top: float) -> float:
    if not value or not top:
        return 0.0
    return round(max(value / top, _MIN_HEIGHT), 5)

"""The bars of partitions, and their common scale. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offset_ledger.standing.pipeline import Position

_MIN_SHARE = 0.012  # the smallest share of a bar that can still be seen
STEPS = 5


def bar(each: Position) -> tuple[float, float, float, float]:
    """Return the shares lost, committed, pending and in open transactions of a partition's log.

    It goes from the lower of log start and cursor to the high watermark.
    """
    if each.log_start is None or each.last_stable is None or each.high_watermark is None:
        return (0.0, 0.0, 0.0, 0.0)
    start = each.log_start if each.cursor is None else each.cursor
    return shares(start, each.log_start, each.last_stable, each.high_watermark)


def shares(cursor: int, log_start: int, last_stable: int, high_watermark: int) -> tuple[float, float, float, float]:
    """Return the lengths of a bar's four parts: they sum to 1 (0 for an empty log), and each that exists is visible."""
    widths = (
        max(0, log_start - cursor),
        max(0, min(cursor, high_watermark) - log_start),
        max(0, last_stable - max(cursor, log_start)),
        max(0, high_watermark - max(last_stable, cursor, log_start)),
    )
    total = sum(widths)
    if not total:
        return (0.0, 0.0, 0.0, 0.0)
    visible = [max(width / total, _MIN_SHARE) if width else 0.0 for width in widths]
    lost, committed, pending, unstable = (round(each / sum(visible), 4) for each in visible)
    return lost, committed, pending, unstable


@dataclass(frozen=True, slots=True)
class Scaled:
    """A partition among the others.

    ``length``: its log as a share of the longest one. ``lag_length``: its lag as a share of the largest one.
    ``step``: 0 without lag, else 1 to 5, equal factors of lag apart; None if the lag is not known, or says nothing
    because the log is not that of the cursor.
    """

    position: Position
    length: float
    lag_length: float
    step: int | None


def on_one_scale(positions: Sequence[Position]) -> tuple[Scaled, ...]:
    """Return the largest lag first; a partition whose lag is not known, or says nothing, is before all others."""
    longest = max(map(_length, positions), default=0)
    largest = max((each.lag or 0 for each in positions), default=0)
    ordered = sorted(
        positions, key=lambda each: (each.lag is not None and not each.cut_off, -(each.lag or 0), each.partition)
    )
    return tuple(
        Scaled(
            each,
            _share(_length(each), longest),
            _share(each.lag or 0, largest),
            None if each.cut_off and not each.lag else step_of(each.lag, largest),
        )
        for each in ordered
    )


def limits(largest: int) -> tuple[int, ...]:
    """Return the largest lag of each step of colour, from the first one on."""
    return tuple(round(largest ** (n / STEPS)) for n in range(1, STEPS + 1)) if largest else ()


def step_of(lag: int | None, largest: int) -> int | None:
    """Return the step of colour of this lag, where ``largest`` is the largest one."""
    if not lag:
        return lag
    return next(n for n, limit in enumerate(limits(largest), start=1) if lag <= limit)


def _length(each: Position) -> int:
    if each.high_watermark is None or each.log_start is None:
        return 0
    return each.high_watermark - min(each.log_start, each.log_start if each.cursor is None else each.cursor)


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0

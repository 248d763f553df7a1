"""How findings name things: each has its number, its noun and no more than a reader takes in."""

from __future__ import annotations

from collections.abc import Iterable

_MOST = 5


def listed(names: Iterable[object]) -> str:
    """``0, 1``; of more than five the first five and how many more."""
    every = list(names)
    shown = ", ".join(map(str, every[:_MOST]))
    return shown if len(every) <= _MOST else f"{shown} and {len(every) - _MOST:,} more"


def counted(number: int, noun: str) -> str:
    """``1 broker`` or ``1,200 brokers``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def numbered(noun: str, numbers: Iterable[int]) -> str:
    """``partition 0`` or ``partitions 0, 1``, in order."""
    every = sorted(numbers)
    return f"{noun} {listed(every)}" if len(every) == 1 else f"{noun}s {listed(every)}"

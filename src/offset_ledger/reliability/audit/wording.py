"""How findings name things: with a number and a noun, and long lists cut short."""

from __future__ import annotations

from collections.abc import Iterable

_SHOWN = 5


def listed(names: Iterable[object]) -> str:
    """``0, 1``; of a longer list the first five and how many more."""
    every = list(names)
    shown = ", ".join(map(str, every[:_SHOWN]))
    return shown if len(every) <= _SHOWN else f"{shown} and {len(every) - _SHOWN:,} more"


def counted(number: int, noun: str) -> str:
    """``1 broker`` or ``1,200 brokers``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def numbered(noun: str, numbers: Iterable[int]) -> str:
    """``partition 0`` or ``partitions 0, 1``, in order."""
    every = sorted(numbers)
    return f"{noun} {listed(every)}" if len(every) == 1 else f"{noun}s {listed(every)}"

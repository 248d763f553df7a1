"""Records, lag and quarantine share over time, in equal steps. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class HistoryWindow:
    """A span of time that ends now, and its steps."""

    span: timedelta
    step: timedelta

    def begin(self, now: datetime) -> datetime:
        """The start of the first step; steps start at multiples of their length since 1970, like date_bin's."""
        return now - (now - EPOCH) % self.step - self.span + self.step


WINDOWS = {
    "1h": HistoryWindow(timedelta(hours=1), timedelta(minutes=1)),
    "24h": HistoryWindow(timedelta(hours=24), timedelta(minutes=30)),
    "7d": HistoryWindow(timedelta(days=7), timedelta(hours=2)),
    "30d": HistoryWindow(timedelta(days=30), timedelta(hours=12)),
}


@dataclass(frozen=True, slots=True)
class Point:
    """One step. ``head`` and ``again`` are records that head and other batches committed.

    ``lag``: the largest lag when a head batch was planned. ``lag_after``: the smallest one that a commit left.
    ``quarantined_share``: the largest one of a batch, of a rejected one too. All three are None if there was no batch.
    """

    at: datetime
    head: int = 0
    again: int = 0
    lag: int | None = None
    lag_after: int | None = None
    quarantined_share: float | None = None


def history(rows: Iterable[Mapping[str, Any]], window: HistoryWindow, now: datetime) -> tuple[Point, ...]:
    """One point for each step of the window, whether it has a batch or not."""
    points = {row["at"]: Point(**row) for row in rows}
    begin = window.begin(now)
    times = [begin + window.step * n for n in range(window.span // window.step)]
    return tuple(points.get(at, Point(at)) for at in times)

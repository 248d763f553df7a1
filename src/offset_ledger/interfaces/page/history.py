"""Time in equal steps: records, lag and quarantine share, and which hours of each partition are in the table. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import groupby
from typing import Any

from offset_ledger.operations.status.pipeline import LedgerPartition, Position

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


def points(rows: Iterable[Mapping[str, Any]], window: HistoryWindow, now: datetime) -> tuple[Point, ...]:
    """One point for each step of the window, whether it has a batch or not."""
    known = {row["at"]: Point(**row) for row in rows}
    begin = window.begin(now)
    times = [begin + window.step * n for n in range(window.span // window.step)]
    return tuple(known.get(at, Point(at)) for at in times)


class Cover(StrEnum):
    """The coverage of a step of time by the table: its records, none because there were none, or not all yet."""

    TABLE = "table"
    EMPTY = "empty"
    PENDING = "pending"


@dataclass(frozen=True, slots=True)
class Run:
    """Steps ``start`` to ``end``, exclusive, of the same cover and marks; the counts are those of all of them.

    ``quarantined``: records of these times; the other counts are those of the ranges that end in them. A run in which
    ranges begin, but none ends, has no ``until_offset``.
    """

    start: int
    end: int
    cover: Cover
    records: int = 0
    again: int = 0
    quarantined: int = 0
    gap: int = 0
    from_offset: int | None = None
    until_offset: int | None = None

    @property
    def kind(self) -> tuple[Cover, bool, bool]:
        """The looks of a run; neighbours of one kind are one run."""
        return self.cover, self.again > 0, self.gap > 0


@dataclass(frozen=True, slots=True)
class Refused:
    """Records of the steps ``start`` to ``end``, exclusive, that are in quarantine; each of the steps has some."""

    start: int
    end: int
    records: int


@dataclass(frozen=True, slots=True)
class Line:
    """One partition: its runs, where its refused records are, and the sums of the ranges that end in the window."""

    partition: int
    lag: int | None
    cursor: int | None
    complete_to: datetime | None
    runs: tuple[Run, ...]
    refused: tuple[Refused, ...]
    records: int
    again: int
    quarantined: int
    gap: int


def anchor(window: HistoryWindow, known: Iterable[LedgerPartition], now: datetime) -> datetime:
    """Return the end of the window: now, or the newest record where all are older than a window that ends now."""
    newest = max((each.complete_to for each in known if each.complete_to), default=now)
    return now if newest >= window.begin(now) else newest + window.step


def lines(
    rows: Iterable[Mapping[str, Any]],
    refused: Iterable[Mapping[str, Any]],
    positions: Sequence[Position],
    window: HistoryWindow,
    end: datetime,
) -> tuple[Line, ...]:
    """Return a line for each partition from the rows of two queries; the window ends at ``end``.

    The queries are ``page/completeness.sql`` and ``page/quarantined_at.sql``.
    """
    begin, count = window.begin(end), window.span // window.step
    read, marks = (
        {partition: list(each) for partition, each in groupby(either, key=lambda row: int(row["partition"]))}
        for either in (rows, refused)
    )
    return tuple(
        _line(p, read.get(p.partition, ()), marks.get(p.partition, ()), begin, window.step, count) for p in positions
    )


_SUMMED = ("records", "again", "quarantined", "gap")
_COPIED = ("records", "again", "gap", "from_offset", "until_offset")


def _line(
    position: Position,
    rows: Sequence[Mapping[str, Any]],
    refused: Sequence[Mapping[str, Any]],
    begin: datetime,
    step: timedelta,
    count: int,
) -> Line:
    steps = []
    for n in range(count):
        complete = position.complete_to is not None and begin + step * n < position.complete_to
        steps.append(Run(n, n + 1, Cover.EMPTY if complete else Cover.PENDING))
    for row in rows:
        at, since = (row["at"] - begin) // step, max(0, (row["since"] - begin) // step)
        for n in range(since, at):
            if steps[n].cover is not Cover.TABLE:
                steps[n] = replace(steps[n], cover=Cover.TABLE)
        steps[since] = replace(steps[since], from_offset=_least([steps[since].from_offset, row["from_offset"]]))
        steps[at] = Run(at, at + 1, Cover.TABLE, **{name: row[name] for name in _COPIED})
    for row in refused:
        at = (row["at"] - begin) // step
        steps[at] = replace(steps[at], quarantined=row["records"])
    # A mark for each step would be most of what a browser draws, if there are hundreds of partitions.
    spans = [list(each) for some, each in groupby(steps, key=lambda step: step.quarantined > 0) if some]
    marks = [Refused(each[0].start, each[-1].end, sum(step.quarantined for step in each)) for each in spans]
    runs = []
    for same in (list(each) for _, each in groupby(steps, key=lambda step: step.kind)):
        ends = [each.until_offset for each in same if each.until_offset is not None]
        least, end = _least([each.from_offset for each in same]), max(ends, default=None)
        first, last = same[0], same[-1]
        runs.append(Run(first.start, last.end, first.cover, **_sums(same), from_offset=least, until_offset=end))
    place = (position.partition, position.lag, position.cursor, position.complete_to)
    read = {name: sum(row[name] for row in rows) for name in _SUMMED}
    return Line(*place, tuple(runs), tuple(marks), **read)


def _sums(steps: Sequence[Run]) -> dict[str, int]:
    return {name: sum(getattr(each, name) for each in steps) for name in _SUMMED}


def _least(offsets: Iterable[int | None]) -> int | None:
    return min((each for each in offsets if each is not None), default=None)

"""A window of record timestamps as offset ranges, and which part of it the log no longer holds; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from offset_ledger.core.planning import PartitionSnapshot, TopicSnapshot
from offset_ledger.core.ranges import OffsetRange

_LATEST = 253_402_300_799_999


def moment(milliseconds: int) -> datetime:
    """The timestamp of a record; one beyond the year 9999, as of a producer that counts in microseconds, is its end."""
    return datetime.fromtimestamp(min(milliseconds, _LATEST) / 1000, UTC)


@dataclass(frozen=True, slots=True)
class FirstAt:
    """The first record at or after some moment, and its own timestamp."""

    offset: int
    timestamp: datetime


@dataclass(frozen=True, slots=True)
class ReadBefore:
    """A range that an earlier batch read, with the timestamps it had; None where it had no records."""

    offsets: OffsetRange
    min_timestamp: datetime | None
    max_timestamp: datetime | None


@dataclass(frozen=True, slots=True)
class Gone:
    """What one partition has lost of a window. ``certain`` when the ledger knows that records of it were there."""

    offsets: OffsetRange
    until: datetime  # the window is whole from here on
    certain: bool

    def __str__(self) -> str:
        sure = "held records of it" if self.certain else "may have held records of it"
        o = self.offsets
        return (
            f"partition {o.partition}: offsets [{o.from_offset}, {o.until_offset}) are gone and {sure}, "
            f"before {self.until.isoformat()}"
        )


@dataclass(frozen=True, slots=True)
class Window:
    """The window ``[since, until)``, what the log has of it, and what it has lost."""

    since: datetime
    until: datetime
    ranges: tuple[OffsetRange, ...]
    gone: tuple[Gone, ...] = ()

    @property
    def lost(self) -> str | None:
        """What is gone, in one line; None where nothing is."""
        return "; ".join(map(str, self.gone)) or None

    def __str__(self) -> str:
        return f"[{self.since.isoformat()}, {self.until.isoformat()})"


def find_window(
    since: datetime,
    until: datetime,
    snapshot: TopicSnapshot,
    starts: Mapping[int, FirstAt | None],
    ends: Mapping[int, FirstAt | None],
    before: Sequence[ReadBefore] = (),
) -> Window:
    """The window in offsets, up to the last stable offset of each partition.

    ``starts`` and ``ends`` are the first records at or after ``since`` and ``until``; ``before`` is what the ledger
    knows of offsets below the log starts.
    """
    ranges, gone = [], []
    for p in snapshot.partitions:
        start, end = starts.get(p.partition), ends.get(p.partition)
        until_offset = min(end.offset, p.last_stable) if end else p.last_stable
        if start and start.offset < until_offset:
            ranges.append(OffsetRange(p.partition, start.offset, until_offset))
        whole_from = _whole_from(p, start, since, until)
        if whole_from and (lost := _gone(p, since, whole_from, before)):
            gone.append(lost)
    return Window(since, until, tuple(ranges), tuple(gone))


def _whole_from(p: PartitionSnapshot, start: FirstAt | None, since: datetime, until: datetime) -> datetime | None:
    """From when on the log surely has all of the window; None where it has all of it."""
    if p.log_start == 0:
        return None
    if start is None:
        return until if p.log_start == p.high_watermark else None  # an emptied log, or only older records
    return min(start.timestamp, until) if start.offset == p.log_start and start.timestamp > since else None


def _gone(p: PartitionSnapshot, since: datetime, until: datetime, before: Sequence[ReadBefore]) -> Gone | None:
    mine = [b for b in before if b.offsets.partition == p.partition and b.offsets.from_offset < p.log_start]
    held = [b.offsets for b in mine if _within(b, since, until)]
    if held:
        first, last = min(o.from_offset for o in held), max(o.until_offset for o in held)
        return Gone(OffsetRange(p.partition, first, min(last, p.log_start)), until, True)
    if mine and max(b.offsets.until_offset for b in mine) >= p.log_start:
        return None  # what was deleted last had been read, and was older
    return Gone(OffsetRange(p.partition, 0, p.log_start), until, False)


def _within(read: ReadBefore, since: datetime, until: datetime) -> bool:
    low, high = read.min_timestamp, read.max_timestamp
    return low is not None and high is not None and low < until and high >= since

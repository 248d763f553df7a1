"""A window of record timestamps as offset ranges, and the part of it that the log no longer has; pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from offset_ledger.model.moments import FirstAt
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.snapshot import PartitionSnapshot, TopicSnapshot


@dataclass(frozen=True, slots=True)
class EarlierRead:
    """A range that an earlier batch read, with the timestamps it had; None where it had no records."""

    offsets: OffsetRange
    min_timestamp: datetime | None
    max_timestamp: datetime | None


@dataclass(frozen=True, slots=True)
class RecordWindow:
    """The window ``[since, until)`` and what the log has of it.

    ``lost`` names the offsets that are gone, and ``missed`` those left out to which late records may have come, each in
    one line; None where the ledger knows of nothing.
    """

    since: datetime
    until: datetime
    ranges: tuple[OffsetRange, ...]
    lost: str | None = None
    missed: str | None = None

    def __str__(self) -> str:
        return f"[{self.since.isoformat()}, {self.until.isoformat()})"


def find_window(
    since: datetime,
    until: datetime,
    snapshot: TopicSnapshot,
    starts: Mapping[int, FirstAt | None],
    ends: Mapping[int, FirstAt | None],
    before: Sequence[EarlierRead] = (),
    scan: bool = False,
) -> RecordWindow:
    """The window in offsets, up to the last stable offset of each partition.

    ``starts`` and ``ends`` are the first records at or after ``since`` and ``until``; ``before`` is what the ledger
    knows of committed ranges. A record of the window behind the end, a late one, is left out. With ``scan``
    each range reaches to the last committed one that may have such records.
    """
    read = defaultdict(list)
    for each in before:
        read[each.offsets.partition].append(each)
    ranges, lost, missed = [], [], []
    for p in snapshot.partitions:
        start, end = starts.get(p.partition), ends.get(p.partition)
        mine = read[p.partition]
        late = _behind(p, end, mine, since, until) if end else []
        until_offset = min(end.offset, p.last_stable) if end else p.last_stable
        if scan and late:
            until_offset = late[-1][0].until_offset
        if start and start.offset < until_offset:
            ranges.append(OffsetRange(p.partition, start.offset, until_offset))
        for offsets, certain in [] if scan else late:
            missed.append(f"{_named(offsets)} are left out and {'have' if certain else 'may have'} records of it")
        whole_from = _whole_from(p, start, since, until)
        if whole_from and (gone := _gone(p, since, whole_from, mine)):
            lost.append(gone)
    return RecordWindow(since, until, tuple(ranges), "; ".join(lost) or None, "; ".join(missed) or None)


def _named(o: OffsetRange) -> str:
    return f"partition {o.partition}: offsets [{o.from_offset}, {o.until_offset})"


def _behind(
    p: PartitionSnapshot, end: FirstAt, before: Sequence[EarlierRead], since: datetime, until: datetime
) -> list[tuple[OffsetRange, bool]]:
    """The committed stretches at or behind the end, without a hole, and whether they surely have records of it."""
    stretches: list[tuple[OffsetRange, bool]] = []
    for read in sorted((b for b in before if _within(b, since, until)), key=lambda b: b.offsets.from_offset):
        first, last = max(read.offsets.from_offset, end.offset), min(read.offsets.until_offset, p.last_stable)
        if first >= last:
            continue
        bounds = (read.min_timestamp, read.max_timestamp)
        certain = read.offsets.from_offset >= end.offset and any(b and since <= b < until for b in bounds)
        if stretches and stretches[-1][0].until_offset >= first:
            joined, was_certain = stretches.pop()
            first, last = joined.from_offset, max(last, joined.until_offset)
            certain = certain or was_certain
        stretches.append((OffsetRange(p.partition, first, last), certain))
    return stretches


def _whole_from(p: PartitionSnapshot, start: FirstAt | None, since: datetime, until: datetime) -> datetime | None:
    """Return from when on the log surely has all of the window; None if it has all of it."""
    if p.log_start == 0:
        return None
    if start is None:
        return until if p.log_start == p.high_watermark else None  # an emptied log, or only older records
    return min(start.timestamp, until) if start.offset == p.log_start and start.timestamp > since else None


def _gone(p: PartitionSnapshot, since: datetime, until: datetime, before: Sequence[EarlierRead]) -> str | None:
    """Name the offsets of the window, which is whole from ``until`` on, that are gone; None if none are."""
    mine = [b for b in before if b.offsets.from_offset < p.log_start]
    held = [b.offsets for b in mine if _within(b, since, until)]
    if held:  # by the ledger, records of it
        first, last = min(o.from_offset for o in held), max(o.until_offset for o in held)
        gone = OffsetRange(p.partition, first, min(last, p.log_start))
        return f"{_named(gone)} are gone and held records of it, before {until.isoformat()}"
    if mine and max(b.offsets.until_offset for b in mine) >= p.log_start:
        return None  # what was deleted last had been read, and was older
    gone = OffsetRange(p.partition, 0, p.log_start)
    return f"{_named(gone)} are gone and may have held records of it, before {until.isoformat()}"


def _within(read: EarlierRead, since: datetime, until: datetime) -> bool:
    """Return whether records of the range may be in the window; a bound alone is missing where no calendar has it."""
    low, high = read.min_timestamp, read.max_timestamp
    if low is None and high is None:
        return False
    return (low is None or low < until) and (high is None or high >= since)

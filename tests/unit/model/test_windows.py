"""Windows of record timestamps: the offsets they are, and which part of them is gone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from offset_ledger.model.moments import FirstAt
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.snapshot import PartitionSnapshot, TopicSnapshot
from offset_ledger.model.windows import EarlierRead, RecordWindow, find_window

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(minutes: int) -> datetime:
    return NOON + timedelta(minutes=minutes)


SINCE, UNTIL = at(0), at(10)


def window(
    log: tuple[int, int, int], start: FirstAt | None, end: FirstAt | None, *before: EarlierRead, scan: bool = False
) -> RecordWindow:
    log_start, last_stable, high = log
    snapshot = TopicSnapshot("c", "t", "id", False, (PartitionSnapshot(0, log_start, last_stable, high, 1),))
    return find_window(SINCE, UNTIL, snapshot, {0: start}, {0: end}, before, scan)


def read(start: int, end: int, first: int | None, last: int | None) -> EarlierRead:
    moments = [None if minute is None else at(minute) for minute in (first, last)]
    return EarlierRead(OffsetRange(0, start, end), *moments)


@pytest.mark.parametrize(
    ("log", "start", "end", "wanted"),
    [
        ((0, 90, 90), FirstAt(10, at(1)), FirstAt(30, at(11)), (10, 30)),
        ((0, 90, 90), FirstAt(10, at(1)), None, (10, 90)),
        ((0, 20, 90), FirstAt(10, at(1)), FirstAt(30, at(11)), (10, 20)),
        ((0, 90, 90), FirstAt(30, at(11)), FirstAt(30, at(11)), None),
        ((0, 90, 90), None, None, None),
    ],
)
def test_a_window_in_offsets_ends_at_the_last_stable_one(
    log: tuple[int, int, int], start: FirstAt | None, end: FirstAt | None, wanted: tuple[int, int] | None
) -> None:
    found = window(log, start, end)
    assert found.ranges == ((OffsetRange(0, *wanted),) if wanted else ())
    assert found.lost is None


def test_what_lies_before_the_log_start_may_be_gone() -> None:
    found = window((40, 90, 90), FirstAt(40, at(4)), FirstAt(60, at(11)))
    assert found.ranges == (OffsetRange(0, 40, 60),)
    assert found.lost == (
        "partition 0: offsets [0, 40) are gone and may have held records of it, before 2026-03-01T12:04:00+00:00"
    )


def test_what_the_ledger_had_read_is_named_exactly() -> None:
    before = (read(0, 10, -60, -5), read(10, 35, -1, 2), read(35, 50, 3, 6))
    found = window((40, 90, 90), FirstAt(40, at(4)), FirstAt(60, at(11)), *before)
    assert found.lost == (
        "partition 0: offsets [10, 40) are gone and held records of it, before 2026-03-01T12:04:00+00:00"
    )


def test_nothing_is_gone_where_the_log_begins_before_the_window_or_the_ledger_read_what_was_older() -> None:
    older = read(0, 40, -60, -5)
    assert window((40, 90, 90), FirstAt(40, at(4)), FirstAt(60, at(11)), older).lost is None
    assert window((40, 90, 90), FirstAt(55, at(4)), FirstAt(60, at(11))).lost is None
    assert window((40, 90, 90), None, None).lost is None


def test_a_window_before_the_log_start_has_no_range_and_says_what_is_gone() -> None:
    for start, log in ((FirstAt(40, at(60)), (40, 90, 90)), (None, (40, 40, 40))):
        found = window(log, start, start)
        assert found.ranges == ()
        assert found.lost == (
            "partition 0: offsets [0, 40) are gone and may have held records of it, before 2026-03-01T12:10:00+00:00"
        )


INDEX = (FirstAt(10, at(1)), FirstAt(30, at(11)))


@pytest.mark.parametrize(
    ("before", "left_out", "scanned"),
    [
        ((read(0, 10, -60, -5), read(10, 30, 1, 9), read(30, 50, 11, 20)), None, (10, 30)),
        ((read(10, 50, 1, 20),), "[30, 50) are left out and may have records of it", (10, 50)),
        ((read(10, 30, 1, 9), read(30, 50, -5, 20)), "[30, 50) are left out and may have records of it", (10, 50)),
        ((read(30, 40, 11, 20), read(40, 50, 9, 30)), "[40, 50) are left out and have records of it", (10, 50)),
        ((read(30, 40, -60, 0), read(40, 50, 12, 30)), "[30, 40) are left out and have records of it", (10, 40)),
        ((read(30, 40, 5, 6), read(40, 50, -5, 30)), "[30, 50) are left out and have records of it", (10, 50)),
        ((read(30, 40, 10, 20),), None, (10, 30)),
        ((read(30, 40, None, None),), None, (10, 30)),
        ((read(30, 40, 5, None),), "[30, 40) are left out and have records of it", (10, 40)),
    ],
)
def test_committed_ranges_beyond_the_index_are_named_and_a_scan_has_them(
    before: tuple[EarlierRead, ...], left_out: str | None, scanned: tuple[int, int]
) -> None:
    log = (0, 90, 90)
    found = window(log, *INDEX, *before)
    assert found.ranges == (OffsetRange(0, 10, 30),)
    assert found.missed == (f"partition 0: offsets {left_out}" if left_out else None)
    whole = window(log, *INDEX, *before, scan=True)
    assert whole.ranges == (OffsetRange(0, *scanned),)
    assert whole.missed is None


def test_two_stretches_that_are_left_out_are_named_apart() -> None:
    found = window((0, 90, 90), *INDEX, read(30, 40, 5, 6), read(40, 50, 15, 16), read(50, 60, -5, 30))
    assert found.missed == (
        "partition 0: offsets [30, 40) are left out and have records of it; "
        "partition 0: offsets [50, 60) are left out and may have records of it"
    )


def test_a_scan_begins_at_the_log_start_and_ends_at_the_last_stable_offset() -> None:
    found = window(
        (20, 45, 90), FirstAt(20, at(1)), FirstAt(30, at(11)), read(10, 25, 1, 2), read(30, 60, 5, 6), scan=True
    )
    assert found.ranges == (OffsetRange(0, 20, 45),)
    assert window((50, 90, 90), None, None, read(0, 50, 1, 2), scan=True).ranges == ()

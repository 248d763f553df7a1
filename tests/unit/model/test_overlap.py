"""What was committed before of wanted ranges, against a count offset by offset."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.model.ranges import OffsetRange, in_parts, limited, overlaps, total_width, within

RANGES = st.builds(
    lambda partition, start, width: OffsetRange(partition, start, start + width),
    st.integers(0, 1),
    st.integers(0, 30),
    st.integers(1, 20),
)


@given(RANGES, st.lists(st.tuples(st.integers(1, 4), RANGES), max_size=6))
def test_each_offset_counts_once(wanted: OffsetRange, before: list[tuple[int, OffsetRange]]) -> None:
    def holds(r: OffsetRange, offset: int) -> bool:
        return r.partition == wanted.partition and r.from_offset <= offset < r.until_offset

    offsets = range(wanted.from_offset, wanted.until_offset)
    committed = {offset for offset in offsets for _, r in before if holds(r, offset)}
    batches = {batch for offset in offsets for batch, r in before if holds(r, offset)}
    (found,) = overlaps([wanted], before)
    assert (found.wanted, found.committed, set(found.batch_ids)) == (wanted, len(committed), batches)


@pytest.mark.parametrize(
    ("limit", "left"),
    [
        (None, [OffsetRange(0, 5, 15), OffsetRange(3, 0, 2)]),
        (100, [OffsetRange(0, 5, 15), OffsetRange(3, 0, 2)]),
        (6, [OffsetRange(0, 5, 9), OffsetRange(3, 0, 2)]),
        (1, [OffsetRange(0, 5, 6)]),
    ],
)
def test_a_limit_shortens_ranges_and_starves_no_small_partition(limit: int | None, left: list[OffsetRange]) -> None:
    assert list(limited([OffsetRange(0, 5, 15), OffsetRange(3, 0, 2)], limit)) == left


@given(st.lists(RANGES, max_size=4, unique_by=lambda r: r.partition), st.integers(1, 60))
def test_a_limit_is_used_up_and_never_passed(wanted: list[OffsetRange], limit: int) -> None:
    assert total_width(limited(wanted, limit)) == min(limit, total_width(wanted))


@given(st.lists(RANGES, max_size=4, unique_by=lambda r: r.partition), st.integers(1, 12))
def test_parts_have_every_offset_once_and_are_no_larger_than_the_limit(wanted: list[OffsetRange], limit: int) -> None:
    parts = in_parts(wanted, limit)
    assert all(0 < total_width(part) <= limit for part in parts)
    assert sorted(places(r for part in parts for r in part)) == sorted(places(wanted))


def places(ranges: Iterable[OffsetRange]) -> list[tuple[int, int]]:
    return [(r.partition, offset) for r in ranges for offset in range(r.from_offset, r.until_offset)]


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((0, 9), [OffsetRange(0, 2, 5)]), ((3, 9), [OffsetRange(0, 3, 5)]), ((0, 4), [OffsetRange(0, 2, 4)]),
        ((5, 9), []), ((0, 2), []),
    ],
)  # fmt: skip
def test_offsets_outside_of_the_log_are_dropped(bounds: tuple[int, int], expected: list[OffsetRange]) -> None:
    assert list(within([OffsetRange(0, 2, 5)], {0: bounds})) == expected
    assert within([OffsetRange(1, 2, 5)], {0: bounds}) == ()

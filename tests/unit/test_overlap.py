"""What was committed before of wanted ranges, against a count offset by offset."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.core.overlap import CommittedRange, limited, overlaps
from offset_ledger.core.ranges import OffsetRange, total_width

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
    (found,) = overlaps([wanted], [CommittedRange(*each) for each in before])
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
def test_a_limit_cuts_ends_and_starves_nobody_small(limit: int | None, left: list[OffsetRange]) -> None:
    assert list(limited([OffsetRange(0, 5, 15), OffsetRange(3, 0, 2)], limit)) == left


@given(st.lists(RANGES, max_size=4, unique_by=lambda r: r.partition), st.integers(1, 60))
def test_a_limit_is_used_up_and_never_passed(wanted: list[OffsetRange], limit: int) -> None:
    assert total_width(limited(wanted, limit)) == min(limit, total_width(wanted))

from __future__ import annotations

import re

import pytest

from offset_ledger.model.balance_sheet import Slice, StagedCounts, by_partition, flaws, redriven_flaws
from offset_ledger.model.ranges import OffsetRange

RANGES = (OffsetRange(0, 0, 10), OffsetRange(1, 5, 9))


def of(number: int, partition: int, first: int, last: int, records: int | None = None) -> Slice:
    return Slice(number, StagedCounts(rows=records or last - first + 1), partition, first, last)


WHOLE = (of(0, 0, 0, 3), of(1, 0, 4, 9), of(2, 1, 5, 8), Slice(3, StagedCounts()))


def test_slices_that_touch_and_fill_the_ranges_have_no_flaw() -> None:
    assert list(flaws(RANGES, WHOLE)) == []
    assert list(flaws(RANGES, WHOLE[::-1])) == []
    assert by_partition(WHOLE) == {0: StagedCounts(rows=10), 1: StagedCounts(rows=4)}


@pytest.mark.parametrize(
    ("slices", "text"),
    [
        ((of(0, 0, 0, 3), of(1, 0, 3, 9)), r"slice 0 .* and slice 1 .* overlap"),
        ((of(0, 0, 0, 9, 2), of(1, 0, 4, 5)), r"slice 0 .* and slice 1 .* overlap"),
        ((of(0, 0, 0, 3), of(1, 0, 0, 3)), "overlap"),
        ((of(0, 0, 0, 10),), r"slice 0 \(11 records in 0:\[0, 11\)\) lies outside of the planned range 0:\[0, 10\)"),
        ((of(0, 1, 4, 8),), "outside"),
        ((of(0, 2, 0, 3),), "there is none"),
        ((of(0, 0, 0, 3, 5),), "more records than offsets"),
    ],
)
def test_slices_of_other_offsets_are_named(slices: tuple[Slice, ...], text: str) -> None:
    (flaw,) = flaws(RANGES, slices)
    assert re.search(text, flaw), flaw


def test_a_redrive_has_a_slice_for_each_range_from_its_first_to_its_last_offset() -> None:
    left_out = of(2, 0, 0, 9, 7)
    assert list(redriven_flaws(RANGES, (of(0, 0, 0, 9, 3), of(1, 1, 5, 8), left_out))) == []
    assert list(redriven_flaws(RANGES, (of(0, 0, 0, 8, 3), of(1, 1, 5, 8), left_out))) != []
    assert list(redriven_flaws(RANGES, (of(0, 0, 0, 9, 3), left_out))) != []

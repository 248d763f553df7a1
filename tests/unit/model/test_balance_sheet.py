from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.errors import LedgerViolation, UnexplainedGap
from offset_ledger.model.balance_sheet import Dispositions, MergeCounts, StagedCounts, close, gap_reason
from offset_ledger.model.ranges import OffsetRange

TEN = OffsetRange(0, 100, 110)


def test_every_offset_is_counted_once() -> None:
    sheet = close(TEN, StagedCounts(rows=6, refused=1, skipped=1),
        MergeCounts(inserted=1, updated=1, deleted=1, standing=4, same_state=1, older=1), "transaction")  # fmt: skip
    assert sheet == Dispositions(
        inserted=1, updated=1, superseded=1, duplicate=2, deleted=1, quarantined=1, skipped=1, gap=2
    )
    assert sheet.total == TEN.width


def test_a_gap_without_a_reason_is_an_error_that_names_the_range() -> None:
    with pytest.raises(UnexplainedGap, match=r"0:\[100, 110\): 1 of 10 offsets"):
        close(TEN, StagedCounts(rows=9), MergeCounts(inserted=9, standing=9), None)


@pytest.mark.parametrize(
    ("staged", "merged"),
    [
        (StagedCounts(rows=10), MergeCounts(inserted=9, standing=9)),  # a row that the merge lost
        (StagedCounts(rows=10), MergeCounts(inserted=11, standing=11)),  # a row that it doubled
        (StagedCounts(rows=11), MergeCounts(inserted=11, standing=11)),  # more records than offsets
    ],
)
def test_a_sheet_that_does_not_close_is_an_error(staged: StagedCounts, merged: MergeCounts) -> None:
    with pytest.raises(LedgerViolation):
        close(TEN, staged, merged, "compaction")


@pytest.mark.parametrize(
    ("compacted", "transactional", "reason"),
    [
        (False, False, None),
        (True, False, "compaction"),
        (False, True, "transaction"),
        (True, True, "compaction or transaction"),
    ],
)
def test_gap_reason(compacted: bool, transactional: bool, reason: str | None) -> None:
    assert gap_reason(compacted, transactional) == reason


@given(*[st.integers(0, 50)] * 9)
def test_a_sheet_always_sums_to_the_width(
    inserted: int, updated: int, deleted: int, there: int, same: int, older: int, refused: int, skipped: int, gap: int
) -> None:
    merged = MergeCounts(inserted, updated, deleted, inserted + updated + deleted + there, same, older)
    rows = merged.standing + same + older
    width = rows + refused + skipped + gap
    if width:
        assert close(OffsetRange(0, 0, width), StagedCounts(rows, refused, skipped), merged, "x").total == width

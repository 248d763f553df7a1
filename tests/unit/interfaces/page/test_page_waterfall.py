"""A balance sheet as a waterfall."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.interfaces.page.views import SHEET, Step, waterfall


def a_sheet(**counts: int) -> dict[str, int]:
    return {**dict.fromkeys(SHEET, 0), **counts}


def test_each_step_begins_where_the_one_before_ends() -> None:
    sheet = a_sheet(inserted=50, updated=20, superseded=10, duplicate=4, deleted=1, quarantined=9, skipped=2, gap=4)
    assert waterfall(sheet) == (
        Step("offsets", 100, 0, 100, total=True), Step("gap", 4, 96, 100), Step("skipped", 2, 94, 96),
        Step("quarantined", 9, 85, 94), Step("decoded", 85, 0, 85, total=True), Step("duplicate", 4, 81, 85),
        Step("superseded", 10, 71, 81), Step("written", 71, 0, 71, total=True), Step("deleted", 1, 70, 71),
        Step("updated", 20, 50, 70), Step("inserted", 50, 0, 50),
    )  # fmt: skip


def test_a_range_of_gaps_writes_nothing_and_says_so() -> None:
    names = [(step.name, step.count) for step in waterfall(a_sheet(gap=7))]
    assert names == [("offsets", 7), ("gap", 7), ("decoded", 0), ("written", 0)]


@given(st.fixed_dictionaries({name: st.integers(0, 10**12) for name in SHEET}))
def test_every_part_of_the_sheet_is_one_bar_and_the_bars_cover_all_offsets(sheet: dict[str, Any]) -> None:
    parts = [step for step in waterfall(sheet) if not step.total]
    assert {step.name: step.count for step in parts} == {name: count for name, count in sheet.items() if count}
    covered = sorted((step.start, step.end) for step in parts)
    assert sum(end - start for start, end in covered) == sum(sheet.values())
    assert all(before[1] == after[0] for before, after in pairwise(covered))

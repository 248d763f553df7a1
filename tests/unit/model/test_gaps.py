from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.model.ranges import Gap, GapCause, OffsetRange, explain

RANGE = OffsetRange(2, 10, 20)


def test_each_missing_offset_gets_its_cause() -> None:
    assert explain(RANGE, {10, 11, 16, 17}, {10, 11, 13, 14, 16, 17, 18}, compacted=False) == (
        Gap(OffsetRange(2, 12, 13), GapCause.CONTROL),
        Gap(OffsetRange(2, 13, 15), GapCause.ABORTED),
        Gap(OffsetRange(2, 15, 16), GapCause.CONTROL),
        Gap(OffsetRange(2, 18, 19), GapCause.ABORTED),
        Gap(OffsetRange(2, 19, 20), GapCause.CONTROL),
    )


def test_on_a_compacted_topic_a_control_record_looks_like_a_removed_one() -> None:
    assert explain(RANGE, set(range(10, 19)), set(range(10, 19)), compacted=True) == (
        Gap(OffsetRange(2, 19, 20), GapCause.COMPACTED),
    )


@given(st.sets(st.integers(10, 19)), st.sets(st.integers(10, 19)))
def test_gaps_and_records_together_are_the_range(committed: set[int], aborted: set[int]) -> None:
    gaps = explain(RANGE, committed, committed | aborted, compacted=False)
    missing = [offset for gap in gaps for offset in range(gap.offsets.from_offset, gap.offsets.until_offset)]
    assert sorted([*missing, *committed]) == list(range(10, 20))
    assert {o for o in aborted if o not in committed} == {
        o for g in gaps if g.cause is GapCause.ABORTED for o in range(g.offsets.from_offset, g.offsets.until_offset)
    }

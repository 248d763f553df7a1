from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.model.snapshot import Boundary, Cursors, agrees, last_agreed, topic_of

# A log as the leader epoch of each of its records. An election begins a higher one.
LOGS = st.lists(st.integers(0, 3), max_size=12).map(sorted)


def epoch_end(log: list[int], epoch: int) -> int:
    """What a leader with this log answers to OffsetForLeaderEpoch."""
    return sum(each <= epoch for each in log)


@given(LOGS, st.data())
def test_a_cut_log_agrees_up_to_the_last_boundary_below_the_cut(read: list[int], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(read)))
    now = read[:cut] + [9] * data.draw(st.integers(0, 12))  # an unclean election, and records of the new leader
    offsets = data.draw(st.sets(st.integers(0, len(read))))
    # The leader that told of an offset may have had a higher epoch than the record below it.
    known = [Boundary(0, u, max([data.draw(st.integers(0, 4)), *read[:u][-1:]])) for u in offsets]
    ends = {(0, b.leader_epoch): epoch_end(now, b.leader_epoch) for b in known if b.leader_epoch is not None}
    for each in known:
        assert agrees(each, {0: len(now)}, ends) == (each.offset <= cut)
    found = last_agreed(known, {0: len(now)}, ends).get(0)
    assert (found.offset if found else None) == max((u for u in offsets if u <= cut), default=None)


def test_an_offset_without_a_known_epoch_is_compared_with_the_end_of_the_log() -> None:
    assert agrees(Boundary(0, 7), {0: 7}, {})
    assert not agrees(Boundary(0, 8), {0: 7}, {})


def test_a_partition_that_no_answer_mentions_is_left_alone() -> None:
    assert agrees(Boundary(3, 8, 1), {0: 7}, {})


@pytest.mark.parametrize(("truncations", "log_id"), [(0, "t-1_x"), (1, "t-1_x/1"), (12, "t-1_x/12")])
def test_each_truncation_names_another_log_of_the_topic(truncations: int, log_id: str) -> None:
    assert Cursors("c", "t-1_x", {}, truncations=truncations).log_id == log_id
    assert topic_of(log_id) == ("t-1_x", truncations)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.errors import (
    LogEndBelowCursor,
    LogTruncated,
    NoStartOffset,
    OffsetExpired,
    OffsetLedgerError,
    PartitionVanished,
    TerminalError,
    TopicRecreated,
)
from offset_ledger.model.ranges import OffsetRange, fair_shares, total_width
from offset_ledger.model.snapshot import (
    Boundary,
    Cursors,
    PartitionSnapshot,
    TopicSnapshot,
    check_identity,
    check_replay,
    check_truncation,
)
from offset_ledger.pipeline_file.source import StartAt
from offset_ledger.steps.plan.head import Backlog, backlogs, boundaries, nothing_new, plan_head, start_offsets


def snapshot(*bounds: tuple[int, int], cluster: str = "c", topic_id: str = "t") -> TopicSnapshot:
    partitions = tuple(PartitionSnapshot(i, start, end, end + 5, 3) for i, (start, end) in enumerate(bounds))
    return TopicSnapshot(cluster, "flights", topic_id, False, partitions)


def test_nothing_new_says_what_was_deleted_before_the_first_batch() -> None:
    seen = snapshot((2400, 2400), (0, 0))
    plain = "every cursor is at the last stable offset"
    assert nothing_new({0: 2400, 1: 0}, seen, first=True) == (
        f"{plain}; 2,400 offsets below the log start 2400 of partition 0 were deleted before the pipeline began"
    )
    assert nothing_new({0: 2400, 1: 0}, seen, first=False) == plain
    assert nothing_new({0: 2500, 1: 0}, seen, first=True) == plain


# -- where partitions begin ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (StartAt.EARLIEST, {0: 10, 1: 0}),
        (StartAt.LATEST, {0: 100, 1: 50}),
        (StartAt.TIMESTAMP, {0: 42, 1: 50}),  # no record that late in partition 1: it begins at its end
    ],
)
def test_a_first_run_begins_where_the_pipeline_file_says(start: StartAt, expected: dict[int, int]) -> None:
    assert start_offsets(None, snapshot((10, 100), (0, 50)), start, {0: 42, 1: None}) == expected


def test_start_none_refuses_a_first_run() -> None:
    with pytest.raises(NoStartOffset, match="start: none"):
        start_offsets(None, snapshot((0, 1)), StartAt.NONE, {})


@pytest.mark.parametrize("start", list(StartAt))
def test_a_partition_added_later_begins_at_its_first_offset(start: StartAt) -> None:
    cursors = Cursors("c", "t", {0: 100})
    assert start_offsets(cursors, snapshot((10, 100), (3, 50)), start, {}) == {1: 0}  # what expired of it is a loss


def test_a_start_above_the_last_stable_offset_has_no_known_epoch() -> None:
    assert boundaries({0: 100, 1: 51}, snapshot((10, 100), (3, 50), (0, 9))) == (Boundary(0, 100, 3), Boundary(1, 51))


# -- what the cursors meet -------------------------------------------------------------------------------------


def test_backlogs_run_from_the_cursor_to_the_last_stable_offset() -> None:
    assert backlogs({0: 20, 1: 50}, snapshot((10, 100), (0, 50))) == (Backlog(0, 20, 100), Backlog(1, 50, 50))


def test_a_last_stable_offset_that_fell_behind_the_cursor_is_nothing_new() -> None:
    assert backlogs({0: 103}, snapshot((10, 100))) == (Backlog(0, 103, 103),)


@pytest.mark.parametrize(
    ("next_offsets", "error", "text"),
    [
        ({0: 9}, OffsetExpired, r"\[9, 10\) are gone, 1 in all"),
        ({0: 106}, LogEndBelowCursor, "the log ends at 105, below the cursor 106"),
        ({0: 10, 1: 0}, PartitionVanished, r"partitions \[1\]"),
    ],
)
def test_a_lost_range_is_named_and_never_skipped(
    next_offsets: dict[int, int], error: type[OffsetLedgerError], text: str
) -> None:
    with pytest.raises(error, match=text):
        backlogs(next_offsets, snapshot((10, 100)))


@pytest.mark.parametrize("other", [snapshot((0, 1), cluster="x"), snapshot((0, 1), topic_id="x")])
def test_cursors_of_another_topic_are_refused(other: TopicSnapshot) -> None:
    with pytest.raises(TopicRecreated):
        check_identity(Cursors("c", "t", {}), other)


def test_the_same_topic_is_accepted() -> None:
    check_identity(Cursors("c", "t", {}), snapshot((0, 1)))
    check_identity(None, snapshot((0, 1)))


# -- shares ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("widths", "limit", "turn", "shares"),
    [
        ([], 10, 0, ()), ([5, 5], 100, 0, (5, 5)), ([100, 1, 1], 10, 0, (8, 1, 1)), ([100, 100], 7, 0, (4, 3)),
        ([100, 100], 7, 1, (3, 4)), ([9, 9, 9], 2, 0, (1, 1, 0)), ([9, 9, 9], 2, 2, (1, 0, 1)), ([0, 9], 3, 0, (0, 3)),
    ],
)  # fmt: skip
def test_fair_shares(widths: list[int], limit: int, turn: int, shares: tuple[int, ...]) -> None:
    assert fair_shares(widths, limit, turn) == shares


WIDTHS = st.lists(st.integers(0, 10_000), max_size=20)


@given(WIDTHS, st.integers(1, 20_000), st.integers(0, 50))
def test_shares_are_max_min_fair(widths: list[int], limit: int, turn: int) -> None:
    shares = fair_shares(widths, limit, turn)
    assert sum(shares) == min(limit, sum(widths))
    assert all(0 <= share <= width for share, width in zip(shares, widths, strict=True))
    # Whoever got less than it has got at least as much, but for one, as anybody else.
    unsatisfied = [s for s, w in zip(shares, widths, strict=True) if s < w]
    assert not unsatisfied or min(unsatisfied) >= max(shares) - 1


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(1, 10))
def test_no_partition_is_starved_over_several_batches(widths: list[int], limit: int) -> None:
    left = list(widths)
    for turn in range(sum(widths)):
        shares = fair_shares(left, limit, turn)
        left = [w - s for w, s in zip(left, shares, strict=True)]
    assert left == [0] * len(widths)


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=10),
    st.integers(1, 3000),
    st.integers(0, 20),
)
def test_a_plan_starts_at_the_cursors_and_stays_within_log_and_limit(
    places: list[tuple[int, int]], limit: int, turn: int
) -> None:
    waiting = [Backlog(p, start, start + width) for p, (start, width) in enumerate(places)]
    ranges = plan_head(waiting, limit, turn)
    by_partition = {b.partition: b for b in waiting}
    assert total_width(ranges) == min(limit, sum(b.width for b in waiting))
    assert len({r.partition for r in ranges}) == len(ranges)
    for r in ranges:
        assert r.from_offset == by_partition[r.partition].start
        assert r.until_offset <= by_partition[r.partition].end


# -- leader epochs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ends", [{}, {0: 100}, {0: 101, 1: 50}])
def test_a_log_whose_epoch_reaches_what_is_needed_was_not_cut_off(ends: dict[int, int]) -> None:
    check_truncation("flights", {0: 100, 1: 50}, {0: 3, 1: 4}, ends, "committed")


def test_an_epoch_that_ends_too_early_is_named_with_what_became_of_its_offsets() -> None:
    with pytest.raises(LogTruncated, match=r"partition 1: offsets \[49, 50\) were planned under leader epoch 4, whose"):
        check_truncation("flights", {0: 100, 1: 50}, {0: 3, 1: 4}, {0: 100, 1: 49}, "planned")


# -- replays ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "error", "text"),
    [
        ([OffsetRange(0, 5, 20)], OffsetExpired, r"\[5, 10\) are gone"),
        ([OffsetRange(0, 10, 101)], TerminalError, "stable, the replay wants up to 101"),
        ([OffsetRange(7, 0, 1)], TerminalError, "no partition 7"),
        ([OffsetRange(0, 10, 11), OffsetRange(0, 12, 13)], TerminalError, "same partition"),
    ],
)
def test_a_replay_outside_the_log_is_refused(
    wanted: list[OffsetRange], error: type[OffsetLedgerError], text: str
) -> None:
    with pytest.raises(error, match=text):
        check_replay(wanted, snapshot((10, 100)))


def test_a_replay_of_the_whole_log_is_accepted() -> None:
    check_replay([OffsetRange(0, 10, 100)], snapshot((10, 100)))

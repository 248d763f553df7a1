"""Partitions on one scale, and the steps of the heatmap."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.interfaces.page.views import bar, limits, on_one_scale, shares, step_of
from offset_ledger.operations.status.pipeline import Position


def a_position(partition: int, lag: int | None, log_start: int = 0, end: int = 100) -> Position:
    return Position(partition, end - (lag or 0), log_start, end, end, lag=lag)


def test_the_largest_lag_is_first_and_an_unknown_one_before_it() -> None:
    shown = on_one_scale(
        [a_position(0, 0), a_position(1, 40), a_position(2, None), a_position(3, 5), a_position(4, 40)]
    )
    assert [each["partition"] for each in shown] == [2, 1, 4, 3, 0]
    assert [each["lag_length"] for each in shown] == [0.0, 1.0, 1.0, 0.125, 0.0]
    assert [each["step"] for each in shown] == [None, 5, 5, 3, 0]


def test_bars_are_as_long_as_their_logs_are_among_the_others() -> None:
    shown = on_one_scale([a_position(0, 0, 0, 1000), a_position(1, 0, 900, 1000), a_position(2, 0, 0, 250)])
    assert [each["length"] for each in shown] == [1.0, 0.1, 0.25]


def test_what_was_deleted_before_it_was_read_is_part_of_the_length() -> None:
    lost = Position(0, 10, 60, 100, 100, lag=40, lost=50)
    assert [each["length"] for each in on_one_scale([lost, a_position(1, 0, 0, 180)])] == [0.5, 1.0]


def test_partitions_without_a_log_have_no_length() -> None:
    (only,) = on_one_scale([Position(0, 5, None, None, None)])
    assert (only["length"], only["lag_length"], only["step"]) == (0.0, 0.0, None)
    assert on_one_scale([]) == ()


@pytest.mark.parametrize("largest", [1, 2, 7, 100, 6_889, 10**15 + 7])
def test_every_lag_has_a_step_and_the_largest_the_last(largest: int) -> None:
    assert limits(largest)[-1] == largest
    assert step_of(largest, largest) in range(1, 6)
    assert [step_of(lag, largest) for lag in (0, None)] == [0, None]
    steps = [step_of(limit, largest) for limit in limits(largest)]
    assert steps == sorted(steps, key=lambda step: step or 0)


def test_without_lag_there_are_no_steps() -> None:
    assert limits(0) == ()


OFFSETS = st.integers(0, 10**12)


@given(OFFSETS, OFFSETS, OFFSETS, OFFSETS)
def test_every_part_of_a_bar_that_exists_is_visible(cursor: int, a: int, b: int, c: int) -> None:
    log_start, last_stable, high_watermark = sorted((a, b, c))
    found = shares(cursor, log_start, last_stable, high_watermark)
    exists = (
        cursor < log_start,
        min(cursor, high_watermark) > log_start,
        last_stable > max(cursor, log_start),
        high_watermark > max(last_stable, cursor),
    )
    assert [part > 0.01 for part in found] == list(exists)
    assert sum(found) == pytest.approx(1 if any(exists) else 0, abs=0.001)


@pytest.mark.parametrize(
    ("position", "parts"),
    [
        (Position(0, 100, 0, 100, 100, lag=0), (0.0, 1.0, 0.0, 0.0)),
        (Position(0, 100, 20, 300, 340, lag=200), (0.0, 0.25, 0.625, 0.125)),
        (Position(1, 100, 0, 130, 140), (0.0, 0.7143, 0.2143, 0.0714)),
        (Position(3, None, 50, 60, 60, lag=10), (0.0, 0.0, 1.0, 0.0)),
        (Position(0, 100, 150, 200, 200, lag=50, lost=50), (0.5, 0.0, 0.5, 0.0)),
        (Position(0, 100, 0, 90, 90, lag=0, cut_off=True), (0.0, 1.0, 0.0, 0.0)),
        (Position(0, 5, None, None, None), (0.0, 0.0, 0.0, 0.0)),
    ],
)
def test_a_bar_has_the_parts_of_the_log(position: Position, parts: tuple[float, ...]) -> None:
    assert bar(position) == parts


def test_the_lag_of_a_log_that_ends_below_its_cursor_has_no_step() -> None:
    shown = on_one_scale([a_position(0, 3), Position(1, 100, 0, 90, 90, lag=0, cut_off=True)])
    assert [(each["partition"], each["step"]) for each in shown] == [(1, None), (0, 5)]

"""The timeline of completeness, from balance sheets by partition and step."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from offset_ledger.interfaces.page.history import Cover, HistoryWindow, Line, Refused, Run, anchor, lines
from offset_ledger.operations.status.pipeline import LedgerPartition, Position

HOUR = timedelta(hours=1)
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
WINDOW = HistoryWindow(6 * HOUR, HOUR)  # at 12:00: 07:00 to 13:00
SUMS = ("records", "again", "quarantined", "gap")


def a_row(partition: int, hour: int, since: int | None = None, **counts: int) -> dict[str, Any]:
    at, first = (NOON.replace(hour=each) for each in (hour, hour if since is None else since))
    offsets = {"from_offset": hour * 10, "until_offset": hour * 10 + 10}
    return {"partition": partition, "at": at, "since": first, **dict.fromkeys(SUMS, 0), **offsets, **counts}


def a_position(partition: int, complete_hour: int | None, lag: int | None) -> Position:
    complete_to = None if complete_hour is None else NOON.replace(hour=complete_hour)
    return Position(partition, 100, 0, 100, 100, lag=lag, complete_to=complete_to)


def of_one(rows: list[dict[str, Any]], position: Position, refused: dict[int, int] | None = None) -> Line:
    marks = [
        {"partition": position.partition, "at": NOON.replace(hour=hour), "records": records}
        for hour, records in (refused or {}).items()
    ]
    (line,) = lines(rows, marks, [position], WINDOW, NOON)
    return line


def shown(line: Line) -> list[tuple[int, int, str]]:
    return [(run.start, run.end, str(run.cover)) for run in line.runs]


def test_hours_with_records_are_in_the_table_and_those_after_them_are_pending() -> None:
    line = of_one([a_row(0, 8, records=10), a_row(0, 9, records=10)], a_position(0, 10, lag=5))
    assert shown(line) == [(0, 1, "empty"), (1, 3, "table"), (3, 6, "pending")]
    assert (line.records, line.lag) == (20, 5)
    assert line.runs[1] == Run(1, 3, Cover.TABLE, records=20, from_offset=80, until_offset=100)


def test_without_lag_hours_without_records_are_complete() -> None:
    complete = Position(0, 100, 0, 100, 100, lag=0, complete_to=NOON + timedelta(minutes=1))
    assert shown(of_one([a_row(0, 9, records=1)], complete)) == [(0, 2, "empty"), (2, 3, "table"), (3, 6, "empty")]


def test_a_batch_of_several_hours_covers_them_from_its_oldest_record_on() -> None:
    line = of_one([a_row(0, 11, since=8, records=50)], a_position(0, 12, lag=1))
    assert shown(line) == [(0, 1, "empty"), (1, 5, "table"), (5, 6, "pending")]
    assert [run.records for run in line.runs] == [0, 50, 0]


def test_an_offset_range_begins_in_the_run_of_its_oldest_record() -> None:
    rows = [a_row(0, 10, records=0, again=3), a_row(0, 12, since=8, records=50, from_offset=5)]
    ends = [(run.from_offset, run.until_offset) for run in of_one(rows, a_position(0, 13, lag=1)).runs]
    assert ends == [(None, None), (5, None), (100, 110), (5, 130)]


def test_a_batch_that_began_before_the_window_covers_its_first_hours() -> None:
    assert shown(of_one([a_row(0, 8, since=2, records=1)], a_position(0, 9, lag=1)))[0] == (0, 2, "table")


def test_gaps_and_what_was_read_again_are_runs_of_their_own() -> None:
    rows = [
        a_row(0, 7, records=10), a_row(0, 8, records=10, quarantined=2), a_row(0, 9, records=10, quarantined=1),
        a_row(0, 10, records=8, gap=2), a_row(0, 11, records=10, again=4),
    ]  # fmt: skip
    line = of_one(rows, a_position(0, 12, lag=3), {8: 2, 9: 1})
    marks = [(run.start, run.end, run.quarantined, run.gap, run.again) for run in line.runs]
    assert marks == [(0, 3, 3, 0, 0), (3, 4, 0, 2, 0), (4, 5, 0, 0, 4), (5, 6, 0, 0, 0)]
    assert {name: getattr(line, name) for name in SUMS} == {"records": 48, "again": 4, "quarantined": 3, "gap": 2}


def test_refused_records_are_marked_where_they_are_and_counted_where_their_range_ends() -> None:
    line = of_one([a_row(0, 11, since=2, records=50, quarantined=9)], a_position(0, 12, lag=1), {8: 2, 10: 1})
    assert line.refused == (Refused(1, 2, 2), Refused(3, 4, 1))
    assert [(run.start, run.end, run.quarantined) for run in line.runs] == [(0, 5, 3), (5, 6, 0)]
    assert line.quarantined == 9


def test_marks_of_neighbouring_steps_are_one_mark_across_runs() -> None:
    rows = [a_row(0, 8, records=9, gap=1), a_row(0, 11, since=9, records=50, quarantined=9)]
    line = of_one(rows, a_position(0, 12, lag=1), {8: 2, 9: 1, 11: 4})
    assert line.refused == (Refused(1, 3, 3), Refused(4, 5, 4))
    assert [(run.start, run.end, run.quarantined) for run in line.runs] == [(0, 1, 0), (1, 2, 2), (2, 5, 5), (5, 6, 0)]


def test_partitions_do_not_mix_and_one_that_nobody_read_is_pending() -> None:
    rows = [a_row(0, 9, records=1), a_row(2, 9, records=7)]
    positions = [a_position(0, 10, 1), a_position(1, None, None), a_position(2, 10, 1)]
    made = lines(rows, [], positions, WINDOW, NOON)
    assert [(line.partition, line.records) for line in made] == [(0, 1), (1, 0), (2, 7)]
    assert shown(made[1]) == [(0, 6, "pending")]


def test_the_window_ends_now_unless_all_records_are_older() -> None:
    recent = LedgerPartition(0, 5, complete_to=NOON - 2 * HOUR)
    old = LedgerPartition(1, 5, complete_to=datetime(2013, 1, 2, 17, 12, tzinfo=UTC))
    assert anchor(WINDOW, [recent, old], NOON) == NOON
    assert anchor(WINDOW, [], NOON) == NOON
    end = anchor(WINDOW, [old], NOON)
    assert WINDOW.begin(end) <= datetime(2013, 1, 2, 17, 12, tzinfo=UTC) < WINDOW.begin(end) + WINDOW.span

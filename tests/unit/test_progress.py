"""Progress: a bar at a terminal, lines elsewhere, nothing for what is short."""

from __future__ import annotations

import io
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from offset_ledger.base import progress as module
from offset_ledger.base.progress import PlainLines, live, progress
from offset_ledger.interfaces.cli.verbs import say


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def lines_of(total: int | None, moments: list[float], *steps: int) -> list[str]:
    lines: list[str] = []
    clock = iter(moments)
    advance = PlainLines(total, "staged", lines.append, clock=lambda: next(clock), unit="offsets")
    for done in steps:
        advance(done)
    return lines


def test_a_line_every_five_seconds_has_the_rate_and_what_is_left() -> None:
    assert lines_of(5_000, [0.0, 1.0, 5.0, 6.0, 10.5], 1_000, 1_000, 1_000, 1_000) == [
        "staged 2,000 of 5,000 offsets (400/s, 8 s left)",
        "staged 4,000 of 5,000 offsets (381/s, 3 s left)",
    ]


def test_without_a_total_or_a_rate_nothing_is_said_of_the_rest() -> None:
    assert lines_of(None, [0.0, 5.0], 100) == ["staged 100 offsets (20/s)"]
    assert lines_of(100, [0.0, 5.0], 0) == ["staged 0 of 100 offsets (0/s)"]


def test_a_short_run_says_nothing() -> None:
    assert lines_of(10, [0.0, 4.9], 10) == []
    out = Terminal()
    with progress(1_000, "published", out) as advance:
        advance(1_000)
    assert out.getvalue() == ""


def test_a_terminal_gets_a_bar_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BAR_AFTER", 0)
    out = Terminal()
    with progress(1_000, "staged", out, unit="offsets") as advance:
        advance(1_000)
    shown, *_, last = out.getvalue().strip("\r").split("\r")
    assert shown.startswith("staged: ")
    assert shown.endswith("offsets/s]")
    assert last.strip() == ""


def test_a_terminal_has_one_live_line_which_makes_way_for_what_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", out := Terminal())
    live("planned batch 1 of orders: 6 offsets")
    live("staged 3 rows")
    say("a note")
    clear = "\r\x1b[K"
    assert out.getvalue() == f"{clear}planned batch 1 of {clear}staged 3 rows{clear}a note\n"


def test_elsewhere_each_live_line_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    live("planned batch 1 of orders: 6 offsets")
    live("staged 3 rows")
    assert capsys.readouterr() == ("", "planned batch 1 of orders: 6 offsets\nstaged 3 rows\n")


def test_lines_are_in_the_log_where_that_takes_them_and_else_on_standard_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "PLAIN_SECONDS", 0)
    for level in (logging.INFO, logging.WARNING):
        with caplog.at_level(level, "offset_ledger.base.progress"), progress(None, "staged") as advance:
            advance(7)
    begins = "staged 7 records ("
    assert [each for each in caplog.messages if not each.startswith(begins)] == []
    assert len(caplog.messages) == 1
    said = capsys.readouterr().err.splitlines()  # with what threads of other tests may say
    assert len([each for each in said if each.startswith(begins)]) == 1


def test_threads_may_advance_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PLAIN_SECONDS", 0)
    out = io.StringIO()
    with progress(None, "staged", out) as advance, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: advance(1), range(2_000)))
    assert sorted(int(line.split()[1].replace(",", "")) for line in out.getvalue().splitlines()) == list(
        range(1, 2_001)
    )

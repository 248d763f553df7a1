"""Batches and charts as the ledger page shows them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from offset_ledger.interfaces.page.history import WINDOWS, HistoryWindow, Point, points
from offset_ledger.interfaces.page.views import SHEET, BatchStep, batch_view, decisions, sheet, steps, verdict
from offset_ledger.model.states import State

T0 = datetime(2026, 11, 21, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def a_row(**changes: Any) -> dict[str, Any]:
    times = {"claimed_at": at(1), "staged_at": at(11), "validated_at": at(13), "decided_at": None, "ended_at": at(14)}
    counts = dict.fromkeys(SHEET, 0) | {"inserted": 90, "quarantined": 10}
    row = {
        "batch_id": 7, "kind": "head", "state": "committed", "epoch": 1, "after": None,
        "dag_id": "ingest_orders", "run_id": "r", "planned_at": T0, "partitions": 2, "offsets": 100,
        "min_timestamp": None, "max_timestamp": None,
        "success": True, "reasons": [], "notes": ["n"], "quarantined_share": 0.1,
        "changed_by": "a", "changed_why": None, "engine": "spark", "engine_reason": "e",
    }  # fmt: skip
    return {**row, **times, **counts, **changes}


def test_a_committed_batch_shows_its_sheet_and_each_step() -> None:
    view = batch_view(a_row(), at(99))
    assert view["sheet"] == dict.fromkeys(SHEET, 0) | {"inserted": 90, "quarantined": 10}
    assert view["steps"] == [
        asdict(BatchStep(name, seconds))
        for name, seconds in (("wait", 1), ("stage", 10), ("validate", 2), ("commit", 1))
    ]
    assert (view["verdict"], view["notes"], view["decisions"]) == ("passed", ["n"], ())
    assert (view["engine"], view["engine_reason"]) == ("spark", "e")


def test_an_approved_batch_has_waited_for_the_decision() -> None:
    row = a_row(success=False, decided_at=at(73), ended_at=at(75))
    assert steps(row, at(99))[-2:] == (BatchStep("decision", 60), BatchStep("commit", 2))
    assert verdict(row) == "approved"


@pytest.mark.parametrize(
    ("state", "known", "expected"),
    [
        ("planned", 0, BatchStep("wait", 20, running=True)),
        ("staging", 1, BatchStep("stage", 19, running=True)),
        ("staged", 2, BatchStep("validate", 9, running=True)),
        ("rejected", 3, BatchStep("decision", 7, running=True)),
        ("validated", 3, BatchStep("commit", 7, running=True)),
    ],
)
def test_a_running_step_lasts_until_now(state: str, known: int, expected: BatchStep) -> None:
    later = dict.fromkeys(("claimed_at", "staged_at", "validated_at")[known:])
    row = a_row(state=state, success=None, inserted=None, ended_at=None, **later)
    assert steps(row, at(20))[-1] == expected
    assert sheet(row) is None


def test_a_batch_ahead_waits_for_the_one_before() -> None:
    row = a_row(state="staged", after=6, success=None, inserted=None, validated_at=None, ended_at=None)
    assert steps(row, at(20))[-1] == BatchStep("wait for the batch before", 9, running=True)
    assert batch_view(row, at(20))["after"] == 6


def test_clocks_of_two_machines_give_no_negative_time() -> None:
    assert steps(a_row(staged_at=at(0.5)), at(20))[1] == BatchStep("stage", 0)


def test_an_abandoned_batch_has_no_running_step() -> None:
    row = a_row(state="abandoned", staged_at=None, validated_at=None, success=None)
    assert steps(row, at(99)) == (BatchStep("wait", 1),)


def test_a_person_may_decide_what_the_states_allow() -> None:
    assert {state: decisions(state) for state in State} == {
        State.PLANNED: ("abandon",), State.STAGING: ("abandon",), State.STAGED: ("abandon",),
        State.VALIDATED: ("abandon",), State.REJECTED: ("approve", "abandon"), State.COMMITTED: (), State.ABANDONED: (),
    }  # fmt: skip


def test_every_step_of_a_window_has_a_point_and_the_last_holds_now() -> None:
    window = HistoryWindow(timedelta(minutes=3), timedelta(minutes=1))
    row = {
        "at": T0 - timedelta(minutes=1), "head": 80, "again": 20, "quarantined_share": 0.05, "lag": 300, "lag_after": 7
    }  # fmt: skip
    assert points([row], window, at(30)) == (
        Point(T0 - timedelta(minutes=2)),
        Point(T0 - timedelta(minutes=1), 80, 20, 300, 7, 0.05),
        Point(T0),
    )


@pytest.mark.parametrize("window", WINDOWS.values())
def test_windows_are_whole_steps(window: HistoryWindow) -> None:
    assert window.span % window.step == timedelta(0)
    assert len(points([], window, at(0.25))) == window.span / window.step

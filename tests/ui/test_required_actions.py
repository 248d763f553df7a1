"""Airflow's Required Actions in Chromium: a lost range is answered with a yes, a rejected batch with a no."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from offset_ledger.local.airflow import USER
from tests.fixtures.airflow_world import World, until
from tests.ui.airflow_ui import answer, in_ledger, open_question, rows_of, shot
from tests.ui.browser import Page

pytestmark = [pytest.mark.ui, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def asked(world: World) -> dict[str, str]:
    """Runs of both pipelines, which wait for a person: started together, because one needs Spark first."""
    return {name: world.trigger(name) for name in ("lossy", "strict")}


def kept(world: World, pipeline: str) -> list[tuple[Any, ...]]:
    """The questions of a pipeline with their answers."""
    query = (
        "SELECT kind, answer, who, why, answered_at BETWEEN asked_at AND now() FROM offset_ledger.decision"
        " WHERE pipeline = %s"
    )
    return rows_of(world, query, pipeline)


def test_a_lost_range_is_skipped_after_a_yes(
    world: World, asked: dict[str, str], logged_in: Callable[[str], Page]
) -> None:
    world.question("lossy", asked["lossy"])
    page = logged_in(USER)
    said = open_question(page, world, "topic lossy")
    assert said.count("skip 3 offsets of topic lossy that retention deleted unread: 0:[1, 4)?") == 1
    assert "0:[1, 4) (3 offsets)" in said
    assert "Approve skips exactly these offsets, for good, and the run goes on." in said
    shot(page, "required-action")
    answer(page, "Approve", "retention was too short")
    assert world.ended("lossy", asked["lossy"]) == "success"
    assert kept(world, "lossy") == [("lost_range", "approve", USER, "retention was too short", True)]
    ranges = (
        "SELECT from_offset, until_offset, r.skipped, r.inserted FROM offset_ledger.batch_range r"
        " JOIN offset_ledger.batch USING (batch_id, pipeline) WHERE pipeline = 'lossy' AND state = 'committed'"
    )
    assert sorted(world.rows(ranges)) == [(0, 1, 0, 1), (1, 4, 3, 0), (4, 5, 0, 1)]
    page.go(f"{world.airflow.address}/dags/ingest_lossy/runs/{asked['lossy']}")
    page.press('a[href*="plugin/offset-ledger-run"]', "Ledger")
    in_ledger(page)
    page.wait_for_text("3 skipped")
    shot(page, "run-tab")


def test_a_rejected_batch_stays_rejected_after_a_no_and_is_then_abandoned(
    world: World, asked: dict[str, str], logged_in: Callable[[str], Page]
) -> None:
    run_id = asked["strict"]
    world.question("strict", run_id)
    ((batch_id,),) = world.rows("SELECT batch_id FROM offset_ledger.batch WHERE pipeline = 'strict'")
    page = logged_in(USER)
    said = open_question(page, world, f"commit batch {batch_id} of strict")
    assert "1 of 2 rows fail" in said
    assert "0:[0, 2)" in said
    assert "Reject leaves it rejected and fails the run." in said
    shot(page, "required-action-batch")
    answer(page, "Reject", "nobody knows the state broken")
    assert world.ended("strict", run_id) == "failed"
    assert kept(world, "strict") == [("rejected_batch", "reject", USER, "nobody knows the state broken", True)]
    state = "SELECT state, changed_by, changed_why FROM offset_ledger.batch WHERE pipeline = 'strict'"
    assert world.rows(state)[0][0] == "rejected"

    page.go(f"{world.airflow.address}/dags/ingest_strict/runs/{run_id}")
    page.press('a[href*="plugin/offset-ledger-run"]', "Ledger")
    in_ledger(page)
    page.press('button[data-key="notice-abandon"]')
    page.type('dialog textarea[name="why"]', "to be published again")
    page.press("dialog button", "Abandon")
    page.wait("d.querySelector('dialog .told.good')?.textContent.startsWith('Queued as')", "the queued run")
    until(lambda: world.rows(state) == [("abandoned", USER, "to be published again")], "the abandoned batch")
    page.press("dialog button", "Close")
    page.wait("d.querySelector('tbody .chip')?.textContent === 'abandoned'", "the abandoned batch")
    assert world.rows("SELECT next_offset FROM offset_ledger.cursor WHERE pipeline = 'strict'") in ([], [(0,)])
    assert world.rows("SELECT event_id FROM public.strict") == []

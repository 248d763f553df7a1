"""Airflow's own forms in Chromium: a window read again, a dry run, a contradiction, a backfill and all of it again."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from offset_ledger.operations.repair.verify import verify
from offset_ledger_kit.sandbox.airflow import USER
from tests.fixtures.airflow_world import World, until
from tests.ui.airflow_ui import TriggerForm, plan_log, run_tab, shot
from tests.ui.conftest import FIRST

pytestmark = pytest.mark.timeout(600)
DAG = "ingest_orders"
DAY = timedelta(days=1)
WINDOW, RANGES, DECISION = "A time window", "Offset ranges", "A decision"


@pytest.fixture
def unmoved(world: World) -> Callable[[], tuple[list[Any], list[Any]]]:
    """A look at the rows of orders, with the transaction that wrote each, and at the cursor, once its head is read."""
    cursor = "SELECT next_offset FROM offset_ledger.cursor WHERE pipeline = 'orders'"
    until(lambda: world.rows(cursor) == [(9,)], "the scheduled run of orders")

    def look() -> tuple[list[Any], list[Any]]:
        return world.rows("SELECT xmin::text, o::text FROM public.orders o ORDER BY event_id"), world.rows(cursor)

    return look


def planned(world: World, *runs: str) -> list[tuple[Any, ...]]:
    """Kind, state, range and planner of the batches of these runs."""
    query = (
        "SELECT run_id, kind, state, partition, from_offset, until_offset, who FROM offset_ledger.batch"
        " JOIN offset_ledger.batch_range USING (batch_id, pipeline)"
        " JOIN offset_ledger.batch_event e USING (batch_id) WHERE e.to_state = 'planned' ORDER BY run_id, batch_id"
    )
    return [row[1:] for row in world.rows(query) if row[0] in runs]


def test_the_trigger_form_explains_itself_and_reads_a_window_again(
    world: World, logged_in: Callable[[str], Page], unmoved: Callable[[], Any]
) -> None:
    before = unmoved()
    page = logged_in(USER)
    asked = TriggerForm(page, world, DAG)
    shot(page, "trigger-form")
    said = "\n".join(asked.open(section) for section in (RANGES, DECISION, WINDOW, "Run Parameters"))
    params = world.call("GET", f"/dags/{DAG}/details")["params"].values()
    told = [text for param in params for text in (param["schema"]["title"], param["description"])]
    assert [text for text in told if text not in said] == []
    asked.choose("time window, again")
    asked.open(WINDOW)
    asked.date(FIRST)
    asked.date(FIRST + DAY)
    shot(page, "trigger-window")
    run_id = asked.submit()
    assert world.ended("orders", run_id) == "success"
    assert planned(world, run_id) == [("backfill", "committed", 0, 0, 3, USER)]
    assert unmoved() == before


def test_a_full_scan_reads_the_records_of_a_window_that_came_late_too(
    world: World, logged_in: Callable[[str], Page]
) -> None:
    rows = "SELECT xmin::text, o::text FROM public.belated o ORDER BY event_id"
    before = world.rows(rows)
    page = logged_in(USER)
    asked = TriggerForm(page, world, "ingest_belated")
    asked.choose("time window, again")
    asked.open(WINDOW)
    asked.date(FIRST)
    asked.date(FIRST + DAY)
    asked.switch("scan")
    shot(page, "trigger-scan")
    run_id = asked.submit()
    assert world.ended("belated", run_id) == "success"
    assert planned(world, run_id) == [("backfill", "committed", 0, 0, 4, USER)]  # without it: up to 2
    assert world.rows(rows) == before


def test_a_dry_run_shows_its_plan_and_a_contradiction_its_one_line(
    world: World, logged_in: Callable[[str], Page], unmoved: Callable[[], Any]
) -> None:
    before = unmoved()
    page = logged_in(USER)
    asked = TriggerForm(page, world, DAG)
    asked.switch("dry_run")
    asked.choose("offset ranges, again")
    asked.open(RANGES)
    asked.write("ranges", "0:2-5")
    dry = asked.submit()
    asked = TriggerForm(page, world, DAG)
    asked.choose("offset ranges, again")
    wrong = asked.submit()

    assert world.ended("orders", dry) == "success"
    log = plan_log(page, world, DAG, dry, "dry run of a replay batch: nothing was planned")
    assert "committed before" in log
    assert "KafkaConnection" not in log
    shot(page, "dry-run")
    assert world.ended("orders", wrong) == "failed"
    line = "ContradictoryRequest: action ranges needs ranges; fill in what is missing"
    assert plan_log(page, world, DAG, wrong, line).count("ContradictoryRequest") == 1
    shot(page, "contradiction")
    assert planned(world, dry, wrong) == []
    assert unmoved() == before


def backfilled(page: Page, world: World, shown: str, reprocess: str | None = None) -> list[str]:
    """The runs of a backfill of the first two days, made with the form once the one before is closed."""
    path = "/backfills?dag_id=ingest_orders"
    until(lambda: all(each["completed_at"] for each in world.call("GET", path)["backfills"]), "the backfill before")
    asked = TriggerForm(page, world, DAG)
    asked.backfill()
    asked.date(FIRST)
    asked.date(FIRST + DAY)
    if reprocess:
        asked.reprocess(reprocess)
    shot(page, shown)
    asked.submit_backfill(runs=2, at_once=2)
    return list(until(lambda: world.backfills("orders"), "the runs of the backfill"))


def test_a_backfill_reads_two_intervals_again_and_all_runs_once_more_and_neither_changes_a_row(
    world: World, logged_in: Callable[[str], Page], unmoved: Callable[[], Any]
) -> None:
    before = unmoved()
    page = logged_in(USER)
    days = [("backfill", "committed", 0, 0, 3, USER), ("backfill", "committed", 0, 3, 6, USER)]
    runs = backfilled(page, world, "backfill-form")
    assert [world.ended("orders", run_id) for run_id in runs] == ["success", "success"]
    assert planned(world, *runs) == days

    assert backfilled(page, world, "backfill-all-runs", "All Runs") == runs  # Airflow runs the same ones again
    until(lambda: len(planned(world, *runs)) == 4, "the batches of the second time")
    assert [world.ended("orders", run_id) for run_id in runs] == ["success", "success"]
    assert planned(world, *runs) == [day for day in days for _ in range(2)]
    assert unmoved() == before
    assert verify(world.pipeline("orders"))[0] == []
    ledger = run_tab(page, world, "orders", runs[0])
    expect(ledger.locator("tbody .chip", has_text=re.compile("^committed$"))).to_have_count(2)
    shot(page, "backfill-twice")

"""The ledger page through the real Airflow UI in Chromium: what an admin does with it, and what others cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from offset_ledger.local.airflow import USER, VIEWER
from offset_ledger.local.java import find_java
from offset_ledger.model.balance_sheet import Dispositions
from offset_ledger.operations.verify import verify
from tests.fixtures.airflow_world import World
from tests.fixtures.java_clients import JavaClients
from tests.ui.airflow_ui import FRAME, in_ledger, rows_of, shot
from tests.ui.browser import Page
from tests.ui.conftest import LIMITED

pytestmark = [pytest.mark.ui, pytest.mark.timeout(600)]
DAG = "ingest_flights"
SHEET = Dispositions.__dataclass_fields__
LOOK = "a look through the UI"


@pytest.fixture(scope="module")
def batches(world: World) -> dict[str, int]:
    """The batch of flights that was committed, and the one that the gate rejected, by state."""
    first = "SELECT state, batch_id FROM offset_ledger.batch WHERE pipeline = 'flights' ORDER BY batch_id LIMIT 2"
    return dict(world.rows(first))


def conf_of(world: World, dag_id: str, key: str, value: object) -> dict[str, Any]:
    """The conf of the one run that was asked for this."""
    runs = world.call("GET", f"/dags/{dag_id}/dagRuns?limit=100")["dag_runs"]
    (conf,) = [run["conf"] for run in runs if (run["conf"] or {}).get(key) == value]
    return dict(conf)


def open_flights(page: Page, world: World) -> None:
    page.go(f"{world.airflow.address}/plugin/offset-ledger")
    in_ledger(page)
    page.press("a.name", "flights")
    page.wait_for_text("Partitions")


def queued(page: Page) -> str:
    """The run that the open dialog says is queued; closes it."""
    page.wait("d.querySelector('dialog .told.good')?.textContent.startsWith('Queued as')", "the queued run")
    run_id = str(page.run("d.querySelector('dialog .told a').textContent"))
    page.press("dialog button", "Close")
    return run_id


def test_an_admin_sees_ledger_balance_sheet_and_report(
    world: World, logged_in: Callable[[str], Page], batches: dict[str, int]
) -> None:
    page = logged_in(USER)
    page.press('a[href$="plugin/offset-ledger"]')
    in_ledger(page)
    page.wait_for_text("strict")
    shot(page, "pipelines")
    page.press("a.name", "flights")
    page.wait_for_text(f"The quality gate rejected batch {batches['rejected']}")
    assert "no estimate records dated 2013-01" in page.text().replace("\n", " ")
    shot(page, "navigation")

    committed = batches["committed"]
    page.press(f'button[data-key="batch-{committed}"]')
    page.wait("d.querySelector('.unfolded table')", "the ranges")
    page.run("(d.querySelector('.unfolded').scrollIntoView({block: 'end'}), true)")
    shot(page, "balance-sheet")
    shown = page.run(
        "[...d.querySelectorAll('.unfolded table')[0].rows].map((r) => [...r.cells].map((c) => c.innerText))"
    )
    names = [name for name in shown[0] if name in SHEET]
    sheet = (
        "SELECT format('%%s:[%%s, %%s)', partition, from_offset, until_offset), until_offset - from_offset, {}"
        " FROM offset_ledger.batch_range WHERE batch_id = %s ORDER BY partition"
    )
    kept = [list(map(str, row)) for row in rows_of(world, sheet.format(", ".join(names)), committed)]
    assert shown[1:] == kept
    assert all(sum(map(int, row[2:])) == int(row[1]) for row in kept)

    page.press(f'button[data-key="report-{committed}"]')
    page.frames = (FRAME, "dialog iframe")
    page.wait_for_text(f"Batch {committed}")
    shot(page, "report")
    page.frames = (FRAME,)
    page.press("dialog button", "Close")


def test_an_admin_replays_redrives_and_approves_with_the_buttons(
    world: World, logged_in: Callable[[str], Page], batches: dict[str, int]
) -> None:
    rows = "SELECT xmin::text, f::text FROM public.flights f ORDER BY event_id"
    before, rejected = world.rows(rows), batches["rejected"]
    page = logged_in(USER)
    open_flights(page, world)
    page.press('button[data-key="Replay…"]')
    page.type('textarea[name="ranges"]', "0:0-10")
    page.type('input[name="why"]', LOOK)
    shot(page, "replay")
    page.press("dialog button.primary", "Replay")
    replayed = queued(page)
    expected = {"action": "ranges", "ranges": "0:0-10", "dry_run": False, "why": LOOK}
    assert expected.items() <= conf_of(world, DAG, "action", "ranges").items()

    page.press('button[data-key="Redrive…"]')
    codes = world.rows("SELECT DISTINCT r ->> 'code' FROM offset_ledger.quarantine, jsonb_array_elements(reasons) AS r")
    page.wait_for_text(f"in quarantine: {', '.join(sorted(code for (code,) in codes))}")
    page.type('input[name="why"]', LOOK)
    page.press("dialog button.primary", "Redrive")
    redriven = queued(page)
    assert conf_of(world, "redrive_flights", "why", LOOK)["limit"] is None

    page.press('button[data-key="notice-approve"]')
    page.press("dialog button.primary", "Approve")
    assert page.run("d.querySelector('dialog textarea:invalid') !== null")  # not without a why
    page.type('textarea[name="why"]', "the data are good enough")
    style = "w.getComputedStyle(d.querySelector('dialog button.primary:hover'))"
    assert page.run(f"{style}.backgroundColor === {style}.borderTopColor")  # else its white words stand on white
    shot(page, "approve")
    page.press("dialog button.primary", "Approve")
    approved = queued(page)

    assert [world.ended("flights", run_id) for run_id in (replayed, approved)] == ["success", "success"]
    assert world.ended("redrive_flights", redriven) == "success"
    ended = (
        "SELECT kind, state, who, why FROM offset_ledger.batch JOIN offset_ledger.batch_event USING (batch_id)"
        " WHERE run_id = %s AND to_state = 'planned'"
    )
    assert rows_of(world, ended, replayed) == [("replay", "committed", USER, LOOK)]
    assert rows_of(world, ended, redriven) == [("redrive", "committed", USER, LOOK)]
    decided = "SELECT who, why FROM offset_ledger.batch_event WHERE batch_id = %s AND from_state = 'rejected'"
    assert rows_of(world, decided, rejected) == [(USER, "the data are good enough")]
    assert rows_of(world, "SELECT state FROM offset_ledger.batch WHERE batch_id = %s", rejected) == [("committed",)]
    assert world.rows(rows) == before  # all of them were there, or were refused
    assert verify(world.pipeline("flights"))[0] == []
    cursors = dict(world.rows("SELECT partition, next_offset FROM offset_ledger.cursor WHERE pipeline = 'flights'"))
    clients = JavaClients(find_java(), world.kafka.extra["bootstrap.servers"])
    mirrored = clients.consumer_group("offset-ledger.flights", "flights.events")
    assert mirrored == {partition: (offset, offset, 0) for partition, offset in cursors.items()}
    page.wait_for_text("up to date")
    page.wait(
        "[...d.querySelectorAll('tbody .chip')].filter((e) => e.textContent === 'approved').length === 1", "approved"
    )
    shot(page, "after")


def test_a_dag_and_a_run_have_their_tab_and_it_follows_dark(world: World, logged_in: Callable[[str], Page]) -> None:
    run_id = world.trigger("flights")
    page = logged_in(USER)
    page.go(f"{world.airflow.address}/dags/{DAG}")
    page.press('a[href*="plugin/offset-ledger-dag"]', "Ledger")
    in_ledger(page)
    page.wait_for_text("Partitions")
    page.frames = ()
    page.theme("dark")
    page.frames = (FRAME,)
    page.wait("d.documentElement.dataset.theme === 'dark'", "the page in dark")
    shot(page, "tab")
    page.go(f"{world.airflow.address}/dags/{DAG}/runs/{run_id}")
    page.press('a[href*="plugin/offset-ledger-run"]', "Ledger")
    in_ledger(page)
    page.wait_for_text("Batches of this run")


def test_a_link_to_a_run_leads_airflow_itself_there(world: World, logged_in: Callable[[str], Page]) -> None:
    page = logged_in(USER)
    open_flights(page, world)
    page.press('button[data-key="Replay…"]')
    page.type('textarea[name="ranges"]', "0:0-1")
    page.press('dialog input[name="dry_run"]')
    page.press("dialog button.primary", "Replay")
    page.wait("d.querySelector('dialog .told.good')", "the queued run")
    run_id = page.run("d.querySelector('dialog .told a').textContent")
    page.press("dialog .told a")
    page.frames = ()
    page.wait("decodeURIComponent(w.location.pathname).startsWith(path)", "the run", path=f"/dags/{DAG}/runs/{run_id}")


def asks_by_hand(page: Page, world: World, path: str, method: str = "GET", body: object = None) -> tuple[int, Any]:
    """What the server answers to the browser's own session."""
    how = "{method, headers: {'Content-Type': 'application/json'}, body: body && JSON.stringify(body)}"
    asked = f"fetch(path, {how}).then(async (a) => [a.status, await a.json().catch(() => null)])"
    status, found = page.run(asked, path=world.airflow.address + path, method=method, body=body)
    return int(status), found


def changes() -> list[tuple[str, str, object]]:
    """Requests that would change something, as the buttons and Airflow's forms send them."""
    runs = f"/api/v2/dags/{DAG}/dagRuns"
    days = {"from_date": "2026-03-01T00:00:00Z", "to_date": "2026-03-02T00:00:00Z"}
    return [
        ("POST", runs, {"logical_date": None, "conf": {"action": "abandon", "batch_id": 1, "why": "x"}}),
        ("POST", "/api/v2/dags/redrive_flights/dagRuns", {"logical_date": None, "conf": {}}),
        ("POST", "/api/v2/backfills", {"dag_id": "ingest_orders", **days}),
        ("PATCH", f"/api/v2/dags/{DAG}", {"is_paused": True}),
    ]


def test_a_viewer_changes_nothing(world: World, logged_in: Callable[[str], Page]) -> None:
    page = logged_in(VIEWER)
    open_flights(page, world)
    page.wait_for_text(f"you may not trigger {DAG}")
    assert page.run(
        "[...d.querySelectorAll('button')].filter((b) => /…$/.test(b.textContent)).every((b) => b.disabled)"
    )
    shot(page, "viewer")
    before = world.call("GET", "/dags/~/dagRuns")["total_entries"]
    refused = [asks_by_hand(page, world, path, method, body)[0] for method, path, body in changes()]
    assert refused == [403] * 4
    assert world.call("GET", "/dags/~/dagRuns")["total_entries"] == before


def test_somebody_without_rights_sees_no_data_and_changes_nothing(
    world: World, logged_in: Callable[[str], Page], batches: dict[str, int]
) -> None:
    page = logged_in(LIMITED)
    page.go(f"{world.airflow.address}/plugin/offset-ledger")
    in_ledger(page)
    page.wait_for_text("There is no pipeline that you may see.")
    assert page.run("d.querySelectorAll('button').length") == 0
    assert "flights" not in page.text()
    shot(page, "without-rights")
    site, committed = "/offset-ledger", batches["committed"]
    assert asks_by_hand(page, world, f"{site}/api/pipelines") == (200, {"problems": [], "pipelines": []})
    hidden = (
        "/api/pipelines/flights",
        f"/api/pipelines/flights/batches/{committed}",
        f"/reports/flights/{committed}.html",
    )
    assert [asks_by_hand(page, world, site + path)[0] for path in hidden] == [404] * 3
    before = world.call("GET", "/dags/~/dagRuns")["total_entries"]
    refused = [asks_by_hand(page, world, path, method, body)[0] for method, path, body in changes()]
    assert refused == [403] * 4
    assert world.call("GET", "/dags/~/dagRuns")["total_entries"] == before
    page.go(f"{world.airflow.address}/required_actions")
    page.wait_for_text("No Required Actions found")
    page.errors = [error for error in page.errors if not any(path in error for path in hidden)]

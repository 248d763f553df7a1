"""The ledger page through the real Airflow UI in Chromium: what an admin does with it, and what others cannot."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import FrameLocator, Locator, Page, expect

from offset_ledger.model.balance_sheet import Dispositions
from offset_ledger.operations.repair.verify import verify
from offset_ledger_kit.sandbox.airflow import USER, VIEWER
from offset_ledger_kit.sandbox.java import find_java
from tests.fixtures.airflow_world import World
from tests.fixtures.java_clients import JavaClients
from tests.ui.airflow_ui import ask_by_hand, cells, confirmed, ours, rows_of, says, shot, shown_run, theme
from tests.ui.conftest import FIRST, LIMITED

pytestmark = pytest.mark.timeout(600)
DAG = "ingest_flights"
SHEET = Dispositions.__dataclass_fields__
DAY = timedelta(days=1)
LATE = "that came late; a full scan"
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


def open_pipeline(page: Page, world: World, name: str = "flights") -> FrameLocator:
    page.goto(f"{world.airflow.address}/plugin/offset-ledger")
    ledger = ours(page)
    ledger.locator("a.name", has_text=name).click()
    says(ledger, "Partitions")
    return ledger


def opened(ledger: FrameLocator, key: str) -> Locator:
    """The dialog behind a button."""
    ledger.locator(f'button[data-key="{key}"]').click()
    return ledger.get_by_role("dialog")


def test_an_admin_sees_ledger_balance_sheet_and_report(
    world: World, logged_in: Callable[[str], Page], batches: dict[str, int]
) -> None:
    page = logged_in(USER)
    page.locator('a[href$="plugin/offset-ledger"]').click()
    ledger = ours(page)
    says(ledger, "strict")
    shot(page, "pipelines")
    ledger.locator("a.name", has_text="flights").click()
    said = says(ledger, f"The quality gate rejected batch {batches['rejected']}")
    assert "no estimate records dated 2013-01" in said.replace("\n", " ")
    shot(page, "navigation")
    expect(page).to_have_url(re.compile("#flights$"))  # Airflow's own address, which a reload follows
    page.reload()
    says(ledger, f"The quality gate rejected batch {batches['rejected']}")

    committed = batches["committed"]
    ledger.locator(f'button[data-key="batch-{committed}"]').click()
    unfolded = ledger.locator(".unfolded")
    shown = [
        row[:-1] for row in cells(unfolded.get_by_role("region", name="Ranges").locator("tr"))
    ]  # the bar has no words
    unfolded.evaluate("(e) => e.scrollIntoView({block: 'end'})")
    shot(page, "balance-sheet")
    names = [name for name in shown[0] if name in SHEET]
    sheet = (
        "SELECT format('%%s:[%%s, %%s)', partition, from_offset, until_offset), until_offset - from_offset, {}"
        " FROM offset_ledger.batch_range WHERE batch_id = %s ORDER BY partition"
    )
    kept = [list(map(str, row)) for row in rows_of(world, sheet.format(", ".join(names)), committed)]
    assert shown[1:] == kept
    assert all(sum(map(int, row[2:])) == int(row[1]) for row in kept)

    report = opened(ledger, f"report-{committed}")
    says(report.locator("iframe").content_frame, f"Batch {committed}")
    shot(page, "report")
    report.get_by_role("button", name="Close").click()


def test_an_admin_replays_redrives_and_approves_with_the_buttons(
    world: World, logged_in: Callable[[str], Page], batches: dict[str, int]
) -> None:
    rows = "SELECT xmin::text, f::text FROM public.flights f ORDER BY event_id"
    before, rejected = world.rows(rows), batches["rejected"]
    page = logged_in(USER)
    ledger = open_pipeline(page, world)
    replay = opened(ledger, "Replay…")
    replay.locator('select[name="by"]').select_option("offset ranges")
    replay.locator('textarea[name="ranges"]').fill("0:0-10")
    replay.locator('input[name="why"]').fill(LOOK)
    shot(page, "replay")
    replay.get_by_role("button", name="Replay").click()
    replayed = confirmed(replay)
    expected = {"action": "ranges", "ranges": "0:0-10", "dry_run": False, "why": LOOK}
    assert expected.items() <= conf_of(world, DAG, "action", "ranges").items()

    redrive = opened(ledger, "Redrive…")
    codes = world.rows("SELECT DISTINCT r ->> 'code' FROM offset_ledger.quarantine, jsonb_array_elements(reasons) AS r")
    expect(redrive).to_contain_text(f"in quarantine: {', '.join(sorted(code for (code,) in codes))}")
    redrive.locator('input[name="why"]').fill(LOOK)
    redrive.get_by_role("button", name="Redrive").click()
    redriven = confirmed(redrive)
    assert conf_of(world, "redrive_flights", "why", LOOK)["limit"] is None

    approve = opened(ledger, "notice-approve")
    button = approve.get_by_role("button", name="Approve")
    button.click()
    expect(approve.locator("textarea:invalid")).to_be_visible()  # not without a why
    approve.locator('textarea[name="why"]').fill("the data are good enough")
    colours = "(b) => [getComputedStyle(b).backgroundColor, getComputedStyle(b).borderTopColor]"
    ground, border = approve.locator("button.primary:hover").evaluate(colours)
    assert ground == border  # else its white words stand on white
    shot(page, "approve")
    button.click()
    approved = confirmed(approve)

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
    says(ledger, "up to date")
    expect(ledger.locator("tbody .chip", has_text=re.compile("^approved$"))).to_have_count(1)
    shot(page, "after")


def test_an_admin_dismisses_a_record_and_takes_it_back(world: World, logged_in: Callable[[str], Page]) -> None:
    page = logged_in(USER)
    ledger = open_pipeline(page, world)
    ledger.get_by_role("link", name="Quarantine").click()
    decided = "SELECT undone, who, why FROM offset_ledger.dismissal WHERE pipeline = %s ORDER BY dismissal_id"
    expected = []
    for state, button, why in (
        ("unresolved", "Dismiss…", "a test record"),
        ("dismissed", "Undo dismissal…", "it is one"),
    ):
        ledger.get_by_label("State").select_option(state)
        expect(ledger.locator(".unfolded")).to_have_count(0)  # of another state
        if expected:
            expect(ledger.locator("tbody button.toggle")).to_have_count(1)  # the list before had more
        ledger.locator("tbody button.toggle").first.click()
        expect(ledger.locator(".unfolded .chip")).to_have_text(state)
        ledger.locator(".unfolded").get_by_role("button", name=button).click()
        dialog = ledger.get_by_role("dialog")
        dialog.locator('textarea[name="why"]').fill(why)
        shot(page, f"decide-{state}")
        dialog.get_by_role("button", name=button.removesuffix("…")).click()
        run_id = confirmed(dialog)
        assert world.ended("redrive_flights", run_id) == "success"
        assert world.tasks("redrive_flights", run_id)["commit"] == "skipped"
        expected.append((state == "dismissed", USER, why))
        assert rows_of(world, decided, "flights") == expected
    dismissed = "SELECT count(*) FROM offset_ledger.quarantine WHERE dismissed_by IS NOT NULL"
    assert rows_of(world, dismissed) == [(0,)]


def test_an_admin_replays_a_window_with_the_records_that_came_late(
    world: World, logged_in: Callable[[str], Page]
) -> None:
    page = logged_in(USER)
    ledger = open_pipeline(page, world, "belated")
    queued = {}
    for scan in (False, True):
        replay = opened(ledger, "Replay…")
        replay.locator('select[name="by"]').select_option("offset ranges")
        expect(replay.get_by_label("full scan")).to_be_hidden()  # of a window only
        replay.locator('select[name="by"]').select_option("record timestamps")
        replay.locator('input[name="since"]').fill(f"{FIRST:%Y-%m-%dT%H:%M:%S}")
        replay.locator('input[name="until"]').fill(f"{FIRST + DAY:%Y-%m-%dT%H:%M:%S}")
        replay.get_by_label("full scan").set_checked(scan)
        replay.get_by_label("dry run").check()
        shot(page, f"replay-window-{'whole' if scan else 'plain'}")
        replay.get_by_role("button", name="Replay").click()
        queued[scan] = confirmed(replay)
    for scan, run_id in queued.items():
        assert world.ended("belated", run_id) == "success"
        conf = world.call("GET", world.run("belated", run_id))["conf"]
        times = {"since": "2026-03-01T00:00:00.000Z", "until": "2026-03-02T00:00:00.000Z"}
        assert conf == {"action": "window", **times, "scan": scan, "fill": False, "dry_run": True}
    plain, whole = (world.log("belated", queued[scan], "plan") for scan in (False, True))
    line = r"dry run of a backfill batch.*\b0 +0 +{until} +{until} +{until} "
    assert (bool(re.search(line.format(until=2), plain)), LATE in plain) == (True, True)
    assert (bool(re.search(line.format(until=4), whole)), LATE in whole) == (True, False)


def test_a_dag_and_a_run_have_their_tab_and_it_follows_dark(world: World, logged_in: Callable[[str], Page]) -> None:
    run_id = world.trigger("flights")
    page = logged_in(USER)
    page.goto(f"{world.airflow.address}/dags/{DAG}")
    page.locator('a[href*="plugin/offset-ledger-dag"]', has_text="Ledger").click()
    ledger = ours(page)
    says(ledger, "Partitions")
    theme(page, "dark")
    expect(ledger.locator("html")).to_have_attribute("data-theme", "dark")
    shot(page, "tab")
    page.goto(f"{world.airflow.address}/dags/{DAG}/runs/{run_id}")
    page.locator('a[href*="plugin/offset-ledger-run"]', has_text="Ledger").click()
    says(ours(page), "Batches of this run")


def test_a_link_to_a_run_leads_airflow_itself_there(world: World, logged_in: Callable[[str], Page]) -> None:
    page = logged_in(USER)
    replay = opened(open_pipeline(page, world), "Replay…")
    replay.locator('select[name="by"]').select_option("offset ranges")
    replay.locator('textarea[name="ranges"]').fill("0:0-1")
    replay.locator('input[name="dry_run"]').check()
    replay.get_by_role("button", name="Replay").click()
    link = replay.locator(".message.good a")
    run_id = link.inner_text()
    link.click()
    assert shown_run(page, DAG) == run_id


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


def refusals(page: Page, world: World) -> list[int]:
    """What the server answers to each of them."""
    return [ask_by_hand(page, world.airflow.address + path, method, body)[0] for method, path, body in changes()]


def test_a_viewer_changes_nothing(world: World, logged_in: Callable[[str], Page]) -> None:
    page = logged_in(VIEWER)
    ledger = open_pipeline(page, world)
    says(ledger, f"you may not trigger {DAG}")
    buttons = ledger.get_by_role("button", name=re.compile("…$"))
    expect(buttons.first).to_be_visible()
    expect(buttons.and_(ledger.locator(":enabled"))).to_have_count(0)
    shot(page, "viewer")
    before = world.call("GET", "/dags/~/dagRuns")["total_entries"]
    assert refusals(page, world) == [403] * 4
    assert world.call("GET", "/dags/~/dagRuns")["total_entries"] == before


def test_a_user_without_rights_sees_no_data_and_changes_nothing(
    world: World, logged_in: Callable[[str], Page], batches: dict[str, int]
) -> None:
    page = logged_in(LIMITED)
    page.goto(f"{world.airflow.address}/plugin/offset-ledger")
    ledger = ours(page)
    assert "flights" not in says(ledger, "There is no pipeline that you may see.")
    expect(ledger.get_by_role("button")).to_have_count(0)
    shot(page, "without-rights")
    site, committed = f"{world.airflow.address}/offset-ledger", batches["committed"]
    assert ask_by_hand(page, f"{site}/api/pipelines") == (200, {"problems": [], "pipelines": []})
    hidden = (
        "/api/pipelines/flights",
        f"/api/pipelines/flights/batches/{committed}",
        f"/reports/flights/{committed}.html",
    )
    assert [ask_by_hand(page, site + path)[0] for path in hidden] == [404] * 3
    before = world.call("GET", "/dags/~/dagRuns")["total_entries"]
    assert refusals(page, world) == [403] * 4
    assert world.call("GET", "/dags/~/dagRuns")["total_entries"] == before
    page.goto(f"{world.airflow.address}/required_actions")
    says(page, "No Required Actions found")

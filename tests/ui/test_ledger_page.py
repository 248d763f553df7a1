"""The ledger page through the real Airflow UI in Chromium: what an admin does with it, and what a viewer cannot."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.demo.run import SEED, TOPIC
from offset_ledger.errors import BatchRejected
from offset_ledger.ledger.batches import Origin
from offset_ledger.ledger.database import connect, rows
from offset_ledger.ledger.migrate import migrate
from offset_ledger.local import stack as local
from offset_ledger.local.airflow import USER, VIEWER
from offset_ledger.local.layout import PortChoice
from offset_ledger.local.stack import Stack
from offset_ledger.pipeline.parse import parse_pipeline
from offset_ledger.publishing.feed import publish_flights
from offset_ledger.publishing.producer import publish
from offset_ledger.publishing.record import Record
from offset_ledger.steps.ingest import ingest
from tests.ui.browser import Page, chromium, wait_until

pytestmark = [pytest.mark.ui, pytest.mark.timeout(600)]
ROOT = Path(__file__).resolve().parents[2]
DAG = "ingest_flights"
FRAME = 'iframe[title="Ledger"]'


@dataclass(frozen=True)
class Bench:
    """A stack whose ledger has one committed batch and one that the gate rejected."""

    stack: Stack
    committed: int
    rejected: int

    def call(self, method: str, path: str, body: object = None, user: str = USER) -> tuple[int, Any]:
        return self.stack.airflow.request(method, f"/api/v2{path}", body, self.stack.airflow.token(user))

    def conf_of(self, action: str) -> dict[str, Any]:
        """The conf of the one run that asks for this action."""
        runs = self.call("GET", f"/dags/{DAG}/dagRuns?limit=100")[1]["dag_runs"]
        (conf,) = [run["conf"] for run in runs if (run["conf"] or {}).get("action") == action]
        return dict(conf)

    def takes_actions(self) -> bool:
        """Whether the DAG has the parameters that the buttons fill."""
        return "action" in self.call("GET", f"/dags/{DAG}/details")[1]["params"]

    def state(self, batch_id: int) -> str:
        with connect(self.stack.postgres.connection()) as session:
            return str(rows(session, "SELECT state FROM offset_ledger.batch WHERE batch_id = %s", [batch_id])[0][0])


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    home = Path(tempfile.mkdtemp(prefix="offset-ledger-"))
    before = dict(os.environ)
    stack = local.up(brokers=1, airflow=True, ports=PortChoice.any_free(), home=home, project=ROOT)
    # Airflow's settings stay out of this process: it talks to the stack as the command line does.
    os.environ.update({k: v for k, v in stack.environment().items() if not k.startswith("AIRFLOW__")})
    try:
        yield _filled(stack)
    finally:
        os.environ.clear()
        os.environ.update(before)
        local.down(home)
        shutil.rmtree(home)


def _filled(stack: Stack) -> Bench:
    with connect(stack.postgres.connection()) as session:
        migrate(session)
    kafka = dict(stack.connections()[0].extra)
    publish_flights(kafka, TOPIC, SEED, 1000, replication_factor=1)
    pipeline = parse_pipeline(ROOT / "dags" / "pipelines" / "flights.yaml")
    me = Origin("ui test")
    committed = [each.committed.batch.batch_id for each in ingest(pipeline, me, True, print)]
    publish([Record(uuid.uuid4().bytes, b"no JSON") for _ in range(50)], kafka, TOPIC)
    with pytest.raises(BatchRejected):
        list(ingest(pipeline, me, True, print))
    bench = Bench(stack, committed[0], committed[-1] + 1)
    wait_until(lambda: bench.call("GET", f"/dags/{DAG}")[0] == 200, "the DAG should be parsed", 120)
    assert bench.call("PATCH", f"/dags/{DAG}", {"is_paused": False})[0] == 200
    return bench


@pytest.fixture
def logged_in(bench: Bench) -> Iterator[Callable[[str], Page]]:
    with chromium() as page:

        def login(user: str) -> Page:
            page.size(1400, 900)
            page.go(bench.stack.airflow.address)
            page.type('input[name="username"]', user)
            page.type('input[name="password"]', bench.stack.airflow.password(user))
            page.click('button[type="submit"]')
            page.wait_for_text("Dags")
            return page

        yield login
        assert [error for error in page.errors if "/offset-ledger/" in error] == []


def shot(page: Page, name: str) -> None:
    """A picture, if ``$OFFSET_LEDGER_SHOTS`` says where to."""
    if folder := os.environ.get("OFFSET_LEDGER_SHOTS"):
        page.shot(Path(folder) / f"{name}.png")


def in_frame(page: Page) -> None:
    """Go on inside the ledger page's frame, once it has read the ledger."""
    page.frames = ()
    page.wait("d.querySelector(frame)", FRAME, frame=FRAME)
    page.frames = (FRAME,)
    page.wait_for_text("reads itself again")


def triggered(page: Page) -> None:
    """Return once the open dialog says that a run is queued, and close it."""
    page.wait("d.querySelector('dialog .told.good')?.textContent.startsWith('Queued as')", "the queued run")
    page.click("dialog button", "Close")


def test_an_admin_finds_the_ledger_replays_approves_and_reads_a_report(
    bench: Bench, logged_in: Callable[[str], Page]
) -> None:
    page = logged_in(USER)
    page.click('a[href$="plugin/offset-ledger"]')
    in_frame(page)
    page.wait_for_text(f"The quality gate rejected batch {bench.rejected}")
    assert "inserted" in page.text()
    shot(page, "navigation")

    page.click(f'button[data-key="report-{bench.committed}"]')
    page.frames = (FRAME, "dialog iframe")
    page.wait_for_text(f"Batch {bench.committed}")
    shot(page, "report")
    page.frames = (FRAME,)
    page.click("dialog button", "Close")

    page.click('button[data-key="Replay…"]')
    page.type('textarea[name="ranges"]', "0:0-10")
    page.type('input[name="why"]', "a look through the UI")
    shot(page, "replay")
    page.click("dialog button", "Replay")
    triggered(page)
    expected = {"action": "ranges", "ranges": "0:0-10", "dry_run": False, "why": "a look through the UI"}
    assert expected.items() <= bench.conf_of("ranges").items()

    page.click('button[data-key="notice-approve"]')
    page.click("dialog button", "Approve")
    assert page.run("d.querySelector('dialog textarea:invalid') !== null")  # not without a why
    page.type('textarea[name="why"]', "the data are good enough")
    page.click("dialog button", "Approve")
    triggered(page)
    assert bench.conf_of("approve").items() >= {"batch_id": bench.rejected, "why": "the data are good enough"}.items()
    if bench.takes_actions():
        decided = ("validated", "committed")
        wait_until(lambda: bench.state(bench.rejected) in decided, "the approved batch should go on", 180)


def test_a_dag_and_a_run_have_their_tab_and_it_follows_dark(bench: Bench, logged_in: Callable[[str], Page]) -> None:
    run_id = bench.call("POST", f"/dags/{DAG}/dagRuns", {"logical_date": None, "conf": {}})[1]["dag_run_id"]
    page = logged_in(USER)
    page.go(f"{bench.stack.airflow.address}/dags/{DAG}")
    page.click('a[href*="plugin/offset-ledger-dag"]', "Ledger")
    in_frame(page)
    page.wait_for_text("Partitions")
    page.frames = ()
    page.run("localStorage.setItem('theme', 'dark')")
    page.run("w.dispatchEvent(new StorageEvent('storage', {key: 'theme', newValue: 'dark'}))")
    page.frames = (FRAME,)
    page.wait("d.documentElement.dataset.theme === 'dark'", "the page in dark")
    shot(page, "tab-dark")
    page.go(f"{bench.stack.airflow.address}/dags/{DAG}/runs/{run_id}")
    page.click('a[href*="plugin/offset-ledger-run"]', "Ledger")
    in_frame(page)
    page.wait_for_text("Batches of this run")


def test_a_link_to_a_run_leads_airflow_itself_there(bench: Bench, logged_in: Callable[[str], Page]) -> None:
    page = logged_in(USER)
    page.go(f"{bench.stack.airflow.address}/plugin/offset-ledger")
    in_frame(page)
    page.click('button[data-key="Replay…"]')
    page.type('textarea[name="ranges"]', "0:0-1")
    page.click("dialog button", "Replay")
    page.wait("d.querySelector('dialog .told.good')", "the queued run")
    run_id = page.run("d.querySelector('dialog .told a').textContent")
    page.click("dialog .told a")
    page.frames = ()
    page.wait("decodeURIComponent(w.location.pathname).startsWith(path)", "the run", path=f"/dags/{DAG}/runs/{run_id}")


def test_a_viewer_sees_and_changes_nothing(bench: Bench, logged_in: Callable[[str], Page]) -> None:
    page = logged_in(VIEWER)
    page.go(f"{bench.stack.airflow.address}/plugin/offset-ledger")
    in_frame(page)
    page.wait_for_text(f"you may not trigger {DAG}")
    assert page.run(
        "[...d.querySelectorAll('button')].filter((b) => /…$/.test(b.textContent)).every((b) => b.disabled)"
    )
    shot(page, "viewer")
    before = bench.call("GET", f"/dags/{DAG}/dagRuns")[1]["total_entries"]
    how = "{method: 'POST', headers: {'Content-Type': 'application/json'}, body}"
    refused = page.run(
        f"fetch(path, {how}).then((answer) => answer.status)",
        path=f"{bench.stack.airflow.address}/api/v2/dags/{DAG}/dagRuns",
        body='{"logical_date": null, "conf": {"action": "abandon", "batch_id": 1, "why": "x"}}',
    )
    assert refused == 403
    assert bench.call("GET", f"/dags/{DAG}/dagRuns")[1]["total_entries"] == before

"""The page of the audits through the real Airflow UI in Chromium: what an admin does, and what a viewer cannot."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.ledger.database import connect, rows
from offset_ledger.ledger.migrate import migrate
from offset_ledger.local import stack as local
from offset_ledger.local.airflow import USER, VIEWER
from offset_ledger.local.layout import PortChoice
from offset_ledger.local.stack import Stack
from offset_ledger.reliability.publishing.topics import create_topic
from tests.fixtures.audited import audited
from tests.paths import ROOT
from tests.ui.airflow_ui import log_in
from tests.ui.browser import Page, chromium, wait_until

pytestmark = [pytest.mark.ui, pytest.mark.timeout(600)]
DAG, TOPIC = "audit_topics", "flights.events"
FRAME = 'iframe[title="Topic audit"]'
# Rules of the rows of a table, but for those that are gone since the audit before.
SEEN = (
    "[...d.querySelectorAll(`section > .card > ${table} > tbody > tr`)]"
    ".filter((r) => r.querySelector('.chip')?.textContent !== 'gone').map((r) => r.querySelector('b').textContent)"
)
# A daily run may have come before the one of the button: then it is the one that found it gone.
GONE = "[...d.querySelectorAll('.past > tbody > tr')].filter((r) => /gone.*compaction/.test(r.textContent)).length"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """An Airflow whose pipeline flights was audited two days ago."""
    home = Path(tempfile.mkdtemp(prefix="offset-ledger-"))
    made = local.up(brokers=1, airflow=True, ports=PortChoice.any_free(), home=home, project=ROOT)
    try:
        with connect(made.postgres.connection()) as session:
            migrate(session)
            then = {"both-retentions": "ok", "replication-factor": "warning", "compaction": "error"}
            audited(session, "flights", TOPIC, datetime.now(UTC) - timedelta(days=2), then)
        create_topic(dict(made.connections()[0].extra), TOPIC, 2, 1, {"retention.bytes": "1000000000"})
        wait_until(lambda: call(made, "GET", f"/dags/{DAG}")[0] == 200, "the DAG should be parsed", 120)
        assert call(made, "PATCH", f"/dags/{DAG}", {"is_paused": False})[0] == 200
        yield made
    finally:
        local.down(home)
        shutil.rmtree(home)


def call(stack: Stack, method: str, path: str, body: object = None) -> tuple[int, Any]:
    return stack.airflow.request(method, f"/api/v2{path}", body, stack.airflow.token())


@pytest.fixture
def logged_in(stack: Stack) -> Iterator[Callable[[str], Page]]:
    with chromium() as page:

        def login(user: str) -> Page:
            page.size(1400, 1000)
            log_in(page, stack.airflow, user)
            return page

        yield login
        assert [error for error in page.errors if "/offset-ledger/" in error] == []


def in_frame(page: Page) -> None:
    page.frames = ()
    page.wait("d.querySelector(frame)", FRAME, frame=FRAME)
    page.frames = (FRAME,)
    page.wait_for_text("reads itself again")


def shot(page: Page, name: str) -> None:
    """A picture, if ``$OFFSET_LEDGER_SHOTS`` says where to."""
    if folder := os.environ.get("OFFSET_LEDGER_SHOTS"):
        page.shot(Path(folder) / f"{name}.png")


def kept(stack: Stack, run_id: str) -> dict[str, str]:
    """What the run's audit said, by rule."""
    query = "SELECT rule, severity FROM offset_ledger.topic_audit WHERE dag_id = %s AND run_id = %s"
    with connect(stack.postgres.connection()) as session:
        return dict(rows(session, query, [DAG, run_id]))


def test_an_admin_has_the_topics_audited_and_sees_what_was_found(
    stack: Stack, logged_in: Callable[[str], Page]
) -> None:
    page = logged_in(USER)
    page.click('a[href$="plugin/offset-ledger-audit"]')
    in_frame(page)
    page.click("button", "Audit now")
    page.click("dialog button", "Audit")
    page.wait("d.querySelector('dialog .told.good')?.textContent.startsWith('Queued as')", "the queued run")
    run_id = str(page.run("d.querySelector('dialog .told a').textContent"))
    page.click("dialog button", "Close")
    link = "[...d.querySelectorAll('a[title]')].find((a) => a.title === title)"
    page.wait(link, "the run's audit", 240, title=f"{DAG} {run_id}")

    said = kept(stack, run_id)
    broken = {rule for rule, severity in said.items() if severity != "ok"}
    assert {"both-retentions", "replication-factor"} <= broken
    assert set(page.run(SEEN, table=".findings")) == broken
    assert set(page.run(SEEN, table=".passed")) == set(said) - broken
    assert page.run(GONE) == 1
    assert page.run("d.querySelectorAll('.command button').length") == len(broken)
    shot(page, "audit")
    page.click(f'a[title="{DAG} {run_id}"]')
    page.frames = ()
    page.wait("decodeURIComponent(w.location.pathname).startsWith(path)", "the run", path=f"/dags/{DAG}/runs/{run_id}")


def test_a_viewer_looks_and_audits_nothing(stack: Stack, logged_in: Callable[[str], Page]) -> None:
    page = logged_in(VIEWER)
    page.go(f"{stack.airflow.address}/plugin/offset-ledger-audit")
    in_frame(page)
    page.wait_for_text(f"you may not trigger {DAG}")
    assert page.run("d.querySelector('[data-key=audit-now]').disabled")
    how = "{method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{\"logical_date\": null}'}"
    path = f"{stack.airflow.address}/api/v2/dags/{DAG}/dagRuns"
    assert page.run(f"fetch(path, {how}).then((answer) => answer.status)", path=path) == 403

"""The page of the audits through the real Airflow UI in Chromium: what an admin does, and what a viewer cannot."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import FrameLocator, Page, expect

from offset_ledger.postgres.ledger.database import connect, migrate, rows
from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox import stack as local
from offset_ledger_kit.sandbox.airflow import USER, VIEWER
from offset_ledger_kit.sandbox.layout import PortChoice
from offset_ledger_kit.sandbox.stack import SparkKind, Stack
from tests.fixtures.airflow_world import until
from tests.fixtures.audited import audited
from tests.paths import ROOT
from tests.ui.airflow_ui import ask_by_hand, confirmed, log_in, ours, says, shot, shown_run

pytestmark = pytest.mark.timeout(600)
DAG, TOPIC = "audit_topics", "flights.events"
TITLE = "Topic audit"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """An Airflow whose pipeline flights was audited two days ago."""
    home = Path(tempfile.mkdtemp(prefix="offset-ledger-"))
    ports = PortChoice.any_free()
    made = local.up(brokers=1, airflow=True, ports=ports, home=home, project=ROOT, spark=SparkKind.NONE)
    try:
        with connect(made.postgres.connection()) as session:
            migrate(session)
            then = {"both-retentions": "ok", "replication-factor": "warning", "compaction": "error"}
            audited(session, "flights", TOPIC, datetime.now(UTC) - timedelta(days=2), then)
        create_topic(dict(made.connections()[0].extra), TOPIC, 2, 1, {"retention.bytes": "1000000000"})
        until(lambda: call(made, "GET", f"/dags/{DAG}")[0] == 200, "the DAG")
        assert call(made, "PATCH", f"/dags/{DAG}", {"is_paused": False})[0] == 200
        yield made
    finally:
        local.down(home)
        shutil.rmtree(home)


def call(stack: Stack, method: str, path: str, body: object = None) -> tuple[int, Any]:
    return stack.airflow.request(method, f"/api/v2{path}", body, stack.airflow.token())


@pytest.fixture
def logged_in(stack: Stack, page: Page) -> Callable[[str], Page]:
    def login(user: str) -> Page:
        page.set_viewport_size({"width": 1400, "height": 1000})
        log_in(page, stack.airflow, user)
        return page

    return login


def kept(stack: Stack, run_id: str) -> dict[str, str]:
    """What the run's audit said, by rule."""
    query = "SELECT rule, severity FROM offset_ledger.topic_audit WHERE dag_id = %s AND run_id = %s"
    with connect(stack.postgres.connection()) as session:
        return dict(rows(session, query, [DAG, run_id]))


def rules(audits: FrameLocator, table: str) -> set[str]:
    """The rules of the rows of a table, but for those that are gone since the previous audit."""
    gone = audits.locator(".chip", has_text=re.compile("^gone$"))
    places = ("section > .card", "section > details > .card")
    rows = audits.locator(", ".join(f"{place} > {table} > tbody > tr" for place in places)).filter(has_not=gone)
    return set(rows.evaluate_all("rows => rows.map((r) => r.querySelector('b').textContent)"))


def test_an_admin_has_the_topics_audited_and_sees_what_was_found(
    stack: Stack, logged_in: Callable[[str], Page]
) -> None:
    page = logged_in(USER)
    page.locator('a[href$="plugin/offset-ledger-audit"]').click()
    audits = ours(page, TITLE)
    audits.get_by_role("button", name="Audit now").click()
    dialog = audits.get_by_role("dialog")
    dialog.get_by_role("button", name="Audit").click()
    run_id = confirmed(dialog)
    link = audits.locator(f'a[title="{DAG} {run_id}"]').first
    expect(link).to_be_visible(timeout=240_000)

    said = kept(stack, run_id)
    broken = {rule for rule, severity in said.items() if severity != "ok"}
    assert {"both-retentions", "replication-factor"} <= broken
    assert rules(audits, ".findings") == broken
    assert rules(audits, ".passed") == set(said) - broken
    # A daily run may have come before the one of the button: then it is the one that found it gone.
    expect(audits.locator(".past > tbody > tr", has_text=re.compile("gone.*compaction"))).to_have_count(1)
    expect(audits.locator(".command button")).to_have_count(len(broken))
    shot(page, "audit")
    link.click()
    assert shown_run(page, DAG) == run_id


def test_a_viewer_can_read_and_cannot_audit(stack: Stack, logged_in: Callable[[str], Page]) -> None:
    page = logged_in(VIEWER)
    page.goto(f"{stack.airflow.address}/plugin/offset-ledger-audit")
    audits = ours(page, TITLE)
    says(audits, f"you may not trigger {DAG}")
    expect(audits.locator("[data-key=audit-now]")).to_be_disabled()
    runs = f"{stack.airflow.address}/api/v2/dags/{DAG}/dagRuns"
    assert ask_by_hand(page, runs, "POST", {"logical_date": None})[0] == 403

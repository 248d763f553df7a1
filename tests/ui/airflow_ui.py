"""What a person does in Airflow's own pages: trigger form, backfill form, Required Actions, and the tab Ledger."""

from __future__ import annotations

import os
import re
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from playwright.sync_api import FrameLocator, Locator, Page, expect

from offset_ledger.postgres.ledger.database import connect, rows
from offset_ledger_kit.sandbox.airflow import Airflow
from tests.fixtures.airflow_world import World

FIRST_READ = "refreshes every"  # in the footer of our pages, once they have read something


def log_in(page: Page, airflow: Airflow, user: str) -> None:
    """Log in as a person does, up to Airflow's first page."""
    page.goto(airflow.address)
    page.locator('input[name="username"]').fill(user)
    page.locator('input[name="password"]').fill(airflow.password(user))
    page.locator('button[type="submit"]').click()
    says(page, "Dags")


def says(place: Page | FrameLocator, words: str) -> str:
    """Wait until the page has these words, and return all that it says."""
    body = place.locator("body")
    expect(body).to_contain_text(words, use_inner_text=True)
    return body.inner_text()


def cells(rows: Locator) -> list[list[str]]:
    """What the cells of these rows of a table say, once there are some."""
    expect(rows).not_to_have_count(0)
    return [list(row) for row in rows.evaluate_all("rows => rows.map((r) => [...r.cells].map((c) => c.innerText))")]


def rows_of(world: World, query: str, *arguments: object) -> list[tuple[Any, ...]]:
    """What the ledger or a table holds."""
    with connect(world.postgres) as session:
        return [tuple(row) for row in rows(session, query, arguments)]


def rest(page: Page) -> None:
    """Leave the page: one that follows a run draws all the time, and the run needs the processor."""
    page.goto("about:blank")


def theme(page: Page, name: str) -> None:
    """Let Airflow be ``dark`` or ``light``, as its own switch does."""
    change = "new StorageEvent('storage', {key: 'theme', newValue: name})"
    page.evaluate(f"(name) => {{ localStorage.setItem('theme', name); dispatchEvent({change}); }}", name)
    expect(page.locator("html")).to_contain_class(name)


def shot(page: Page, name: str) -> None:
    """A picture in light and one in dark, if ``$OFFSET_LEDGER_SHOTS`` says where to."""
    if folder := os.environ.get("OFFSET_LEDGER_SHOTS"):
        for each in ("dark", "light"):
            theme(page, each)
            page.screenshot(path=Path(folder) / f"{name}-{each}.png", animations="disabled")


def ask_by_hand(page: Page, address: str, method: str = "GET", body: object = None) -> tuple[int, Any]:
    """What the server answers to a request with the session of this page."""
    answer = page.request.fetch(address, method=method, data=body, headers={"Content-Type": "application/json"})
    return answer.status, answer.json() if answer.ok else None


def ours(page: Page, title: str = "Ledger") -> FrameLocator:
    """One of our pages, in its frame, once it has read what it shows."""
    frame = page.locator(f'iframe[title="{title}"]').last.content_frame
    says(frame, FIRST_READ)
    return frame


def run_tab(page: Page, world: World, pipeline: str, run_id: str) -> FrameLocator:
    """Open the tab Ledger of a run of an ingest DAG."""
    page.goto(f"{world.airflow.address}/dags/ingest_{pipeline}/runs/{run_id}")
    page.locator('a[href*="plugin/offset-ledger-run"]', has_text="Ledger").click()
    page.wait_for_url("**/plugin/**")
    return ours(page)


def shown_run(page: Page, dag_id: str) -> str:
    """The id of the run of this DAG whose page Airflow shows, once it shows one."""
    page.wait_for_url(f"**/dags/{dag_id}/runs/**")
    return unquote(urlsplit(page.url).path.split("/")[4])


class TriggerForm:
    """Airflow's dialog behind the button *Trigger* of a DAG."""

    def __init__(self, page: Page, world: World, dag_id: str) -> None:
        page.goto(f"{world.airflow.address}/dags/{dag_id}")
        page.get_by_test_id("trigger-dag-button").click()
        self._page, self._dag_id = page, dag_id
        self._dialog = page.get_by_role("dialog")
        self._form = page.get_by_test_id("config-form")
        expect(self._form).to_be_visible()

    def open(self, section: str) -> str:
        """Unfold a section of the parameters and return what it says."""
        head = self._form.locator('button[aria-controls][id*="trigger:"]', has_text=section)
        head.click()
        expect(head).to_have_attribute("data-state", "open")
        return head.locator("xpath=../..").inner_text()

    def choose(self, action: str) -> None:
        """Choose an action by the words that the form has for it."""
        self._form.get_by_role("combobox").click()
        self._page.keyboard.press("ArrowDown")
        self._page.get_by_role("option", name=action).click()

    def write(self, name: str, value: str) -> None:
        """Write into a field of the section that is open."""
        self._form.locator(f'[name="element_{name}"]').fill(value)

    def switch(self, name: str) -> None:
        """Turn a switch on."""
        self._form.locator(f'label[id="switch:element_{name}"]').click()
        expect(self._form.locator(f'input[name="element_{name}"]')).to_be_checked()

    def date(self, moment: datetime) -> None:
        """Put a date into the first field that has none."""
        fields = self._dialog.get_by_test_id("datetime-input")
        fields.filter(has_text="Select date", visible=True).first.click()
        time = self._page.get_by_placeholder("HH:mm").filter(visible=True)
        self._page.get_by_placeholder("YYYY/MM/DD").filter(visible=True).fill(f"{moment:%Y/%m/%d}")
        time.fill(f"{moment:%H:%M}")
        self._dialog.locator("h2").first.click()
        expect(fields.filter(has_text=f"{moment:%b %d, %Y %H:%M}")).not_to_have_count(0)
        expect(time).to_have_count(0)

    def submit(self) -> str:
        """Trigger, return the id of the run that Airflow then shows, and leave the page."""
        self._page.get_by_test_id("trigger-dag-submit").click()
        run_id = shown_run(self._page, self._dag_id)
        rest(self._page)
        return run_id

    def backfill(self) -> None:
        """Turn to the form of a backfill."""
        self._label("Run this Dag for a range of dates").click()
        says(self._page, "Reprocess Behavior")

    def reprocess(self, behaviour: str) -> None:
        """Choose what becomes of runs that exist, by the words that the form has for it."""
        self._label(behaviour).click()
        expect(self._label(behaviour)).to_have_attribute("data-state", "checked")

    def _label(self, words: str) -> Locator:
        return self._dialog.locator("label", has_text=words)

    def submit_backfill(self, runs: int, at_once: int) -> None:
        """Create the backfill once Airflow says that it has so many runs, and leave the page."""
        self._dialog.locator("input[name=max_active_runs]").fill(str(at_once))
        says(self._page, f"{runs} runs will be triggered.")
        self._dialog.get_by_role("button", name="Run Backfill").click()
        says(self._page, "Backfill jobs have been successfully triggered.")
        rest(self._page)


def open_question(page: Page, world: World, words: str) -> str:
    """Find a question in Required Actions, open it, and return what it says."""
    page.goto(f"{world.airflow.address}/required_actions")
    page.get_by_test_id("table-cell-subject").locator("a", has_text=words).click()
    expect(page.locator("[data-testid^=hitl-option-]").first).to_be_visible()
    return page.locator("body").inner_text()


def numbers(page: Page) -> dict[str, str]:
    """The numbers below the question that is open, by their names."""
    return dict(map(tuple, cells(page.locator("tbody tr"))))


def answer(page: Page, option: str, why: str) -> None:
    """Answer the question that is open, and leave the page."""
    page.locator("#element_why").fill(why)
    page.get_by_test_id(f"hitl-option-{option}").click()
    says(page, "Response received at")
    rest(page)


def plan_log(page: Page, world: World, dag_id: str, run_id: str, words: str) -> str:
    """The log of the task ``plan`` as Airflow shows it, once it has these words."""
    page.goto(f"{world.airflow.address}/dags/{dag_id}/runs/{run_id}/tasks/plan")
    return says(page, words)


def confirmed(dialog: Locator) -> str:
    """The run that the dialog of one of our pages says is queued; closes it."""
    expect(dialog.locator(".message.good")).to_have_text(re.compile("^Queued as"))
    run_id = dialog.locator(".message a").inner_text()
    dialog.get_by_role("button", name="Close").click()
    return run_id

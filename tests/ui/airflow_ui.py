"""What a person does in Airflow's own pages: trigger form, backfill form, Required Actions, and the tab Ledger."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from offset_ledger.ledger.database import connect, rows
from offset_ledger.local.airflow import Airflow
from tests.fixtures.airflow_world import World
from tests.ui.browser import NotShown, Page, wait_until

FRAME = 'iframe[title="Ledger"]'
_FORM = '[data-testid="config-form"]'
_DIALOG = "[role=dialog]"
_DATE = f'{_DIALOG} [data-testid="datetime-input"]'
_ENTER, _DOWN = ("Enter", 13), ("ArrowDown", 40)


def log_in(page: Page, airflow: Airflow, user: str) -> None:
    """Log in as a person does, up to Airflow's first page."""
    page.go(airflow.address)
    page.type('input[name="username"]', user)
    page.type('input[name="password"]', airflow.password(user))
    page.click('button[type="submit"]')
    page.wait_for_text("Dags")


def rows_of(world: World, query: str, *arguments: object) -> list[tuple[Any, ...]]:
    """What the ledger or a table holds."""
    with connect(world.postgres) as session:
        return [tuple(row) for row in rows(session, query, arguments)]


def shot(page: Page, name: str) -> None:
    """A picture in light and one in dark, if ``$OFFSET_LEDGER_SHOTS`` says where to."""
    folder = os.environ.get("OFFSET_LEDGER_SHOTS")
    if not folder:
        return
    frames, page.frames = page.frames, ()
    for theme in ("dark", "light"):
        page.theme(theme)
        page.shot(Path(folder) / f"{name}-{theme}.png")
    page.frames = frames


def in_ledger(page: Page) -> None:
    """Go on inside the ledger page's frame, once it has read the ledger."""
    page.frames = ()
    page.wait("d.querySelector(frame)", FRAME, frame=FRAME)
    page.frames = (FRAME,)
    page.wait_for_text("reads itself again")


def run_tab(page: Page, world: World, pipeline: str, run_id: str) -> None:
    """Open the tab Ledger of a run of an ingest DAG."""
    page.go(f"{world.airflow.address}/dags/ingest_{pipeline}/runs/{run_id}")

    def pressed() -> bool:
        page.press('a[href*="plugin/offset-ledger-run"]', "Ledger")
        try:
            return bool(page.wait("w.location.pathname.includes('/plugin/')", "the tab", 5))
        except NotShown:  # the head of a page that still loads may move the tab away under the mouse
            return False

    wait_until(pressed, "the tab Ledger should open")
    in_ledger(page)


class TriggerForm:
    """Airflow's dialog behind the button *Trigger* of a DAG."""

    def __init__(self, page: Page, world: World, dag_id: str) -> None:
        self._page = page
        page.go(f"{world.airflow.address}/dags/{dag_id}")
        page.press('[data-testid="trigger-dag-button"]')
        page.wait("d.querySelector(form)", "the form", form=_FORM)

    def open(self, section: str) -> str:
        """Unfold a section of the parameters and return what it says."""
        head = f'{_FORM} button[aria-controls][id*="trigger:"]'
        self._page.press(head, section)
        item = "[...d.querySelectorAll(head)].find((e) => e.textContent.includes(section))"
        self._page.wait(f"{item}?.dataset.state === 'open'", section, head=head, section=section)
        return str(self._page.run(f"{item}.parentElement.parentElement.innerText", head=head, section=section))

    def choose(self, action: str) -> None:
        """Choose an action by the words that the form has for it."""
        self._page.press(f"{_FORM} input[role=combobox]")
        self._page.key(*_DOWN)
        self._page.press("[role=option]", action)

    def write(self, name: str, value: str) -> None:
        """Write into a field of the section that is open."""
        self._page.type(f'{_FORM} [name="element_{name}"]', value)

    def switch(self, name: str) -> None:
        """Turn a switch on."""
        self._page.press(f'{_FORM} label[id="switch:element_{name}"]')
        self._page.wait("d.querySelector(box).checked", name, box=f'{_FORM} input[name="element_{name}"]')

    def date(self, moment: datetime) -> None:
        """Put a date into the first field that has none."""
        self._page.press(_DATE, "Select date")
        self._page.type('input[placeholder="YYYY/MM/DD"]', f"{moment:%Y/%m/%d}")
        self._page.type('input[placeholder="HH:mm"]', f"{moment:%H:%M}")
        self._page.press(f"{_DIALOG} h2")
        shown = f"{moment:%b %d, %Y %H:%M}"
        self._page.wait(
            "[...d.querySelectorAll(fields)].some((e) => e.textContent.includes(shown))",
            shown, fields=_DATE, shown=shown,
        )  # fmt: skip
        self._page.wait("[...d.querySelectorAll(open)].every((e) => !e.getClientRects().length)",
                        "the calendar to close", open='input[placeholder="HH:mm"]')  # fmt: skip

    def submit(self) -> str:
        """Trigger, return the id of the run that Airflow then shows, and leave the page."""
        self._page.press('[data-testid="trigger-dag-submit"]')
        run = "w.location.pathname.includes('/runs/') && w.location.pathname.split('/')[4]"
        run_id = unquote(str(self._page.wait(run, "the page of the new run")))
        self._page.rest()
        return run_id

    def backfill(self) -> None:
        """Turn to the form of a backfill."""
        self._page.press(f"{_DIALOG} label", "Run this Dag for a range of dates")
        self._page.wait_for_text("Reprocess Behavior")

    def reprocess(self, behaviour: str) -> None:
        """Choose what becomes of runs that exist, by the words that the form has for it."""
        self._page.press(f"{_DIALOG} label", behaviour)
        chosen = "[...d.querySelectorAll(labels)].find((e) => e.textContent.includes(text)).dataset.state === 'checked'"
        self._page.wait(chosen, behaviour, labels=f"{_DIALOG} label", text=behaviour)

    def submit_backfill(self, runs: int, at_once: int) -> None:
        """Create the backfill once Airflow says that it has so many runs, and leave the page."""
        self._page.type(f"{_DIALOG} input[name=max_active_runs]", str(at_once))
        self._page.wait_for_text(f"{runs} runs will be triggered.")
        self._page.press(f"{_DIALOG} button", "Run Backfill")
        self._page.wait_for_text("Backfill jobs have been successfully triggered.")
        self._page.rest()


def open_question(page: Page, world: World, words: str) -> str:
    """Find a question in Required Actions, open it, and return what it says."""
    page.go(f"{world.airflow.address}/required_actions")
    page.press('[data-testid="table-cell-subject"] a', words)
    page.wait("d.querySelector('[data-testid^=hitl-option-]')", "the answers")
    return page.text()


def answer(page: Page, option: str, why: str) -> None:
    """Answer the question that is open, and leave the page."""
    page.type("#element_why", why)
    page.press(f'[data-testid="hitl-option-{option}"]')
    page.wait_for_text("Response received at")
    page.rest()


def plan_log(page: Page, world: World, dag_id: str, run_id: str, words: str) -> str:
    """The log of the task ``plan`` as Airflow shows it, once it has these words."""
    page.go(f"{world.airflow.address}/dags/{dag_id}/runs/{run_id}/tasks/plan")
    page.wait_for_text(words)
    return page.text()

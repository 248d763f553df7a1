"""Every control of the pages does something, and every field of a dialog reaches Airflow."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

import pytest
from playwright.sync_api import ElementHandle, Locator, Page, Route, expect
from playwright.sync_api import Error as PlaywrightError

from tests.ui.alone.views import VIEWS, serious, shown, theme, unfold

pytestmark = pytest.mark.timeout(600)
# The visible controls that change something when they are pressed, by what they are; those of one kind have one name.
CONTROLS = """() => {
  const found = {};
  for (const e of document.querySelectorAll('button:enabled, a[href], select, input, textarea, summary')) {
    if (!e.checkVisibility() || e.matches('[aria-current], [aria-pressed=true]')) continue;
    const name = e.dataset.key ?? e.ariaLabel ?? e.textContent;
    found[`${e.tagName} ${name}`.replace(/\\d+|orders|events|bookings|refunds/g, '#')] ??= e;
  }
  return found;
}"""
# What shows that something happened; the page reads the same addresses again by itself.
STATE = """() => JSON.stringify([
  location.href, document.querySelectorAll('dialog').length, document.querySelectorAll('details[open]').length,
  document.querySelectorAll('main tr, main .heat').length,
  [...document.querySelectorAll('[aria-expanded=true], [aria-pressed=true]')].map((e) => e.dataset.key),
  [...document.querySelectorAll('main [data-key]')].map((e) => e.dataset.key),
  [...document.querySelectorAll('[data-key^=copy-]')].map((e) => e.textContent),
  new Set(performance.getEntriesByType('resource').map((e) => e.name)).size])"""
DEPTH = 3  # controls that are pressed one after the other
VALUES = {"ranges": "0:1-2", "since": "2026-03-01T00:00:00", "until": "2026-03-02T00:00:00", "limit": "7"}


@pytest.fixture
def triggered(open_page: Callable[..., Page]) -> tuple[Page, list[dict[str, object]]]:
    """A page whose Airflow is none: what the page sends to it is kept, and answered as Airflow does."""
    page, confs = open_page(), []

    def queue(route: Route) -> None:
        confs.append(json.loads(route.request.post_data or "")["conf"])
        route.fulfill(json={"dag_run_id": "manual__1"})

    page.route(re.compile("/api/v2/dags/[^/]+/dagRuns$"), queue)
    page.route(
        re.compile("/dags/"), lambda route: route.fallback() if "/api/" in route.request.url else route.fulfill()
    )
    return page, confs


def controls(page: Page) -> dict[str, ElementHandle]:
    found = page.evaluate_handle(CONTROLS).get_properties()
    return {name: element for name, handle in found.items() if (element := handle.as_element())}


def press(page: Page, name: str) -> None:
    """Press the control of that name; once more, if the page drew itself anew just then."""
    try:
        _press(controls(page)[name])
    except PlaywrightError as error:
        if "not attached to the DOM" not in str(error):
            raise
        _press(controls(page)[name])


def _press(element: ElementHandle) -> None:
    tag, kind = element.evaluate("e => [e.tagName, e.type]")
    if tag == "SELECT":
        element.select_option(index=element.evaluate("e => e.options.length") - 1)
    elif tag == "INPUT":
        element.fill(VALUES["since"] if kind == "datetime-local" else "book")
        element.dispatch_event("change")
    else:
        element.click()


def send(dialog: Locator, by: str | None, confs: list[dict[str, object]]) -> None:
    """Fill every field of the dialog and send it: each is in the conf of the run."""
    if by:
        dialog.locator('[name="by"]').select_option(by)
    names = set()
    for field in dialog.locator("input:visible, textarea:visible").all():
        names.add(name := field.get_attribute("name"))
        if field.get_attribute("type") == "checkbox":
            field.check()
        else:
            field.fill(VALUES.get(name or "", "words"))
    dialog.locator("button.primary").click()
    expect(dialog.locator(".message.good")).to_have_text("Queued as manual__1.")
    sent = {name for name, value in confs[-1].items() if value}
    assert names <= sent, confs[-1]
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)


def use(page: Page, again: Callable[[], None], confs: list[dict[str, object]]) -> None:
    """Use the open dialog: nobody finds a serious barrier in it, it can be left, and what it asks for is sent."""
    dialog = page.get_by_role("dialog")
    for name in ("dark", "light"):
        theme(page, name)
        assert serious(page) == {}
    before = len(confs)
    dialog.get_by_role("button", name=re.compile("^(Cancel|Close)$")).click()
    expect(dialog).to_have_count(0)
    assert len(confs) == before
    again()
    if dialog.locator("form").count():
        choices = dialog.locator('[name="by"] option').evaluate_all("all => all.map((o) => o.value)")
        for n, by in enumerate(choices or [None]):
            if n:
                again()
            send(dialog, by, confs)


def press_all(page: Page, path: Sequence[str]) -> None:
    """Press the controls of the path one after the other; each of them does something."""
    for n, name in enumerate(path):
        if n:
            read(page)
        before = page.evaluate(STATE)
        press(page, name)
        page.wait_for_function(f"before => ({STATE})() !== before", arg=before, timeout=20_000)


def place(page: Page) -> str:
    """What the page is about, without how it is filtered and what is open."""
    return page.url.split("?")[0]


def read(page: Page) -> None:
    """Wait until the page shows what was asked for last."""
    expect(page.locator("main")).not_to_have_attribute("aria-busy", "true")


@pytest.mark.parametrize("part", VIEWS, ids=lambda part: part or "overview")
def test_every_control_does_something(triggered: tuple[Page, list[dict[str, object]]], address: str, part: str) -> None:
    """Also those that appear only after another one was pressed, in the same view."""
    page, confs = triggered
    unfold(shown(page, address, part))
    view = place(page)
    known = list(controls(page))
    assert known
    paths = deque((name,) for name in known)
    while paths:
        path = paths.popleft()
        unfold(shown(page, address, part))
        press_all(page, path)
        if page.locator("dialog").count():
            use(page, partial(press, page, path[-1]), confs)
        elif place(page) == view and len(path) < DEPTH:
            read(page)
            appeared = [name for name in controls(page) if name not in known]
            known += appeared
            paths.extend((*path, name) for name in appeared)

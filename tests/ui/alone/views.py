"""What there is to see of the pages, and how to get there."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Route, expect

DESK, PHONE = {"width": 1400, "height": 900}, {"width": 390, "height": 844}
VIEWS = (
    "",
    "orders",
    "events",
    "bookings",
    "refunds",
    "orders/completeness",
    "events/completeness",
    "orders/quarantine",
    "audit",
    "audit#orders",
)


def shown(page: Page, address: str, part: str) -> Page:
    """The page at this part, once it has been read and its charts are drawn."""
    page.goto(f"{address}/{part}" if part.startswith("audit") else f"{address}/#{part}")
    page.reload()
    expect(page.locator("footer")).to_be_visible()
    if page.locator(".plot").count():
        expect(page.locator(".plot canvas").last).to_be_visible()
    return page


def unfold(page: Page) -> None:
    """Open the batch of the pipeline that has the most to show, and a quarantined record."""
    for toggle in page.locator('button[data-key="batch-2"], button[data-key="record-9"]').all():
        toggle.click()
        expect(page.locator(".unfolded table, .unfolded dl").first).to_be_visible()


def theme(page: Page, name: str) -> None:
    """Let the page be ``dark`` or ``light``, as a change in another window of Airflow does."""
    page.evaluate("name => { localStorage.theme = name; dispatchEvent(new StorageEvent('storage')); }", name)


def serious(page: Page) -> dict[str, list[str]]:
    """The serious and critical findings of axe, each with some of the elements."""
    found = [each for each in Axe().run(page).response["violations"] if each["impact"] in ("serious", "critical")]
    return {each["id"]: [node["html"][:200] for node in each["nodes"]][:3] for each in found}


def answer_with(page: Page, address: re.Pattern[str], answer: object) -> None:
    """Let the page get this answer in the place of the server's."""

    def fulfil(route: Route) -> None:
        route.fulfill(body=json.dumps(answer), content_type="application/json")

    page.route(address, fulfil)


def picture(page: Page, name: str) -> None:
    """A picture of the window, if ``$OFFSET_LEDGER_SHOTS`` says where to."""
    if folder := os.environ.get("OFFSET_LEDGER_SHOTS"):
        page.screenshot(path=Path(folder) / f"page-{name}.png", animations="disabled")

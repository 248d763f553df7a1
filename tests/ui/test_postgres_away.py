"""The ledger page while Postgres, which has Airflow's metadata and the ledger, is killed: it shows what was known."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from offset_ledger_kit.sandbox.airflow import USER
from offset_ledger_kit.sandbox.process import Launch
from tests.fixtures.airflow_world import World
from tests.ui.airflow_ui import ours, says, shot

pytestmark = pytest.mark.timeout(600)


def test_what_was_green_is_last_known_until_postgres_is_back(
    world: World, logged_in: Callable[[str], Page], errors: list[str]
) -> None:
    page = logged_in(USER)
    page.goto(f"{world.airflow.address}/plugin/offset-ledger")
    ledger = ours(page)
    ledger.locator("a.name", has_text="orders").click()
    says(ledger, "Partitions")
    known = ledger.locator("h1 .chip")
    was = known.evaluate("e => getComputedStyle(e).backgroundColor")
    postgres = world.airflow.postgres
    assert postgres.stop(immediate=True)
    try:
        notice = ledger.locator(".notice.bad")
        expect(notice).to_contain_text(re.compile(r"Postgres.* Since \d{4}-.* last known, as it was at \d{4}-"))
        expect(notice).to_have_count(1)
        assert known.evaluate("e => getComputedStyle(e, '::before').content") == '"last known: "'
        assert ledger.locator(".last-known").evaluate("e => getComputedStyle(e).filter") == "grayscale(1)"
        assert known.evaluate("e => getComputedStyle(e).backgroundColor") != was or "chip plain" in str(
            known.get_attribute("class")
        )
        expect(ledger.locator("button:enabled")).to_have_count(0)
        shot(page, "postgres-away")
        for tab in ("Completeness", "Quarantine"):
            ledger.get_by_role("link", name=tab, exact=True).click()
            says(ledger, "What this part shows is not known: it has not been read yet.")
    finally:
        postgres.start()
        postgres.wait()
        # Without Postgres they end, each after a while; the API server, which the page asks, does not.
        for component in world.airflow.daemons:
            if component.name != "api-server":
                component.stop()
        world.airflow.up(world.settings, Launch(print))
    says(ledger, "Quarantined records")
    expect(ledger.locator(".last-known, .notice.bad")).to_have_count(0)
    expect(ledger.locator('button[data-key="Replay…"]')).to_be_enabled()
    errors.clear()  # the browser writes down each answer that was an error

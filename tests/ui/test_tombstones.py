"""Tombstones and compaction in Chromium: until when they should be read, and what a person says where one was not."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from playwright.sync_api import FrameLocator, Page, expect

from offset_ledger.operations.repair.verify import verify
from offset_ledger.postgres.ledger.database import connect, transaction
from offset_ledger_kit.sandbox.airflow import USER
from tests.fixtures.airflow_world import World
from tests.ui.airflow_ui import answer, numbers, open_question, ours, rows_of, run_tab, says, shot

pytestmark = pytest.mark.timeout(600)
KEPT = timedelta(hours=24)  # Kafka's own delete.retention.ms


def looked_at(world: World, name: str) -> datetime:
    """When the pipeline last saw that nothing waits."""
    query = "SELECT max(seen_at) FROM offset_ledger.topic_look WHERE pipeline = %s"
    ((seen_at,),) = rows_of(world, query, name)
    assert isinstance(seen_at, datetime)
    return seen_at


def hours_ago(world: World, name: str, hours: int) -> None:
    """Let what the ledger has seen of a pipeline's topic be so much older."""
    with connect(world.postgres) as session, transaction(session) as cursor:
        for table, column in (("topic_look", "seen_at"), ("beginning", "recorded_at")):
            cursor.execute(
                f"UPDATE offset_ledger.{table} SET {column} = {column} - %s WHERE pipeline = %s",
                [timedelta(hours=hours), name],
            )


def deadline(ledger: FrameLocator) -> tuple[str, str]:
    """The tombstone deadline of a pipeline, and its tooltip."""
    value = ledger.locator("dl.metrics > div", has_text="Tombstone deadline").locator("dd")
    return value.inner_text(), value.locator("[title]").get_attribute("title") or ""


def test_the_page_says_until_when_tombstones_should_be_read(world: World, logged_in: Callable[[str], Page]) -> None:
    def look() -> FrameLocator:
        page.goto("about:blank")
        page.goto(f"{world.airflow.address}/dags/ingest_compacted/plugin/offset-ledger-dag")
        return ours(page)

    page = logged_in(USER)
    until = looked_at(world, "compacted") + KEPT
    ledger = look()
    said, title = deadline(ledger)
    assert re.fullmatch(r"in (23 h|24 h|1 d)", said)
    assert title == f"from {until:%Y-%m-%d %H:%M:%S} UTC on"
    expect(ledger.locator("h1 .chip")).to_have_text("behind")
    shot(page, "tombstones")

    hours_ago(world, "compacted", 20)
    ledger = look()
    assert re.fullmatch(r"in 3 h \d\d? min", deadline(ledger)[0])
    expect(ledger.locator("h1 .chip")).to_have_text("compaction is close to unread tombstones")
    shot(page, "tombstones-near")

    hours_ago(world, "compacted", 5)
    ledger = look()
    assert deadline(ledger)[0] == "at any moment"
    expect(ledger.locator("h1 .chip")).to_have_text("compaction may remove unread tombstones at any moment")


def test_a_batch_that_may_lack_tombstones_is_committed_after_a_yes(
    world: World, logged_in: Callable[[str], Page]
) -> None:
    ((batch_id, late, until),) = world.rows(
        "SELECT batch_id, late, until_offset FROM offset_ledger.batch JOIN offset_ledger.batch_range"
        " USING (batch_id, pipeline) WHERE pipeline = 'forgotten' AND state = 'staging'"
    )
    run_id = world.trigger("forgotten")
    world.question("forgotten", run_id)
    page = logged_in(USER)
    page.goto(f"{world.airflow.address}/plugin/offset-ledger")
    waits = f"batch {batch_id} may lack tombstones and requires a decision"
    expect(ours(page).locator("tr", has_text="forgotten").locator(".chip").first).to_have_text(waits)

    said = open_question(page, world, f"Commit batch {batch_id} of forgotten")
    shot(page, "required-action-tombstones")
    missing = late["missing"]["0"]
    assert f"{missing} of its offsets gave no record" in said
    assert list(numbers(page).items()) == [
        ("ranges", f"partition 0, offsets 2 to {until - 1} ({until - 2} offsets)"),
        ("missing offsets, by partition", f"0: {missing}"),
        ("records may have waited", late["waited"]),
        ("tombstones are kept for at least", late["kept"]),
    ]
    assert "Approve continues with what was staged" in said
    answer(page, "Approve", "a is known to be gone")
    assert world.ended("forgotten", run_id) == "success"

    decided = "SELECT kind, answer, who, why, batch_id FROM offset_ledger.decision WHERE pipeline = 'forgotten'"
    assert world.rows(decided) == [("unread_tombstones", "approve", USER, "a is known to be gone", batch_id)]
    sheet = "SELECT state, inserted + superseded + updated + duplicate, gap FROM offset_ledger.batch JOIN"
    sheet += " offset_ledger.batch_range USING (batch_id, pipeline) WHERE batch_id = %s"
    assert rows_of(world, sheet, batch_id) == [("committed", until - 2 - missing, missing)]
    live = world.rows("SELECT event_id, _offset FROM public.forgotten WHERE NOT _deleted ORDER BY event_id")
    assert live[:2] == [("a", 0), ("b", 1)]  # nothing told of a's end, so its row stays
    assert [event for event, _ in live] == ["a", "b", "filler"]
    assert verify(world.pipeline("forgotten"))[0] == []
    says(run_tab(page, world, "forgotten", run_id), "a is known to be gone")
    shot(page, "tombstones-tab")

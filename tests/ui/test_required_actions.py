"""Airflow's Required Actions in Chromium: another log and lost offsets, rejected batches; with each answer there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from offset_ledger.operations.repair.verify import verify
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger_kit.sandbox.airflow import USER
from tests.fixtures.airflow_world import World, until
from tests.ui.airflow_ui import answer, confirmed, numbers, open_question, rows_of, run_tab, says, shot

pytestmark = pytest.mark.timeout(600)

# In how many lines each of these elements has its text.
LINES = """(all) => all.map((element) => {
  const text = document.createRange();
  text.selectNodeContents(element);
  return text.getClientRects().length;
})"""


@pytest.fixture(scope="module")
def asked(world: World) -> dict[str, str]:
    """Runs that wait for a person: started together, because the last two need Spark first."""
    return {name: world.trigger(name) for name in ("lossy", "recreated", "truncated", "strict", "wary")}


def kept(world: World, pipeline: str) -> list[tuple[Any, ...]]:
    """The questions of a pipeline with their answers."""
    query = (
        "SELECT kind, answer, who, why, answered_at BETWEEN asked_at AND now() FROM offset_ledger.decision"
        " WHERE pipeline = %s"
    )
    return rows_of(world, query, pipeline)


def test_a_lost_range_is_skipped_after_a_yes(
    world: World, asked: dict[str, str], logged_in: Callable[[str], Page]
) -> None:
    world.question("lossy", asked["lossy"])
    page = logged_in(USER)
    said = open_question(page, world, "topic lossy")
    lost = "partition 0, offsets 1 to 3"
    assert said.count(f"Skip 3 offsets of topic lossy that retention deleted before they were read: {lost}?") == 1
    assert f"{lost} (3 offsets)" in said
    assert "Approve skips exactly these offsets permanently, and the run continues." in said
    shot(page, "required-action")
    answer(page, "Approve", "retention was too short")
    assert world.ended("lossy", asked["lossy"]) == "success"
    assert kept(world, "lossy") == [("lost_range", "approve", USER, "retention was too short", True)]
    ranges = (
        "SELECT from_offset, until_offset, r.skipped, r.inserted FROM offset_ledger.batch_range r"
        " JOIN offset_ledger.batch USING (batch_id, pipeline) WHERE pipeline = 'lossy' AND state = 'committed'"
    )
    assert sorted(world.rows(ranges)) == [(0, 1, 0, 1), (1, 4, 3, 0), (4, 5, 0, 1)]
    says(run_tab(page, world, "lossy", asked["lossy"]), "3 skipped")
    shot(page, "run-tab")


def batches(world: World, pipeline: str) -> list[tuple[Any, ...]]:
    """The head batches of a pipeline in their order: log, state and ranges."""
    query = (
        "SELECT b.topic_id, state, array_agg(format('%%s:[%%s, %%s)', partition, from_offset, until_offset)"
        " ORDER BY partition) FROM offset_ledger.batch b JOIN offset_ledger.batch_range USING (batch_id, pipeline)"
        " WHERE pipeline = %s AND kind = 'head' GROUP BY batch_id, b.topic_id, state ORDER BY batch_id"
    )
    return rows_of(world, query, pipeline)


def cursors(world: World, pipeline: str) -> set[tuple[Any, ...]]:
    """The cursors of every log of a pipeline."""
    query = "SELECT topic_id, partition, next_offset FROM offset_ledger.cursor WHERE pipeline = %s"
    return set(rows_of(world, query, pipeline))


def places(world: World, pipeline: str) -> set[tuple[Any, ...]]:
    """What stands in the table of a pipeline, and where it came from."""
    return set(world.rows(f"SELECT _partition, _offset, event_id, state FROM public.{pipeline}"))


def topic_id(world: World, topic: str) -> str:
    """Kafka's id of the topic as it is now."""
    with connect_kafka(world.kafka) as kafka:
        return kafka.snapshot(topic).topic_id


def test_a_recreated_topic_is_read_from_its_start_after_a_yes(
    world: World, asked: dict[str, str], logged_in: Callable[[str], Page]
) -> None:
    world.question("recreated", asked["recreated"])
    ((old, cluster),) = world.rows(
        "SELECT topic_id, cluster_id FROM offset_ledger.pipeline WHERE pipeline = 'recreated'"
    )
    new = topic_id(world, "recreated")
    page = logged_in(USER)
    said = open_question(page, world, "topic recreated")
    shot(page, "required-action-recreated")
    assert "was deleted and created again. Continue with the new topic, from the start of its log?" in said
    assert numbers(page) == {
        "topic id": f"{old}, now {new}",
        "cluster id": cluster,
        "cursors, by partition": "0: 3",
        "new log, by partition": "partition 0, offsets 0 to 1 (2 offsets); partition 1, offset 0 (1 offset)",
    }
    assert "Approve starts with the first offset of the new topic" in said
    answer(page, "Approve", "it moved house")
    assert world.ended("recreated", asked["recreated"]) == "success"
    assert kept(world, "recreated") == [("recreated_topic", "approve", USER, "it moved house", True)]
    assert batches(world, "recreated") == [
        (old, "committed", ["0:[0, 3)"]),
        (new, "committed", ["0:[0, 2)", "1:[0, 1)"]),
    ]
    assert cursors(world, "recreated") == {(old, 0, 3), (new, 0, 2), (new, 1, 1)}
    old_ones, new_ones = {(0, 1, "b", "new"), (0, 2, "c", "new")}, {(0, 0, "a", "paid"), (0, 1, "x", "new")}
    assert places(world, "recreated") == {*old_ones, *new_ones, (1, 0, "y", "new")}
    assert verify(world.pipeline("recreated"))[0] == []
    run_tab(page, world, "recreated", asked["recreated"])
    shot(page, "recreated-tab")


def test_a_truncated_log_is_read_on_from_where_it_agrees_after_an_approval(
    world: World, asked: dict[str, str], logged_in: Callable[[str], Page]
) -> None:
    world.question("truncated", asked["truncated"])
    (log,) = {log for log, *_ in batches(world, "truncated")}
    page = logged_in(USER)
    said = open_question(page, world, "The log of topic truncated was truncated")
    ((open_batch,),) = world.rows(
        "SELECT batch_id FROM offset_ledger.batch WHERE pipeline = 'truncated' AND state = 'planned'"
    )
    assert "and read these offsets again: partition 0, offsets 2 to 4?" in said
    assert numbers(page) == {
        "log ends, by partition": "0: 4",
        "read again": "partition 0, offsets 2 to 4 (3 offsets)",
        "abandoned batch": str(open_batch),
    }
    assert "Approve continues from the last committed offset on which log and ledger agree" in said
    answer(page, "Approve", "the disk died")
    assert world.ended("truncated", asked["truncated"]) == "success"
    assert kept(world, "truncated") == [("truncated_log", "approve", USER, "the disk died", True)]
    assert batches(world, "truncated") == [
        (log, "committed", ["0:[0, 2)"]),
        (log, "committed", ["0:[2, 5)"]),
        (log, "abandoned", ["0:[5, 6)"]),
        (f"{log}/1", "committed", ["0:[2, 4)"]),
    ]
    assert cursors(world, "truncated") == {(log, 0, 5), (f"{log}/1", 0, 4)}
    lost = {(0, 2, "c", "new"), (0, 3, "d", "new"), (0, 4, "e", "new")}  # they were read, so they stay
    assert places(world, "truncated") == {(0, 1, "b", "new"), *lost, (0, 2, "a", "paid"), (0, 3, "x", "new")}
    assert verify(world.pipeline("truncated"))[0] == []
    run_tab(page, world, "truncated", asked["truncated"])
    shot(page, "truncated-tab")


def test_a_rejected_batch_is_abandoned_and_the_next_run_takes_its_offsets_again(
    world: World, asked: dict[str, str], logged_in: Callable[[str], Page]
) -> None:
    world.question("wary", asked["wary"])
    ((batch_id, log),) = world.rows("SELECT batch_id, topic_id FROM offset_ledger.batch WHERE pipeline = 'wary'")
    page = logged_in(USER)
    said = open_question(page, world, f"Commit batch {batch_id} of wary")
    assert "Abandon gives the batch up. If it was to move the cursors, the next run plans its offsets again." in said
    answer(page, "Abandon", "the suite is wrong")
    assert world.ended("wary", asked["wary"]) == "success"
    tasks = world.tasks("wary", asked["wary"])
    assert [tasks[task] for task in ("approve_batch", "commit", "report")] == ["success", "skipped", "skipped"]
    assert kept(world, "wary") == [("rejected_batch", "abandon", USER, "the suite is wrong", True)]
    decided = (
        "SELECT e.to_state, e.who, e.why, e.at BETWEEN asked_at AND now() FROM offset_ledger.batch_event e"
        " JOIN offset_ledger.decision USING (batch_id) WHERE batch_id = %s AND e.from_state = 'rejected'"
    )
    assert rows_of(world, decided, batch_id) == [("abandoned", USER, "the suite is wrong", True)]
    assert batches(world, "wary") == [(log, "abandoned", ["0:[0, 2)"])]
    assert cursors(world, "wary") == places(world, "wary") == set()
    names = run_tab(page, world, "wary", asked["wary"]).locator("td.who")
    expect(names).not_to_have_count(0)
    assert set(names.evaluate_all(LINES)) == {1}  # no name of a task is broken in two
    shot(page, "abandoned-tab")

    world.suite("wary", "reject", "new", "paid", "broken")
    assert world.ended("wary", world.trigger("wary")) == "success"
    assert batches(world, "wary") == [(log, "abandoned", ["0:[0, 2)"]), (log, "committed", ["0:[0, 2)"])]
    assert cursors(world, "wary") == {(log, 0, 2)}
    assert places(world, "wary") == {(0, 0, "good", "new"), (0, 1, "bad", "broken")}
    assert verify(world.pipeline("wary"))[0] == []


def test_a_rejected_batch_stays_rejected_after_a_no_and_is_then_abandoned(
    world: World, asked: dict[str, str], logged_in: Callable[[str], Page]
) -> None:
    run_id = asked["strict"]
    world.question("strict", run_id)
    ((batch_id,),) = world.rows("SELECT batch_id FROM offset_ledger.batch WHERE pipeline = 'strict'")
    page = logged_in(USER)
    said = open_question(page, world, f"Commit batch {batch_id} of strict")
    assert "1 of 2 rows fail" in said
    assert "partition 0, offsets 0 to 1 (2 offsets)" in said
    assert "Reject changes nothing: it fails this run, and you can decide later." in said
    expect(page.get_by_test_id("hitl-option-Approve")).to_be_disabled()  # a reason is required
    shot(page, "required-action-batch")
    answer(page, "Reject", "nobody knows the state broken")
    assert world.ended("strict", run_id) == "failed"
    assert kept(world, "strict") == [("rejected_batch", "reject", USER, "nobody knows the state broken", True)]
    state = "SELECT state, changed_by, changed_why FROM offset_ledger.batch WHERE pipeline = 'strict'"
    assert world.rows(state)[0][0] == "rejected"

    ledger = run_tab(page, world, "strict", run_id)
    ledger.locator('button[data-key="notice-abandon"]').click()
    dialog = ledger.get_by_role("dialog")
    dialog.locator('textarea[name="why"]').fill("to be published again")
    dialog.get_by_role("button", name="Abandon").click()
    confirmed(dialog)
    until(lambda: world.rows(state) == [("abandoned", USER, "to be published again")], "the abandoned batch")
    expect(ledger.locator("tbody .chip").first).to_have_text("abandoned")
    assert world.rows("SELECT next_offset FROM offset_ledger.cursor WHERE pipeline = 'strict'") in ([], [(0,)])
    assert world.rows("SELECT event_id FROM public.strict") == []

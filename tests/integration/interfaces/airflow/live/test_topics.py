"""A pipeline file with several topics on a live Airflow: each has its own tasks, batch and question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from offset_ledger.operations.repair.verify import verify
from offset_ledger.steps.plan.topics import known_pipelines
from offset_ledger_kit.publishing.topics import create_topic, delete_topic
from tests.fixtures.airflow_project import record
from tests.fixtures.airflow_world import World, until
from tests.fixtures.http_server import Answering
from tests.integration.interfaces.airflow.live.conftest import FIRST, Played, Scene, notify, subjects

pytestmark = [pytest.mark.full, pytest.mark.minutes(2), pytest.mark.timeout(2700)]

PIPELINE = """
pipeline: shops
source: {connection: kafka_default, topic_pattern: 'shop[.](eu|uk|us)'}
record: {event_id: $.id, publish_at: $.at, columns: {state: text}}
target: {connection: postgres_default, table: public.shops}
quality: {suite: shops, max_quarantined_share: 1}
notify:
"""


@dataclass(frozen=True)
class Runs:
    """One that asked about one of its topics, one that read a third topic, one that read ranges of one again, and one
    that asked about the third topic, which had been deleted; what stood in the table, and who was told of what, before
    the last of them.
    """

    asked: str
    states: dict[str, list[str]]
    before_the_answer: list[tuple[Any, ...]]
    third: str
    again: str
    rows: list[tuple[Any, ...]]
    verified: list[tuple[str, tuple[list[str], int]]]
    told: list[tuple[str, str]]
    question: Any
    after: str


def states(world: World, run_id: str) -> dict[str, list[str]]:
    """The states of each task, by its map index."""
    found = world.call("GET", f"{world.run('shops', run_id)}/taskInstances")["task_instances"]
    by_task: dict[str, list[str]] = {}
    for task in sorted(found, key=lambda each: each["map_index"]):
        by_task.setdefault(task["task_id"], []).append(task["state"])
    return by_task


def asked_about(world: World, run_id: str) -> int:
    """The map index of the topic that the run asks about."""
    return int(world.question("shops", run_id)["task_instance"]["map_index"])


def answer(world: World, run_id: str, task: str, index: int, choice: str, why: str = "known") -> None:
    path = f"{world.run('shops', run_id)}/taskInstances/topic.{task}/{index}/hitlDetails"
    world.call("PATCH", path, {"chosen_options": [choice], "params_input": {"why": why}})


ROWS = "SELECT event_id, _topic, _partition, _offset FROM public.shops ORDER BY 1"


def play(scene: Scene) -> Runs:
    world = scene.world
    for topic in ("shop.eu", "shop.us"):
        create_topic(dict(world.kafka.extra), topic, 1, 1, {"retention.ms": "-1"})
    world.suite("shops", "reject", "new")
    (world.project / "dags" / "pipelines" / "shops.yaml").write_text(f"{PIPELINE}  {notify('shops')}\n")
    world.publish("shop.eu", record(FIRST, "a"), record(FIRST, "same"))
    world.publish("shop.us", record(FIRST, "b", "broken"), record(FIRST, "same"))
    world.unpause("shops")
    asked = world.trigger("shops")
    index = asked_about(world, asked)
    before = until(lambda: world.rows(ROWS), "the topic that does not wait to be committed")
    answer(world, asked, "approve_batch", index, "Approve")
    world.succeeded("shops", asked)
    create_topic(dict(world.kafka.extra), "shop.uk", 1, 1, {"retention.ms": "-1"})
    world.publish("shop.uk", record(FIRST, "c"))
    third = world.trigger("shops")
    world.succeeded("shops", third)
    again = world.trigger("shops", action="ranges", topic="shop.us", ranges="0:0-1", why="once more")
    answer(world, again, "approve_batch", asked_about(world, again), "Abandon")
    world.ended("shops", again)
    rows = world.rows(ROWS)
    verified = [(each.name, verify(each)) for each in known_pipelines(world.pipeline("shops"))]
    told = subjects(scene.hooks, "shops")
    delete_topic(dict(world.kafka.extra), "shop.uk")
    world.publish("shop.eu", record(FIRST, "d"))
    of_gone = world.trigger("shops")
    question = world.question("shops", of_gone)
    answer(world, of_gone, "approve_loss", int(question["task_instance"]["map_index"]), "Approve", "closed")
    world.succeeded("shops", of_gone)
    world.publish("shop.eu", record(FIRST, "e"))
    after = world.trigger("shops")
    world.succeeded("shops", after)
    return Runs(asked, states(world, asked), before, third, again, rows, verified, told, question, after)


@pytest.fixture(scope="module")
def shops(played: Played) -> Runs:
    return played(play)


PLAYS = {"shops": play}


def test_a_topic_that_waits_for_an_answer_does_not_keep_the_others(shops: Runs) -> None:
    assert shops.before_the_answer == [("a", "shop.eu", 0, 0), ("same", "shop.eu", 0, 1)]
    assert shops.states["topic.approve_batch"] == ["skipped", "success"]
    assert shops.states["topic.commit"] == ["success", "success"]


def test_every_topic_ends_in_the_table_in_one_order(world: World, shops: Runs) -> None:
    assert shops.rows == [
        ("a", "shop.eu", 0, 0), ("b", "shop.us", 0, 0), ("c", "shop.uk", 0, 0), ("same", "shop.us", 0, 1)
    ]  # fmt: skip
    assert shops.verified == [(name, ([], 12)) for name in ("shops@shop.eu", "shops@shop.uk", "shops@shop.us")]
    assert states(world, shops.third)["topic.commit"] == ["success"]


def test_the_form_reads_ranges_of_one_topic_again(world: World, shops: Runs) -> None:
    assert states(world, shops.again)["topic.plan"] == ["success"]
    columns = "batch_id, pipeline, kind, state"
    batches = world.rows(f"SELECT {columns} FROM offset_ledger.batch WHERE pipeline LIKE 'shops@%%' ORDER BY batch_id")
    (again,) = (batch for batch in batches if batch[2] == "replay")
    assert again[1:] == ("shops@shop.us", "replay", "abandoned")
    (head,) = (batch_id for batch_id, name, kind, _ in batches if (name, kind) == ("shops@shop.us", "head"))
    rejected = [("batch_rejected", f"shops@shop.us: batch {each} was rejected") for each in (head, again[0])]
    assert shops.told == rejected


def test_the_tasks_are_named_after_their_topics(world: World, shops: Runs) -> None:
    found = world.call("GET", f"{world.run('shops', shops.third)}/taskInstances")["task_instances"]
    named = {(each["task_id"], each["rendered_map_index"]) for each in found if each["state"] == "success"}
    assert named >= {(f"topic.{task}", "shop.uk") for task in ("plan", "stage", "validate", "commit", "report")}


def test_a_topic_that_was_deleted_is_asked_about_once(world: World, shops: Runs, hooks: Answering) -> None:
    assert "Topic shop.uk is gone" in shops.question["subject"]
    assert "| cursors, by partition | 0: 1 |" in shops.question["body"]
    kept = "SELECT answer, why FROM offset_ledger.decision WHERE kind = 'topic_gone'"
    assert world.rows(kept) == [("approve", "closed")]
    assert ("approval_needed", "shops@shop.uk: an approval is needed for the next batch") in subjects(hooks, "shops")
    assert states(world, shops.after)["topic.commit"] == ["success"]
    assert [event for event, *_ in world.rows(ROWS)] == ["a", "b", "c", "d", "e", "same"]

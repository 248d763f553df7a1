"""A pipeline file with several topics on a live Airflow: each has its own tasks, batch and question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from offset_ledger.config.parse import parse_pipeline
from offset_ledger.plan.topics import known_pipelines
from offset_ledger.publishing.topics import create_topic, delete_topic
from offset_ledger.repair.verify import verify
from tests.fixtures.airflow_project import record
from tests.fixtures.airflow_world import World, until
from tests.fixtures.http_server import Answering
from tests.integration.airflow.live.conftest import FIRST, notify, subjects

pytestmark = [pytest.mark.full, pytest.mark.minutes(2), pytest.mark.timeout(900)]

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
    """One that asked about one of its topics, one that read a third topic, and one that read ranges of one again."""

    asked: str
    states: dict[str, list[str]]
    before_the_answer: list[tuple[Any, ...]]
    third: str
    again: str


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


def answer(world: World, run_id: str, index: int, choice: str) -> None:
    path = f"{world.run('shops', run_id)}/taskInstances/topic.approve_batch/{index}/hitlDetails"
    world.call("PATCH", path, {"chosen_options": [choice], "params_input": {"why": "known"}})


@pytest.fixture(scope="module")
def runs(world: World) -> Runs:
    for topic in ("shop.eu", "shop.us"):
        create_topic(dict(world.kafka.extra), topic, 1, 1, {"retention.ms": "-1"})
    world.suite("shops", "reject", "new")
    (world.project / "dags" / "pipelines" / "shops.yaml").write_text(f"{PIPELINE}  {notify('shops')}\n")
    world.publish("shop.eu", record(FIRST, "a"), record(FIRST, "same"))
    world.publish("shop.us", record(FIRST, "b", "broken"), record(FIRST, "same"))
    world.unpause("shops")
    asked = world.trigger("shops")
    index = asked_about(world, asked)
    rows = "SELECT event_id, _topic, _partition, _offset FROM public.shops ORDER BY 1"
    before = until(lambda: world.rows(rows), "the topic that does not wait to be committed")
    answer(world, asked, index, "Approve")
    world.succeeded("shops", asked)
    create_topic(dict(world.kafka.extra), "shop.uk", 1, 1, {"retention.ms": "-1"})
    world.publish("shop.uk", record(FIRST, "c"))
    third = world.trigger("shops")
    world.succeeded("shops", third)
    again = world.trigger("shops", action="ranges", topic="shop.us", ranges="0:0-1", why="once more")
    answer(world, again, asked_about(world, again), "Abandon")
    world.ended("shops", again)
    return Runs(asked, states(world, asked), before, third, again)


def test_a_topic_that_waits_for_an_answer_does_not_keep_the_others(runs: Runs) -> None:
    assert runs.before_the_answer == [("a", "shop.eu", 0, 0), ("same", "shop.eu", 0, 1)]
    assert runs.states["topic.approve_batch"] == ["skipped", "success"]
    assert runs.states["topic.commit"] == ["success", "success"]


def test_every_topic_ends_in_the_table_in_one_order(world: World, runs: Runs) -> None:
    rows = world.rows("SELECT event_id, _topic, _partition, _offset FROM public.shops ORDER BY 1")
    assert rows == [("a", "shop.eu", 0, 0), ("b", "shop.us", 0, 0), ("c", "shop.uk", 0, 0), ("same", "shop.us", 0, 1)]
    pipelines = known_pipelines(parse_pipeline(world.project / "dags" / "pipelines" / "shops.yaml"))
    assert [each.name for each in pipelines] == ["shops@shop.eu", "shops@shop.uk", "shops@shop.us"]
    assert [verify(each) for each in pipelines] == [([], 12)] * 3
    third = states(world, runs.third)
    assert third["topic.commit"] == ["success"]


def test_the_form_reads_ranges_of_one_topic_again(world: World, runs: Runs, hooks: Answering) -> None:
    assert states(world, runs.again)["topic.plan"] == ["success"]
    columns = "batch_id, pipeline, kind, state"
    batches = world.rows(f"SELECT {columns} FROM offset_ledger.batch WHERE pipeline LIKE 'shops@%%' ORDER BY batch_id")
    assert batches[-1][1:] == ("shops@shop.us", "replay", "abandoned")
    (head,) = (batch_id for batch_id, name, kind, _ in batches if (name, kind) == ("shops@shop.us", "head"))
    rejected = [("batch_rejected", f"shops@shop.us: batch {each} was rejected") for each in (head, batches[-1][0])]
    assert subjects(hooks, "shops") == rejected


def test_the_tasks_are_named_after_their_topics(world: World, runs: Runs) -> None:
    found = world.call("GET", f"{world.run('shops', runs.third)}/taskInstances")["task_instances"]
    named = {(each["task_id"], each["rendered_map_index"]) for each in found if each["state"] == "success"}
    assert named >= {(f"topic.{task}", "shop.uk") for task in ("plan", "stage", "validate", "commit", "report")}


def test_a_topic_that_was_deleted_is_asked_about_once(world: World, runs: Runs, hooks: Answering) -> None:
    assert runs.third
    delete_topic(dict(world.kafka.extra), "shop.uk")
    world.publish("shop.eu", record(FIRST, "d"))
    asked = world.trigger("shops")
    question = world.question("shops", asked)
    index = int(question["task_instance"]["map_index"])
    assert "Topic shop.uk is gone" in question["subject"]
    assert "| cursors, by partition | 0: 1 |" in question["body"]
    path = f"{world.run('shops', asked)}/taskInstances/topic.approve_loss/{index}/hitlDetails"
    world.call("PATCH", path, {"chosen_options": ["Approve"], "params_input": {"why": "closed"}})
    assert world.ended("shops", asked) == "success"
    kept = "SELECT answer, why FROM offset_ledger.decision WHERE kind = 'topic_gone'"
    assert world.rows(kept) == [("approve", "closed")]
    assert ("approval_needed", "shops@shop.uk: an approval is needed for the next batch") in subjects(hooks, "shops")
    world.publish("shop.eu", record(FIRST, "e"))
    after = world.trigger("shops")
    world.succeeded("shops", after)
    assert states(world, after)["topic.commit"] == ["success"]
    assert [row[0] for row in world.rows("SELECT event_id FROM public.shops ORDER BY 1")] == [
        "a",
        "b",
        "c",
        "d",
        "e",
        "same",
    ]

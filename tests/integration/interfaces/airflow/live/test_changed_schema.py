"""A schema that no column fits, on a live Airflow: the run before it ends there, and the next one asks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from offset_ledger.model.writer_schema import SchemaLanguage
from offset_ledger.operations.repair.verify import verify
from offset_ledger.outside.producer.record import Record
from offset_ledger.outside.schema_registry.client import connect_registry
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger_kit.publishing.topics import create_topic
from tests.fixtures.airflow_world import World
from tests.fixtures.following import avro, written
from tests.fixtures.registry import shared_registry
from tests.integration.interfaces.airflow.live.conftest import FIRST, Played, Scene, as_stored

pytestmark = [pytest.mark.full, pytest.mark.minutes(2), pytest.mark.timeout(2700)]

PIPELINE = """
pipeline: changed
source: {connection: kafka_default, topic: changed, format: avro, registry: registry_changed}
record: {event_id: $.id, publish_at: kafka_timestamp, columns: {amount: {type: bigint, nullable: true}}}
target: {connection: postgres_default, table: public.changed, evolve: add_columns, columns_from: schema}
quality: {max_quarantined_share: 1}
"""


@dataclass(frozen=True)
class Runs:
    """The ids of both schemas, and of the runs before and after the boundary; what the second one asked."""

    schemas: tuple[int, int]
    before: str
    columns: list[tuple[Any, ...]]
    asked: str
    question: Any


COLUMNS = """SELECT column_name FROM information_schema.columns
WHERE table_name = 'changed' AND column_name !~ '^_' ORDER BY 1"""
RANGES = "SELECT from_offset, until_offset FROM offset_ledger.batch_range WHERE pipeline = 'changed' ORDER BY 1"
DIFFERENCE = (
    "$.amount: string in the schema, bigint in the table: records are quarantined (expected integer, got string)"
)


def play(scene: Scene) -> Runs:
    world = scene.world
    connection = replace(shared_registry(scene.stack).connection(), conn_id="registry_changed")
    world.call("POST", "/connections", as_stored(connection), expect=201)
    texts = avro(amount="long"), avro(amount="string", note="string")
    register = connect_registry(connection).register
    ids = tuple(register("changed-value", SchemaLanguage.AVRO, text) for text in texts)
    create_topic(dict(world.kafka.extra), "changed", 1, 1, {"retention.ms": "-1"})
    at = int(FIRST.timestamp() * 1000)
    old = [written(texts[0], ids[0], id=name, amount=1) for name in "ab"]
    new = [written(texts[1], ids[1], id=name, amount="many", note="x") for name in "cd"]
    world.publish("changed", *(Record(None, value, (), at + n, 0) for n, value in enumerate([*old, *new])))
    (world.project / "dags" / "pipelines" / "changed.yaml").write_text(PIPELINE)
    world.unpause("changed")
    before = world.trigger("changed")
    world.succeeded("changed", before)
    columns = world.rows(COLUMNS)
    asked = world.trigger("changed")
    question = world.question("changed", asked)
    world.answer("changed", asked, "approve_loss", "Approve", "known")
    world.succeeded("changed", asked)
    return Runs((ids[0], ids[1]), before, columns, asked, question)


@pytest.fixture(scope="module")
def changed(played: Played) -> Runs:
    return played(play)


PLAYS = {"changed": play}


def test_the_run_before_the_change_asks_nothing_and_ends_there(world: World, changed: Runs) -> None:
    assert world.tasks("changed", changed.before)["approve_loss"] == "skipped"
    assert changed.columns == [("amount",), ("event_id",), ("publish_at",)]
    assert world.rows(RANGES) == [(0, 2), (2, 4)]


def test_the_question_shows_the_difference_and_the_answer_is_acted_on(world: World, changed: Runs) -> None:
    assert (
        f"schema id {changed.schemas[1]} in topic changed does not fit them: {DIFFERENCE}?"
        in changed.question["subject"]
    )
    assert "| columns that are added | note text |" in changed.question["body"]
    kept = "SELECT kind, answer, why FROM offset_ledger.decision WHERE pipeline = 'changed'"
    assert world.rows(kept) == [("changed_schema", "approve", "known")]
    assert world.rows(COLUMNS) == [("amount",), ("event_id",), ("note",), ("publish_at",)]
    assert world.rows("SELECT event_id, amount, note FROM public.changed ORDER BY 1") == [
        ("a", 1, None),
        ("b", 1, None),
    ]
    refused = "SELECT \"offset\", schema_id FROM offset_ledger.quarantine WHERE pipeline = 'changed' ORDER BY 1"
    assert world.rows(refused) == [(2, changed.schemas[1]), (3, changed.schemas[1])]
    assert verify(parse_pipeline(world.project / "dags" / "pipelines" / "changed.yaml"))[0] == []

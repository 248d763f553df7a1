"""Defects that the code has had are found by the machine where they are put back."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from offset_ledger.outside.connections import Connection
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import batches, dead_letters, pipelines, row_order
from offset_ledger.postgres.ledger.database import Cursor
from offset_ledger.postgres.ledger.dead_letters import RecordPosition
from offset_ledger.postgres.table import restate
from offset_ledger_kit.sandbox.stack import Stack
from tests.fixtures.servers import new_database
from tests.machine.bench import Bench, Divergence
from tests.model.defects import CAUGHT
from tests.model.explore import explore
from tests.model.rules import Defect
from tests.model.state import State
from tests.model.worlds import FAILOVER

MONKEY = pytest.MonkeyPatch


def order_per_pipeline(monkeypatch: MONKEY) -> None:
    """A remerge of one of several topics orders all rows anew, and says so of its own pipeline alone."""

    def write_own(cursor: Cursor, pipeline: Pipeline, moment: str) -> None:
        query = "UPDATE offset_ledger.pipeline SET ordered_by = %s WHERE pipeline = %s"
        cursor.execute(query, [moment, pipeline.name])

    class OfOne:
        """Knows no other topic of the file."""

        def __getattr__(self, name: str) -> object:
            return getattr(pipelines, name)

        def lock_file(self, cursor: Cursor, file: str) -> list[str]:
            return pipelines.lock_file(cursor, file)[-1:]

    monkeypatch.setattr(restate, "write_order", write_own)
    monkeypatch.setattr(restate, "pipelines", OfOne())


def unplanned_is_old(monkeypatch: MONKEY) -> None:
    """A topic without an order of its own is taken for one from before orders were recorded."""

    def read_own(cursor: Cursor, pipeline: Pipeline) -> set[str]:
        query = "SELECT ordered_by FROM offset_ledger.pipeline WHERE pipeline = %s AND ordered_by IS NOT NULL"
        cursor.execute(query, [pipeline.name])
        return {row["ordered_by"] for row in cursor.fetchall()}

    monkeypatch.setattr(row_order, "read_orders", read_own)


def letters_forgotten(monkeypatch: MONKEY) -> None:
    """A delivery passes over letters whose records the database has lost."""

    def compare_waiting(*arguments: Any) -> tuple[set[RecordPosition], set[RecordPosition]]:
        return compare(*arguments)[0], set()

    compare = dead_letters.compare
    monkeypatch.setattr(dead_letters, "compare", compare_waiting)


PUT_BACK: dict[Defect, Callable[[MONKEY], None]] = {
    Defect.ORDER_PER_PIPELINE: order_per_pipeline,
    Defect.UNPLANNED_IS_OLD: unplanned_is_old,
    Defect.LETTERS_FORGOTTEN: letters_forgotten,
}


@pytest.fixture
def database(stack: Stack, template_database: str) -> Iterator[Connection]:
    with new_database(stack, template_database) as made:
        yield replace(stack.postgres.superuser(str(made.schema)), conn_id="postgres_default")


def follow(postgres: Connection, defect: Defect) -> None:
    """The story of the model's defect, and some steps from its end on, by the rules of the model without it.

    Raises:
        Divergence: the code has the defect.
    """
    walk = explore(CAUGHT[defect].world, defect)
    assert isinstance(walk.first, State)
    choice = random.Random(1)
    bench = Bench(walk.world, walk.first, postgres)
    with bench.running():
        for each in walk.story:
            steps = [step for step in bench.rules.actions(bench.state) if step.name == each.name]
            if not steps:  # what only the defect makes possible
                break
            bench.take(next((s for s in steps if s.parameters == each.parameters), steps[0]), choice.choice)
        for _ in range(5):
            if steps := bench.rules.actions(bench.state):
                bench.take(choice.choice(steps), choice.choice)


@pytest.mark.parametrize("defect", PUT_BACK, ids=lambda defect: defect.name.lower())
def test_a_defect_that_is_put_back_is_found(database: Connection, monkeypatch: MONKEY, defect: Defect) -> None:
    follow(database, defect)
    PUT_BACK[defect](monkeypatch)
    with pytest.raises(Divergence):
        follow(database, defect)


def test_a_claim_that_is_told_by_its_epoch_alone_is_found(database: Connection, monkeypatch: MONKEY) -> None:
    """Where a database went back, batch and epoch have the same numbers again: a task of before writes there."""
    monkeypatch.setattr(batches, "claimed_at", lambda *_: None)
    with Bench(FAILOVER, next(FAILOVER.initial()), database).running() as bench:
        bench.follow("produce", "replicate", "plan", "claim", "failover", "plan", "claim")
        with pytest.raises(Divergence, match="reached slice_committed, the model has None"):
            bench.follow("end")

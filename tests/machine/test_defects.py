"""Defects that the code has had are found by the machine where they are put back."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace

import pytest

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import Connection
from offset_ledger.ledger import pipelines, row_order
from offset_ledger.ledger.database import Cursor
from offset_ledger.local.stack import Stack
from offset_ledger.target import restate, table
from tests.fixtures.servers import new_database
from tests.machine.bench import Bench, Divergence
from tests.model.defects import CAUGHT
from tests.model.explore import explore
from tests.model.rules import Defect
from tests.model.state import State

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


def rewrite_is_written(monkeypatch: MONKEY) -> None:
    """Rows of a rewrite have the id of the transaction that writes those of the batch."""
    monkeypatch.setattr(table, "savepoint", lambda _: nullcontext())


PUT_BACK: dict[Defect, Callable[[MONKEY], None]] = {
    Defect.ORDER_PER_PIPELINE: order_per_pipeline,
    Defect.UNPLANNED_IS_OLD: unplanned_is_old,
    Defect.REWRITE_IS_WRITTEN: rewrite_is_written,
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
            steps = bench.rules.actions(bench.state)
            bench.take(next(s for s in steps if (s.name, s.parameters) == (each.name, each.parameters)), choice.choice)
        for _ in range(5):
            if steps := bench.rules.actions(bench.state):
                bench.take(choice.choice(steps), choice.choice)


@pytest.mark.parametrize("defect", PUT_BACK, ids=lambda defect: defect.name.lower())
def test_a_defect_that_is_put_back_is_found(database: Connection, monkeypatch: MONKEY, defect: Defect) -> None:
    follow(database, defect)
    PUT_BACK[defect](monkeypatch)
    with pytest.raises(Divergence):
        follow(database, defect)

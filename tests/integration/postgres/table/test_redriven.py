"""Refused records that are redriven, among batches and replays in any order: the rows are those of a fold in order."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.model.states import BatchKind
from offset_ledger.operations.repair.verify import verify
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Session, rows, transaction
from offset_ledger.steps.run.ingest import run_batch
from offset_ledger.steps.run.redrive import parse_choice, plan_redrive
from tests.fixtures.raw import Raw, commit_raw
from tests.fixtures.staged import ME, NOON
from tests.fixtures.tables import pipeline_of

pytestmark = [pytest.mark.minutes(1), pytest.mark.timeout(1800)]

PIPELINE = """
pipeline: customers
source: {{topic: customers}}
record:
  {key}
  publish_at: $.at
  delete_when: {{path: $.op, equals: d}}
  columns:
    state: {state}
    tags: {{type: "text[]", nullable: true}}
    note: {{type: text, nullable: true{note}}}
target: {{table: public.customers, evolve: widen{target}}}
quality: {{max_quarantined_share: 1.0}}
"""
COMPOSITE, BESIDE = "key: {tenant: text, id: bigint}", ", bookkeeping: beside"
TABLE = "CREATE TABLE public.customers (tenant text, id bigint, state varchar(9) NOT NULL, tags text[], note text, {})"
PARTITIONED = f"""{TABLE.format("PRIMARY KEY (tenant, id)")} PARTITION BY HASH (id);
CREATE TABLE public.customers_0 PARTITION OF public.customers FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE public.customers_1 PARTITION OF public.customers FOR VALUES WITH (MODULUS 2, REMAINDER 1)"""


@dataclass(frozen=True, slots=True)
class Shape:
    """A key, where the bookkeeping is, whether a record may leave the note as it is, and the table that is there."""

    key: str = "event_id: $.id"
    target: str = ""
    keeps: bool = False
    table: str = ""

    def pipeline(self, folder: Path, wide: bool) -> Pipeline:
        """The pipeline, whose first version refuses a state of ten characters."""
        state, note = ("text" if wide else "varchar(9)"), (", absent: keep" if self.keeps else "")
        return pipeline_of(folder, PIPELINE, key=self.key, target=self.target, state=state, note=note)


SHAPES = {
    "event_id, columns": Shape(),
    "composite, columns": Shape(COMPOSITE),
    "composite, beside": Shape(COMPOSITE, BESIDE, table=TABLE.format("UNIQUE (id, tenant)")),
    "composite, beside, groups, partitioned": Shape(COMPOSITE, BESIDE, True, PARTITIONED),
}


@dataclass(frozen=True, slots=True)
class Change:
    """A record; ``refused`` until the column is wide enough."""

    seconds: int
    partition: int
    offset: int
    id: int
    op: str
    refused: bool
    note: tuple[str | None] | None
    tags: list[str | None] | None

    @property
    def order(self) -> tuple[int, int, int]:
        return self.seconds, self.partition, self.offset

    @property
    def state(self) -> str:
        return f"{self.partition}-{self.offset}".ljust(10 if self.refused else 5, ".")

    @property
    def raw(self) -> Raw:
        at = (NOON + timedelta(seconds=self.seconds)).isoformat()
        body = {"tenant": "t", "id": self.id, "at": at, "op": self.op, "state": self.state, "tags": self.tags}
        return Raw(
            self.partition, self.offset, json.dumps(body | ({"note": self.note[0]} if self.note else {})).encode()
        )


@dataclass
class World:
    """A pipeline with what has become of its records."""

    session: Session
    pipeline: Pipeline
    arrived: list[Change] = field(default_factory=list)

    def load(self, batch: Sequence[Change], kind: BatchKind) -> None:
        commit_raw(self.session, self.pipeline, [each.raw for each in batch], kind)
        self.arrived += batch

    def redrive(self) -> None:
        planned = plan_redrive(self.pipeline, parse_choice(reason="length"), ME, "the test")
        if planned.batch:
            run_batch(self.pipeline, planned, ME, lambda _: None)

    def table(self) -> set[tuple[Any, ...]]:
        live = "true" if self.pipeline.target.beside else "NOT _deleted"
        name = "id" if self.pipeline.record.key else "event_id::bigint"
        query = f"SELECT {name}, state, tags, note FROM public.customers WHERE {live}"
        return {(row[0], row[1], str(row[2]), row[3]) for row in rows(self.session, query)}


def drawn(rng: random.Random) -> list[list[Change]]:
    batches, next_offset = [], [0, 0]
    for _ in range(rng.randint(2, 4)):
        batch = []
        for _ in range(rng.randint(1, 6)):
            partition, op = rng.randrange(2), rng.choice("uuuud")
            note = rng.choice((None, (None,), ("a",), ("b",)))
            tags = rng.choice((None, [], ["x", None]))
            refused = op == "u" and rng.random() < 0.4
            place = partition, next_offset[partition]
            batch.append(Change(rng.randrange(5), *place, rng.randrange(2), op, refused, note, tags))
            next_offset[partition] += 1
        batches.append(batch)
    return batches


def fold(changes: Sequence[Change], keeps: bool) -> set[tuple[Any, ...]]:
    """The rows by the changes in their order, none of which is refused."""
    state: dict[int, tuple[Any, ...]] = {}
    for each in sorted(changes, key=lambda change: change.order):
        before = state.pop(each.id, None)
        if each.op == "u":
            kept = before[2] if before and keeps else None
            state[each.id] = each.state, str(each.tags), each.note[0] if each.note else kept
    return {(id, *values) for id, values in state.items()}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_redrives_among_batches_and_replays_give_the_rows_of_a_fold(
    session: Session, tmp_path: Path, few: bool, shape: Shape
) -> None:
    for seed in range(2 if few else 6):
        rng = random.Random(f"redriven {seed}")
        with transaction(session) as cursor:
            cursor.execute("DROP TABLE IF EXISTS public.customers; SELECT tests.empty_ledger()")
            if shape.table:
                cursor.execute(shape.table)
        batches = drawn(rng)
        order = rng.sample(batches, len(batches))
        kind = BatchKind.HEAD if order == batches else BatchKind.REPLAY
        world = World(session, shape.pipeline(tmp_path, wide=False))
        widened = rng.randrange(len(order))
        for number, batch in enumerate(order):
            world.load(batch, kind)
            if number == widened:
                world.pipeline = shape.pipeline(tmp_path, wide=True)
            if rng.random() < 0.5:
                world.redrive()
            if rng.random() < 0.3:
                world.load(rng.choice(order[: number + 1]), BatchKind.REPLAY)
        world.redrive()
        assert world.table() == fold([each for batch in batches for each in batch], shape.keeps), seed
        query = "SELECT FROM offset_ledger.quarantine WHERE resolved_by IS NULL"
        assert rows(session, query) == [], seed
        if order == batches:
            assert verify(world.pipeline)[0] == [], seed
        world.redrive()
        assert world.table() == fold(world.arrived, shape.keeps), seed

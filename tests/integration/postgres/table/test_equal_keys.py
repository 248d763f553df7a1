"""Keys that Postgres takes for one although they are not the same: a merge, a fill and verify take them for one too."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.request import Request, RunAction
from offset_ledger.model.states import BatchKind
from offset_ledger.operations.repair.verify import verify
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Session, rows
from tests.fixtures.raw import Raw, commit_raw
from tests.fixtures.staged import NOON
from tests.fixtures.tables import do, pipeline_of
from tests.fixtures.topic_bench import TopicBench

pytestmark = pytest.mark.usefixtures("any_case")

PIPELINE = """
pipeline: orders
source: {{topic: orders}}
record:
  key: {{number: numeric, weight: double precision, name: text}}
  publish_at: $.at
  delete_when: {{path: $.op, equals: d}}
  columns: {{state: text, note: {{type: text, nullable: true{note}}}}}
target: {{table: public.orders, bookkeeping: {bookkeeping}}}
"""
TABLE = """
CREATE TABLE public.orders (number numeric NOT NULL, weight double precision NOT NULL,
  name text COLLATE public.any_case NOT NULL, state text, note text, own text{more}, UNIQUE (number, weight, name));
CREATE FUNCTION public.fill_own() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.own := ''own''; RETURN NEW; END';
CREATE FUNCTION public.nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'
"""
BOOKKEEPING = """, publish_at timestamptz NOT NULL, _partition integer NOT NULL, _offset bigint NOT NULL,
  _timestamp timestamptz, _key bytea, _headers jsonb, _deleted boolean NOT NULL, _batch_id bigint NOT NULL"""
ROW = "CREATE TRIGGER fills BEFORE INSERT OR UPDATE ON public.orders FOR EACH ROW EXECUTE FUNCTION public.fill_own()"
STATEMENT = (
    "CREATE TRIGGER looks AFTER INSERT OR UPDATE OR DELETE ON public.orders"
    " FOR EACH STATEMENT EXECUTE FUNCTION public.nothing()"
)

# Two ways to write each of three keys in JSON; the last is one key where the server has ICU.
ONCE = ('1.5, "weight": 1.0, "name": "x"', '2, "weight": 0.0, "name": "x"', '3, "weight": 1.0, "name": "Ada"')
AGAIN = ('15.0e-1, "weight": 1.0, "name": "x"', '2, "weight": -0.0, "name": "x"', '3, "weight": 1.0, "name": "ADA"')


@dataclass(frozen=True, slots=True)
class Shape:
    """Where the bookkeeping is, whether a record may leave the note as it is, and the trigger of the table."""

    bookkeeping: str
    keeps: bool = False
    trigger: str = ""

    def pipeline(self, folder: Path) -> Pipeline:
        note = ", absent: keep" if self.keeps else ""
        return pipeline_of(folder, PIPELINE, bookkeeping=self.bookkeeping, note=note)


SHAPES = {
    "columns": Shape("columns"),
    "columns, row trigger": Shape("columns", trigger=ROW),
    "columns, statement trigger": Shape("columns", trigger=STATEMENT),
    "beside": Shape("beside"),
    "beside, row trigger": Shape("beside", trigger=ROW),
    "beside, statement trigger": Shape("beside", trigger=STATEMENT),
    "beside, groups": Shape("beside", keeps=True),
    "beside, groups, row trigger": Shape("beside", keeps=True, trigger=ROW),
}


@dataclass
class World:
    """A table as its users made it, its pipeline, and the records that have come."""

    session: Session
    pipeline: Pipeline
    keys: int
    sent: list[Raw]

    @classmethod
    def of(cls, session: Session, shape: Shape, folder: Path) -> World:
        more = BOOKKEEPING if shape.bookkeeping == "columns" else ""
        do(session, f"{TABLE.format(more=more)};{shape.trigger}")
        ((ignores_case,),) = rows(session, "SELECT 'a' = 'A' COLLATE public.any_case")
        return cls(session, shape.pipeline(folder), 3 if ignores_case else 2, [])

    def send(self, *batch: tuple[tuple[str, ...], str | None]) -> None:
        """Commit a batch of a state for each key, written so; None deletes."""
        records = []
        for key, state in [(key, state) for written, state in batch for key in written[: self.keys]]:
            offset = len(self.sent) + len(records)
            body = {"at": (NOON + timedelta(seconds=offset)).isoformat(), "op": "u" if state else "d", "state": state}
            records.append(Raw(0, offset, f'{json.dumps(body)[:-1]}, "number": {key}}}'.encode()))
        commit_raw(self.session, self.pipeline, records)
        self.sent += records

    def fill(self) -> tuple[int, int, int]:
        """Replay all with ``--fill``; how many rows that inserted, updated and deleted."""
        request = Request(RunAction.RANGES, ranges=(OffsetRange(0, 0, len(self.sent)),), fill=True).key
        total = commit_raw(self.session, self.pipeline, self.sent, BatchKind.REPLAY, request).total
        return total.inserted, total.updated, total.deleted

    def states(self) -> list[str]:
        return [row[0] for row in rows(self.session, "SELECT state FROM public.orders WHERE state IS NOT NULL")]


@pytest.mark.parametrize("name", [name for name, shape in SHAPES.items() if shape.keeps or shape.trigger])
def test_a_key_that_is_written_another_way_is_the_same_row(session: Session, tmp_path: Path, name: str) -> None:
    world = World.of(session, SHAPES[name], tmp_path)
    for batch, expected in (
        ([(ONCE, "new")], "new"),
        ([(AGAIN, "paid")], "paid"),
        ([(ONCE, None)], None),
        ([(AGAIN, "again")], "again"),
        ([(ONCE, "older"), (AGAIN, "sent")], "sent"),
        ([(AGAIN, "left"), (ONCE, None)], None),
    ):
        world.send(*batch)
        assert world.states() == [expected] * (world.keys if expected else 0)
        assert verify(world.pipeline)[0] == []
    assert world.fill() == (0, 0, 0)


@pytest.mark.parametrize("name", SHAPES)
def test_a_fill_takes_the_row_of_a_key_that_is_written_another_way_for_what_it_is(
    session: Session, tmp_path: Path, name: str
) -> None:
    world = World.of(session, SHAPES[name], tmp_path)
    world.send((ONCE, "new"))
    world.send((AGAIN, "paid"))
    assert world.fill() == (0, 0, 0)
    do(session, "UPDATE public.orders SET state = 'other' WHERE number = 2")
    assert world.fill() == (0, 1, 0)
    assert world.states() == ["paid"] * world.keys
    assert world.fill() == (0, 0, 0)
    assert verify(world.pipeline)[0] == []


class Bench(TopicBench):
    TEMPLATE = """
pipeline: orders
source: {{topic: {topic}}}
record:
  key: {{number: numeric, weight: double precision}}
  publish_at: kafka_timestamp
  tombstone: skip
  columns: {{state: text, note: {{type: text, nullable: true{note}}}}}
target: {{table: orders, bookkeeping: {bookkeeping}}}
stage: {{engine: process}}
"""


@pytest.mark.parametrize("name", ["columns", "beside", "beside, groups"])
def test_the_topic_agrees_with_a_row_whose_key_it_writes_another_way(bench: Bench, name: str) -> None:
    def order(moment: int, key: str, state: str) -> Record:
        return Record(b"k", f'{{"number": {key}, "state": "{state}"}}'.encode(), (), moment, 0)

    shape = SHAPES[name]
    settings: dict[str, Any] = {"bookkeeping": shape.bookkeeping, "note": ", absent: keep" if shape.keeps else ""}
    bench.settings = settings
    bench.publish(order(1, '1.5, "weight": 1.0', "new"), order(2, '2, "weight": 0.0', "new"))
    bench.ingest()
    bench.publish(order(3, '1.50, "weight": 1.0', "paid"), order(4, '2, "weight": -0.0', "paid"))
    bench.ingest()
    assert sorted(bench.rows("number = 1.5, state")) == [(False, "paid"), (True, "paid")]
    bench.agree()

"""Partial updates: what a record leaves out stays, and of each group of columns the newest record wins."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.request import Request, RunAction
from offset_ledger.model.states import BatchKind
from offset_ledger.operations.repair.verify import verify
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Session, rows, transaction
from offset_ledger.postgres.table.change import check_target
from tests.fixtures.raw import Raw, commit_raw
from tests.fixtures.staged import NOON
from tests.fixtures.tables import do, pipeline_of

pytestmark = [pytest.mark.minutes(2)]

PIPELINE = """
pipeline: customers
source: {{topic: customers}}
record:
  key: {{tenant: text, id: bigint}}
  publish_at: $.at
  delete_when: {{path: $.op, equals: d}}
  columns:
    state: text
    note: {{type: text, nullable: true{note}}}
    street: {{type: "text[]", nullable: true{address}}}
    zip: {{type: "numeric(8,2)", nullable: true{address}}}
target: {{table: public.customers, bookkeeping: {bookkeeping}}}
quality: {{max_quarantined_share: 1.0}}
"""
KEEP, ADDRESS = ", absent: keep", ", group: address"
GROUPS = {"note": ("note",), "address": ("street", "zip")}


def written(folder: Path, note: str = KEEP, address: str = ADDRESS, bookkeeping: str = "{publish_at: at}") -> Pipeline:
    return pipeline_of(folder, PIPELINE, note=note, address=address, bookkeeping=bookkeeping)


@dataclass(frozen=True, slots=True)
class Change:
    """A record; ``given`` are the members that it has, some of them null."""

    seconds: int
    partition: int
    offset: int
    id: int
    deleted: bool
    given: dict[str, Any]

    @property
    def order(self) -> tuple[int, int, int]:
        return self.seconds, self.partition, self.offset

    @property
    def raw(self) -> Raw:
        at = (NOON + timedelta(seconds=self.seconds)).isoformat()
        body = {"tenant": "t", "id": self.id, "at": at, "op": "d" if self.deleted else "u", "state": str(self.order)}
        return Raw(self.partition, self.offset, json.dumps(body | self.given).encode())


def history(rng: random.Random) -> list[list[Change]]:
    """Batches of two partitions, about two customers."""
    batches, next_offset = [], [0, 0]
    for _ in range(rng.randint(2, 3)):
        batch = []
        for _ in range(rng.randint(1, 6)):
            partition = rng.randrange(2)
            given = {
                "note": rng.choice(("a", "b", None)),
                "street": rng.choice((["x", None], [], None)),
                "zip": rng.choice((1.5, 20, None)),
            }
            given = {name: value for name, value in given.items() if rng.random() < 0.5}
            deleted = rng.random() < 0.2
            batch.append(Change(rng.randrange(5), partition, next_offset[partition], rng.randrange(2), deleted, given))
            next_offset[partition] += 1
        batches.append(batch)
    return batches


def expected(changes: Sequence[Change]) -> set[tuple[Any, ...]]:
    """The rows by a fold of the changes in their order."""
    state: dict[int, dict[str, Any]] = {}
    for change in sorted(changes, key=lambda each: each.order):
        if change.deleted:
            state.pop(change.id, None)
            continue
        row = state.setdefault(change.id, dict.fromkeys(("note", "street", "zip")))
        row |= {"state": str(change.order), "at": NOON + timedelta(seconds=change.seconds)}
        for columns in GROUPS.values():
            if set(columns) & change.given.keys():
                row |= {name: change.given.get(name) for name in columns}
    return {
        (key, row["state"], row["at"], row["note"], str(row["street"]), row["zip"] and float(row["zip"]))
        for key, row in state.items()
    }


def table(session: Session) -> set[tuple[Any, ...]]:
    query = "SELECT id, state, at, note, street, zip FROM public.customers"
    return {(*row[:4], str(row[4]), row[5] and float(row[5])) for row in rows(session, query)}


@pytest.mark.timeout(1800)
def test_every_order_of_arrival_gives_the_newest_values_of_each_group(
    session: Session, tmp_path: Path, few: bool
) -> None:
    pipeline = written(tmp_path)
    for seed in range(4 if few else 30):
        rng = random.Random(f"partial {seed}")
        batches = history(rng)
        orders = list(permutations(batches))
        for order in rng.sample(orders, 1 if few else min(2, len(orders))):
            with transaction(session) as cursor:
                cursor.execute("DROP TABLE IF EXISTS public.customers; SELECT tests.empty_ledger()")
                if seed % 2:
                    cursor.execute(
                        "CREATE TABLE public.customers (zip numeric(8,2), street text[], mine text, note text,"
                        " state text NOT NULL, id bigint, tenant text NOT NULL, at timestamptz, UNIQUE (id, tenant))"
                    )
            for batch in order:
                kind = BatchKind.HEAD if list(order) == batches else BatchKind.REPLAY
                commit_raw(session, pipeline, [change.raw for change in batch], kind)
            wanted = expected([change for batch in batches for change in batch])
            assert table(session) == wanted, seed
            again = rng.choice(batches)
            done = commit_raw(session, pipeline, [change.raw for change in again], BatchKind.REPLAY)
            assert (done.total.inserted, done.total.updated, done.total.deleted) == (0, 0, 0)
            assert table(session) == wanted, seed
            if list(order) == batches:
                assert verify(pipeline)[0] == []


def change(offset: int, seconds: int, deleted: bool = False, **given: Any) -> Raw:
    return Change(seconds, 0, offset, 1, deleted, given).raw


def test_an_older_record_gives_what_newer_ones_left_out_and_none_of_what_they_gave(
    session: Session, tmp_path: Path
) -> None:
    pipeline = written(tmp_path)
    commit_raw(session, pipeline, [change(0, 9, note="new")])
    late = commit_raw(session, pipeline, [change(1, 5, note="old", zip=7)])
    assert late.total.superseded == 1
    assert {row[3:] for row in table(session)} == {("new", "None", 7.0)}
    commit_raw(session, pipeline, [change(2, 7, deleted=True)])
    assert {row[3:] for row in table(session)} == {("new", "None", None)}
    commit_raw(session, pipeline, [change(3, 6, street=["late"])])
    assert {row[3:] for row in table(session)} == {("new", "None", None)}
    assert verify(pipeline)[0] == []


def test_null_is_a_value_and_absence_is_none(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path)
    commit_raw(session, pipeline, [change(0, 0, note="a", zip=1), change(1, 1, note=None), change(2, 2)])
    assert {row[3:] for row in table(session)} == {(None, "None", 1.0)}


def test_columns_that_get_a_group_later_have_the_order_of_their_rows(session: Session, tmp_path: Path) -> None:
    before = written(tmp_path, note="", address="")
    commit_raw(session, before, [change(0, 5, note="n", street=["s"], zip=1)])
    with transaction(session) as cursor:
        assert check_target(cursor, written(tmp_path)) == []
    pipeline = written(tmp_path)
    commit_raw(session, pipeline, [change(1, 4, note="old", zip=2), change(2, 6, zip=3)])
    assert {row[3:] for row in table(session)} == {("n", "None", 3.0)}
    assert verify(pipeline)[0] == []
    commit_raw(session, before, [change(3, 7, note="m", street=["r"], zip=4)])
    assert {row[3:] for row in table(session)} == {("m", "['r']", 4.0)}
    commit_raw(session, pipeline, [change(4, 6, note="late", zip=5), change(5, 8)])
    assert {row[3:] for row in table(session)} == {("m", "['r']", 4.0)}
    assert verify(pipeline)[0] == []


def test_a_fill_writes_the_groups_that_the_table_lost(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path)
    records = [change(0, 0, note="a", zip=1), change(1, 1, street=["s"]), change(2, 2, zip=4)]
    commit_raw(session, pipeline, records)
    wanted = table(session)
    request = Request(RunAction.RANGES, ranges=(OffsetRange(0, 0, 3),), fill=True).key
    for damage in ("UPDATE public.customers SET note = NULL, zip = 9", "DELETE FROM public.customers"):
        do(session, damage)
        commit_raw(session, pipeline, records, BatchKind.REPLAY, request)
        assert table(session) == wanted
        assert verify(pipeline)[0] == []

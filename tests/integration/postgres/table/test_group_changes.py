"""Columns that leave their group, come back, move, or come new, and what keeps the order of each group."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.model.balance_sheet import Dispositions
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.request import Request, RunAction
from offset_ledger.model.states import BatchKind
from offset_ledger.operations.repair.verify import verify
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Session, rows
from tests.fixtures.raw import Raw, commit_raw
from tests.fixtures.staged import NOON
from tests.fixtures.tables import do, pipeline_of

PIPELINE = """
pipeline: customers
source: {{topic: customers}}
record:
  key: {{id: bigint}}
  publish_at: $.at
  delete_when: {{path: $.op, equals: d}}
  columns: {{state: text{columns}}}
target: {{table: public.customers, bookkeeping: beside, evolve: add_columns}}
"""
KEEP, PLAIN, NONE = "absent: keep", "", None
Columns = Mapping[str, str | None]  # what the file says of "a" and "b"; None: it does not declare the column


@dataclass
class World:
    """A pipeline whose file changes, and the records that have come; each is one batch."""

    session: Session
    folder: Path
    sent: list[Raw] = field(default_factory=list)
    columns: Columns = field(default_factory=dict)

    @property
    def pipeline(self) -> Pipeline:
        declared = {name: said for name, said in self.columns.items() if said is not None}
        each = (f", {name}: {{type: text, nullable: true, {said}}}" for name, said in declared.items())
        return pipeline_of(self.folder, PIPELINE, columns="".join(each).replace(", }", "}"))

    def send(self, seconds: int, given: Mapping[str, Any] | None, id: int = 1) -> Dispositions:
        """Commit a record with these members; None deletes."""
        body = {"id": id, "at": (NOON + timedelta(seconds=seconds)).isoformat(), "op": "d" if given is None else "u"}
        value = json.dumps(body | {"state": f"{seconds}"} | dict(given or {})).encode()
        self.sent.append(Raw(0, len(self.sent), value))
        return commit_raw(self.session, self.pipeline, self.sent[-1:]).total

    def replay(self, first: int = 0, until: int | None = None, fill: bool = False) -> tuple[int, int, int]:
        """Replay these offsets; how many rows that inserted, updated and deleted."""
        records = self.sent[first:until]
        request = Request(RunAction.RANGES, ranges=(OffsetRange(0, first, first + len(records)),), fill=fill).key
        total = commit_raw(self.session, self.pipeline, records, BatchKind.REPLAY, request).total
        return total.inserted, total.updated, total.deleted

    def row(self, id: int = 1) -> dict[str, str | None] | None:
        found = rows(self.session, "SELECT state, a, b FROM public.customers WHERE id = %s", [id])
        return dict(found[0]) if found else None

    def check(self) -> None:
        assert verify(self.pipeline)[0] == []


@pytest.fixture
def world(session: Session, tmp_path: Path) -> World:
    """The table has all columns from the start."""
    do(session, "CREATE TABLE public.customers (id bigint PRIMARY KEY, state text NOT NULL, a text, b text)")
    return World(session, tmp_path)


Step = tuple[Columns, int, Mapping[str, Any] | None]
BOTH, ONLY_B, TWO, ONE = (
    {"a": said[0], "b": said[1]}
    for said in ((KEEP, KEEP), (PLAIN, KEEP), ("group: x", "group: y"), ("group: y", "group: y"))
)
SWAPPED, JOINS = {"a": "group: y", "b": "group: x"}, {"a": PLAIN, "b": "group: y"}
STORIES: dict[str, tuple[list[Step], dict[str, str | None]]] = {
    "comes back": (
        [(BOTH, 1, {"a": "1", "b": "1"}), (ONLY_B, 10, {"a": "10"}), (BOTH, 5, {"a": "5"})],
        {"state": "10", "a": "10", "b": "1"},
    ),
    "comes back empty": (
        [(BOTH, 1, {"a": "1", "b": "1"}), (ONLY_B, 10, {}), (BOTH, 5, {"a": "5"})],
        {"state": "10", "a": None, "b": "1"},
    ),
    "comes back, and a delete is late": (
        [(BOTH, 1, {"a": "1", "b": "1"}), (ONLY_B, 10, {"a": "10"}), (BOTH, 5, None)],
        {"state": "10", "a": "10", "b": None},
    ),
    "comes back after the file did not have it": (
        [(BOTH, 1, {"a": "1", "b": "1"}), ({"a": NONE, "b": KEEP}, 10, {"a": "10"}), (BOTH, 5, {"a": "5"})],
        {"state": "10", "a": None, "b": "1"},
    ),
    "moves into a group": (
        [(TWO, 1, {"b": "1"}), (TWO, 9, {"a": "9"}), (ONE, 5, {"b": "5"})],
        {"state": "9", "a": "9", "b": "1"},
    ),
    "moves away and back": (
        [(TWO, 1, {"a": "1", "b": "1"}), (ONE, 9, {"a": "9", "b": "9"}), (TWO, 5, {"a": "5", "b": "5"})],
        {"state": "9", "a": "9", "b": "9"},
    ),
    "joins a group": (
        [(JOINS, 1, {"a": "1", "b": "1"}), (JOINS, 9, {"a": "9"}), (ONE, 5, {"b": "5"})],
        {"state": "9", "a": "9", "b": "1"},
    ),
    "joins a group, and its own value is late": (
        [(JOINS, 1, {"a": "1", "b": "1"}), (JOINS, 9, {"a": "9"}), (ONE, 5, {"a": "5"})],
        {"state": "9", "a": "9", "b": "1"},
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_a_column_keeps_the_newest_value_when_its_group_changes(world: World, name: str) -> None:
    steps, expected = STORIES[name]
    for world.columns, seconds, given in steps:
        world.send(seconds, given)
    assert world.row() == expected
    world.check()
    assert world.replay() == (0, 0, 0)
    assert world.row() == expected
    world.send(11, {"a": "11", "b": "11"})
    assert world.row() == {"state": "11", "a": "11", "b": "11"}
    world.check()


def test_two_columns_that_change_places_keep_the_newest_values(world: World) -> None:
    world.columns = TWO
    world.send(1, {"b": "1"})
    world.send(9, {"a": "9"})
    world.columns = SWAPPED
    world.send(5, {"a": "5", "b": "5"})
    row = world.row()
    assert row is not None
    assert row["a"] == "9"
    assert row["b"] in ("1", "5")  # the order of the row, or the one that the value has
    world.check()


def test_a_group_that_changed_with_many_rows_has_the_order_of_each(world: World) -> None:
    world.columns = BOTH
    for id in (1, 2, 3):
        world.send(1, {"a": "1", "b": "1"}, id)
    world.columns = ONLY_B
    world.send(10, {"a": "10"}, 1)
    world.send(20, None, 2)
    world.columns = BOTH
    for id in (1, 2, 3):
        world.send(5, {"a": "5"}, id)
    assert [world.row(id) for id in (1, 2, 3)] == [
        {"state": "10", "a": "10", "b": "1"},
        None,
        {"state": "5", "a": "5", "b": "1"},
    ]
    world.send(21, {"b": "21"}, 2)
    assert world.row(2) == {"state": "21", "a": None, "b": "21"}
    world.check()


# -- a column that no commit has written -----------------------------------------------------------------------

BEFORE: dict[str, Columns] = {"no groups yet": {"b": PLAIN}, "another group": {"b": KEEP}}


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
@pytest.mark.parametrize("own", [None, "mine"])
def test_a_fill_gives_a_new_column_what_a_pipeline_from_the_start_would_have(
    world: World, before: Columns, own: str | None
) -> None:
    world.columns = before
    world.send(1, {"a": "1", "b": "b"})
    world.send(3, {"a": "3", "b": "b"})
    world.send(5, {"b": "b"})
    world.send(1, {"a": "1", "b": "b"}, 2)
    world.send(4, None, 2)
    world.send(5, {"b": "b"}, 2)
    world.send(5, {"a": None, "b": "b"}, 3)
    if own:
        do(world.session, f"UPDATE public.customers SET a = '{own}' WHERE id = 1")
    world.columns = {**before, "a": KEEP}
    world.replay(fill=True)
    expected = [
        {"state": "5", "a": "3", "b": "b"},
        {"state": "5", "a": None, "b": "b"},
        {"state": "5", "a": None, "b": "b"},
    ]
    assert [world.row(id) for id in (1, 2, 3)] == expected
    assert world.replay(fill=True) == (0, 0, 0)
    assert [world.row(id) for id in (1, 2, 3)] == expected
    world.check()


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
def test_a_new_column_is_filled_from_parts_of_the_topic_in_any_order(world: World, before: Columns) -> None:
    world.columns = before
    for seconds in (1, 3):
        world.send(seconds, {"a": f"{seconds}", "b": "b"})
    world.send(5, {"b": "b"})
    world.columns = {**before, "a": KEEP}
    for first in (1, 2, 0):
        world.replay(first, first + 1, fill=True)
    assert world.row() == {"state": "5", "a": "3", "b": "b"}
    world.send(2, {"a": "2"})
    assert world.row() == {"state": "5", "a": "3", "b": "b"}
    world.check()


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
def test_a_late_record_gives_a_new_column_what_no_other_gave(world: World, before: Columns) -> None:
    world.columns = before
    world.send(5, {"b": "b"})
    world.columns = {**before, "a": KEEP}
    world.send(3, {"a": "3"})
    world.send(2, {"a": "2"})
    assert world.row() == {"state": "5", "a": "3", "b": "b"}
    world.check()


def test_a_column_that_came_back_into_the_file_is_filled_from_the_record_of_its_row(world: World) -> None:
    world.columns = BOTH
    world.send(1, {"a": "1", "b": "1"})
    world.columns = {"b": KEEP}
    world.send(10, {"a": "10"})
    world.columns = BOTH
    world.send(5, {"a": "5"})
    assert world.row() == {"state": "10", "a": None, "b": "1"}
    world.replay(fill=True)
    assert world.row() == {"state": "10", "a": "10", "b": "1"}
    assert world.replay(fill=True) == (0, 0, 0)
    world.check()


# -- what others write -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("comment", ["NULL", "'the rows of customers'", "'[\"a\"]'", "'{\"a\": 1}'"])
def test_a_comment_on_the_bookkeeping_changes_nothing(world: World, comment: str) -> None:
    world.columns = ONLY_B
    world.send(1, {"a": "1", "b": "1"})
    comments = f"COMMENT ON TABLE offset_ledger_rows.customers IS {comment}"
    do(world.session, comments)
    world.send(9, {"a": "9"})
    world.send(5, {"b": "5"})
    assert world.row() == {"state": "9", "a": "9", "b": "5"}
    world.columns = BOTH
    do(world.session, comments)
    world.send(8, {"a": "8", "b": "8"})
    do(world.session, comments)
    world.send(7, {"a": "7", "b": "7"})
    assert world.row() == {"state": "9", "a": "9", "b": "8"}
    world.check()


@pytest.mark.parametrize("columns", [BOTH, TWO], ids=["keep", "groups"])
def test_a_late_record_leaves_a_row_that_a_user_deleted_and_a_fill_brings_it_back(
    world: World, columns: Columns
) -> None:
    world.columns = columns
    world.send(9, {"a": "9"})
    world.send(9, {"a": "other", "b": "other"}, 2)
    do(world.session, "DELETE FROM public.customers WHERE id = 1")
    late = world.send(5, {"b": "5"})
    assert (late.superseded, world.row()) == (1, None)
    assert "event 1 of partition 0 offset 0 is not in the table" in "\n".join(verify(world.pipeline)[0])
    world.replay(2, 3)
    world.replay(2, 3, fill=True)
    assert world.row(2) == {"state": "9", "a": "other", "b": "other"}
    world.replay(fill=True)
    assert world.row() == {"state": "9", "a": "9", "b": "5"}
    assert world.replay(fill=True) == (0, 0, 0)
    world.check()

"""What a commit does with the rows of a table beside its bookkeeping, and which rows it leaves alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.errors import LedgerViolation
from offset_ledger.model.balance_sheet import Dispositions
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

PIPELINE = """
pipeline: staff
source: {{topic: staff}}
record:
  key: {{id: bigint}}
  publish_at: $.at
  delete_when: {{path: $.op, equals: d}}
  columns: {{manager: {{type: bigint, nullable: true}}, name: {{type: text, nullable: true{group}}}}}
target: {{table: public.staff, bookkeeping: {bookkeeping}{more}}}
"""
KEEP = ", absent: keep"
Person = Mapping[str, Any]


def written(folder: Path, group: str = "", bookkeeping: str = "beside", more: str = "") -> Pipeline:
    return pipeline_of(folder, PIPELINE, group=group, bookkeeping=bookkeeping, more=more)


def record(offset: int, id: int, given: Person | None, seconds: int | None = None) -> Raw:
    """One about this person; without anything given it deletes."""
    at = (NOON + timedelta(seconds=offset if seconds is None else seconds)).isoformat()
    body = {"id": id, "at": at, "op": "d" if given is None else "c"}
    return Raw(0, offset, json.dumps(body | dict(given or {})).encode())


def send(session: Session, pipeline: Pipeline, *records: Raw) -> Dispositions:
    return commit_raw(session, pipeline, records).total


def replay(session: Session, pipeline: Pipeline, *records: Raw, fill: bool = False) -> tuple[int, int, int]:
    """Replay these, the records of consecutive offsets; how many rows that inserted, updated and deleted."""
    ranges = (OffsetRange(0, records[0].offset, records[-1].offset + 1),)
    request = Request(RunAction.RANGES, ranges=ranges, fill=fill).key
    total = commit_raw(session, pipeline, records, BatchKind.REPLAY, request).total
    return total.inserted, total.updated, total.deleted


def staff(session: Session, columns: str = "id, manager, name") -> set[tuple[Any, ...]]:
    return {tuple(row) for row in rows(session, f"SELECT {columns} FROM public.staff")}


# -- skip_existing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [{"name": "kafka"}, None], ids=["a state", "a delete"])
@pytest.mark.parametrize("trigger", [False, True])
def test_skip_existing_leaves_rows_that_the_table_had(
    session: Session, tmp_path: Path, first: Person | None, trigger: bool
) -> None:
    do(session, "CREATE TABLE public.staff (id bigint PRIMARY KEY, manager bigint, name text, own text)")
    do(session, "INSERT INTO public.staff VALUES (1, 7, 'before', 'mine'), (2, NULL, 'before', 'mine')")
    if trigger:
        do(session, f"{FILLS}; {ROW_TRIGGER}")
    pipeline = written(tmp_path, more=", merge: skip_existing")
    before = staff(session, "staff::text, xmin::text")
    batch = [record(0, 1, first), record(1, 1, {"name": "later"}), record(2, 3, {"name": "new"}), record(3, 4, None)]
    done = send(session, pipeline, *batch)
    assert (done.inserted, done.updated, done.deleted) == (1, 0, 1)
    assert staff(session, "staff::text, xmin::text") >= before
    expected = {(1, 7, "before"), (2, None, "before"), (3, None, "new")}
    assert staff(session) == expected
    assert verify(pipeline)[0] == []
    more = [record(4, 1, None), record(5, 1, {"name": "again"}), record(6, 4, {"name": "after"}), record(7, 3, None)]
    done = send(session, pipeline, *more)
    assert (done.inserted, done.updated, done.deleted) == (0, 0, 0)
    assert replay(session, pipeline, *batch, *more) == (0, 0, 0)
    assert replay(session, pipeline, *batch, *more, fill=True) == (0, 0, 0)
    assert staff(session) == expected
    assert staff(session, "staff::text, xmin::text") >= before
    assert verify(pipeline)[0] == []


class Bench(TopicBench):
    TEMPLATE = """
pipeline: orders
source: {{topic: {topic}}}
record:
  key: {{id: {{type: text, key: $}}}}
  publish_at: kafka_timestamp
  tombstone: delete
  columns: {{state: text}}
target: {{table: orders, bookkeeping: beside, merge: skip_existing}}
stage: {{engine: process}}
"""


def test_the_topic_agrees_with_rows_that_skip_existing_left(bench: Bench) -> None:
    def order(moment: int, id: bytes, state: str | None) -> Record:
        return Record(id, json.dumps({"state": state}).encode() if state else None, (), moment, 0)

    bench.execute("CREATE TABLE public.orders (id text PRIMARY KEY, state text NOT NULL)")
    bench.execute("INSERT INTO public.orders VALUES ('a', 'before'), ('b', 'before'), ('c', 'before')")
    bench.publish(order(1, b"a", "kafka"), order(2, b"b", None), order(3, b"d", "kafka"), order(4, b"a", "later"))
    bench.ingest()
    assert set(bench.rows("id, state")) == {("a", "before"), ("b", "before"), ("c", "before"), ("d", "kafka")}
    bench.agree()


# -- copies of the bookkeeping ---------------------------------------------------------------------------------

TABLE = """
CREATE TABLE public.staff (id bigint PRIMARY KEY, manager bigint, name text, batch bigint, at timestamptz, own text)
"""
FILLS = "CREATE FUNCTION public.fill() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.own := ''own''; RETURN NEW; END'"
ROW_TRIGGER = "CREATE TRIGGER fills BEFORE INSERT OR UPDATE ON public.staff FOR EACH ROW EXECUTE FUNCTION public.fill()"
NOTHING = "CREATE FUNCTION public.nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"
STATEMENT_TRIGGER = (
    "CREATE TRIGGER looks AFTER INSERT OR UPDATE OR DELETE ON public.staff"
    " FOR EACH STATEMENT EXECUTE FUNCTION public.nothing()"
)
COPIED = {
    "rows": ("", ""),
    "row trigger": ("", f"{FILLS}; {ROW_TRIGGER}"),
    "statement trigger": ("", f"{NOTHING}; {STATEMENT_TRIGGER}"),
    "groups": (KEEP, ""),
    "groups, row trigger": (KEEP, f"{FILLS}; {ROW_TRIGGER}"),
}


@pytest.mark.parametrize("name", COPIED)
def test_the_batch_of_a_row_may_be_copied(session: Session, tmp_path: Path, name: str) -> None:
    group, trigger = COPIED[name]
    do(session, f"{TABLE}; {trigger}")
    pipeline = written(tmp_path, group, "{_batch_id: batch, publish_at: at}")
    records = [
        record(0, 1, {"name": "Ada"}),
        record(1, 2, {"name": "Bea"}),
        record(2, 2, {"name": "Eva", "manager": 1}),
    ]
    first = commit_raw(session, pipeline, records[:2]).batch.batch_id
    second = commit_raw(session, pipeline, records[2:]).batch.batch_id
    expected = {(1, None, "Ada", first, NOON), (2, 1, "Eva", second, NOON + timedelta(seconds=2))}
    assert staff(session, "id, manager, name, batch, at") == expected
    assert replay(session, pipeline, *records) == (0, 0, 0)
    assert replay(session, pipeline, *records, fill=True) == (0, 0, 0)
    assert staff(session, "id, manager, name, batch, at") == expected

    do(session, "UPDATE public.staff SET manager = 9 WHERE id = 1")
    request = Request(RunAction.RANGES, ranges=(OffsetRange(0, 0, 3),), fill=True).key
    filled = commit_raw(session, pipeline, records, BatchKind.REPLAY, request)
    assert (filled.total.inserted, filled.total.updated) == (0, 1)
    expected = {(1, None, "Ada", filled.batch.batch_id, NOON), (2, 1, "Eva", second, NOON + timedelta(seconds=2))}
    assert staff(session, "id, manager, name, batch, at") == expected
    assert verify(pipeline)[0] == []


def test_a_copy_that_leaves_the_file_has_nothing_of_an_earlier_record(session: Session, tmp_path: Path) -> None:
    do(session, TABLE)
    commit_raw(session, written(tmp_path, "", "{publish_at: at, _batch_id: batch}"), [record(0, 1, {"name": "Ada"})])
    commit_raw(session, written(tmp_path, "", "beside"), [record(1, 1, {"name": "Bea"})])
    assert staff(session, "name, at, batch") == {("Bea", None, None)}
    again = commit_raw(session, written(tmp_path, "", "{_batch_id: batch}"), [record(2, 1, {"name": "Eva"})])
    assert staff(session, "name, at, batch") == {("Eva", None, again.batch.batch_id)}


# -- a table that refers to itself -----------------------------------------------------------------------------

REFERS = "CREATE TABLE public.staff (id bigint PRIMARY KEY, manager bigint REFERENCES public.staff {}, name text)"
CHANGES: dict[str, tuple[list[tuple[int, Person | None]], set[tuple[Any, ...]]]] = {
    "to a row that is there": (
        [(3, {"manager": 2}), (1, None)],
        {(2, None, None), (3, 2, None)},
    ),
    "to none": (
        [(3, {"manager": None}), (1, None)],
        {(2, None, None), (3, None, None)},
    ),
    "to a row that comes": (
        [(4, {"manager": 2}), (3, {"manager": 4}), (1, None)],
        {(2, None, None), (3, 4, None), (4, 2, None)},
    ),
    "along a chain": (
        [(4, {}), (5, {"manager": 4}), (2, {"manager": 5}), (3, {"manager": 2}), (1, None)],
        {(4, None, None), (5, 4, None), (2, 5, None), (3, 2, None)},
    ),
    "with other deletes": (
        [(2, {"manager": 3}), (3, {"manager": None}), (1, None), (9, None)],
        {(2, 3, None), (3, None, None)},
    ),
}


@pytest.mark.parametrize("deferrable", ["", "DEFERRABLE INITIALLY IMMEDIATE"], ids=["not deferrable", "immediate"])
@pytest.mark.parametrize(("name", "group"), [*((name, "") for name in CHANGES), ("to a row that comes", KEEP)])
def test_a_row_may_be_deleted_in_the_batch_that_takes_the_last_reference_to_it_away(
    session: Session, tmp_path: Path, name: str, deferrable: str, group: str
) -> None:
    changes, expected = CHANGES[name]
    do(session, REFERS.format(deferrable))
    pipeline = written(tmp_path, group)
    send(session, pipeline, record(0, 1, {}), record(1, 2, {}), record(2, 3, {"manager": 1}))
    batch = [record(3 + n, id, given) for n, (id, given) in enumerate(changes)]
    send(session, pipeline, *batch)
    assert staff(session) == expected
    assert verify(pipeline)[0] == []
    assert replay(session, pipeline, *batch) == (0, 0, 0)


@pytest.mark.parametrize("deferrable", ["", "DEFERRABLE INITIALLY IMMEDIATE"], ids=["not deferrable", "immediate"])
def test_a_reference_to_a_row_that_a_batch_deletes_is_refused(
    session: Session, tmp_path: Path, deferrable: str
) -> None:
    do(session, REFERS.format(deferrable))
    pipeline = written(tmp_path)
    send(session, pipeline, record(0, 1, {}), record(1, 3, {"manager": 1}))
    with pytest.raises(LedgerViolation, match="staff_manager_fkey"):
        send(session, pipeline, record(2, 1, None), record(3, 2, {"manager": 1}))
    assert staff(session) == {(1, None, None), (3, 1, None)}


# -- triggers that act once for a statement --------------------------------------------------------------------

SEEN = """
CREATE TABLE public.seen (what text, id bigint, name text);
CREATE FUNCTION public.see() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN INSERT INTO public.seen SELECT TG_OP, id, name FROM changed; RETURN NULL; END $$;
CREATE TRIGGER a AFTER INSERT ON public.staff REFERENCING NEW TABLE AS changed
  FOR EACH STATEMENT EXECUTE FUNCTION public.see();
CREATE TRIGGER b AFTER UPDATE ON public.staff REFERENCING NEW TABLE AS changed
  FOR EACH STATEMENT EXECUTE FUNCTION public.see();
CREATE TRIGGER c AFTER DELETE ON public.staff REFERENCING OLD TABLE AS changed
  FOR EACH STATEMENT EXECUTE FUNCTION public.see();
"""


@pytest.mark.parametrize(("bookkeeping", "group"), [("columns", ""), ("beside", ""), ("beside", KEEP)])
def test_statement_triggers_see_every_row_once(session: Session, tmp_path: Path, bookkeeping: str, group: str) -> None:
    pipeline = written(tmp_path, group, bookkeeping)
    send(session, pipeline, *(record(n, n, {"name": "old"}) for n in range(4)))
    do(session, SEEN)
    batch = [
        record(4, 0, {"name": "new"}),
        record(5, 1, None),
        record(6, 9, {"name": "older"}),
        record(7, 9, {"name": "new"}),
    ]
    done = send(session, pipeline, *batch, record(8, 2, {"name": "late"}, seconds=0))
    assert (done.inserted, done.updated, done.deleted, done.superseded) == (1, 1, 1, 2)
    gone = ("DELETE", 1, "old") if bookkeeping == "beside" else ("UPDATE", 1, None)
    seen = sorted(tuple(row) for row in rows(session, "SELECT what, id, name FROM public.seen"))
    assert seen == sorted([("UPDATE", 0, "new"), gone, ("INSERT", 9, "new")], key=str)
    live = {(0, "new"), (2, "old"), (3, "old"), (9, "new")}
    assert staff(session, "id, name") == live | ({(1, None)} if bookkeeping == "columns" else set())
    assert verify(pipeline)[0] == []

"""Tables without a bookkeeping column: the ledger keeps publish_at, coordinates, batch and deletes beside them."""

from __future__ import annotations

import json
import random
from datetime import timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.errors import LedgerViolation, TargetMismatch
from offset_ledger.model.batch import Origin
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.request import Request, RunAction
from offset_ledger.model.states import BatchKind
from offset_ledger.operations.repair.verify import verify
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Session, rows, transaction
from offset_ledger.postgres.table.change import check_target
from offset_ledger.postgres.table.restate import restate
from tests.fixtures.raw import Raw, commit_raw
from tests.fixtures.staged import NOON
from tests.fixtures.tables import do, pipeline_of
from tests.integration.postgres.table.test_keys import KINDS, Event, Kind, history, newest

pytestmark = [pytest.mark.usefixtures("any_case"), pytest.mark.minutes(2)]

PIPELINE = """
pipeline: sales
source: {{topic: sales{key_format}}}
record:
  key: {{{key}}}
  publish_at: {publish_at}
  {deletes}
  columns: {{{columns}}}
target: {{table: public.orders, {target}}}
quality: {{max_quarantined_share: 1.0}}
"""
DELETES = "delete_when: {path: $.op, equals: d}"
TOMBSTONES = "tombstone: delete"


def written(
    folder: Path,
    key: str = "id: bigint",
    target: str = "bookkeeping: beside",
    columns: str = "state: text",
    deletes: str = DELETES,
    publish_at: str = "$.at",
) -> Pipeline:
    key_format = ", key_format: json" if "key: $" in key else ""
    return pipeline_of(
        folder,
        PIPELINE,
        key=key,
        target=target,
        columns=columns,
        deletes=deletes,
        publish_at=publish_at,
        key_format=key_format,
    )


def record(offset: int, seconds: int, state: str | None, partition: int = 0, **more: Any) -> Raw:
    """One about event 1; without a state it deletes the event."""
    body = {"id": 1, "at": (NOON + timedelta(seconds=seconds)).isoformat(), "op": "c" if state else "d", "state": state}
    return Raw(partition, offset, json.dumps(body | more).encode())


def table(session: Session, columns: str = "id, state") -> set[tuple[Any, ...]]:
    return {tuple(row) for row in rows(session, f"SELECT {columns} FROM public.orders")}


def columns_of(session: Session) -> list[str]:
    query = "SELECT attname FROM pg_attribute WHERE attrelid = 'public.orders'::regclass AND attnum > 0 ORDER BY attnum"
    return [row[0] for row in rows(session, query)]


@pytest.mark.parametrize("tombstones", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(name for name, _ in kind.file))
def test_every_order_of_arrival_leaves_the_newest_states_and_none_that_is_deleted(
    session: Session, tmp_path: Path, kind: Kind, tombstones: bool, few: bool
) -> None:
    pipeline = written(
        tmp_path,
        kind.columns(tombstones),
        deletes=TOMBSTONES if tombstones else DELETES,
        publish_at="kafka_timestamp" if tombstones else "$.at",
    )
    for seed in range(2 if few else 6):
        rng = random.Random(f"{kind.file}{tombstones}{seed}")
        batches = history(rng, kind)
        orders = list(permutations(batches))
        for order in rng.sample(orders, 1 if few else min(2, len(orders))):
            do(session, "DROP TABLE IF EXISTS public.orders, offset_ledger_rows.sales")
            do(session, "SELECT tests.empty_ledger()")
            if seed % 2:
                create(session, kind)
            elif "any_case" in str(kind.table):
                continue  # the table that the pipeline makes is bytewise
            expected = newest(session, kind, [event for batch in batches for event in batch])
            for batch in order:  # offsets that come late are a replay's
                commit_raw(session, pipeline, [event.raw(kind, tombstones) for event in batch], _kind(order, batches))
            assert states(session) == {state for _, _, state in expected if state}
            again = rng.choice(batches)
            done = commit_raw(session, pipeline, [e.raw(kind, tombstones) for e in again], BatchKind.REPLAY)
            assert (done.total.inserted, done.total.updated, done.total.deleted) == (0, 0, 0)
            assert states(session) == {state for _, _, state in expected if state}
            kept = rows(session, "SELECT _partition, _offset, _deleted FROM offset_ledger_rows.sales")
            assert {tuple(row) for row in kept} == {(part, off, state is None) for part, off, state in expected}
            if list(order) == batches:
                assert verify(pipeline)[0] == []


def _kind(order: tuple[list[Event], ...], batches: list[list[Event]]) -> BatchKind:
    return BatchKind.HEAD if list(order) == batches else BatchKind.REPLAY


def states(session: Session) -> set[str]:
    found = [row[0] for row in rows(session, "SELECT state FROM public.orders")]
    assert len(found) == len(set(found))
    return set(found)


def create(session: Session, kind: Kind) -> None:
    """The table as its users made it: no value is ever NULL, and nothing but values."""
    key = ", ".join(f"{name} {made} NOT NULL" for (name, _), made in zip(kind.file, kind.table, strict=True))
    names = ", ".join(name for name, _ in kind.file)
    do(session, f"CREATE TABLE public.orders (state text NOT NULL, {key}, UNIQUE ({names}))")


def test_the_table_has_the_declared_columns_and_copies_under_names_of_its_own(session: Session, tmp_path: Path) -> None:
    names = "{publish_at: updated_at, _offset: kafka_offset, _batch_id: batch, _key: null}"
    pipeline = written(tmp_path, target=f"bookkeeping: {names}, view: orders_now")
    done = commit_raw(session, pipeline, [record(0, 0, "new"), record(1, 5, "paid")])
    assert columns_of(session) == ["id", "state", "updated_at", "kafka_offset", "batch"]
    assert table(session, "id, state, updated_at, kafka_offset, batch") == {
        (1, "paid", NOON + timedelta(seconds=5), 1, done.batch.batch_id)
    }
    view = rows(session, "SELECT * FROM public.orders_now")
    assert view == [[1, NOON + timedelta(seconds=5), 1, done.batch.batch_id, "paid"]]
    assert verify(pipeline)[0] == []


def test_rows_that_the_table_had_are_older_than_any_record(session: Session, tmp_path: Path) -> None:
    do(session, "CREATE TABLE public.orders (id bigint PRIMARY KEY, state text NOT NULL, note text)")
    do(session, "INSERT INTO public.orders VALUES (1, 'before', 'mine'), (2, 'before', 'mine'), (3, 'before', 'mine')")
    pipeline = written(tmp_path)
    commit_raw(session, pipeline, [record(0, 0, "new"), record(1, 0, None, id=2)])
    assert table(session, "id, state, note") == {(1, "new", "mine"), (3, "before", "mine")}
    assert verify(pipeline)[0] == []


def test_a_late_record_does_not_bring_a_deleted_row_back_and_a_newer_one_does(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path)
    commit_raw(session, pipeline, [record(0, 10, None)])
    late = commit_raw(session, pipeline, [record(1, 9, "late")])
    assert (late.total.superseded, table(session)) == (1, set())
    commit_raw(session, pipeline, [record(2, 11, "again")])
    assert table(session) == {(1, "again")}
    gone = commit_raw(session, pipeline, [record(3, 12, None)])
    assert (gone.total.deleted, table(session)) == (1, set())


def test_refused_deletes_are_quarantined(session: Session, tmp_path: Path) -> None:
    for target in ("deletes: refuse", "deletes: refuse, bookkeeping: beside"):
        do(session, "DROP TABLE IF EXISTS public.orders; SELECT tests.empty_ledger()")
        pipeline = written(tmp_path, target=target)
        done = commit_raw(session, pipeline, [record(0, 0, "new"), record(1, 1, None)])
        assert (done.total.quarantined, table(session)) == (1, {(1, "new")})
        found = rows(session, "SELECT \"offset\", reasons->0->>'code' FROM offset_ledger.quarantine")
        assert [tuple(row) for row in found] == [(1, "delete")]


def test_skip_existing_keeps_the_first_state(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path, target="bookkeeping: beside, merge: skip_existing", deletes="")
    commit_raw(session, pipeline, [record(0, 0, "first"), record(1, 1, "second")])
    commit_raw(session, pipeline, [record(2, 2, "third"), record(3, 2, "other", id=2)])
    assert table(session) == {(1, "first"), (2, "other")}


def test_a_table_of_nothing_but_a_key(session: Session, tmp_path: Path) -> None:
    do(session, "CREATE TABLE public.orders (id bigint PRIMARY KEY, state text)")
    pipeline = written(tmp_path, key="id: bigint, state: text", columns="n: {type: bigint, nullable: true}")
    do(session, "ALTER TABLE public.orders ADD n bigint; ALTER TABLE public.orders DROP CONSTRAINT orders_pkey")
    do(session, "ALTER TABLE public.orders ALTER state SET NOT NULL, ADD UNIQUE (state, id)")
    commit_raw(session, pipeline, [record(0, 0, "a"), record(1, 1, "b"), record(2, 2, "a")])
    assert table(session) == {(1, "a"), (1, "b")}


def test_verify_finds_rows_that_are_gone_and_rows_that_came_back_and_a_fill_writes_them(
    session: Session, tmp_path: Path
) -> None:
    pipeline = written(tmp_path)
    records = [record(0, 0, "a"), record(1, 1, "b", id=2), record(2, 2, None, id=3), record(3, 3, "d", id=4)]
    commit_raw(session, pipeline, records)
    do(session, "DELETE FROM public.orders WHERE id = 1; INSERT INTO public.orders VALUES (3, 'back')")
    do(session, "UPDATE public.orders SET state = 'other' WHERE id = 2")
    lines = "\n".join(verify(pipeline)[0])
    assert "event 1 of partition 0 offset 0 is not in the table" in lines
    assert "event 3 was deleted by partition 0 offset 2, and is in the table" in lines
    request = Request(RunAction.RANGES, ranges=(OffsetRange(0, 0, 4),), fill=True).key
    filled = commit_raw(session, pipeline, records, BatchKind.REPLAY, request)
    assert (filled.total.updated, filled.total.inserted) == (2, 0)
    assert table(session) == {(1, "a"), (2, "b"), (3, "back"), (4, "d")}


def test_a_trigger_that_changes_what_is_written_is_an_error_and_nothing_is_committed(
    session: Session, tmp_path: Path
) -> None:
    pipeline = written(tmp_path)
    commit_raw(session, pipeline, [record(0, 0, "a")])
    do(
        session,
        "CREATE FUNCTION public.change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.state := 1; RETURN NEW; END'",
    )
    do(session, "CREATE TRIGGER change BEFORE UPDATE ON public.orders FOR EACH ROW EXECUTE FUNCTION public.change()")
    with pytest.raises(LedgerViolation, match=r"event '1' does not stand in public.orders .* triggers .*\(change\)"):
        commit_raw(session, pipeline, [record(1, 1, "b")])
    assert table(session) == {(1, "a")}
    do(
        session,
        "CREATE OR REPLACE FUNCTION public.change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
    )
    do(session, "DROP TRIGGER change ON public.orders")
    do(session, "CREATE TRIGGER change BEFORE DELETE ON public.orders FOR EACH ROW EXECUTE FUNCTION public.change()")
    with pytest.raises(LedgerViolation, match="does not stand"):
        commit_raw(session, pipeline, [record(2, 2, None)], BatchKind.REPLAY)
    assert table(session) == {(1, "a")}


def test_the_place_of_the_bookkeeping_cannot_change(session: Session, tmp_path: Path) -> None:
    commit_raw(session, written(tmp_path), [record(0, 0, "a")])
    with (
        transaction(session) as cursor,
        pytest.raises(TargetMismatch, match=r"in table offset_ledger_rows.sales; write target.bookkeeping: beside"),
    ):
        check_target(cursor, written(tmp_path, target="deletes: soft"))
    do(session, "DROP TABLE public.orders, offset_ledger_rows.sales; SELECT tests.empty_ledger()")
    commit_raw(session, written(tmp_path, target="deletes: soft"), [record(0, 0, "a")])
    with (
        transaction(session) as cursor,
        pytest.raises(TargetMismatch, match=r"the table's own columns; write target.bookkeeping: columns"),
    ):
        check_target(cursor, written(tmp_path))


def test_a_remerge_orders_the_rows_beside_and_the_copy_of_the_moment(session: Session, tmp_path: Path) -> None:
    target = "bookkeeping: {publish_at: updated_at}"
    commit_raw(session, written(tmp_path, target=target), [record(0, 60, "a")])
    with transaction(session) as cursor:
        pipeline = written(tmp_path, target=target, publish_at="kafka_timestamp")
        assert restate(cursor, pipeline, Origin("test"), "one clock") == 1
    assert table(session, "id, updated_at") == {(1, NOON)}
    assert rows(session, "SELECT publish_at FROM offset_ledger_rows.sales") == [[NOON]]


def test_rows_move_between_the_partitions_of_their_table(session: Session, tmp_path: Path) -> None:
    do(
        session,
        "CREATE TABLE public.orders (id bigint, state text, PRIMARY KEY (id, state)) PARTITION BY LIST (state);"
        "CREATE TABLE public.orders_a PARTITION OF public.orders FOR VALUES IN ('a');"
        "CREATE TABLE public.orders_b PARTITION OF public.orders FOR VALUES IN ('b', 'c')",
    )
    pipeline = written(tmp_path)
    commit_raw(session, pipeline, [record(0, 0, "a"), record(1, 0, "b", id=2)])
    commit_raw(session, pipeline, [record(2, 1, "c"), record(3, 1, None, id=2)])
    assert rows(session, "SELECT id, state FROM public.orders_b") == [[1, "c"]]
    assert table(session) == {(1, "c")}
    assert verify(pipeline)[0] == []


def test_a_record_that_would_break_another_unique_constraint_is_quarantined(session: Session, tmp_path: Path) -> None:
    do(session, "CREATE TABLE public.orders (id bigint PRIMARY KEY, state text NOT NULL UNIQUE)")
    do(session, "INSERT INTO public.orders VALUES (9, 'taken')")
    pipeline = written(tmp_path, target="bookkeeping: {publish_at: updated_at}, on_conflict: quarantine")
    do(session, "ALTER TABLE public.orders ADD updated_at timestamptz")
    done = commit_raw(session, pipeline, [record(0, 0, "a"), record(1, 1, "taken"), record(2, 0, "b", id=2)])
    assert done.total.quarantined == 1
    done = commit_raw(session, pipeline, [record(3, 5, None, id=3), record(4, 4, "b", id=3), record(5, 5, "b")])
    assert (done.total.quarantined, done.total.superseded) == (1, 1)
    assert table(session) == {(1, "a"), (2, "b"), (9, "taken")}
    assert verify(pipeline)[0] == []

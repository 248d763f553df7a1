"""Join tables: every column is one of the key, so a record says only that its row is there or is gone."""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.model.states import BatchKind
from offset_ledger.operations.repair.verify import verify
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Session, rows, transaction
from offset_ledger.postgres.table.change import check_target
from tests.fixtures.raw import Raw, commit_raw
from tests.fixtures.staged import NOON
from tests.fixtures.tables import do, pipeline_of

PIPELINE = """
pipeline: members
source: {{topic: members{key_format}}}
record:
  key: {{{key}}}
  publish_at: {publish_at}
  {deletes}
  columns: {{}}
target: {{table: public.members, {target}}}
quality: {{max_quarantined_share: 1.0}}
"""
OPERATION = "delete_when: {path: $.op, equals: d}"
TOMBSTONE = "tombstone: delete"
PLACES = ["bookkeeping: columns", "bookkeeping: beside", "bookkeeping: {_batch_id: batch}"]


def written(folder: Path, target: str, deletes: str = OPERATION) -> Pipeline:
    key, key_format, publish_at = "user_id: bigint, group_id: bigint", "", "$.at"
    if deletes == TOMBSTONE:
        key = "user_id: {type: bigint, key: $.user_id}, group_id: {type: bigint, key: $.group_id}"
        key_format, publish_at = ", key_format: json", "kafka_timestamp"
    return pipeline_of(
        folder, PIPELINE, key=key, key_format=key_format, publish_at=publish_at, deletes=deletes, target=target
    )


def record(offset: int, seconds: int, user: int, group: int = 7, gone: bool = False, tombstones: bool = False) -> Raw:
    key, moment = {"user_id": user, "group_id": group}, NOON + timedelta(seconds=seconds)
    if tombstones:
        return Raw(0, offset, None if gone else b"{}", json.dumps(key).encode(), timestamp=moment)
    return Raw(0, offset, json.dumps({**key, "at": moment.isoformat(), "op": "d" if gone else "c"}).encode())


def members(session: Session, pipeline: Pipeline) -> set[tuple[Any, ...]]:
    live = "" if pipeline.target.beside else " WHERE NOT _deleted"
    return {tuple(row) for row in rows(session, f"SELECT user_id, group_id FROM public.members{live}")}


def create(session: Session) -> None:
    do(session, "CREATE TABLE public.members (user_id bigint, group_id bigint, PRIMARY KEY (group_id, user_id))")


@pytest.mark.parametrize("deletes", [OPERATION, TOMBSTONE])
@pytest.mark.parametrize("target", PLACES)
def test_every_order_of_arrival_leaves_the_rows_whose_newest_record_does_not_delete(
    session: Session, tmp_path: Path, target: str, deletes: str
) -> None:
    pipeline, tombstones = written(tmp_path, target, deletes), deletes == TOMBSTONE
    batches = [
        [record(0, 1, 1, tombstones=tombstones), record(1, 2, 2, tombstones=tombstones)],
        [record(2, 5, 1, gone=True, tombstones=tombstones), record(3, 3, 3, tombstones=tombstones)],
        [record(4, 4, 1, tombstones=tombstones), record(5, 6, 3, group=8, tombstones=tombstones)],
    ]
    for order in permutations(batches):
        do(session, "DROP TABLE IF EXISTS public.members, offset_ledger_rows.members", "SELECT tests.empty_ledger()")
        if target == "bookkeeping: beside":
            create(session)
        in_order = list(order) == batches
        for batch in order:
            commit_raw(session, pipeline, batch, BatchKind.HEAD if in_order else BatchKind.REPLAY)
        assert members(session, pipeline) == {(2, 7), (3, 7), (3, 8)}
        again = commit_raw(session, pipeline, batches[1], BatchKind.REPLAY).total
        assert (again.inserted, again.updated, again.deleted) == (0, 0, 0)
        if in_order:
            assert verify(pipeline)[0] == []
            with transaction(session) as cursor:
                assert check_target(cursor, pipeline) == []


@pytest.mark.parametrize("target", PLACES)
def test_skip_existing_keeps_the_first_record(session: Session, tmp_path: Path, target: str) -> None:
    pipeline = written(tmp_path, f"{target}, merge: skip_existing", "")
    done = commit_raw(session, pipeline, [record(0, 1, 1), record(1, 2, 1), record(2, 3, 2)])
    assert (done.total.inserted, done.total.superseded + done.total.duplicate) == (2, 1)
    assert members(session, pipeline) == {(1, 7), (2, 7)}


def test_rows_that_are_gone_are_written_again_by_a_fill(session: Session, tmp_path: Path) -> None:
    create(session)
    pipeline, records = written(tmp_path, "bookkeeping: beside"), [record(0, 1, 1), record(1, 2, 2)]
    commit_raw(session, pipeline, records)
    do(session, "DELETE FROM public.members WHERE user_id = 1")
    assert [violation.number for violation in verify(pipeline)[0]] == [13]
    filled = commit_raw(session, pipeline, records, BatchKind.REPLAY, {"fill": True}).total
    assert (filled.updated, members(session, pipeline)) == (1, {(1, 7), (2, 7)})
    assert verify(pipeline)[0] == []


@pytest.mark.parametrize("target", PLACES[:2])
def test_a_row_whose_values_another_one_has_is_quarantined(session: Session, tmp_path: Path, target: str) -> None:
    """A user is in one group alone: a unique constraint over a part of the key."""
    pipeline = written(tmp_path, f"{target}, on_conflict: quarantine")
    commit_raw(session, pipeline, [record(0, 0, 9)])
    do(session, "ALTER TABLE public.members ADD UNIQUE (user_id)")
    done = commit_raw(session, pipeline, [record(1, 1, 1), record(2, 2, 1, group=8), record(3, 3, 9, group=8)]).total
    assert (done.quarantined, members(session, pipeline)) == (2, {(9, 7), (1, 7)})


def test_a_trigger_of_the_table_may_stay(session: Session, tmp_path: Path) -> None:
    create(session)
    do(
        session,
        "CREATE FUNCTION public.pass() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN coalesce(new, old); END';"
        "CREATE TRIGGER pass BEFORE INSERT OR UPDATE OR DELETE ON public.members"
        " FOR EACH ROW EXECUTE FUNCTION public.pass()",
    )
    pipeline = written(tmp_path, "bookkeeping: beside")
    commit_raw(session, pipeline, [record(0, 1, 1), record(1, 2, 2), record(2, 3, 2), record(3, 4, 2, gone=True)])
    assert members(session, pipeline) == {(1, 7)}
    commit_raw(session, pipeline, [record(4, 9, 1)])
    assert members(session, pipeline) == {(1, 7)}

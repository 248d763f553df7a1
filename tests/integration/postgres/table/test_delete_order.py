"""One clock orders the rows and the delete markers of an event, whatever the other clock says."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.errors import IncompleteStaging, PipelineFileError, StateConflict, TargetMismatch
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.operations.repair.verify import verify
from offset_ledger.pipeline_file.pipeline import JsonPath, Pipeline, Tombstone
from offset_ledger.postgres.ledger.database import Session, rows, transaction
from offset_ledger.postgres.ledger.redrive import RedriveChoice
from offset_ledger.postgres.table.change import ensure_target
from offset_ledger.postgres.table.restate import restate
from offset_ledger.steps.commit.step import commit
from offset_ledger.steps.run.ingest import validate_or_raise
from offset_ledger.steps.run.redrive import plan_redrive, stage_redrive
from tests.fixtures.raw import Raw, commit_raw
from tests.fixtures.staged import ME, NOON, Event, planned, staged, validated
from tests.fixtures.tables import do, pipeline_of

PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, topic: orders}}
record:
  event_id: key
  publish_at: {publish_at}
  {deletes}
  columns: {{state: text}}
target: {{connection: postgres_default, table: public.orders}}
quality: {{max_quarantined_share: 1.0}}
"""
TOMBSTONE = "tombstone: delete"
OPERATION = "delete_when: {path: $.op, equals: d}"
DELETED = None

# (seconds of the producer's clock, seconds of Kafka's timestamp, state), one offset each; both agree on the order.
AHEAD = [(30, 0, "new"), (31, 1, DELETED)]
AGAIN = [(0, 0, "new"), (1, 5, DELETED), (2, 6, "again")]


def written(folder: Path, publish_at: str, deletes: str) -> Pipeline:
    return pipeline_of(folder, PIPELINE, publish_at=publish_at, deletes=deletes)


def history(events: list[tuple[int, int, str | None]], tombstones: bool) -> list[Raw]:
    """The records of one event, a delete as a tombstone or as a record that says so."""
    found = []
    for offset, (at, timestamp, state) in enumerate(events):
        moment = (NOON + timedelta(seconds=at)).isoformat()
        body: dict[str, Any] = {"at": moment, "op": "d"} if state is None else {"at": moment, "op": "c", "state": state}
        value = None if state is None and tombstones else json.dumps(body).encode()
        found.append(Raw(0, offset, value, b"e1", timestamp=NOON + timedelta(seconds=timestamp)))
    return found


def table(session: Session) -> set[tuple[Any, ...]]:
    return {
        tuple(row) for row in rows(session, "SELECT event_id, state, _deleted, _partition, _offset FROM public.orders")
    }


@pytest.mark.parametrize("one_batch", [True, False])
@pytest.mark.parametrize(
    ("events", "stands"), [(AHEAD, ("e1", None, True, 0, 1)), (AGAIN, ("e1", "again", False, 0, 2))]
)
@pytest.mark.parametrize("deletes", [TOMBSTONE, OPERATION])
@pytest.mark.parametrize("publish_at", ["$.at", "kafka_timestamp"])
def test_the_later_of_a_row_and_its_delete_wins(
    session: Session,
    tmp_path: Path,
    publish_at: str,
    deletes: str,
    events: list[tuple[int, int, str | None]],
    stands: tuple[Any, ...],
    one_batch: bool,
) -> None:
    if (publish_at, deletes) == ("$.at", TOMBSTONE):
        with pytest.raises(PipelineFileError, match=r"publish_at: log or kafka_timestamp.*record\.delete_when"):
            written(tmp_path, publish_at, deletes)
        return
    pipeline = written(tmp_path, publish_at, deletes)
    records = history(events, deletes == TOMBSTONE)
    for batch in [records] if one_batch else [[record] for record in records]:
        commit_raw(session, pipeline, batch)
    assert table(session) == {stands}
    assert verify(pipeline)[0] == []


def test_an_undecidable_delete_waits_in_quarantine_for_a_pipeline_file_that_decides_it(
    session: Session, tmp_path: Path
) -> None:
    pipeline = written(tmp_path, "$.at", OPERATION)
    new, gone, again = history(AGAIN, tombstones=False)
    unclear = replace(gone, value=(gone.value or b"").replace(b'"d"', b"4"))
    late = replace(again, value=(again.value or b"").replace(b"12:00:02", b"12:00:00.5"))
    commit_raw(session, pipeline, [new, unclear, late])
    assert table(session) == {("e1", "again", False, 0, 2)}
    found = rows(session, "SELECT \"offset\", reasons->0->>'path', reasons->0->>'code' FROM offset_ledger.quarantine")
    assert [tuple(row) for row in found] == [(1, "$.op", "type")]

    number = written(tmp_path, "$.at", OPERATION.replace("equals: d", "equals: 4"))
    batch = plan_redrive(number, RedriveChoice(), ME).batch
    assert batch is not None
    stage_redrive(number, batch.batch_id, ME)
    validate_or_raise(number, batch.batch_id, ME)
    commit(number, batch.batch_id, ME)
    assert table(session) == {("e1", None, True, 0, 1)}
    assert verify(number)[0] == []


# -- tables whose rows another moment ordered ------------------------------------------------------------------


def of_before(pipeline: Pipeline) -> Pipeline:
    """What earlier versions took: tombstones delete, and rows have their own moment."""
    return by(replace(pipeline, record=replace(pipeline.record, delete_when=None, tombstone=Tombstone.DELETE)), "at")


def by(pipeline: Pipeline, *publish_at: str) -> Pipeline:
    """The pipeline with another publish_at; Kafka's timestamp without a path."""
    path: JsonPath | None = publish_at or None
    return replace(pipeline, record=replace(pipeline.record, publish_at=path))


def forget(session: Session) -> None:
    """The ledger as a version of before leaves it."""
    do(session, "UPDATE offset_ledger.pipeline SET ordered_by = NULL")


def remembered(session: Session) -> str | None:
    found: str | None = rows(session, "SELECT ordered_by FROM offset_ledger.pipeline")[0][0]
    return found


def ready(session: Session, pipeline: Pipeline) -> None:
    with transaction(session) as cursor:
        ensure_target(cursor, pipeline)


def test_rows_are_never_ordered_by_another_path(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path, "$.at", OPERATION)
    commit_raw(session, pipeline, history(AGAIN, tombstones=False))
    assert remembered(session) == "$.at"
    with pytest.raises(TargetMismatch, match=r"publish_at: \$\.ts, and .* ordered by \$\.at .*another name and table"):
        ready(session, by(pipeline, "ts"))
    with pytest.raises(TargetMismatch, match=r"ordered by \$\.at.*offset-ledger remerge orders --why"):
        ready(session, by(pipeline))
    assert remembered(session) == "$.at"
    ready(session, pipeline)


def test_rows_by_kafkas_timestamps_are_never_ordered_by_a_path(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path, "kafka_timestamp", OPERATION)
    commit_raw(session, pipeline, history(AGAIN, tombstones=False))
    with pytest.raises(TargetMismatch, match=r"write publish_at: kafka_timestamp, or start"):
        ready(session, by(pipeline, "at"))


def test_an_empty_table_may_be_ordered_by_anything(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path, "$.at", OPERATION)
    planned(session, pipeline, [OffsetRange(0, 0, 1)])
    for other, moment in ((by(pipeline), "kafka_timestamp"), (by(pipeline, "ts"), "$.ts")):
        ready(session, other)
        assert remembered(session) == moment


def test_rows_without_a_kafka_timestamp_are_not_ordered_by_it(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path, "$.at", OPERATION)
    commit_raw(session, pipeline, history(AGAIN, tombstones=False))
    do(session, "UPDATE public.orders SET _timestamp = NULL")
    before = rows(session, "SELECT * FROM public.orders")
    with pytest.raises(StateConflict, match=r"event 'e1' .* has no Kafka timestamp"), transaction(session) as cursor:
        restate(cursor, by(pipeline), ME, "why")
    assert rows(session, "SELECT * FROM public.orders") == before
    assert remembered(session) == "$.at"


@pytest.mark.parametrize("publish_at", ["$.at", "kafka_timestamp"])
def test_a_pipeline_of_before_without_deletes_notices_nothing(
    session: Session, tmp_path: Path, publish_at: str
) -> None:
    pipeline = written(tmp_path, publish_at, "tombstone: skip")
    commit_raw(session, pipeline, history(AGAIN[:1], tombstones=True))
    forget(session)
    commit_raw(session, pipeline, [replace(history(AGAIN, tombstones=True)[2], offset=1)])
    assert table(session) == {("e1", "again", False, 0, 1)}
    assert remembered(session) == publish_at


@pytest.mark.parametrize("deletes", [OPERATION, "tombstone: skip"])
def test_markers_of_tombstones_are_not_ordered_by_a_path(session: Session, tmp_path: Path, deletes: str) -> None:
    pipeline = written(tmp_path, "$.at", deletes)
    commit_raw(session, of_before(pipeline), history(AGAIN, tombstones=True))
    forget(session)
    with pytest.raises(TargetMismatch, match=r"delete markers of tombstones.*: kafka_timestamp.*remerge orders"):
        ready(session, pipeline)


@pytest.mark.parametrize("events", [AHEAD, AGAIN])
def test_earlier_delete_markers_are_not_mistaken_for_the_right_ones(
    session: Session, tmp_path: Path, events: list[tuple[int, int, str | None]]
) -> None:
    pipeline = written(tmp_path, "kafka_timestamp", TOMBSTONE)
    commit_raw(session, of_before(pipeline), history(events, tombstones=True))
    forget(session)
    with pytest.raises(TargetMismatch, match=r"ordered by another moment.*offset-ledger remerge orders --why"):
        ready(session, pipeline)
    assert remembered(session) is None


def test_a_batch_that_was_staged_in_another_order_is_staged_again(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path, "$.at", OPERATION)
    batch_id = planned(session, pipeline, [OffsetRange(0, 0, 1)])
    validated(session, staged(session, pipeline, batch_id, [Event(5, 0, 0, "e1")]))
    for other in (by(pipeline), by(pipeline, "ts")):
        with pytest.raises(IncompleteStaging, match="another publish_at"):
            commit(other, batch_id, ME)
    commit(pipeline, batch_id, ME)
    assert table(session) == {("e1", "5/0/0", False, 0, 0)}


def test_a_table_without_room_for_markers_is_refused(session: Session, tmp_path: Path) -> None:
    plain = written(tmp_path, "$.at", "tombstone: skip")
    commit_raw(session, plain, history(AGAIN[:1], tombstones=True))
    pipeline = written(tmp_path, "$.at", OPERATION)
    with pytest.raises(TargetMismatch, match="column state is NOT NULL, and delete markers have none"):
        ready(session, pipeline)
    do(session, "ALTER TABLE public.orders ALTER state DROP NOT NULL")
    commit_raw(session, pipeline, [replace(history(AGAIN, tombstones=False)[1], offset=1)])
    assert table(session) == {("e1", None, True, 0, 1)}

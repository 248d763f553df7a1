"""The steps of a batch in this process and without Spark: a plain consumer reads what the slices write."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from offset_ledger.commit.step import commit
from offset_ledger.config.model import Pipeline
from offset_ledger.connections import get_connection
from offset_ledger.decoding.headers import HEADERS
from offset_ledger.errors import TransientError
from offset_ledger.ledger.database import Session
from offset_ledger.ledger.staging import StagingTables
from offset_ledger.model.balance_sheet import gap_reason
from offset_ledger.model.batch import Batch, Origin
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.plan.step import plan
from offset_ledger.reliability.publishing.record import Record
from offset_ledger.stage import slices, step
from offset_ledger.stage.claim import Written
from offset_ledger.stage.slices import SliceTask, write_slice
from offset_ledger.validate.step import validate
from tests.fixtures.engines import BY_PROCESS, SlicesBy
from tests.fixtures.topic_reader import Place, read

ME = Origin("chaos")
Records = Mapping[Place, Record]
Meanwhile = Callable[[Session, Batch, StagingTables, Records], object]
_MOMENT = pa.timestamp("us", "UTC")


class Stalled(Exception):
    """An attempt ends here without a word."""


def records_of(pipeline: Pipeline) -> Records:
    """What a reader of committed data finds in the topic now."""
    return read(get_connection(pipeline.source.connection).extra, pipeline.source.topic)


def write(
    session: Session, pipeline: Pipeline, tables: StagingTables, slice_no: int, wanted: OffsetRange, records: Records
) -> None:
    """One slice: the records of a range, into the database that the pipeline's connection names now."""
    offsets = range(wanted.from_offset, wanted.until_offset)
    inside = {offset: each for (p, offset), each in records.items() if p == wanted.partition and offset in offsets}
    task = SliceTask.of(session, pipeline, tables)
    write_slice(task, slice_no, [_arrow(wanted.partition, inside)])


def _arrow(partition: int, records: Mapping[int, Record]) -> pa.RecordBatch:
    found = list(records.values())
    columns = {
        "key": pa.array([each.key for each in found], pa.binary()),
        "value": pa.array([each.value for each in found], pa.binary()),
        "partition": pa.array([partition] * len(found), pa.int32()),
        "offset": pa.array(list(records), pa.int64()),
        "timestamp": pa.array([(each.timestamp_ms or 0) * 1000 for each in found], pa.int64()).cast(_MOMENT),
        "headers": pa.nulls(len(found), HEADERS),
    }
    return pa.RecordBatch.from_pydict(columns)


def stage(pipeline: Pipeline, batch_id: int, meanwhile: Meanwhile) -> None:
    """Stage the batch, a slice a range; ``meanwhile`` happens between the claim and the slices."""

    def write_all(session: Session, batch: Batch, tables: StagingTables) -> Written:
        records = records_of(pipeline)
        meanwhile(session, batch, tables, records)
        for slice_no, r in enumerate(batch.ranges):
            write(session, pipeline, tables, slice_no, r, records)
        return Written(len(batch.ranges), gap_reason(False, pipeline.source.transactional))

    step.stage_with(SlicesBy(write_all), pipeline, batch_id, ME)


def undisturbed(session: Session, batch: Batch, tables: StagingTables, records: Records) -> None:
    """Nothing happens between the claim and the slices."""


def bring(pipeline: Pipeline, state: str) -> int | None:
    """Plan a batch, or take the open one, and bring it to this state; its id, or None if nothing is new."""
    batch = plan(pipeline, ME).batch
    if batch is None or state == "planned":
        return batch and batch.batch_id
    if state == "staging":
        with suppress(Stalled):
            stage(pipeline, batch.batch_id, _first_slice_only(pipeline))
        return batch.batch_id
    stage(pipeline, batch.batch_id, undisturbed)
    if state in ("validated", "committed"):
        validate(pipeline, batch.batch_id, ME)
    if state == "committed":
        commit(pipeline, batch.batch_id, ME)
    return batch.batch_id


def _first_slice_only(pipeline: Pipeline) -> Meanwhile:
    def write_one(session: Session, batch: Batch, tables: StagingTables, records: Records) -> None:
        write(session, pipeline, tables, 0, batch.ranges[0], records)
        raise Stalled

    return write_one


def drain(pipeline: Pipeline) -> list[str]:
    """Batches until nothing is new; the transient errors on the way, as the next attempt goes on after them."""
    errors: list[str] = []
    while len(errors) < 5:
        try:
            if bring(pipeline, "committed") is None:
                return errors
        except TransientError as error:
            errors.append(type(error).__name__)
    raise AssertionError(f"not drained: {errors}")


def stage_plainly(pipeline: Pipeline, batch_id: int, halt: Path | None = None) -> None:
    """The step without Spark; after each slice it waits while the file ``halt`` is there."""
    write_once = slices.SliceWriter.write

    def write_and_wait(*given: Any) -> int:
        records = write_once(*given)
        while halt and halt.exists():
            halt.with_suffix(".reached").touch()
            time.sleep(0.05)
        return records

    with patch.object(slices.SliceWriter, "write", write_and_wait):
        step.stage(BY_PROCESS, pipeline, batch_id, ME)

"""Redrive and dismiss: quarantined records are decoded and validated again, from their bytes, or set apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from offset_ledger.base.failpoints import Failpoint, reach
from offset_ledger.base.units import counted
from offset_ledger.errors import ConfigurationError, StateConflict
from offset_ledger.model.batch import FROM_QUARANTINE, Batch, EngineChoice, Origin
from offset_ledger.model.moments import parse_since
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import pipelines, redrive
from offset_ledger.postgres.ledger.database import Session, fetched_by_parts, named_sql, open_ledger, rows, transaction
from offset_ledger.postgres.ledger.redrive import QuarantinePosition, RedriveChoice, Selection
from offset_ledger.postgres.ledger.staging import StagingTables
from offset_ledger.postgres.table.change import ensure_target
from offset_ledger.steps.plan.step import PlannedBatch, check_suite, resume
from offset_ledger.steps.stage.claim import Written
from offset_ledger.steps.stage.record_batches import MAX_BYTES, MAX_RECORDS, chunks, record_batch
from offset_ledger.steps.stage.step import StagedBatch, stage_with

if TYPE_CHECKING:
    import pyarrow as pa


_FETCH_SIZE = 100  # a record may have a megabyte


def parse_choice(reason: str | None = None, since: str | None = None, limit: int | None = None) -> RedriveChoice:
    """The choice from text that a person wrote; ``since`` is ISO 8601 with a zone.

    Raises:
        ConfigurationError: a moment without a zone, or a limit below 1.
    """
    moment = parse_since(since or None)
    if limit is not None and limit < 1:
        raise ConfigurationError(f"limit: {limit} is below 1; leave it out to take all records")
    return RedriveChoice(reason or None, moment, limit)


def plan_redrive(pipeline: Pipeline, choice: RedriveChoice, origin: Origin, why: str | None = None) -> PlannedBatch:
    """Freeze the chosen quarantined records as a batch, or resume the open batch of the same choice.

    Raises:
        BatchRejected: that open batch is rejected and needs approval.
        StateConflict: every chosen record is in another open redrive batch.
        ConfigurationError: the pipeline has never been planned, or its suite needs a package that is not installed.
        TargetMismatch: the target table does not fit the pipeline file.
    """
    check_suite(pipeline)
    with open_ledger(pipeline) as session:
        with transaction(session) as cursor:
            # Before any lock: a paused commit of this very batch may hold it, and only the next claim ends that.
            batch = redrive.open_redrive(cursor, pipeline.name, choice)
            planned = resume(cursor, batch, origin) if batch else None
        planned = planned or _plan(session, pipeline, choice, origin, why)
    reach(Failpoint.AFTER_PLAN)
    return planned


def _plan(session: Session, pipeline: Pipeline, choice: RedriveChoice, origin: Origin, why: str | None) -> PlannedBatch:
    with transaction(session) as cursor:
        pipelines.lock_pipeline(cursor, pipeline.name)
        if cursor.rowcount == 0:
            raise ConfigurationError(
                f"pipeline {pipeline.name} is not in this ledger, so nothing of it is in quarantine; ingest it first"
            )
        if open_batch := redrive.open_redrive(cursor, pipeline.name, choice):
            return resume(cursor, open_batch, origin)
        ensure_target(cursor, pipeline)
        batch, records, left, in_others = redrive.insert_redrive(cursor, pipeline, choice, origin, why)
    held = in_open_batches(in_others)
    if batch is None and held:
        raise StateConflict(
            f"pipeline {pipeline.name}: every chosen record is being redriven: {held}; run that redrive again with its "
            "own options, or abandon the batch"
        )
    if batch is None:
        return PlannedBatch(None, False, 0, f"nothing to redrive: no unresolved record of {pipeline.name} is chosen")
    left_out = f"; left out: {held}" if held else ""
    message = f"planned {batch}: {counted(records, 'record')}, {left:,} left for later{left_out}"
    return PlannedBatch(batch, False, left, message)


def in_open_batches(held: Mapping[int, int]) -> str:
    """Return how many records each open redrive batch has, in one line."""
    return ", ".join(f"{records:,} in open batch {batch_id}" for batch_id, records in sorted(held.items()))


def stage_redrive(pipeline: Pipeline, batch_id: int, origin: Origin, session: Session | None = None) -> StagedBatch:
    """Stage the records of a redrive batch under a new epoch, from quarantine, without Spark and Kafka.

    Raises:
        StateConflict: it is rejected or abandoned.
        Fenced: a newer attempt took over meanwhile.
        IncompleteStaging, DatabaseUnavailable: worth another try.
    """
    return stage_with(QuarantineStager(pipeline), pipeline, batch_id, origin, session)


@dataclass(frozen=True, slots=True)
class QuarantineStager:
    """The stager of the frozen records of a redrive, a slice for each partition."""

    pipeline: Pipeline
    choice: ClassVar[EngineChoice] = FROM_QUARANTINE

    def check(self, _batch: Batch) -> None:
        """Return at once: quarantine keeps the records of an open redrive."""

    def stage(self, session: Session, batch: Batch, tables: StagingTables) -> Written:
        """Stage the slices, and one of the records that are left out."""
        from offset_ledger.steps.stage.slices import SliceTask, slice_writer

        task = SliceTask.of(session, self.pipeline, tables, batch.kind)
        with slice_writer(task) as writer:
            for slice_no, r in enumerate(batch.ranges):
                with closing(read_records(session, batch.batch_id, r.partition)) as records:
                    writer.write(slice_no, records)
        with transaction(session) as cursor:
            return Written(len(batch.ranges) + redrive.leave_out(cursor, tables, len(batch.ranges)))


def read_records(session: Session, batch_id: int, partition: int) -> Generator[pa.RecordBatch]:
    """The records of a redrive batch as they came from Kafka, in chunks of a limited number and size."""
    from offset_ledger.decoding.headers import kafka_headers

    with fetched_by_parts(session, "redrive") as cursor:
        cursor.itersize = _FETCH_SIZE
        cursor.run("redrive/records", batch_id=batch_id, partition=partition)
        for chunk in chunks(cursor, lambda row: len(row["value"] or b""), MAX_RECORDS, MAX_BYTES):
            yield record_batch(
                partition,
                offsets=[row["offset"] for row in chunk],
                keys=[_bytes(row["key"]) for row in chunk],
                values=[_bytes(row["value"]) for row in chunk],
                timestamps=[row["milliseconds"] for row in chunk],
                headers=[kafka_headers(row["headers"]) or None for row in chunk],
            )


def _bytes(kept: memoryview | None) -> bytes | None:
    return None if kept is None else bytes(kept)


def list_quarantined(
    pipeline: Pipeline, choice: RedriveChoice, resolved: bool = False, dismissed: bool = False
) -> list[dict[str, Any]]:
    """The quarantined records by reason, with at most ``choice.limit`` coordinates of each.

    The first row has no reason and counts each record once; a record may have several reasons.
    """
    filters = {"pipeline": pipeline.name, "reason": choice.reason, "since": choice.since}
    state = {"resolved": resolved, "dismissed": dismissed}
    with open_ledger(pipeline) as session:
        reasons = rows(session, named_sql("repair/quarantined"), {**filters, **state, "limit": choice.limit})
    return [dict(row) for row in reasons]


@dataclass(frozen=True, slots=True)
class Dismissed:
    """The decision, its records and a line about them; no decision if no record was selected."""

    dismissal_id: int | None
    records: tuple[QuarantinePosition, ...]
    message: str


def dismiss(pipeline: Pipeline, selection: Selection, origin: Origin, why: str, undo: bool = False) -> Dismissed:
    """Dismiss the selected unresolved records, or with ``undo`` restore dismissed ones: all of them or none.

    Raises:
        ConfigurationError: nothing was selected by offsets or by reason, or no reason why was given.
        StateConflict: an offset is not such a record, or an open redrive has one.
    """
    if (selection.partition is None) != (selection.offsets is None):
        raise ConfigurationError("partition and offset name a record together; give both, or a reason code")
    if selection.offsets is None and selection.reason is None:
        raise ConfigurationError("which records? give partition and offset, or a reason code, as quarantine shows them")
    if not why.strip():
        raise ConfigurationError("why is empty; it is kept with the decision")
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        pipelines.lock_pipeline(cursor, pipeline.name)
        chosen = redrive.choose(cursor, pipeline.name, selection, undo)
        positions = tuple((row["partition"], row["offset"]) for row in chosen)
        if missing := sorted({*(selection.offsets or ())} - {offset for _, offset in positions}):
            state, offsets = "dismissed" if undo else "unresolved", ", ".join(map(str, missing))
            raise StateConflict(
                f"pipeline {pipeline.name} partition {selection.partition}: no {state} record in quarantine at offset "
                f"{offsets}; nothing was changed; see: offset-ledger quarantine list {pipeline.name}"
            )
        if held := Counter(row["held_by"] for row in chosen if row["held_by"] is not None):
            raise StateConflict(
                f"pipeline {pipeline.name}: records are being redriven: {in_open_batches(held)}; nothing was "
                "changed; let that redrive commit, or abandon the batch"
            )
        ids = [row["quarantine_id"] for row in chosen]
        decision = redrive.decide(cursor, pipeline.name, ids, undo, origin, why) if ids else None
    what = "unresolved again" if undo else "dismissed"
    return Dismissed(decision, positions, f"{counted(len(positions), 'record')} of {pipeline.name} {what}")

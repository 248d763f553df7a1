"""The two ends of an attempt at staging: the claim that makes its tables, and the seal that checks them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import get_connection
from offset_ledger.ledger import batches, fencing, staging
from offset_ledger.ledger.completeness import check_manifest
from offset_ledger.ledger.database import Cursor, Session, application_name, rename_session, transaction
from offset_ledger.ledger.staging import StagingTables
from offset_ledger.model.attempt import Attempt
from offset_ledger.model.balance_sheet import StagedCounts
from offset_ledger.model.batch import Batch, Origin
from offset_ledger.model.manifest import Slice, by_partition
from offset_ledger.model.states import State
from offset_ledger.model.tombstones import LateRange, as_json
from offset_ledger.stage import tombstones
from offset_ledger.stage.following import take_columns
from offset_ledger.target.table import ensure_target


@dataclass(frozen=True, slots=True)
class Written:
    """How many slices were written, and why offsets of the ranges may lack a record; None where they may not.

    ``retention`` is for how long the topic keeps tombstones; None where a missing offset cannot be one that matters.
    """

    slices: int
    gap_reason: str | None = None
    retention: tombstones.TombstoneRetention | None = None


def claim(session: Session, pipeline: Pipeline, batch_id: int, origin: Origin) -> StagingTables:
    """Take the batch under a new epoch, end the sessions of older ones, and make its staging tables.

    Their sessions are ended first, because a paused process may hold the very lock that the claim needs, and once more
    afterwards, because they may have begun another one meanwhile.

    Raises:
        UndecidedSchema: it begins with a schema that a person has to decide about; it was not taken.
        Fenced: a newer attempt took it at once.
    """
    with transaction(session) as cursor:
        fencing.begin_claim(cursor, batch_id)
        before = batches.read_batch(cursor, batch_id)
        others = fencing.end_lower_epochs(cursor, Attempt(batch_id, before.epoch + 1))
        with fencing.alongside_lower_epochs(cursor, batch_id, others):
            pipeline = take_columns(cursor, pipeline, before)
            ensure_target(cursor, pipeline)  # the pipeline file may have changed since the batch was planned
            attempt = batches.claim(cursor, batch_id, origin)
            batches.note_file(cursor, batch_id, pipeline)
            tables = StagingTables(attempt, batches.claimed_at(cursor, batch_id))
            staging.create(cursor, tables, pipeline.record, pipeline.source.topic)
    with fencing.fenced(get_connection(pipeline.target.connection), attempt):  # from its name on, a newer one ends it
        with transaction(session) as cursor:
            rename_session(cursor, application_name(attempt, "stage"))
            fencing.end_lower_epochs(cursor, attempt)
        staging.drop_older(session, attempt)
    return tables


def seal(session: Session, batch: Batch, tables: StagingTables, written: Written, origin: Origin) -> StagedCounts:
    """Check that the slices are the planned offsets, each once, and every gap is legal; then move the batch to staged.

    Raises:
        IncompleteStaging, UnexplainedGap, Fenced: it is not so.
        TombstonesMayBeGone: a gap may hide tombstones; the batch needs approval before it goes on.
    """
    with transaction(session) as cursor:
        slices = staging.manifest(cursor, tables)
        check_manifest(replace(batch, epoch=tables.attempt.epoch), slices, written.slices, written.gap_reason)
        late = _late_ranges(cursor, batch, slices, written.retention)
        counts = sum((each.counts for each in slices), StagedCounts())
        staging.analyze(cursor, tables, counts.rows)
        batches.move(
            cursor,
            tables.attempt,
            State.STAGING,
            State.STAGING if late else State.STAGED,
            origin,
            slices_expected=written.slices,
            gap_reason=written.gap_reason,
            rows=counts.rows,
            refused=counts.refused,
            skipped=counts.skipped,
            staged_at=None if late else datetime.now(UTC),
            late=as_json(late) if late else None,
        )
    if late:
        raise tombstones.refusal(batch, late)
    return counts


def _late_ranges(
    cursor: Cursor, batch: Batch, slices: Sequence[Slice], retention: tombstones.TombstoneRetention | None
) -> tuple[LateRange, ...]:
    if retention is None:
        return ()
    counts = by_partition(slices)
    missing = {r.partition: r.width - counts.get(r.partition, StagedCounts()).total for r in batch.ranges}
    return tombstones.find_late(cursor, batch, missing, retention)

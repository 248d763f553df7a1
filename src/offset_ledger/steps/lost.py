"""Lost ranges: what a person decides when retention has deleted offsets that the cursors still need."""

from __future__ import annotations

from datetime import UTC, datetime

from offset_ledger import broker
from offset_ledger.connections import get_connection
from offset_ledger.core.balance import Dispositions
from offset_ledger.core.planning import Cursors, TopicSnapshot, check_identity
from offset_ledger.core.ranges import OffsetRange
from offset_ledger.core.states import Kind, State
from offset_ledger.errors import ConfigurationError, StateConflict, TerminalError
from offset_ledger.ledger import batches
from offset_ledger.ledger.batches import Origin
from offset_ledger.ledger.database import Cursor, connect, transaction
from offset_ledger.ledger.migrate import check_migrated
from offset_ledger.ledger.staging import StagingTables
from offset_ledger.pipeline.model import OnExpired, Pipeline
from offset_ledger.steps.commit import Committed, commit_sheet


def lost_ranges(cursors: Cursors, snapshot: TopicSnapshot) -> tuple[OffsetRange, ...]:
    """Per partition the offsets from the cursor to the log start, where the log starts above the cursor."""
    places = ((p, cursors.next_offsets.get(p.partition)) for p in snapshot.partitions)
    return tuple(
        OffsetRange(p.partition, cursor, p.log_start)
        for p, cursor in places
        if cursor is not None and cursor < p.log_start
    )


def skip_lost(pipeline: Pipeline, origin: Origin, why: str) -> Committed:
    """Commit the lost ranges as skipped: a head batch without rows, kept with who approved it and why.

    Raises:
        ConfigurationError: the pipeline file says ``on_expired: fail``.
        StateConflict: a head batch is open.
        TerminalError: nothing is lost.
    """
    if pipeline.source.on_expired is OnExpired.FAIL:
        raise ConfigurationError(
            f"pipeline {pipeline.name} says on_expired: fail, so lost offsets are not skipped; "
            "set source.on_expired to earliest_after_approval to let a person approve the loss"
        )
    with broker.connect(get_connection(pipeline.source.connection)) as kafka:
        snapshot = kafka.snapshot(pipeline.source.topic)
    with connect(get_connection(pipeline.target.connection)) as session:
        check_migrated(session)
        with transaction(session) as cursor:
            return _skip(cursor, pipeline, snapshot, origin, why)


def _skip(cursor: Cursor, pipeline: Pipeline, snapshot: TopicSnapshot, origin: Origin, why: str) -> Committed:
    batches.lock_pipeline(cursor, pipeline.name)
    cursors = batches.read_cursors(cursor, pipeline.name)
    check_identity(cursors, snapshot)
    ranges = lost_ranges(cursors, snapshot) if cursors else ()
    if not ranges:
        raise TerminalError(f"pipeline {pipeline.name}: no offset is lost; every cursor is at or above its log start")
    if found := batches.open_head(cursor, pipeline.name):
        raise StateConflict(f"{found} is open; abandon it before a loss is approved: it reads offsets that are gone")
    batch_id = batches.insert_batch(cursor, pipeline, Kind.HEAD, snapshot, ranges, origin, why)
    epoch = batches.claim(cursor, batch_id, origin)
    key, now = (batch_id, epoch), datetime.now(UTC)
    lost = sum(r.width for r in ranges)
    batches.move(
        cursor, key, State.STAGING, State.STAGED, origin, why=why,
        slices_expected=0, rows=0, refused=0, skipped=lost, staged_at=now,
    )  # fmt: skip
    verdict = {"success": True, "reasons": [], "notes": [f"{lost} lost offsets skipped by {origin.who}: {why}"]}
    batches.move(cursor, key, State.STAGED, State.VALIDATED, origin, why=why, verdict=verdict, validated_at=now)
    batch = batches.read_batch(cursor, batch_id)
    sheet = {r.partition: Dispositions(skipped=r.width) for r in ranges}
    commit_sheet(cursor, batch, StagingTables(batch_id, epoch), sheet, origin)
    return Committed(batches.read_batch(cursor, batch_id), sheet)

"""Commit: rows, quarantine, balance sheet, cursors and ledger in one Postgres transaction."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from types import MappingProxyType

import psycopg2
from psycopg2 import errors as pg
from psycopg2 import sql

from offset_ledger.commit.largest_event import largest
from offset_ledger.commit.merge import merge
from offset_ledger.config.model import Pipeline
from offset_ledger.connections import Connection, get_connection
from offset_ledger.errors import (
    BatchRejected,
    DatabaseUnavailable,
    IncompleteStaging,
    LedgerViolation,
    OffsetLedgerError,
    TargetMismatch,
    TransientError,
    UnknownOutcome,
)
from offset_ledger.failpoints import Failpoint, reach
from offset_ledger.ledger import batches, dead_letters, pipelines, redrive, staging
from offset_ledger.ledger.completeness import sealed_counts
from offset_ledger.ledger.database import Cursor, application_name, connect, named_sql, transaction
from offset_ledger.ledger.fencing import wait_for_claims
from offset_ledger.ledger.sqlstates import in_a_function, meaning, refusal, refused_row
from offset_ledger.ledger.staging import StagingTables
from offset_ledger.ledger.stalled import wait_for
from offset_ledger.model.balance_sheet import Dispositions, MergeCounts, StagedCounts, close
from offset_ledger.model.batch import Batch, Origin
from offset_ledger.model.states import BatchKind, State
from offset_ledger.retry import retrying
from offset_ledger.target import row_counts
from offset_ledger.target.table import ensure_target

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed batch and its balance sheet; ``already`` when an earlier attempt had committed it."""

    batch: Batch
    sheet: Mapping[int, Dispositions]
    already: bool = False

    @property
    def total(self) -> Dispositions:
        """The balance sheets of all ranges together."""
        return sum(self.sheet.values(), Dispositions())


def commit(pipeline: Pipeline, batch_id: int, origin: Origin) -> Committed:
    """Commit a validated batch, or find that it is committed already.

    Raises:
        BatchRejected: the quality gate stands between.
        Fenced, StateConflict: another attempt has the batch.
        UnknownBatch: it is of another pipeline.
        TargetMismatch, ConfigurationError: the table does not fit the pipeline file any more, or is another's.
        IncompleteStaging, DatabaseUnavailable: nothing was committed; worth another try from staging.
        UnknownOutcome: the connection was lost during COMMIT and the ledger cannot be read yet.
    """
    database = get_connection(pipeline.target.connection)
    with connect(database) as session, transaction(session) as cursor:
        batch = batches.read_batch_of(cursor, pipeline.name, batch_id)
        if batch.state is State.COMMITTED:
            return Committed(batch, read_sheet(cursor, batch_id), already=True)
    _hold(pipeline, batch)
    name = application_name(batch_id, batch.epoch, "commit")
    try:
        with connect(database, name) as session:
            wait_for(session, batch_id, lambda cursor: _lock(cursor, batch))
            with transaction(session) as cursor:
                found = _lock(cursor, batch)
                if found.state is State.COMMITTED:  # a concurrent attempt came first while this one waited
                    return Committed(found, read_sheet(cursor, batch_id), already=True)
                sheet = _commit(cursor, pipeline, batch, origin)
        reach(Failpoint.AFTER_COMMIT)
    except DatabaseUnavailable as error:
        if _was_answered(error):
            raise
        return resolve(database, batch, error)
    with connect(database) as session, transaction(session) as cursor:
        return Committed(batches.read_batch(cursor, batch_id), sheet)


def given_up(pipeline: Pipeline, batch_id: int) -> bool:
    """Whether a person has abandoned the batch."""
    with connect(get_connection(pipeline.target.connection)) as session, transaction(session) as cursor:
        return batches.read_batch(cursor, batch_id).state is State.ABANDONED


def _hold(pipeline: Pipeline, batch: Batch) -> None:
    if batch.state is State.REJECTED:
        raise BatchRejected(
            f"batch {batch.batch_id} of {pipeline.name} is rejected: {batch.reasons}; nothing was merged"
        )
    if batch.state is not State.VALIDATED:
        batches.refuse(batch, batch.epoch, State.VALIDATED)


def _lock(cursor: Cursor, batch: Batch) -> Batch:
    pipelines.lock_pipeline(cursor, batch.pipeline)
    return batches.read_batch(cursor, batch.batch_id, lock=True)


def _away(error: BaseException) -> bool:
    return isinstance(error, DatabaseUnavailable)


def _was_answered(error: DatabaseUnavailable) -> bool:
    """Whether the server has said that the transaction failed, so that nothing is left to look up."""
    state = getattr(error.__cause__, "pgcode", None) or "57"
    return state[:2] in ("25", "53")


def resolve(database: Connection, batch: Batch, lost: DatabaseUnavailable) -> Committed:
    """Learn from the ledger what became of a transaction whose answer was lost.

    The read locks the row, so that a COMMIT still under way in the server is waited for.

    Raises:
        Fenced: a newer attempt has claimed the batch, and had ended the session.
        UnknownOutcome: the ledger cannot be read yet.
    """
    try:
        waiting = retrying(_away, "Postgres, to learn the outcome of COMMIT", min_seconds=60)
        for attempt in waiting:
            with attempt, connect(database) as session, transaction(session) as cursor:
                wait_for_claims(cursor, batch.batch_id)
                found = batches.read_batch(cursor, batch.batch_id, lock=True)
                if found.state is State.COMMITTED and found.epoch == batch.epoch:
                    log.warning("the answer to COMMIT was lost; the ledger says batch %d is committed", batch.batch_id)
                    return Committed(found, read_sheet(cursor, batch.batch_id))
                if found.epoch != batch.epoch:
                    raise batches.newer(found, batch.epoch) from lost
    except DatabaseUnavailable as error:
        raise UnknownOutcome(
            f"batch {batch.batch_id}: the connection was lost during COMMIT and Postgres is still away; "
            "run the step again: the ledger knows the outcome"
        ) from error
    raise lost


def _commit(cursor: Cursor, pipeline: Pipeline, batch: Batch, origin: Origin) -> dict[int, Dispositions]:
    batches.lock(cursor, batch.batch_id, batch.epoch, State.VALIDATED)
    if batch.kind is BatchKind.HEAD:
        _lock_cursors(cursor, batch)
    tables = StagingTables(batch.batch_id, batch.epoch)
    staging.check_columns(cursor, tables, pipeline.record)  # file and table may have changed since the claim
    ensure_target(cursor, pipeline)
    staged = sealed_counts(cursor, batch)
    row_counts.count_once(cursor, pipeline, origin)
    reach(Failpoint.BEFORE_MERGE)
    merged = _merge(cursor, pipeline, tables, {p: c.rows for p, c in staged.items()})
    cursor.execute(
        sql.SQL(named_sql("quarantine")).format(refused=tables.identifier(tables.refused)),
        {"pipeline": pipeline.name, "topic_id": batch.topic_id, "batch_id": batch.batch_id},
    )
    if batch.kind is BatchKind.REDRIVE:
        redrive.settle(cursor, tables)
    if pipeline.quality.dead_letter_topic:
        dead_letters.enqueue(cursor, batch.batch_id, pipeline.quality.dead_letter_topic)
    sheet = {}
    for r in batch.ranges:
        counts = staged.get(r.partition, StagedCounts())
        sheet[r.partition] = close(r, counts, merged.get(r.partition, MergeCounts()), batch.gap_reason)
    commit_sheet(cursor, batch, tables, sheet, origin, {p: counts.added for p, counts in merged.items()})
    reach(Failpoint.AFTER_MERGE)
    return sheet


def commit_sheet(
    cursor: Cursor,
    batch: Batch,
    tables: StagingTables,
    sheet: Mapping[int, Dispositions],
    origin: Origin,
    added: Mapping[int, int] = MappingProxyType({}),
) -> None:
    """Close the balance sheet, move the cursors of a head batch, and mark the batch committed.

    ``added`` are the event ids that each range brought into the table.
    """
    head = batch.kind is BatchKind.HEAD
    cursors = _lock_cursors(cursor, batch) if head else {}
    for partition, line in sheet.items():
        chain = {"head": head, "follows": cursors.get(partition) is not None}
        _close_range(cursor, tables, partition, line, chain, batch.gap_reason, added.get(partition, 0))
    if head:
        cursor.execute(named_sql("move_cursor"), {"batch_id": batch.batch_id})
    _mark(cursor, batch, origin)


def _lock_cursors(cursor: Cursor, batch: Batch) -> dict[int, int]:
    """Lock the cursors and hold that each range starts at its own; a partition without one is at its beginning."""
    cursor.execute(
        "SELECT partition, next_offset FROM offset_ledger.cursor WHERE pipeline = %s AND topic_id = %s"
        " ORDER BY partition FOR UPDATE",
        [batch.pipeline, batch.topic_id],
    )
    cursors = {row["partition"]: row["next_offset"] for row in cursor.fetchall()}
    for r in batch.ranges:
        if cursors.get(r.partition, r.from_offset) != r.from_offset:
            raise LedgerViolation(
                f"batch {batch.batch_id}: range {r} does not start at its cursor {cursors[r.partition]}; "
                "nothing was committed; abandon the batch"
            )
    return cursors


def _merge(
    cursor: Cursor, pipeline: Pipeline, tables: StagingTables, staged: Mapping[int, int]
) -> Mapping[int, MergeCounts]:
    try:
        return merge(cursor, pipeline, tables, staged)
    except psycopg2.Error as error:
        refused = _refused(pipeline, tables, error)
        if refused is None:
            raise
        raise refused from error


def _refused(pipeline: Pipeline, tables: StagingTables, error: psycopg2.Error) -> OffsetLedgerError | None:
    """What an error of the merge is; None where it is none of the table's."""
    target = f"{pipeline.target.schema}.{pipeline.target.table}"
    if _of_another_writer(error, pipeline):
        return TransientError(
            f"another writer changed {target} during the merge ({type(error).__name__}); nothing was committed; "
            "let only its pipeline write this table, and try again"
        )
    if isinstance(error, pg.UndefinedTable) and not in_a_function(error):
        return IncompleteStaging(
            f"batch {tables.batch_id}: a table is missing ({str(error).splitlines()[0]}); nothing was committed; "
            "stage the batch again"
        )
    if error.diag.column_name == "_timestamp":
        return TargetMismatch(
            f"table {target} expects a timestamp of every record, and one has none; nothing was committed; "
            f"run ALTER TABLE {target} ALTER COLUMN _timestamp DROP NOT NULL, and try again"
        )
    lost = isinstance(error, (psycopg2.OperationalError, psycopg2.InterfaceError))
    known = meaning(error.pgcode, str(error)) or (None if lost else refused_row(error))
    if known is None or not issubclass(known.kind, (LedgerViolation, TargetMismatch)):
        return None
    return refusal(known, error, f"table {target}", largest(pipeline, tables, error))


def _of_another_writer(error: psycopg2.Error, pipeline: Pipeline) -> bool:
    """Whether somebody else wrote the same events at the same time: other unique constraints are the table's own."""
    if not isinstance(error, pg.UniqueViolation):
        return isinstance(error, (pg.SerializationFailure, pg.DeadlockDetected))
    table = (error.diag.schema_name, error.diag.table_name) == (pipeline.target.schema, pipeline.target.table)
    return table and "(event_id)=(" in (error.diag.message_detail or "")


def _close_range(
    cursor: Cursor,
    tables: StagingTables,
    partition: int,
    line: Dispositions,
    chain: Mapping[str, bool],
    gaps_are: str | None,
    added: int,
) -> None:
    place = {"batch_id": tables.batch_id, "epoch": tables.epoch, "partition": partition}
    counts = {**asdict(line), "added": added, "gap_reason": gaps_are if line.gap else None}
    cursor.execute(named_sql("close_range"), {**counts, **place, **chain})


def _mark(cursor: Cursor, batch: Batch, origin: Origin) -> None:
    cursor.execute("SELECT pg_current_xact_id()::text")
    xid = cursor.one()[0]
    batches.move(
        cursor,
        (batch.batch_id, batch.epoch),
        State.VALIDATED,
        State.COMMITTED,
        origin,
        committed_xid=xid,
        ended_at=datetime.now(UTC),
    )


def read_sheet(cursor: Cursor, batch_id: int) -> dict[int, Dispositions]:
    """The balance sheet of a committed batch, by partition."""
    cursor.execute(
        "SELECT partition, inserted, updated, superseded, duplicate, deleted, quarantined, skipped, gap"
        " FROM offset_ledger.batch_range WHERE batch_id = %s ORDER BY partition",
        [batch_id],
    )
    return {row[0]: Dispositions(*row[1:]) for row in cursor.fetchall()}

"""Commit: rows, quarantine, balance sheet, cursors and ledger in one Postgres transaction."""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from types import MappingProxyType

from psycopg2 import sql

from offset_ledger.base.failpoints import Failpoint, reach
from offset_ledger.base.retry import retrying
from offset_ledger.errors import BatchRejected, DatabaseUnavailable, LedgerViolation, UnknownOutcome
from offset_ledger.model.balance_sheet import Dispositions, MergeCounts, StagedCounts, close
from offset_ledger.model.batch import Batch, Origin
from offset_ledger.model.states import BatchKind, State
from offset_ledger.outside.connections import Connection, get_connection
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import batches, database, dead_letters, followed_columns, pipelines, redrive, staging
from offset_ledger.postgres.ledger.completeness import sealed_counts
from offset_ledger.postgres.ledger.database import (
    Cursor,
    Session,
    connect,
    named_sql,
    open_ledger,
    transaction,
    transaction_id,
)
from offset_ledger.postgres.ledger.fencing import wait_for, wait_for_claims
from offset_ledger.postgres.ledger.followed_columns import with_columns
from offset_ledger.postgres.ledger.staging import StagingTables
from offset_ledger.postgres.table.change import change_target
from offset_ledger.steps.commit.classes import read_before
from offset_ledger.steps.commit.merge import merge

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


def commit(pipeline: Pipeline, batch_id: int, origin: Origin, session: Session | None = None) -> Committed:
    """Commit a validated batch; one that is committed already is returned as it is.

    Raises:
        BatchRejected: the quality gate stands between.
        Fenced, StateConflict: another attempt has the batch.
        UnknownBatch: it is of another pipeline.
        TargetMismatch, ConfigurationError: the table does not fit the pipeline file any more, or is another's.
        TargetLocked: it has to be changed for this batch and is in use.
        IncompleteStaging, DatabaseUnavailable: nothing was committed; worth another try from staging.
        UnknownOutcome: the connection was lost during COMMIT and the ledger cannot be read yet.
    """
    batch: Batch | None = None
    try:
        with open_ledger(pipeline, session) as session:
            with transaction(session) as cursor:
                batch = batches.read_batch_of(cursor, pipeline.name, batch_id)
                if batch.state is State.COMMITTED:
                    return Committed(batch, batches.read_sheet(cursor, batch_id), already=True)
                rivals = {batch_id, *batches.validated_of_file(cursor, pipeline)}
                if batch.state is State.REJECTED:
                    raise BatchRejected(
                        f"batch {batch_id} of {pipeline.name} is rejected: {batch.reasons}; nothing was merged"
                    )
                if batch.state is not State.VALIDATED:
                    batches.refuse(batch, batch.attempt, State.VALIDATED)
                database.rename_session(cursor, database.application_name(batch.attempt, "commit"))
            validated = batch
            wait_for(session, rivals, lambda cursor: _lock(cursor, pipeline, validated))
            with transaction(session) as cursor:
                current = _lock(cursor, pipeline, batch)
                if current.state is State.COMMITTED:  # a concurrent attempt came first while this one waited
                    return Committed(current, batches.read_sheet(cursor, batch_id), already=True)
                sheet = _commit(cursor, pipeline, batch, origin)
            reach(Failpoint.AFTER_COMMIT)
            with transaction(session) as cursor:
                database.rename_session(cursor, database.SESSION_NAME)  # whose run goes on, at no attempt any more
                return Committed(batches.read_batch(cursor, batch_id), sheet)
    except DatabaseUnavailable as error:
        # With these classes the server has reported that the transaction failed: there is nothing to look up.
        if batch is None or (getattr(error.__cause__, "pgcode", None) or "")[:2] in ("25", "53"):
            raise
        return resolve(get_connection(pipeline.target.connection), batch, error)


def _lock(cursor: Cursor, pipeline: Pipeline, batch: Batch) -> Batch:
    pipelines.lock_pipeline(cursor, batch.pipeline)
    pipelines.lock_table(cursor, pipeline)
    return batches.read_batch(cursor, batch.batch_id, lock=True)


def resolve(database: Connection, batch: Batch, lost: DatabaseUnavailable) -> Committed:
    """Read in the ledger what became of a transaction whose answer was lost.

    The read locks the row, so that a COMMIT still under way in the server is waited for.

    Raises:
        Fenced: a newer attempt has claimed the batch, and had ended the session.
        UnknownOutcome: the ledger cannot be read yet.
    """
    try:
        waiting_for = "Postgres, to learn the outcome of COMMIT"
        for attempt in retrying(lambda error: isinstance(error, DatabaseUnavailable), waiting_for, min_seconds=60):
            with attempt, connect(database) as session, transaction(session) as cursor:
                wait_for_claims(cursor, batch.batch_id)
                current = batches.read_batch(cursor, batch.batch_id, lock=True)
                if current.state is State.COMMITTED and current.attempt == batch.attempt:
                    log.warning("the answer to COMMIT was lost; the ledger says batch %d is committed", batch.batch_id)
                    return Committed(current, batches.read_sheet(cursor, batch.batch_id))
                if current.attempt != batch.attempt:
                    raise batches.fenced_by(current, batch.attempt) from lost
    except DatabaseUnavailable as error:
        raise UnknownOutcome(
            f"batch {batch.batch_id}: the connection was lost during COMMIT and Postgres is still away; "
            "run the step again: the ledger knows the outcome"
        ) from error
    raise lost


def _commit(cursor: Cursor, pipeline: Pipeline, batch: Batch, origin: Origin) -> dict[int, Dispositions]:
    batches.lock(cursor, batch.attempt, State.VALIDATED)
    if batch.kind is BatchKind.HEAD:
        lock_cursors(cursor, batch)
    tables = StagingTables(batch.attempt)
    pipeline = with_columns(cursor, pipeline, batch.batch_id)
    staging.check_columns(cursor, tables, pipeline.record)  # file and table may have changed since the claim
    change_target(cursor, pipeline, batch.batch_id, tables.identifier(tables.rows))
    followed_columns.settle(cursor, pipeline.name, batch.batch_id)
    staged = sealed_counts(cursor, batch)
    reach(Failpoint.BEFORE_MERGE)
    merged = merge(cursor, pipeline, tables, {p: c.rows for p, c in staged.items()}, batch.fill)
    rows, refused = tables.identifier(tables.rows), tables.identifier(tables.refused)
    schema_id = sql.SQL("_schema_id" if pipeline.record.schema_ids else "NULL")
    unread: sql.Composable = refused
    if pipeline.record.append:
        unread = sql.SQL(named_sql("append/unread")).format(refused=refused, read_before=read_before(tables))
    cursor.execute(
        sql.SQL(named_sql("commit/quarantine")).format(refused=unread, schema_id=schema_id),
        {"pipeline": pipeline.name, "topic_id": batch.topic_id, "batch_id": batch.batch_id},
    )
    if pipeline.record.schema_ids:
        statement = sql.SQL(named_sql("commit/batch_schemas")).format(rows=rows, refused=refused)
        cursor.execute(statement, {"batch_id": batch.batch_id})
    if batch.kind is BatchKind.REDRIVE:
        redrive.settle(cursor, tables)
    if pipeline.quality.dead_letter_topic:
        dead_letters.enqueue(cursor, batch.batch_id, pipeline.quality.dead_letter_topic)
    sheet = {}
    for r in batch.ranges:
        counts = staged.get(r.partition, StagedCounts()), merged.get(r.partition, MergeCounts())
        sheet[r.partition] = close(r, *counts, batch.gap_reason)
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
    cursors = lock_cursors(cursor, batch) if head else {}
    lines = {name: [getattr(line, name) for line in sheet.values()] for name in Dispositions.__slots__}
    # A range follows another one where its partition has a cursor.
    chain = {"follows": [p in cursors for p in sheet], "added": [added.get(p, 0) for p in sheet], "partition": [*sheet]}
    whole = {"head": head, "gap_reason": batch.gap_reason, **asdict(tables.attempt)}
    cursor.run("commit/close_ranges", **lines, **chain, **whole)
    if head:
        cursor.run("commit/move_cursor", batch_id=batch.batch_id)
    batches.move(
        cursor,
        batch.attempt,
        State.VALIDATED,
        State.COMMITTED,
        origin,
        committed_xid=transaction_id(cursor),
        ended_at=datetime.now(UTC),
    )


def lock_cursors(cursor: Cursor, batch: Batch) -> dict[int, int]:
    """Lock the cursors and check that each range starts at its own; a partition without one is at its start offset.

    Raises:
        LedgerViolation: a range starts elsewhere.
    """
    cursors = pipelines.lock_cursors(cursor, batch.pipeline, batch.topic_id)
    for r in batch.ranges:
        if cursors.get(r.partition, r.from_offset) != r.from_offset:
            raise LedgerViolation(
                f"batch {batch.batch_id}: range {r} does not start at its cursor {cursors[r.partition]}; "
                "nothing was committed; abandon the batch"
            )
    return cursors

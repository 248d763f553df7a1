"""Batches in the ledger: planning one, claiming it, moving it from state to state, reading it back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NoReturn

from psycopg2 import sql
from psycopg2.extras import execute_values

from offset_ledger import __version__
from offset_ledger.config.model import Pipeline
from offset_ledger.errors import Fenced, StateConflict, UnknownBatch
from offset_ledger.ledger.database import Cursor, named_sql
from offset_ledger.model.attempt import Attempt
from offset_ledger.model.batch import Batch, Origin
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.snapshot import TopicSnapshot
from offset_ledger.model.states import CLAIMABLE, BatchKind, State

# -- reading ---------------------------------------------------------------------------------------------------


def _batch(row: Mapping[str, Any]) -> Batch:
    found = {**row, "kind": BatchKind(row["kind"]), "state": State(row["state"])}
    return Batch(**{**found, "ranges": tuple(OffsetRange(*r) for r in row["ranges"])})


def read_batch(cursor: Cursor, batch_id: int, *, lock: bool = False) -> Batch:
    """The batch with its ranges, locked against every other step if asked.

    Raises:
        UnknownBatch: no such batch.
    """
    if lock:
        cursor.execute("SELECT FROM offset_ledger.batch WHERE batch_id = %s FOR UPDATE", [batch_id])
    cursor.execute(named_sql("batches/read"), [batch_id])
    row: Any = cursor.fetchone()
    if row is None:
        raise UnknownBatch(f"batch {batch_id} is not in the ledger; see: offset-ledger batches PIPELINE")
    return _batch(row)


def read_batch_of(cursor: Cursor, pipeline: str, batch_id: int) -> Batch:
    """The batch, if it is one of this pipeline: a file may have got another name between two steps.

    Raises:
        UnknownBatch: it is of another pipeline, or there is no such batch.
    """
    found = read_batch(cursor, batch_id)
    if found.pipeline != pipeline:
        raise UnknownBatch(f"batch {batch_id} is of pipeline {found.pipeline}, not of {pipeline}")
    return found


def open_head(cursor: Cursor, pipeline: str) -> Batch | None:
    """The one head batch that is neither committed nor abandoned."""
    cursor.execute(
        "SELECT batch_id FROM offset_ledger.batch WHERE pipeline = %s AND kind = 'head'"
        " AND state NOT IN ('committed', 'abandoned')",
        [pipeline],
    )
    row = cursor.fetchone()
    return read_batch(cursor, row["batch_id"]) if row else None


# -- writing ---------------------------------------------------------------------------------------------------


def insert_batch(
    cursor: Cursor,
    pipeline: Pipeline,
    kind: BatchKind,
    snapshot: TopicSnapshot,
    ranges: Sequence[OffsetRange],
    origin: Origin,
    why: str | None = None,
    request: Mapping[str, Any] | None = None,
) -> int:
    """Write a planned batch of the pipeline's present log with its ranges, and what was asked for; return its id."""
    cursor.execute(
        "INSERT INTO offset_ledger.batch (pipeline, kind, topic_id, config_hash, dag_id, run_id, try_number,"
        " code_version, changed_by, changed_why, request)"
        " SELECT pipeline, %s, topic_id, %s, %s, %s, %s, %s, %s, %s, %s FROM offset_ledger.pipeline WHERE pipeline = %s"
        " RETURNING batch_id, topic_id",
        [
            *(kind, pipeline.config_hash, origin.dag_id, origin.run_id),
            *(origin.try_number, __version__, origin.who, why, json.dumps(request) if request else None, pipeline.name),
        ],
    )
    batch_id, log_id = cursor.one()
    seen = {p.partition: p for p in snapshot.partitions}
    execute_values(
        cursor,
        "INSERT INTO offset_ledger.batch_range (batch_id, pipeline, topic_id, partition, from_offset, until_offset,"
        " log_start, last_stable, high_watermark, leader_epoch) VALUES %s",
        [
            (
                *(batch_id, pipeline.name, log_id, r.partition, r.from_offset, r.until_offset),
                *(at.log_start, at.last_stable, at.high_watermark, at.leader_epoch),
            )
            for r in ranges
            for at in [seen[r.partition]]
        ],
    )
    return int(batch_id)


def claim(cursor: Cursor, batch_id: int, origin: Origin) -> Attempt:
    """Take the batch for a new attempt, which is returned: state staging, epoch + 1.

    Raises:
        StateConflict: it is rejected, committed or abandoned.
    """
    cursor.execute(
        "UPDATE offset_ledger.batch SET state = 'staging', epoch = epoch + 1, claimed_at = now(),"
        " slices_expected = NULL, gap_reason = NULL, rows = NULL, refused = NULL, skipped = NULL,"
        " verdict = NULL, staged_at = NULL, late = NULL,"
        " validated_at = NULL, try_number = coalesce(%s, try_number), changed_by = %s, changed_why = NULL"
        " WHERE batch_id = %s AND state = ANY(%s) RETURNING epoch",
        [origin.try_number, origin.who, batch_id, list(CLAIMABLE)],
    )
    row = cursor.fetchone()
    if row is None:
        found = read_batch(cursor, batch_id)
        advice = (
            "approve or abandon it first" if found.state is State.REJECTED else "there is nothing left to do for it"
        )
        raise StateConflict(f"{found} cannot be claimed; {advice}")
    return Attempt(batch_id, row["epoch"])


def note_file(cursor: Cursor, batch_id: int, pipeline: Pipeline) -> None:
    """Keep which pipeline file a claimed batch is decoded by."""
    cursor.execute(
        "UPDATE offset_ledger.batch SET config_hash = %s WHERE batch_id = %s", [pipeline.config_hash, batch_id]
    )


def move(
    cursor: Cursor,
    attempt: Attempt,
    before: State,
    after: State,
    origin: Origin,
    *,
    why: str | None = None,
    **columns: object,
) -> None:
    """Compare-and-set one transition of the batch of ``attempt``, with the columns it brings.

    Raises:
        Fenced: a newer attempt has claimed the batch.
        StateConflict: it is in another state.
    """
    assigned = [sql.SQL(", {} = {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in columns]
    cursor.execute(
        sql.SQL(named_sql("batches/move")).format(columns=sql.Composed(assigned)),
        {**asdict(attempt), "before": before, "after": after, "who": origin.who, "why": why}
        | {k: json.dumps(v) if isinstance(v, Mapping) else v for k, v in columns.items()},
    )
    if cursor.rowcount == 0:
        refuse(read_batch(cursor, attempt.batch_id), attempt, before)


def lock(cursor: Cursor, attempt: Attempt, wanted: State) -> Batch:
    """Lock the batch for the rest of the transaction and check that the attempt still has it, in this state.

    Raises:
        Fenced: a newer attempt has claimed the batch.
        StateConflict: it is in another state.
    """
    batch = read_batch(cursor, attempt.batch_id, lock=True)
    if (batch.attempt, batch.state) != (attempt, wanted):
        refuse(batch, attempt, wanted)
    return batch


def refuse(batch: Batch, attempt: Attempt, wanted: State) -> NoReturn:
    """Raise why a step of ``attempt`` that needs the state ``wanted`` cannot go on with this batch.

    Raises:
        Fenced: a newer attempt has claimed the batch.
        StateConflict: it is in another state.
    """
    if batch.attempt != attempt:
        raise fenced_by(batch, attempt)
    raise StateConflict(f"{batch} was expected to be {wanted}; another step has moved it")


def fenced_by(batch: Batch, attempt: Attempt) -> Fenced:
    """The error of an attempt whose batch, as it is now, a newer one has claimed."""
    return Fenced(
        f"batch {batch.batch_id} of {batch.pipeline}: this attempt has epoch {attempt.epoch}, a newer one claimed "
        f"epoch {batch.epoch}; this one committed nothing and ends here"
    )

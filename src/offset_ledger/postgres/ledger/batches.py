"""Batches in the ledger: planning one, claiming it, moving it from state to state, reading it back."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, NoReturn

from psycopg2 import sql
from psycopg2.extras import execute_values

from offset_ledger.base.version import __version__
from offset_ledger.errors import Fenced, StateConflict, UnknownBatch
from offset_ledger.model.balance_sheet import Dispositions
from offset_ledger.model.batch import Attempt, Batch, EngineChoice, Origin
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.snapshot import TopicSnapshot
from offset_ledger.model.states import CLAIMABLE, BatchKind, State
from offset_ledger.model.windows import EarlierRead
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Cursor, named_sql


def read_batch(cursor: Cursor, batch_id: int, *, lock: bool = False) -> Batch:
    """Return the batch with its ranges, locked against every other step if asked; raises UnknownBatch if none."""
    if lock:
        cursor.execute("SELECT FROM offset_ledger.batch WHERE batch_id = %s FOR UPDATE", [batch_id])
    row: Any = cursor.execute(named_sql("batches/read"), [batch_id]).fetchone()
    if row is None:
        raise UnknownBatch(f"batch {batch_id} {why_missing(cursor, batch_id)}")
    ranges = tuple(OffsetRange(*r[:3]) for r in row["ranges"])
    epochs = {r[0]: r[3] for r in row["ranges"]}
    known = {"kind": BatchKind(row["kind"]), "state": State(row["state"]), "ranges": ranges, "epochs": epochs}
    return Batch(**{**row, **known})


def why_missing(cursor: Cursor, batch_id: int) -> str:
    """Explain why a batch is missing, as the rest of a sentence: it may have been pruned."""
    prunings = cursor.run("batches/prunings", batch_id=batch_id)
    pruned = ", ".join(f"those of {row['pipeline']} on {row['pruned_at']:%Y-%m-%d}" for row in prunings)
    why = f": batches as old as it were pruned ({pruned}), and only their sums are kept" if pruned else ""
    return f"is not in the ledger{why}; see: offset-ledger batch list PIPELINE"


def read_batch_of(cursor: Cursor, pipeline: str, batch_id: int) -> Batch:
    """The batch, if it is of this pipeline (a file may have got another name between two steps); else UnknownBatch."""
    batch = read_batch(cursor, batch_id)
    if batch.pipeline != pipeline:
        raise UnknownBatch(f"batch {batch_id} is of pipeline {batch.pipeline}, not of {pipeline}")
    return batch


def open_head(cursor: Cursor, pipeline: str) -> Batch | None:
    """The one head batch that is neither committed nor abandoned, and is not ahead of another."""
    row = cursor.run("batches/open_head", pipeline=pipeline).fetchone()
    return read_batch(cursor, row["batch_id"]) if row else None


def batch_ahead(cursor: Cursor, pipeline: str) -> Batch | None:
    """The one head batch that waits for the open one to be committed."""
    row = cursor.run("batches/ahead", pipeline=pipeline).fetchone()
    return read_batch(cursor, row["batch_id"]) if row else None


def open_batches(cursor: Cursor, pipeline: str, *, heads_only: bool = False) -> list[int]:
    """The ids of the batches that are neither committed nor abandoned."""
    return [row["batch_id"] for row in cursor.run("batches/open", pipeline=pipeline, heads_only=heads_only)]


def all_open(cursor: Cursor, limit: int) -> list[int]:
    """The ids of the newest batches of any pipeline that are neither committed nor abandoned."""
    return [row["batch_id"] for row in cursor.run("batches/all_open", limit=limit)]


def validated_of_file(cursor: Cursor, pipeline: Pipeline) -> list[int]:
    """The batches that may be committed into the table of the pipeline file now, of whichever topic."""
    return [row["batch_id"] for row in cursor.run("batches/validated_of_file", file=pipeline.file)]


def count_heads(cursor: Cursor, pipeline: str) -> int:
    """Count the head batches that were ever planned for the pipeline."""
    row = cursor.execute("SELECT heads FROM offset_ledger.pipeline WHERE pipeline = %s", [pipeline]).fetchone()
    return int(row[0]) if row else 0


def claimed_at(cursor: Cursor, batch_id: int) -> datetime:
    """Return when the batch was claimed for its present attempt."""
    cursor.execute("SELECT claimed_at FROM offset_ledger.batch WHERE batch_id = %s", [batch_id])
    moment: datetime = cursor.one()["claimed_at"]
    return moment


def read_sheet(cursor: Cursor, batch_id: int) -> dict[int, Dispositions]:
    """The balance sheet of a committed batch, by partition."""
    return {row[0]: Dispositions(*row[1:]) for row in cursor.run("batches/balance_sheet", batch_id=batch_id)}


def insert_batch(
    cursor: Cursor,
    pipeline: Pipeline,
    kind: BatchKind,
    snapshot: TopicSnapshot,
    ranges: Sequence[OffsetRange],
    origin: Origin,
    why: str | None = None,
    request: Mapping[str, Any] | None = None,
    after: Batch | None = None,
) -> int:
    """Write a planned batch of the pipeline's present log with its ranges and its request; return its id.

    It is ahead of the open head batch ``after``.
    """
    why = f"ahead of {after}" if after else why
    by = {**asdict(origin), "config_hash": pipeline.config_hash, "code_version": __version__}
    asked = {"kind": kind, "why": why, "request": json.dumps(request) if request else None}
    follows = after.batch_id if after else None
    batch_id, log_id = cursor.run("batches/insert", pipeline=pipeline.name, **by, **asked, after=follows).one()
    partitions = {p.partition: p for p in snapshot.partitions}
    execute_values(
        cursor,
        named_sql("batches/insert_ranges"),
        [
            (
                *(batch_id, pipeline.name, log_id, r.partition, r.from_offset, r.until_offset),
                *(at.log_start, at.last_stable, at.high_watermark, at.leader_epoch),
            )
            for r in ranges
            for at in [partitions[r.partition]]
        ],
    )
    return int(batch_id)


def claim(cursor: Cursor, batch_id: int, origin: Origin, config_hash: str | None = None) -> Attempt:
    """Take the batch for a new attempt (staging, epoch + 1), which decodes it by the pipeline file of that hash.

    In one statement: for a second one Postgres looks the pipeline up, which a commit locks that waits for this row.

    Raises:
        StateConflict: nothing is left to stage.
    """
    by = {"who": origin.who, "try_number": origin.try_number, "config_hash": config_hash}
    row = cursor.run("batches/claim", batch_id=batch_id, claimable=list(CLAIMABLE), **by).fetchone()
    if row is None:
        batch, advice = read_batch(cursor, batch_id), "there is nothing left to do for it"
        if batch.state is State.REJECTED:
            advice = "approve or abandon it first"
        raise StateConflict(f"{batch} cannot be claimed; {advice}")
    return Attempt(batch_id, row["epoch"])


def note_engine(cursor: Cursor, attempt: Attempt, choice: EngineChoice) -> None:
    """Keep which engine stages the batch for this attempt, and why; a newer attempt keeps its own."""
    cursor.run("batches/note_engine", **asdict(attempt), **asdict(choice))


def cut(cursor: Cursor, attempt: Attempt, ends: Mapping[int, int]) -> None:
    """End ranges of a batch that the attempt is staging earlier, by partition; each keeps an offset at least."""
    lock(cursor, attempt, State.STAGING)
    for partition, until_offset in ends.items():
        cursor.run("batches/cut_range", batch_id=attempt.batch_id, partition=partition, until_offset=until_offset)
        assert cursor.rowcount == 1


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
    """Compare-and-set one transition of the batch of ``attempt``, with the columns it brings, or :func:`refuse` it."""
    assigned = [sql.SQL(", {} = {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in columns]
    statement = sql.SQL(named_sql("batches/move")).format(columns=sql.Composed(assigned))
    transition = {**asdict(attempt), "before": before, "after": after, "who": origin.who, "why": why}
    values = {name: json.dumps(value) if isinstance(value, Mapping) else value for name, value in columns.items()}
    if cursor.execute(statement, transition | values).rowcount == 0:
        refuse(read_batch(cursor, attempt.batch_id), attempt, before)


def lock(cursor: Cursor, attempt: Attempt, wanted: State) -> Batch:
    """Lock the batch for the rest of the transaction; refuse an attempt that no longer has it, in this state."""
    batch = read_batch(cursor, attempt.batch_id, lock=True)
    if (batch.attempt, batch.state) != (attempt, wanted):
        refuse(batch, attempt, wanted)
    return batch


def refuse(batch: Batch, attempt: Attempt, wanted: State) -> NoReturn:
    """Raise Fenced if a newer attempt has claimed the batch, else StateConflict: it is not in the state ``wanted``."""
    if batch.attempt != attempt:
        raise fenced_by(batch, attempt)
    raise StateConflict(f"{batch} was expected to be {wanted}; another step has moved it")


def fenced_by(batch: Batch, attempt: Attempt) -> Fenced:
    """Return the error of an attempt whose batch, as it is now, a newer one has claimed."""
    return Fenced(
        f"batch {batch.batch_id} of {batch.pipeline}: this attempt has epoch {attempt.epoch}, a newer one claimed "
        f"epoch {batch.epoch}; this one committed nothing and ends here"
    )


def open_request(
    cursor: Cursor, pipeline: str, kind: BatchKind, origin: Origin, request: Mapping[str, Any]
) -> Batch | None:
    """The newest open batch of this kind that this run, or a person without one, has planned for this very request."""
    place = {"pipeline": pipeline, "kind": kind, "dag_id": origin.dag_id, "run_id": origin.run_id}
    row = cursor.run("requests/open", **place, request=json.dumps(request)).fetchone()
    return read_batch(cursor, row["batch_id"]) if row else None


def take_over(cursor: Cursor, batch_id: int, origin: Origin) -> None:
    """Record the run that resumes an open batch as its run, unless the batch is locked, perhaps by a paused process."""
    if origin.run_id:
        cursor.run("requests/take_over", dag_id=origin.dag_id, run_id=origin.run_id, batch_id=batch_id)


def committed_ranges(
    cursor: Cursor, pipeline: str, wanted: Sequence[OffsetRange]
) -> tuple[tuple[int, OffsetRange], ...]:
    """The committed ranges of the present log, of every kind, that overlap the wanted ones."""
    ends = {"from_offsets": [r.from_offset for r in wanted], "until_offsets": [r.until_offset for r in wanted]}
    places = {"partitions": [r.partition for r in wanted], **ends}
    committed = cursor.run("requests/committed_ranges", pipeline=pipeline, **places)
    return tuple((row[0], OffsetRange(*row[1:])) for row in committed)


def read_before(
    cursor: Cursor, pipeline: str, since: datetime, until: datetime, snapshot: TopicSnapshot
) -> tuple[EarlierRead, ...]:
    """The committed ranges, as :func:`offset_ledger.model.windows.find_window` needs them."""
    partitions, log_starts = [p.partition for p in snapshot.partitions], [p.log_start for p in snapshot.partitions]
    log = {"pipeline": pipeline, "partitions": partitions, "log_starts": log_starts}
    ranges = cursor.run("requests/read_before", **log, since=since, until=until)
    return tuple(EarlierRead(OffsetRange(*row[:3]), row[3], row[4]) for row in ranges)

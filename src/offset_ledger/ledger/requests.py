"""What runs were asked for and what was read before: the ledger, and no run id alone, decides what is left to do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from offset_ledger.ledger.batches import read_batch
from offset_ledger.ledger.database import Cursor, named_sql
from offset_ledger.model.batch import Batch, Origin
from offset_ledger.model.overlap import CommittedRange
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.snapshot import TopicSnapshot
from offset_ledger.model.states import BatchKind
from offset_ledger.model.windows import ReadBefore


def open_request(
    cursor: Cursor, pipeline: str, kind: BatchKind, origin: Origin, request: Mapping[str, Any]
) -> Batch | None:
    """The newest open batch of this kind that this run, or a person without one, has planned for this very request."""
    place = {"pipeline": pipeline, "kind": kind, "dag_id": origin.dag_id, "run_id": origin.run_id}
    cursor.execute(named_sql("requests/open"), {**place, "request": json.dumps(request)})
    row = cursor.fetchone()
    return read_batch(cursor, row["batch_id"]) if row else None


def take_over(cursor: Cursor, batch_id: int, origin: Origin) -> None:
    """Record the run that resumes an open batch as its run, unless the batch is locked, perhaps by a paused process."""
    if origin.run_id:
        run = {"dag_id": origin.dag_id, "run_id": origin.run_id}
        cursor.execute(named_sql("requests/take_over"), {**run, "batch_id": batch_id})


def committed_ranges(cursor: Cursor, pipeline: str, wanted: Sequence[OffsetRange]) -> tuple[CommittedRange, ...]:
    """The committed ranges of the present log, of every kind, that overlap the wanted ones."""
    ends = {"from_offsets": [r.from_offset for r in wanted], "until_offsets": [r.until_offset for r in wanted]}
    places = {"partitions": [r.partition for r in wanted], **ends}
    cursor.execute(named_sql("requests/committed_ranges"), {"pipeline": pipeline, **places})
    return tuple(CommittedRange(row[0], OffsetRange(*row[1:])) for row in cursor.fetchall())


def read_before(
    cursor: Cursor, pipeline: str, since: datetime, until: datetime, snapshot: TopicSnapshot
) -> tuple[ReadBefore, ...]:
    """What :func:`offset_ledger.model.windows.find_window` needs to know of the ranges that batches have committed."""
    log = {"partitions": [p.partition for p in snapshot.partitions]}
    log_starts = [p.log_start for p in snapshot.partitions]
    window = {"pipeline": pipeline, "since": since, "until": until}
    cursor.execute(named_sql("requests/read_before"), {**window, **log, "log_starts": log_starts})
    return tuple(ReadBefore(OffsetRange(*row[:3]), row[3], row[4]) for row in cursor.fetchall())

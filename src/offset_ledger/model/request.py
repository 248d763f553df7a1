"""What a run of the ingest DAG is asked to do, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import BatchKind

OUTCOME = "outcome"  # the key under which the task plan says why it skipped
BUSY, NOTHING_NEW = "busy", "nothing new"


class RunAction(StrEnum):
    """What to do."""

    NEXT = "next"
    WINDOW = "window"
    RANGES = "ranges"
    APPROVE = "approve"
    ABANDON = "abandon"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Request:
    """One request without contradictions. ``since`` and ``until`` bound record timestamps, ``limit`` is in offsets.

    ``scan`` asks for the window's late records too, ``fill`` for rows to be written again as the pipeline file reads
    their records now. ``topic`` is one of those that a pipeline file with several reads.
    """

    action: RunAction = RunAction.NEXT
    since: datetime | None = None
    until: datetime | None = None
    ranges: tuple[OffsetRange, ...] = ()
    limit: int | None = None
    dry_run: bool = False
    batch_id: int | None = None
    why: str | None = None
    scan: bool = False
    topic: str | None = None
    fill: bool = False

    @property
    def kind(self) -> BatchKind:
        """The kind of the batch it asks for."""
        return {RunAction.WINDOW: BatchKind.BACKFILL, RunAction.RANGES: BatchKind.REPLAY}.get(
            self.action, BatchKind.HEAD
        )

    @property
    def key(self) -> dict[str, Any]:
        """What distinguishes this request from another of the same run; kept with the batch that it plans."""
        fields = {
            "action": str(self.action),
            "since": self.since.isoformat() if self.since else None,
            "until": self.until.isoformat() if self.until else None,
            "scan": self.scan,
            "fill": self.fill,
            "ranges": [[r.partition, r.from_offset, r.until_offset] for r in self.ranges],
            "limit": self.limit,
        }
        return {name: value for name, value in fields.items() if value}

"""Preview: what a request would read, and how much of it was committed before; nothing is written."""

from dataclasses import dataclass
from typing import Any

from tabulate import tabulate

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import get_connection
from offset_ledger.kafka.client import connect_kafka
from offset_ledger.ledger import batches, pipelines
from offset_ledger.ledger.batches import committed_ranges
from offset_ledger.ledger.database import Cursor, open_ledger, transaction
from offset_ledger.model.log_checks import check_identity, check_replay
from offset_ledger.model.overlap import Overlap, overlaps
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.request import Request, RunAction
from offset_ledger.model.states import BatchKind
from offset_ledger.plan.head import backlogs, nothing_new, plan_head, start_offsets
from offset_ledger.plan.step import batch_limit, first_start, snapshot_topic, turn_of_partitions
from offset_ledger.run.requests import wanted_ranges
from offset_ledger.units import counted


@dataclass(frozen=True, slots=True)
class Preview:
    """The batch that would be planned."""

    kind: BatchKind
    lines: tuple[Overlap, ...]
    notes: str

    @property
    def data(self) -> dict[str, Any]:
        """The preview as JSON values."""
        return {
            "kind": str(self.kind),
            "notes": self.notes,
            "offsets": sum(line.wanted.width for line in self.lines),
            "committed": sum(line.committed for line in self.lines),
            "ranges": [
                {
                    "partition": line.wanted.partition,
                    "from": line.wanted.from_offset,
                    "until": line.wanted.until_offset,
                    "offsets": line.wanted.width,
                    "committed": line.committed,
                    "batches": list(line.batch_ids),
                }
                for line in self.lines
            ],
        }

    def __str__(self) -> str:
        rows = [
            [
                *(d[key] for key in ("partition", "from", "until", "offsets", "committed")),
                ", ".join(map(str, d["batches"])),
            ]
            for d in self.data["ranges"]
        ]
        head = ["partition", "from", "until", "offsets", "committed before", "by batches"]
        title = f"dry run of a {self.kind} batch: nothing was planned"
        return "\n".join(filter(None, [title, self.notes, tabulate(rows, headers=head) if rows else "nothing to read"]))


def preview(pipeline: Pipeline, request: Request) -> Preview:
    """The ranges that the request would read, each with how much of it was committed before.

    Raises:
        LostRange: the same errors as the plan itself.
    """
    if request.action is RunAction.NEXT:
        return _next(pipeline, request)
    wanted, notes = wanted_ranges(pipeline, request)
    with connect_kafka(get_connection(pipeline.source.connection)) as kafka:
        snapshot = kafka.snapshot(pipeline.source.topic)
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        check_identity(pipelines.read_cursors(cursor, pipeline.name), snapshot)
        check_replay(wanted, snapshot)
        return Preview(request.kind, _lines(cursor, pipeline, wanted), notes)


def _next(pipeline: Pipeline, request: Request) -> Preview:
    with open_ledger(pipeline) as session:
        with transaction(session) as cursor:
            cursors = pipelines.read_cursors(cursor, pipeline.name)
            head = batches.open_head(cursor, pipeline.name)
        snapshot, at_timestamp = snapshot_topic(pipeline, cursors)
        with transaction(session) as cursor:
            if head:
                return Preview(BatchKind.HEAD, _lines(cursor, pipeline, head.ranges), f"{head} would be resumed")
            new = start_offsets(cursors, snapshot, first_start(cursor, pipeline), at_timestamp)
            starts = {**(cursors.next_offsets if cursors else {}), **new}
            waiting, taken = backlogs(starts, snapshot), turn_of_partitions(cursor, pipeline)
            ranges = plan_head(waiting, batch_limit(pipeline, request.limit), taken)
            left = sum(b.width for b in waiting) - sum(r.width for r in ranges)
            notes = (
                f"{counted(left, 'offset')} left for later"
                if ranges
                else f"nothing new: {nothing_new(starts, snapshot, taken == 0)}"
            )
            return Preview(BatchKind.HEAD, _lines(cursor, pipeline, ranges), notes)


def _lines(cursor: Cursor, pipeline: Pipeline, wanted: tuple[OffsetRange, ...]) -> tuple[Overlap, ...]:
    return overlaps(wanted, committed_ranges(cursor, pipeline.name, wanted))

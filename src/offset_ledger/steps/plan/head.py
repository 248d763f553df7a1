"""Planning as a pure function: cursors, a snapshot of the topic and limits in, offset ranges out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from offset_ledger.errors import LogEndBelowCursor, NoStartOffset, OffsetExpired, PartitionVanished
from offset_ledger.model.ranges import OffsetRange, fair_shares
from offset_ledger.model.snapshot import GO_ON, Boundary, Cursors, TopicSnapshot
from offset_ledger.pipeline_file.source import StartAt


@dataclass(frozen=True, slots=True)
class Backlog:
    """The offsets that one partition has to read: ``[start, end)``, possibly empty."""

    partition: int
    start: int
    end: int

    @property
    def width(self) -> int:
        """Offsets waiting."""
        return self.end - self.start


def nothing_new(starts: Mapping[int, int], snapshot: TopicSnapshot, first: bool) -> str:
    """Return why there is nothing to plan; before the ``first`` batch also what was deleted below the log start."""
    text = "every cursor is at the last stable offset"
    for p in snapshot.partitions:
        if first and 0 < p.log_start == starts.get(p.partition):
            text += (
                f"; {p.log_start:,} offsets below the log start {p.log_start} of partition {p.partition} were deleted "
                "before the pipeline began"
            )
    return text


def is_drained(cursors: Cursors | None, snapshot: TopicSnapshot) -> bool:
    """Return whether all that is stable has been read, so that there is nothing to plan; False if in doubt."""
    return (
        cursors is not None
        and (cursors.cluster_id, cursors.topic_id) == (snapshot.cluster_id, snapshot.topic_id)
        and cursors.next_offsets == {p.partition: p.last_stable for p in snapshot.partitions}
        and all(p.log_start <= p.last_stable for p in snapshot.partitions)
    )


def start_offsets(
    cursors: Cursors | None, snapshot: TopicSnapshot, start: StartAt, at_timestamp: Mapping[int, int | None]
) -> dict[int, int]:
    """Return where each partition that the ledger does not know yet begins.

    On the pipeline's first run the pipeline file decides (``at_timestamp`` gives the first offset at or after the
    start timestamp, None where there is none). A partition added later begins at its first offset, even where the log
    starts above it: all its records were produced after the pipeline began.

    Raises:
        NoStartOffset: ``start: none`` on a first run.
    """
    known = cursors.next_offsets if cursors else {}
    new = [p for p in snapshot.partitions if p.partition not in known]
    if known:
        return {p.partition: 0 for p in new}
    if start is StartAt.EARLIEST:
        return {p.partition: p.log_start for p in new}
    if start is StartAt.LATEST:
        return {p.partition: p.last_stable for p in new}
    if start is StartAt.TIMESTAMP:
        offsets = {p: at_timestamp.get(p.partition) for p in new}
        return {p.partition: p.last_stable if offset is None else offset for p, offset in offsets.items()}
    raise NoStartOffset(
        f"topic {snapshot.topic}: the pipeline says start: none and has no cursors; "
        "set source.start to earliest, latest or a timestamp"
    )


def boundaries(offsets: Mapping[int, int], snapshot: TopicSnapshot) -> tuple[Boundary, ...]:
    """Return these offsets with the leader epochs under which they were stable; those above have none."""
    seen = {p.partition: p for p in snapshot.partitions}
    return tuple(
        Boundary(partition, offset, seen[partition].leader_epoch if offset <= seen[partition].last_stable else None)
        for partition, offset in offsets.items()
    )


def backlogs(next_offsets: Mapping[int, int], snapshot: TopicSnapshot) -> tuple[Backlog, ...]:
    """The offsets each partition has waiting, checked against the log.

    Raises:
        PartitionVanished: a known partition is missing.
        OffsetExpired: the log starts above a cursor.
        LogEndBelowCursor: the log ends below a cursor.
    """
    missing = sorted(set(next_offsets) - {p.partition for p in snapshot.partitions})
    if missing:
        raise PartitionVanished(
            f"topic {snapshot.topic}: partitions {missing} have cursors but the topic has only "
            f"{len(snapshot.partitions)} partitions; a topic never loses partitions unless it was recreated"
        )
    waiting = []
    for p in snapshot.partitions:
        cursor, place = next_offsets[p.partition], f"topic {snapshot.topic} partition {p.partition}"
        if cursor < p.log_start:
            raise OffsetExpired(
                f"{place}: offsets [{cursor}, {p.log_start}) are gone, {p.log_start - cursor} in all: the cursor is at "
                f"{cursor} and the log starts at {p.log_start}; retention was shorter than the pipeline's lag; restore "
                "them, or approve the loss with: offset-ledger accept loss PIPELINE --why ..."
            )
        if cursor > p.high_watermark:
            raise LogEndBelowCursor(
                f"{place}: the log ends at {p.high_watermark}, below the cursor {cursor}: committed records were cut "
                f"off, or the topic was restored from an older copy; nothing was read; {GO_ON}"
            )
        waiting.append(Backlog(p.partition, cursor, max(cursor, p.last_stable)))
    return tuple(waiting)


def plan_head(waiting: Sequence[Backlog], limit: int, turn: int = 0) -> tuple[OffsetRange, ...]:
    """Return the ranges of the next head batch: each starts at its cursor, together at most ``limit`` offsets."""
    shares = fair_shares([b.width for b in waiting], limit, turn)
    return tuple(
        OffsetRange(b.partition, b.start, b.start + share) for b, share in zip(waiting, shares, strict=True) if share
    )

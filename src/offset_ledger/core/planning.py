"""Planning as a pure function: cursors, a snapshot of the topic and limits in, offset ranges out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from offset_ledger.core.cuts import Boundary
from offset_ledger.core.ranges import OffsetRange
from offset_ledger.errors import (
    LogEndBelowCursor,
    LogTruncated,
    NoStartOffset,
    OffsetExpired,
    PartitionVanished,
    TerminalError,
    TopicRecreated,
)
from offset_ledger.pipeline.model import StartAt

_GO_ON = "to go on from where the log still agrees with the ledger: offset-ledger accept-topic PIPELINE --why ..."


@dataclass(frozen=True, slots=True)
class PartitionSnapshot:
    """One partition at one moment. Offsets below ``last_stable`` belong to no open transaction."""

    partition: int
    log_start: int
    last_stable: int
    high_watermark: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class TopicSnapshot:
    """What the broker said of a topic in one round of requests."""

    cluster_id: str
    topic: str
    topic_id: str
    compacted: bool
    partitions: tuple[PartitionSnapshot, ...]
    delete_retention_ms: int = 0  # for how long compaction keeps a tombstone at least


@dataclass(frozen=True, slots=True)
class Cursors:
    """The ledger's side: the topic the offsets belong to, and where each known partition goes on.

    A partition that was planned but never committed goes on at its beginning.
    """

    cluster_id: str
    topic_id: str
    next_offsets: Mapping[int, int]
    leader_epochs: Mapping[int, int] = field(default_factory=dict)  # of partitions that have committed
    cuts: int = 0  # how often the log was cut off below the cursors and a person accepted it

    @property
    def log_id(self) -> str:
        """The ledger's name of the log that these offsets belong to: the topic id, and which cut began it."""
        return f"{self.topic_id}/{self.cuts}" if self.cuts else self.topic_id


@dataclass(frozen=True, slots=True)
class Backlog:
    """What one partition has to read: ``[start, end)``, possibly empty."""

    partition: int
    start: int
    end: int

    @property
    def width(self) -> int:
        """Offsets waiting."""
        return self.end - self.start


def topic_of(log_id: str) -> tuple[str, int]:
    """Kafka's topic id and the number of cuts in the ledger's name of a log."""
    topic_id, _, cuts = log_id.partition("/")
    return topic_id, int(cuts or 0)


def check_identity(cursors: Cursors | None, snapshot: TopicSnapshot) -> None:
    """Hold that the cursors belong to this very topic of this very cluster.

    Raises:
        TopicRecreated: the cluster id or the topic id differs.
    """
    if cursors is None:
        return
    if cursors.cluster_id != snapshot.cluster_id:
        raise TopicRecreated(
            f"topic {snapshot.topic}: the cursors belong to cluster {cursors.cluster_id}, the connection leads to "
            f"cluster {snapshot.cluster_id}; correct the connection, or start a pipeline with another name"
        )
    if cursors.topic_id != snapshot.topic_id:
        raise TopicRecreated(
            f"topic {snapshot.topic} was recreated: the cursors belong to topic id {cursors.topic_id}, the broker has "
            f"{snapshot.topic_id}; its offsets are not the ones that were counted; start a pipeline with another name, "
            "or approve the new topic with: offset-ledger accept-topic PIPELINE --why ..."
        )


def nothing_new(starts: Mapping[int, int], snapshot: TopicSnapshot, first: bool) -> str:
    """Why there is nothing to plan; before the ``first`` batch also what was deleted below a start at the log start."""
    text = "every cursor is at the last stable offset"
    for p in snapshot.partitions:
        if first and 0 < p.log_start == starts.get(p.partition):
            text += (
                f"; {p.log_start:,} offsets below the log start {p.log_start} of partition {p.partition} were deleted "
                "before the pipeline began"
            )
    return text


def check_truncation(
    topic: str, needed: Mapping[int, int], epochs: Mapping[int, int], epoch_ends: Mapping[int, int], what: str
) -> None:
    """Hold that no log was cut off below an offset that is needed, and perhaps written again.

    ``needed`` has the offset of each partition, ``epochs`` the leader epoch under which it was stable, ``what`` what
    became of the offsets below it (committed, planned).

    Raises:
        LogTruncated: the leader epoch ends below the offset.
    """
    for partition, end in sorted(epoch_ends.items()):
        if end < needed[partition]:
            raise LogTruncated(
                f"topic {topic} partition {partition}: offsets [{end}, {needed[partition]}) were {what} under leader "
                f"epoch {epochs[partition]}, whose log ends at {end} now: an unclean election cut them off and other "
                f"records may have taken their places; nothing was committed; {_GO_ON}"
            )


def beginnings(
    cursors: Cursors | None, snapshot: TopicSnapshot, start: StartAt, at_timestamp: Mapping[int, int | None]
) -> dict[int, int]:
    """Where each partition that the ledger does not know yet begins.

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
        found = {p: at_timestamp.get(p.partition) for p in new}
        return {p.partition: p.last_stable if offset is None else offset for p, offset in found.items()}
    raise NoStartOffset(
        f"topic {snapshot.topic}: the pipeline says start: none and has no cursors; "
        "set source.start to earliest, latest or a timestamp"
    )


def boundaries(offsets: Mapping[int, int], snapshot: TopicSnapshot) -> tuple[Boundary, ...]:
    """These offsets with the leader epochs under which they were stable; without one above the stable ones."""
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
    return tuple(_backlog(p, next_offsets[p.partition], snapshot.topic) for p in snapshot.partitions)


def _backlog(p: PartitionSnapshot, cursor: int, topic: str) -> Backlog:
    if cursor < p.log_start:
        raise OffsetExpired(
            f"topic {topic} partition {p.partition}: offsets [{cursor}, {p.log_start}) are gone, "
            f"{p.log_start - cursor} in all: the cursor is at {cursor} and the log starts at {p.log_start}; retention "
            "was shorter than the pipeline's lag; restore them, or approve the loss with: "
            "offset-ledger skip PIPELINE --why ..."
        )
    if cursor > p.high_watermark:
        raise LogEndBelowCursor(
            f"topic {topic} partition {p.partition}: the log ends at {p.high_watermark}, below the cursor {cursor}: "
            f"committed records were cut off, or the topic was restored from an older copy; nothing was read; {_GO_ON}"
        )
    return Backlog(p.partition, cursor, max(cursor, p.last_stable))


def fair_shares(widths: Sequence[int], limit: int, turn: int = 0) -> tuple[int, ...]:
    """Divide ``limit`` over ``widths``, max-min fair: nobody gets more than it has, nobody small is starved.

    A remainder smaller than the number of those still wanting goes one each, beginning at place ``turn``, so that
    over several batches every partition has its turn even where the limit is below their number.
    """
    shares = [0] * len(widths)
    left = min(limit, sum(widths))
    hungry = [i for i, width in enumerate(widths) if width > 0]
    while left > 0:
        if left < len(hungry):
            first = turn % len(hungry)
            for i in (hungry[first:] + hungry[:first])[:left]:
                shares[i] += 1
            break
        each = left // len(hungry)
        for i in hungry:
            given = min(each, widths[i] - shares[i])
            shares[i] += given
            left -= given
        hungry = [i for i in hungry if shares[i] < widths[i]]
    return tuple(shares)


def plan_head(waiting: Sequence[Backlog], limit: int, turn: int = 0) -> tuple[OffsetRange, ...]:
    """The ranges of the next head batch: each starts at its cursor, together at most ``limit`` offsets."""
    shares = fair_shares([b.width for b in waiting], limit, turn)
    return tuple(
        OffsetRange(b.partition, b.start, b.start + share) for b, share in zip(waiting, shares, strict=True) if share
    )


def check_replay(wanted: Sequence[OffsetRange], snapshot: TopicSnapshot) -> None:
    """Hold that every wanted range still lies between log start and last stable offset, one range a partition.

    Raises:
        TerminalError: an unknown or repeated partition, or an end beyond the last stable offset.
        OffsetExpired: a start below the log start.
    """
    by_partition = {p.partition: p for p in snapshot.partitions}
    if len({r.partition for r in wanted}) < len(wanted):
        raise TerminalError("a replay takes one range for each partition; two ranges name the same partition")
    for r in wanted:
        found = by_partition.get(r.partition)
        if found is None:
            raise TerminalError(f"topic {snapshot.topic} has no partition {r.partition}; it has {len(by_partition)}")
        if r.from_offset < found.log_start:
            raise OffsetExpired(
                f"topic {snapshot.topic} partition {r.partition}: offsets [{r.from_offset}, {found.log_start}) are "
                f"gone; the log starts at {found.log_start}; replay from there"
            )
        if r.until_offset > found.last_stable:
            raise TerminalError(
                f"topic {snapshot.topic} partition {r.partition}: offsets up to {found.last_stable} are stable, "
                f"the replay wants up to {r.until_offset}; end it at {found.last_stable} or wait"
            )

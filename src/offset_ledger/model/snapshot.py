"""A topic as the broker describes it, and as the ledger knows it: offsets by partition.

With the checks that its log is still the one whose offsets the ledger has, and how far (KIP-101, KIP-320).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from offset_ledger.errors import LogTruncated, OffsetExpired, TerminalError, TopicRecreated
from offset_ledger.model.batch import Batch
from offset_ledger.model.ranges import OffsetRange


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
    """A topic as the broker described it in one round of requests."""

    cluster_id: str
    topic: str
    topic_id: str
    compacted: bool
    partitions: tuple[PartitionSnapshot, ...]
    delete_retention_ms: int = 0  # for how long compaction keeps a tombstone at least

    @property
    def bounds(self) -> dict[int, tuple[int, int]]:
        """The offsets of each partition that can be read now: from its log start to its last stable offset."""
        return {p.partition: (p.log_start, p.last_stable) for p in self.partitions}


@dataclass(frozen=True, slots=True)
class Cursors:
    """The ledger's side: the topic the offsets belong to, and where each known partition is read on.

    A partition that was planned but never committed goes on at its start offset.
    """

    cluster_id: str
    topic_id: str
    next_offsets: Mapping[int, int]
    leader_epochs: Mapping[int, int] = field(default_factory=dict)  # of partitions that have committed
    truncations: int = 0  # how often the log was truncated below the cursors and a person accepted it

    def past(self, batch: Batch) -> "Cursors":
        """The cursors as the commit of this head batch will leave them."""
        ends = {r.partition: r.until_offset for r in batch.ranges}
        epochs = {**self.leader_epochs, **batch.epochs}
        return replace(self, next_offsets={**self.next_offsets, **ends}, leader_epochs=epochs)

    @property
    def log_id(self) -> str:
        """The ledger's name of the log that these offsets belong to: the topic id, and how often it was truncated."""
        return f"{self.topic_id}/{self.truncations}" if self.truncations else self.topic_id


def topic_of(log_id: str) -> tuple[str, int]:
    """Kafka's topic id and the number of truncations in the ledger's name of a log."""
    topic_id, _, truncations = log_id.partition("/")
    return topic_id, int(truncations or 0)


GO_ON = "to continue from where the log still agrees with the ledger: offset-ledger accept topic PIPELINE --why ..."


def check_identity(cursors: Cursors | None, snapshot: TopicSnapshot) -> None:
    """Raise TopicRecreated unless the cursors belong to this very topic of this very cluster."""
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
            "or approve the new topic with: offset-ledger accept topic PIPELINE --why ..."
        )


def check_truncation(
    topic: str, needed: Mapping[int, int], epochs: Mapping[int, int], epoch_ends: Mapping[int, int], what: str
) -> None:
    """Check that no log was truncated below an offset that is needed, and perhaps written again.

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
                f"records may have taken their places; nothing was committed; {GO_ON}"
            )


def check_replay(wanted: Sequence[OffsetRange], snapshot: TopicSnapshot) -> None:
    """Check that every wanted range still lies between log start and last stable offset, one range a partition.

    Raises:
        TerminalError: an unknown or repeated partition, or an end beyond the last stable offset.
        OffsetExpired: a start below the log start.
    """
    by_partition = {p.partition: p for p in snapshot.partitions}
    if len({r.partition for r in wanted}) < len(wanted):
        raise TerminalError("a replay takes one range for each partition; two ranges name the same partition")
    for r in wanted:
        partition = by_partition.get(r.partition)
        if partition is None:
            raise TerminalError(f"topic {snapshot.topic} has no partition {r.partition}; it has {len(by_partition)}")
        if r.from_offset < partition.log_start:
            raise OffsetExpired(
                f"topic {snapshot.topic} partition {r.partition}: offsets [{r.from_offset}, {partition.log_start}) are "
                f"gone; the log starts at {partition.log_start}; replay from there"
            )
        if r.until_offset > partition.last_stable:
            raise TerminalError(
                f"topic {snapshot.topic} partition {r.partition}: offsets up to {partition.last_stable} are stable, "
                f"the replay wants up to {r.until_offset}; end it at {partition.last_stable} or wait"
            )


@dataclass(frozen=True, slots=True)
class Boundary:
    """An offset up to which the ledger knows a log: all below it was stable under this leader epoch, if it is known."""

    partition: int
    offset: int
    leader_epoch: int | None = None


EpochEnds = Mapping[tuple[int, int], int]  # (partition, leader epoch) -> where the log of it and of earlier ones ends


def agrees(known: Boundary, ends: Mapping[int, int], epoch_ends: EpochEnds) -> bool:
    """Return whether the log, which ends at ``ends``, is still the same below the boundary.

    A partition that is not in ``ends`` says nothing: Kafka never removes one.
    """
    if known.offset > ends.get(known.partition, known.offset):
        return False
    if known.leader_epoch is None:
        return True
    return known.offset <= epoch_ends.get((known.partition, known.leader_epoch), known.offset)


def last_agreed(history: Iterable[Boundary], ends: Mapping[int, int], epoch_ends: EpochEnds) -> dict[int, Boundary]:
    """Return per partition the highest boundary that the log still agrees with; absent if it agrees with none."""
    agreed: dict[int, Boundary] = {}
    for known in sorted(history, key=lambda b: b.offset):
        if agrees(known, ends, epoch_ends):
            agreed[known.partition] = known
    return agreed

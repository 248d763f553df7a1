"""A topic as the broker describes it, and as the ledger knows it: offsets by partition."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from offset_ledger.model.batch import Batch


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

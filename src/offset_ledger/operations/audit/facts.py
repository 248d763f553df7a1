"""The facts of an audit about a topic: read once from the brokers, then checked by pure functions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from offset_ledger.model.retention import Retention


@dataclass(frozen=True, slots=True)
class Owner:
    """The transaction as its coordinator has it; the timeout is the producer's own."""

    transactional_id: str
    state: str
    begun_at: datetime
    timeout: timedelta


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open on a partition; ``last_write`` is the timestamp of its last record.

    ``hanging``: no coordinator knows of it. Without an owner and not hanging, the coordinators could not be asked.
    """

    producer_id: int
    start_offset: int
    last_write: datetime
    owner: Owner | None = None
    hanging: bool = False


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """One partition. Times are record timestamps: of the first, the last, the newest and the first unread record.

    ``unread_since`` is by the ledger's clock: nothing unread was compacted before it. ``size_bytes`` is None where the
    login may not see the sizes of logs.
    """

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    log_start: int = 0
    last_stable: int = 0
    high_watermark: int = 0
    size_bytes: int | None = None
    cursor: int | None = None
    first_at: datetime | None = None
    last_at: datetime | None = None
    newest_at: datetime | None = None
    unread_at: datetime | None = None
    transactions: tuple[OpenTransaction, ...] = ()
    unread_since: datetime | None = None

    @property
    def unread(self) -> int:
        """Offsets between the pipeline's cursor and the last stable offset."""
        return max(0, self.last_stable - max(self.log_start, self.cursor or 0))


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """One broker that is up, with its settings as text."""

    node: int
    rack: str | None
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ReaderFacts:
    """The pipeline that reads the topic, as far as the topic's settings matter to it.

    ``runs_every`` is the longest time between two of its scheduled runs; None where none are scheduled. ``cursors`` are
    where it stands on the topic of that id, ``unread_since`` for how long at most, by partition.
    """

    pipeline: str
    event_id_is_key: bool
    publish_at_is_timestamp: bool
    newest_wins: bool
    value_bytes: int
    last_commit: datetime | None = None
    deletes_by_tombstone: bool = False
    runs_every: timedelta | None = None
    topic_id: str = ""
    cursors: Mapping[int, int] = field(default_factory=dict)
    unread_since: Mapping[int, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """One topic at one moment.

    ``own`` names the settings that are the topic's and not the brokers' defaults; ``groups`` are the states of the
    consumer groups with offsets of it.
    """

    topic: str
    topic_id: str
    taken_at: datetime
    servers: str
    brokers: tuple[BrokerFacts, ...]
    partitions: tuple[PartitionFacts, ...]
    settings: Mapping[str, str]
    own: frozenset[str] = frozenset()
    groups: Mapping[str, str] = field(default_factory=dict)
    client: Mapping[str, str] = field(default_factory=dict)
    reader: ReaderFacts | None = None

    @property
    def replication_factor(self) -> int:
        """The number of copies of each partition; the fewest if partitions differ."""
        return min(len(p.replicas) for p in self.partitions)

    @property
    def min_insync(self) -> int:
        """``min.insync.replicas``."""
        return int(self.settings["min.insync.replicas"])

    @property
    def compacts(self) -> bool:
        """Return whether compaction removes all but the last record of a key."""
        return "compact" in self.settings["cleanup.policy"]

    @property
    def retention(self) -> Retention:
        """The time and the size of a partition after which the broker deletes records."""
        return Retention.from_settings(self.settings)

    def broker_number(self, name: str, default: int) -> int:
        """The smallest of a setting over the brokers."""
        return min((int(broker.settings.get(name, default)) for broker in self.brokers), default=default)

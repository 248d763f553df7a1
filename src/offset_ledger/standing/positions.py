"""Where the partitions of a topic stand, from what the ledger knows and what the broker answered. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from offset_ledger.model.retention import UNSIZED, Retention, SizedLog, UnreadLog, earliest
from offset_ledger.model.snapshot import PartitionSnapshot, TopicSnapshot

_LONG_AGO = timedelta(days=366)


@dataclass(frozen=True, slots=True)
class BrokerSnapshot:
    """A topic as the broker described it, and when; ``logs`` by partition, where the size of the log matters."""

    snapshot: TopicSnapshot
    retention: Retention
    taken_at: datetime
    logs: Mapping[int, SizedLog] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LedgerPartition:
    """What the ledger knows of a partition; the log as the newest batch saw it.

    ``complete_to`` is the newest record timestamp of the last committed range that had one. Nothing from the
    cursor on was compacted before ``unread_since``; None where the pipeline does not delete by tombstones.
    """

    partition: int
    cursor: int
    log_start: int | None = None
    last_stable: int | None = None
    high_watermark: int | None = None
    seen_at: datetime | None = None
    complete_to: datetime | None = None
    unread_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """Where one partition stands, in offsets.

    lag: stable offsets of the log that are not committed, never below 0; None while the broker does not say.
    lost: offsets that were deleted before they were committed; they are no lag. cut_off: the log ends below the
    cursor, or is that of a recreated topic. gone_after: when retention may delete the record at the cursor.
    tombstones_after: when compaction may remove a tombstone above it.
    """

    partition: int
    cursor: int | None
    log_start: int | None
    last_stable: int | None
    high_watermark: int | None
    lag: int | None = None
    lost: int = 0
    complete_to: datetime | None = None
    gone_after: datetime | None = None
    tombstones_after: datetime | None = None
    cut_off: bool = False


@dataclass(frozen=True, slots=True)
class Log:
    """A partition's log at one moment, from the broker or as the newest batch saw it."""

    log_start: int
    last_stable: int
    high_watermark: int
    as_of: datetime


def log_of(known: LedgerPartition | None, live: PartitionSnapshot | None, broker: BrokerSnapshot | None) -> Log | None:
    """Return the log as the broker says if it answered, else as the newest batch saw it; None if neither knows it.

    A snapshot that is older than the newest batch is not used if the batch moved the cursor beyond its high watermark.
    """
    if live and broker:
        seen_later = known and known.seen_at is not None and known.seen_at > broker.taken_at
        if not (known and seen_later and known.cursor > live.high_watermark):
            return Log(live.log_start, live.last_stable, live.high_watermark, broker.taken_at)
    if known is None or known.log_start is None or known.last_stable is None or known.high_watermark is None:
        return None
    assert known.seen_at is not None
    return Log(known.log_start, known.last_stable, known.high_watermark, known.seen_at)


def position(
    partition: int, known: LedgerPartition | None, live: PartitionSnapshot | None, broker: BrokerSnapshot | None
) -> Position:
    """Return where a partition stands; without the broker's answer, neither lag nor deadlines are known."""
    cursor, newest = (known.cursor, known.complete_to) if known else (None, None)
    log = log_of(known, live, broker)
    if log is None:
        return Position(partition, cursor, None, None, None, complete_to=newest)
    log_ends = log.log_start, log.last_stable, log.high_watermark
    start = log.log_start if cursor is None else cursor
    if start > log.high_watermark:  # the log was truncated, and its records below the cursor may be new
        return Position(partition, cursor, *log_ends, lag=0 if live else None, cut_off=True)
    lag = max(0, log.last_stable - max(start, log.log_start))
    # A producer's clock may run ahead: nothing is complete up to a time in the future.
    complete_to = log.as_of if lag == 0 else min(newest, log.as_of) if newest else None
    lost = max(0, log.log_start - start)
    if broker is None or live is None:
        return Position(partition, cursor, *log_ends, lost=lost, complete_to=complete_to)
    deadline, tombstones = None, None
    if lag:
        length = log.high_watermark - log.log_start
        unread = UnreadLog(complete_to, broker.logs.get(partition, UNSIZED), lag / length)
        deadline = earliest([unread], broker.retention, log.as_of)
        if known and known.unread_since and broker.retention.tombstones is not None:
            tombstones = known.unread_since + broker.retention.tombstones
    return Position(partition, cursor, *log_ends, lag, lost, complete_to, deadline.at if deadline else None, tombstones)


def positions(known: Iterable[LedgerPartition], broker: BrokerSnapshot | None) -> tuple[Position, ...]:
    """Return the position of every partition that the ledger or the broker knows, in order."""
    ledger = {each.partition: each for each in known}
    live = {each.partition: each for each in broker.snapshot.partitions} if broker else {}
    return tuple(position(p, ledger.get(p), live.get(p), broker) for p in sorted({*ledger, *live}))


@dataclass(frozen=True, slots=True)
class Totals:
    """A pipeline's partitions together; None if it is not known for each of them."""

    partitions: int
    lag: int | None
    lost: int
    complete_to: datetime | None
    gone_after: datetime | None
    tombstones_after: datetime | None = None
    cut_off: bool = False

    def dated_long_ago(self, now: datetime) -> bool:
        """Return whether there is lag, and the records before it are dated more than a year ago.

        Such timestamps say when something happened, not when it was published, so they say nothing about how long
        records have been waiting.
        """
        return bool(self.lag) and self.complete_to is not None and now - self.complete_to > _LONG_AGO


def totals(shown: Sequence[Position]) -> Totals:
    """Return sums, and the earliest of the times: a pipeline is only as complete as its least complete partition."""
    lags = [each.lag for each in shown if each.lag is not None]
    complete = [each.complete_to for each in shown if each.complete_to]
    return Totals(
        partitions=len(shown),
        lag=sum(lags) if shown and len(lags) == len(shown) else None,
        lost=sum(each.lost for each in shown),
        complete_to=min(complete) if shown and len(complete) == len(shown) else None,
        gone_after=min((each.gone_after for each in shown if each.gone_after), default=None),
        tombstones_after=min((each.tombstones_after for each in shown if each.tombstones_after), default=None),
        cut_off=any(each.cut_off for each in shown),
    )

"""Where partitions and pipelines stand: rows of the ledger and a look at the broker in, what is shown out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from offset_ledger.model.snapshot import PartitionSnapshot, TopicSnapshot
from offset_ledger.units import kept_for

_SLIVER = 0.012  # the least share of a bar that can still be seen
_SOON = timedelta(hours=24)
_LONG_AGO = timedelta(days=366)


class Level(StrEnum):
    """How a pipeline's condition is coloured."""

    GOOD = "good"
    PLAIN = "plain"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Retention:
    """What the broker deletes by itself; None is without limit. ``tombstones``: how long compaction keeps those."""

    age: timedelta | None = None
    bytes: int | None = None
    tombstones: timedelta | None = None

    @classmethod
    def from_settings(cls, settings: Mapping[str, str]) -> Retention:
        """From ``cleanup.policy``, ``retention.ms``, ``retention.bytes`` and ``delete.retention.ms`` of the topic."""
        policy, size = settings["cleanup.policy"], int(settings["retention.bytes"])
        tombstones = kept_for(settings["delete.retention.ms"]) if "compact" in policy else None
        if "delete" not in policy:
            return cls(tombstones=tombstones)
        return cls(kept_for(settings["retention.ms"]), size if size >= 0 else None, tombstones)


@dataclass(frozen=True, slots=True)
class BrokerSnapshot:
    """What the broker said of a topic, and when."""

    snapshot: TopicSnapshot
    retention: Retention
    taken_at: datetime


@dataclass(frozen=True, slots=True)
class LedgerPartition:
    """What the ledger knows of a partition; the log as the newest batch that read it saw it.

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
    """One partition as it is shown, in offsets.

    lag: stable offsets not committed. lost: deleted before they were committed. gone_after: when retention may delete
    the record at the cursor. tombstones_after: when compaction may remove a tombstone above it. bar: shares lost,
    committed, waiting and in open transactions, from the lower of log start and cursor to the high watermark.
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
    bar: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Log:
    """A partition's log at one moment, as the broker told it or as the newest batch saw it."""

    log_start: int
    last_stable: int
    high_watermark: int
    as_of: datetime


def log_of(known: LedgerPartition | None, live: PartitionSnapshot | None, look: BrokerSnapshot | None) -> Log | None:
    """From the broker where it answered, else from the newest batch; None where neither knows.

    A look that is older than a batch which has moved the cursor beyond it is no look at the log of this cursor.
    """
    passed = known and live and look and known.cursor > live.high_watermark and _after(known.seen_at, look.taken_at)
    if live and look and not passed:
        return Log(live.log_start, live.last_stable, live.high_watermark, look.taken_at)
    if known is None or known.log_start is None or known.last_stable is None or known.high_watermark is None:
        return None
    assert known.seen_at is not None
    return Log(known.log_start, known.last_stable, known.high_watermark, known.seen_at)


def _after(moment: datetime | None, other: datetime) -> bool:
    return moment is not None and moment > other


def position(partition: int, known: LedgerPartition | None, log: Log | None, kept: Retention) -> Position:
    """One partition."""
    cursor, newest = (known.cursor, known.complete_to) if known else (None, None)
    if log is None:
        return Position(partition, cursor, None, None, None, complete_to=newest)
    start = log.log_start if cursor is None else cursor
    if start > log.high_watermark:  # the log was cut off, and what it holds below the cursor may be new
        bar = shares(start, log.log_start, log.last_stable, log.high_watermark)
        return Position(partition, cursor, log.log_start, log.last_stable, log.high_watermark, bar=bar)
    lag = max(0, log.last_stable - max(start, log.log_start))
    # A producer's clock may run ahead; nobody is complete up to a time that has not come.
    complete_to = log.as_of if lag == 0 else min(newest, log.as_of) if newest else None
    unread_since = known.unread_since if known and lag else None
    return Position(
        partition, cursor, log.log_start, log.last_stable, log.high_watermark,
        lag=lag,
        lost=max(0, log.log_start - start),
        complete_to=complete_to,
        gone_after=complete_to + kept.age if lag and complete_to and kept.age else None,
        tombstones_after=unread_since + kept.tombstones if unread_since and kept.tombstones is not None else None,
        bar=shares(start, log.log_start, log.last_stable, log.high_watermark),
    )  # fmt: skip


def shares(cursor: int, log_start: int, last_stable: int, high_watermark: int) -> tuple[float, float, float, float]:
    """The lengths of a bar's four parts: they sum to 1 (0 where the log is empty), and none that is there vanishes."""
    widths = (
        max(0, log_start - cursor),
        max(0, min(cursor, high_watermark) - log_start),
        max(0, last_stable - max(cursor, log_start)),
        max(0, high_watermark - max(last_stable, cursor, log_start)),
    )
    total = sum(widths)
    if not total:
        return (0.0, 0.0, 0.0, 0.0)
    seen = [max(width / total, _SLIVER) if width else 0.0 for width in widths]
    lost, committed, waiting, unstable = (round(each / sum(seen), 4) for each in seen)
    return lost, committed, waiting, unstable


def recreated(topic_id: str | None, look: BrokerSnapshot | None) -> bool:
    """Whether the topic is another one than the cursors belong to: they say nothing about its log."""
    return bool(look and topic_id and look.snapshot.topic_id != topic_id)


def positions(known: Iterable[LedgerPartition], look: BrokerSnapshot | None) -> tuple[Position, ...]:
    """Every partition that the ledger or the broker knows, in order."""
    ledger = {each.partition: each for each in known}
    live = {each.partition: each for each in look.snapshot.partitions} if look else {}
    kept = look.retention if look else Retention()
    return tuple(
        position(p, ledger.get(p), log_of(ledger.get(p), live.get(p), look), kept) for p in sorted({*ledger, *live})
    )


@dataclass(frozen=True, slots=True)
class Totals:
    """A pipeline's partitions together; None where a partition leaves it open."""

    partitions: int
    lag: int | None
    lost: int
    complete_to: datetime | None
    gone_after: datetime | None
    tombstones_after: datetime | None = None

    def dated_long_ago(self, now: datetime) -> bool:
        """Whether records wait and those before them are dated more than a year ago.

        Nothing waits that long: such timestamps tell when something happened, not when it was published, so no time of
        waiting follows from them.
        """
        return bool(self.lag) and self.complete_to is not None and now - self.complete_to > _LONG_AGO


def totals(found: Sequence[Position]) -> Totals:
    """Sums, and the earliest of the times: a pipeline is complete only up to where its last partition is."""
    lags = [each.lag for each in found]
    complete = [each.complete_to for each in found]
    return Totals(
        partitions=len(found),
        lag=None if None in lags or not lags else sum(lag for lag in lags if lag is not None),
        lost=sum(each.lost for each in found),
        complete_to=None if None in complete or not complete else min(at for at in complete if at is not None),
        gone_after=min((each.gone_after for each in found if each.gone_after), default=None),
        tombstones_after=min((each.tombstones_after for each in found if each.tombstones_after), default=None),
    )


def _near(kept: Retention) -> timedelta:
    """What is left when the end of the time that tombstones are kept for comes near."""
    return min(_SOON, (kept.tombstones or timedelta(0)) / 3)


@dataclass(frozen=True, slots=True)
class Condition:
    """A pipeline's state in a few words, the worst that is true."""

    level: Level
    text: str


def condition(
    topic_id: str | None,
    open_head: Mapping[str, Any] | None,
    found: Sequence[Position],
    look: BrokerSnapshot | None,
    now: datetime,
) -> Condition:
    """What a person should know first; ``topic_id`` is the one that the cursors belong to, None before any."""
    whole = totals(found)
    if recreated(topic_id, look):
        return Condition(Level.BAD, "the topic was recreated")
    if whole.lost and topic_id:
        return Condition(Level.BAD, f"{whole.lost:,} offsets were deleted before they were read")
    if any(p.cursor is not None and p.high_watermark is not None and p.high_watermark < p.cursor for p in found):
        return Condition(Level.BAD, "the log ends below a cursor")
    if open_head and open_head["state"] == "rejected":
        return Condition(Level.WARN, f"batch {open_head['batch_id']} is rejected and waits for a decision")
    if open_head and open_head["state"] == "staging" and open_head.get("late"):
        return Condition(Level.WARN, f"batch {open_head['batch_id']} may lack tombstones and waits for a decision")
    if whole.gone_after and whole.gone_after - now < _SOON:
        near = whole.gone_after > now
        told = "retention comes near the cursor" if near else "retention may delete what waits at any moment"
        return Condition(Level.WARN, told)
    if look and whole.tombstones_after and (left := whole.tombstones_after - now) < _near(look.retention):
        text = "comes near unread tombstones" if left > timedelta(0) else "may remove unread tombstones at any moment"
        return Condition(Level.WARN, f"compaction {text}")
    if open_head:
        return Condition(Level.PLAIN, f"batch {open_head['batch_id']} is {open_head['state']}")
    if topic_id is None:
        return Condition(Level.PLAIN, "nothing was planned yet")
    if whole.lag is None:
        return Condition(Level.PLAIN, "its lag is not known")
    return Condition(Level.PLAIN, "behind") if whole.lag else Condition(Level.GOOD, "up to date")

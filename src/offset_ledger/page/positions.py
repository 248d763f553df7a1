"""The positions of partitions, from rows of the ledger and a snapshot of the topic, and their common scale. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from offset_ledger.model.retention import UNSIZED, Retention, SizedLog, UnreadLog, earliest
from offset_ledger.model.snapshot import PartitionSnapshot
from offset_ledger.page.snapshots import BrokerSnapshot

_MIN_SHARE = 0.012  # the smallest share of a bar that can still be seen
_LONG_AGO = timedelta(days=366)


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
    """One partition as it is shown, in offsets.

    lag: stable offsets not committed. lost: deleted before they were committed. gone_after: when retention may delete
    the record at the cursor. tombstones_after: when compaction may remove a tombstone above it. bar: shares lost,
    committed, pending and in open transactions, from the lower of log start and cursor to the high watermark.
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
    """A partition's log at one moment, from the broker or as the newest batch saw it."""

    log_start: int
    last_stable: int
    high_watermark: int
    as_of: datetime

    @property
    def length(self) -> int:
        """Its offsets."""
        return self.high_watermark - self.log_start


def log_of(known: LedgerPartition | None, live: PartitionSnapshot | None, broker: BrokerSnapshot | None) -> Log | None:
    """From the broker if it answered, else from the newest batch; None if neither knows it.

    A snapshot that is older than the newest batch is not used if the batch moved the cursor beyond its high watermark.
    """
    outdated = (
        known and live and broker and known.cursor > live.high_watermark and _after(known.seen_at, broker.taken_at)
    )
    if live and broker and not outdated:
        return Log(live.log_start, live.last_stable, live.high_watermark, broker.taken_at)
    if known is None or known.log_start is None or known.last_stable is None or known.high_watermark is None:
        return None
    assert known.seen_at is not None
    return Log(known.log_start, known.last_stable, known.high_watermark, known.seen_at)


def _after(moment: datetime | None, other: datetime) -> bool:
    return moment is not None and moment > other


def position(
    partition: int, known: LedgerPartition | None, log: Log | None, kept: Retention, sized: SizedLog = UNSIZED
) -> Position:
    """One partition."""
    cursor, newest = (known.cursor, known.complete_to) if known else (None, None)
    if log is None:
        return Position(partition, cursor, None, None, None, complete_to=newest)
    start = log.log_start if cursor is None else cursor
    if start > log.high_watermark:  # the log was truncated, and its records below the cursor may be new
        bar = shares(start, log.log_start, log.last_stable, log.high_watermark)
        return Position(partition, cursor, log.log_start, log.last_stable, log.high_watermark, bar=bar)
    lag = max(0, log.last_stable - max(start, log.log_start))
    # A producer's clock may run ahead: nothing is complete up to a time in the future.
    complete_to = log.as_of if lag == 0 else min(newest, log.as_of) if newest else None
    unread_since = known.unread_since if known and lag else None
    return Position(
        partition, cursor, log.log_start, log.last_stable, log.high_watermark,
        lag=lag,
        lost=max(0, log.log_start - start),
        complete_to=complete_to,
        gone_after=_gone_after(UnreadLog(complete_to, sized, lag / log.length), kept, log.as_of) if lag else None,
        tombstones_after=unread_since + kept.tombstones if unread_since and kept.tombstones is not None else None,
        bar=shares(start, log.log_start, log.last_stable, log.high_watermark),
    )  # fmt: skip


def _gone_after(unread: UnreadLog, kept: Retention, now: datetime) -> datetime | None:
    deadline = earliest([unread], kept, now)
    return deadline.at if deadline else None


def shares(cursor: int, log_start: int, last_stable: int, high_watermark: int) -> tuple[float, float, float, float]:
    """The lengths of a bar's four parts: they sum to 1 (0 for an empty log), and a part that exists stays visible."""
    widths = (
        max(0, log_start - cursor),
        max(0, min(cursor, high_watermark) - log_start),
        max(0, last_stable - max(cursor, log_start)),
        max(0, high_watermark - max(last_stable, cursor, log_start)),
    )
    total = sum(widths)
    if not total:
        return (0.0, 0.0, 0.0, 0.0)
    visible = [max(width / total, _MIN_SHARE) if width else 0.0 for width in widths]
    lost, committed, pending, unstable = (round(each / sum(visible), 4) for each in visible)
    return lost, committed, pending, unstable


def recreated(topic_id: str | None, broker: BrokerSnapshot | None) -> bool:
    """Whether the topic is not the one that the cursors belong to, so that they say nothing about its log."""
    return bool(broker and topic_id and broker.snapshot.topic_id != topic_id)


def without_log(known: Iterable[LedgerPartition]) -> tuple[LedgerPartition, ...]:
    """The cursors alone: of a topic that is gone nothing waits, and nothing is complete up to a time."""
    return tuple(LedgerPartition(each.partition, each.cursor) for each in known)


def positions(known: Iterable[LedgerPartition], broker: BrokerSnapshot | None) -> tuple[Position, ...]:
    """Every partition that the ledger or the broker knows, in order."""
    ledger = {each.partition: each for each in known}
    live = {each.partition: each for each in broker.snapshot.partitions} if broker else {}
    kept, logs = (broker.retention, broker.logs) if broker else (Retention(), {})
    return tuple(
        position(p, ledger.get(p), log_of(ledger.get(p), live.get(p), broker), kept, logs.get(p, UNSIZED))
        for p in sorted({*ledger, *live})
    )


@dataclass(frozen=True, slots=True)
class Totals:
    """A pipeline's partitions together; None if it is not known for each of them."""

    partitions: int
    lag: int | None
    lost: int
    complete_to: datetime | None
    gone_after: datetime | None
    tombstones_after: datetime | None = None

    def dated_long_ago(self, now: datetime) -> bool:
        """Whether there is lag, and the records before it are dated more than a year ago.

        Such timestamps say when something happened, not when it was published, so they say nothing about how long
        records have been waiting.
        """
        return bool(self.lag) and self.complete_to is not None and now - self.complete_to > _LONG_AGO


def totals(shown: Sequence[Position]) -> Totals:
    """Sums, and the earliest of the times: a pipeline is only as complete as its least complete partition."""
    lags = [each.lag for each in shown]
    complete = [each.complete_to for each in shown]
    return Totals(
        partitions=len(shown),
        lag=None if None in lags or not lags else sum(lag for lag in lags if lag is not None),
        lost=sum(each.lost for each in shown),
        complete_to=None if None in complete or not complete else min(at for at in complete if at is not None),
        gone_after=min((each.gone_after for each in shown if each.gone_after), default=None),
        tombstones_after=min((each.tombstones_after for each in shown if each.tombstones_after), default=None),
    )


STEPS = 5


@dataclass(frozen=True, slots=True)
class Scaled:
    """A partition among the others.

    ``length``: its log as a share of the longest one. ``lag_length``: its lag as a share of the largest one.
    ``step``: 0 without lag, else 1 to 5, equal factors of lag apart; None if the lag is not known.
    """

    position: Position
    length: float
    lag_length: float
    step: int | None


def on_one_scale(positions: Sequence[Position]) -> tuple[Scaled, ...]:
    """The largest lag first; a partition whose lag is not known is before all others."""
    longest = max((_length(each) for each in positions), default=0)
    largest = max((each.lag or 0 for each in positions), default=0)
    ordered = sorted(positions, key=lambda each: (each.lag is not None, -(each.lag or 0), each.partition))
    return tuple(
        Scaled(each, _share(_length(each), longest), _share(each.lag or 0, largest), step_of(each.lag, largest))
        for each in ordered
    )


def limits(largest: int) -> tuple[int, ...]:
    """The largest lag of each step of colour, from the first one on."""
    return tuple(round(largest ** (n / STEPS)) for n in range(1, STEPS + 1)) if largest else ()


def step_of(lag: int | None, largest: int) -> int | None:
    """The step of colour of this lag, where ``largest`` is the largest one."""
    if not lag:
        return lag
    return next(n for n, limit in enumerate(limits(largest), start=1) if lag <= limit)


def _length(each: Position) -> int:
    if each.high_watermark is None or each.log_start is None:
        return 0
    return each.high_watermark - min(each.log_start, each.log_start if each.cursor is None else each.cursor)


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0

"""A pipeline's condition in a few words: the most severe one that applies. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from offset_ledger.model.retention import Retention
from offset_ledger.page.positions import Position, Totals, recreated, totals
from offset_ledger.page.snapshots import BrokerSnapshot

_SOON = timedelta(hours=24)


class Level(StrEnum):
    """The colour of a condition."""

    GOOD = "good"
    PLAIN = "plain"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Condition:
    """A pipeline's state in a few words."""

    level: Level
    text: str

    @property
    def severity(self) -> int:
        """The higher, the more severe."""
        return tuple(Level).index(self.level)


def condition(
    topic_id: str | None,
    open_head: Mapping[str, Any] | None,
    partitions: Sequence[Position],
    broker: BrokerSnapshot | None,
    now: datetime,
    refused: str | None = None,
    gone: bool = False,
) -> Condition:
    """The most severe condition that applies; ``topic_id``: the topic that the cursors belong to, None before any.

    ``refused`` says what the newest batch has in quarantine beyond the limit, ``gone`` that the topic does not exist.
    """
    if gone and topic_id:
        return Condition(Level.BAD, "the topic is gone")
    whole = totals(partitions)
    problem = (
        "the topic was recreated" if recreated(topic_id, broker) else _log_problem(topic_id, partitions, whole.lost)
    )
    if problem:
        return Condition(Level.BAD, problem)
    warning = decision_required(open_head) or _retention_warning(whole, now) or _compaction_warning(whole, broker, now)
    if warning:
        return Condition(Level.WARN, warning)
    return _progress(topic_id, open_head, whole, refused)


def _log_problem(topic_id: str | None, partitions: Sequence[Position], lost: int) -> str | None:
    if lost and topic_id:
        return f"{lost:,} offsets were deleted before they were read"
    truncated = any(
        p.cursor is not None and p.high_watermark is not None and p.high_watermark < p.cursor for p in partitions
    )
    return "the log ends below a cursor" if truncated else None


def decision_required(open_head: Mapping[str, Any] | None) -> str | None:
    """What a person has to decide before the pipeline goes on; None if nothing."""
    if open_head and open_head["state"] == "rejected":
        return f"batch {open_head['batch_id']} is rejected and requires a decision"
    if open_head and open_head["state"] == "staging" and open_head.get("late"):
        return f"batch {open_head['batch_id']} may lack tombstones and requires a decision"
    return None


def _retention_warning(whole: Totals, now: datetime) -> str | None:
    if whole.gone_after is None or whole.gone_after - now >= _SOON:
        return None
    if whole.gone_after > now:
        return "retention is close to the cursor"
    return "retention may delete unread records at any moment"


def _compaction_warning(whole: Totals, broker: BrokerSnapshot | None, now: datetime) -> str | None:
    if broker is None or whole.tombstones_after is None:
        return None
    left = whole.tombstones_after - now
    if left >= _warning_period(broker.retention):
        return None
    if left > timedelta(0):
        return "compaction is close to unread tombstones"
    return "compaction may remove unread tombstones at any moment"


def _warning_period(retention: Retention) -> timedelta:
    """How long before the tombstone deadline the warning starts."""
    return min(_SOON, (retention.tombstones or timedelta(0)) / 3)


def _progress(
    topic_id: str | None, open_head: Mapping[str, Any] | None, whole: Totals, refused: str | None
) -> Condition:
    if open_head:
        return Condition(Level.PLAIN, f"batch {open_head['batch_id']} is {open_head['state']}")
    if topic_id is None:
        return Condition(Level.PLAIN, "nothing was planned yet")
    if whole.lag is None:
        return Condition(Level.PLAIN, "its lag is not known")
    if whole.lag:
        return Condition(Level.PLAIN, "behind")
    return Condition(Level.PLAIN, f"up to date; {refused}") if refused else Condition(Level.GOOD, "up to date")

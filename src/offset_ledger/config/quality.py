"""The gate that a batch passes before it is merged, as its pipeline file declares it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Unusual(StrEnum):
    """What a batch unlike the recent ones leads to."""

    WARN = "warn"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class VolumeBand:
    """How many times the usual records an hour a head batch may carry."""

    low: float = 0.2
    high: float = 5.0
    action: Unusual = Unusual.WARN


@dataclass(frozen=True, slots=True)
class NullBand:
    """How far the share of NULL may lie from the usual one, in each of ``columns`` (none: every nullable one)."""

    tolerance: float = 0.1
    columns: tuple[str, ...] = ()
    action: Unusual = Unusual.WARN


@dataclass(frozen=True, slots=True)
class History:
    """Comparison with the committed head batches before: at most ``batches`` of them, and none with fewer than
    ``min_batches``.
    """

    batches: int = 20
    min_batches: int = 5
    volume: VolumeBand | None = None
    null_share: NullBand | None = None


@dataclass(frozen=True, slots=True)
class Quality:
    """The gate: a Great Expectations suite under expectations/, the highest share of quarantined records, and the
    comparison with recent batches. A rejected batch keeps its staging for ``keep_rejected_days``.

    ``dead_letter_topic`` is where each quarantined record is published too; None for nowhere.
    """

    suite: str | None = None
    max_quarantined_share: float = 0.01
    keep_rejected_days: int = 7
    history: History | None = None
    dead_letter_topic: str | None = None

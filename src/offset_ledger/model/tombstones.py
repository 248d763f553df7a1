"""Tombstones that compaction may have removed before they were read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from offset_ledger.base.units import kafka_span, show_span
from offset_ledger.model.ranges import OffsetRange

_NAMED = 3


@dataclass(frozen=True, slots=True)
class ReadDelay:
    """The time that records of a range may have waited until they were read, and the time that tombstones were kept.

    ``kept`` is the shortest time since the first of them; None where the topic was not compacted meanwhile.
    """

    waited: timedelta
    kept: timedelta | None

    @property
    def too_long(self) -> bool:
        """Return whether compaction may have removed tombstones of the range."""
        return self.kept is not None and self.waited >= self.kept


@dataclass(frozen=True, slots=True)
class LateRange:
    """A range with missing offsets that was read so late that some of them may have been tombstones."""

    offsets: OffsetRange
    missing: int
    wait: ReadDelay

    def __str__(self) -> str:
        count = f"{self.missing:,} of {self.offsets.width:,} offsets gave no record"
        return f"range {self.offsets}: {count}, and its records may have waited {show_span(self.wait.waited)}"


def shortest(seen_ms: int | None, today: timedelta | None) -> timedelta | None:
    """The shorter of what plans saw of ``delete.retention.ms`` and of what it is; None where neither was compacted."""
    known = [kafka_span(str(seen_ms))] if seen_ms is not None else []
    return min([*known, *([] if today is None else [today])], default=None)


def late_ranges(
    ranges: Iterable[OffsetRange],
    missing: Mapping[int, int],
    waits: Mapping[int, ReadDelay],
    approved: Sequence[Mapping[str, int]] = (),
) -> tuple[LateRange, ...]:
    """The ranges that lack offsets and were read too late, but those that a person approved with as many missing.

    A range that lacks no offset lacks no tombstone.
    """
    return tuple(
        LateRange(r, missing[r.partition], waits[r.partition])
        for r in ranges
        if missing[r.partition]
        and waits[r.partition].too_long
        and not any(missing[r.partition] <= each.get(str(r.partition), 0) for each in approved)
    )


def kept_of(late: Sequence[LateRange]) -> timedelta:
    """The shortest time that tombstones of these ranges were kept for."""
    return min(each.wait.kept for each in late if each.wait.kept is not None)


def in_words(late: Sequence[LateRange]) -> str:
    """The first of the ranges, and how many more there are."""
    more = f"; and {len(late) - _NAMED} more ranges" if len(late) > _NAMED else ""
    return "; ".join(map(str, late[:_NAMED])) + more


def as_json(late: Sequence[LateRange]) -> dict[str, Any]:
    """The numbers that a person is shown and the ledger keeps."""
    return {
        "ranges": [[e.offsets.partition, e.offsets.from_offset, e.offsets.until_offset] for e in late],
        "missing": {str(e.offsets.partition): e.missing for e in late},
        "waited": show_span(max(e.wait.waited for e in late)),
        "kept": show_span(kept_of(late)),
    }

"""Why an offset of a committed range has no record."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from offset_ledger.model.ranges import OffsetRange


class Cause(StrEnum):
    """Why a reader of committed data gets no record for an offset."""

    ABORTED = "aborted transaction"
    CONTROL = "control record"
    COMPACTED = "control record or compacted away"


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets in a row that lack a record for one cause."""

    offsets: OffsetRange
    cause: Cause

    def __str__(self) -> str:
        return f"{self.offsets}: {self.cause}"


def explain(
    offsets: OffsetRange, committed: Collection[int], uncommitted: Collection[int], compacted: bool
) -> tuple[Gap, ...]:
    """The gaps of a range, from the offsets for which readers of committed and of uncommitted data get records.

    A record that only the latter get was aborted. What neither gets is a control record, the end of a transaction; on a
    compacted topic it may also be a record that compaction removed, which cannot be told from outside.
    """
    nobody = Cause.COMPACTED if compacted else Cause.CONTROL
    missing = (offset for offset in range(offsets.from_offset, offsets.until_offset) if offset not in committed)
    caused = ((offset, Cause.ABORTED if offset in uncommitted else nobody) for offset in missing)
    return tuple(Gap(OffsetRange(offsets.partition, run[0], run[-1] + 1), cause) for cause, run in _runs(caused))


def _runs(caused: Iterable[tuple[int, Cause]]) -> Iterator[tuple[Cause, list[int]]]:
    """Consecutive offsets of one cause."""
    numbered = enumerate(caused)
    for (_, cause), group in groupby(numbered, key=lambda item: (item[1][0] - item[0], item[1][1])):
        yield cause, [offset for _, (offset, _) in group]

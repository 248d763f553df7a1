"""A balance sheet as a waterfall: from the offsets in a range to the rows that it wrote. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_WITHOUT_ROW = ("gap", "skipped", "quarantined")
_ROW_NOT_WRITTEN = ("duplicate", "superseded")
_WRITTEN = ("deleted", "updated", "inserted")


@dataclass(frozen=True, slots=True)
class Step:
    """One bar, from ``start`` to ``end`` offsets. ``total``: what is left at this point, else what is taken away, or of
    the last steps what the rest consists of.
    """

    name: str
    count: int
    start: int
    end: int
    total: bool = False


def waterfall(sheet: Mapping[str, int]) -> tuple[Step, ...]:
    """All offsets, what gave no row, the decoded rows, what the table did not need, and what was written.

    Steps of nothing are left out; totals are not.
    """
    left = sum(sheet.values())
    steps = [Step("offsets", left, 0, left, total=True)]
    for names, total in ((_WITHOUT_ROW, "decoded"), (_ROW_NOT_WRITTEN, "written")):
        for name in names:
            steps.append(Step(name, sheet[name], left - sheet[name], left))
            left -= sheet[name]
        steps.append(Step(total, left, 0, left, total=True))
    for name in _WRITTEN:
        steps.append(Step(name, sheet[name], left - sheet[name], left))
        left -= sheet[name]
    return tuple(step for step in steps if step.count or step.total)

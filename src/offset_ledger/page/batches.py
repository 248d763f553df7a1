"""A batch as the page shows it, from a row of the ledger, its balance sheet as a waterfall. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from itertools import pairwise
from typing import Any

from offset_ledger.model.balance_sheet import Dispositions
from offset_ledger.model.states import TRANSITIONS, State

SHEET = tuple(field.name for field in fields(Dispositions))


@dataclass(frozen=True, slots=True)
class BatchStep:
    """One step of the batch and how long it took, or has been taking."""

    name: str
    seconds: float
    running: bool = False


_COPIED = (
    *("batch_id", "kind", "state", "epoch", "dag_id", "run_id", "planned_at", "ended_at", "partitions", "offsets"),
    *("min_timestamp", "max_timestamp", "quarantined_share", "changed_by", "changed_why", "engine", "engine_reason"),
)


def batch_view(row: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """One batch at ``now``, from a row of ``page/batches.sql``.

    ``sheet`` is None until it is committed; ``verdict`` is passed, rejected, approved or None.
    """
    return {
        **{name: row[name] for name in _COPIED},
        "sheet": sheet(row),
        "steps": [asdict(step) for step in steps(row, now)],
        "verdict": verdict(row),
        "reasons": row["reasons"] or (),
        "notes": row["notes"] or (),
        "decisions": decisions(State(row["state"])),
    }


def sheet(row: Mapping[str, Any]) -> dict[str, int] | None:
    """The balance sheet of a batch or of one of its ranges; None while it is open."""
    return None if row["inserted"] is None else {name: row[name] for name in SHEET}


def steps(row: Mapping[str, Any], now: datetime) -> tuple[BatchStep, ...]:
    """How long each step took; a running one lasts until ``now``. Clocks that differ never give a negative duration.

    An approved batch has a step ``decision`` between ``validate`` and ``commit``.
    """
    ends = [
        ("wait", row["claimed_at"]),
        ("stage", row["staged_at"]),
        ("validate", row["validated_at"]),
        ("decision", row["decided_at"]),
        ("commit", row["ended_at"] if row["state"] == State.COMMITTED else None),
    ]
    known = [("plan", row["planned_at"]), *((name, at) for name, at in ends if at)]
    taken = [BatchStep(name, _seconds(before, at)) for (_, before), (name, at) in pairwise(known)]
    running = _RUNNING.get(State(row["state"]))
    if running:
        taken.append(BatchStep(running, _seconds(known[-1][1], now), running=True))
    return tuple(taken)


_RUNNING = {
    State.PLANNED: "wait",
    State.STAGING: "stage",
    State.STAGED: "validate",
    State.REJECTED: "decision",
    State.VALIDATED: "commit",
}


def _seconds(since: datetime, until: datetime) -> float:
    return round(max(0.0, (until - since).total_seconds()), 3)


def verdict(row: Mapping[str, Any]) -> str | None:
    """The verdict of the gate, or that a person approved the batch against it."""
    if row["success"] is None:
        return None
    if row["success"]:
        return "passed"
    return "approved" if row["decided_at"] and row["state"] in (State.VALIDATED, State.COMMITTED) else "rejected"


def decisions(state: State) -> tuple[str, ...]:
    """What a person may decide about a batch in this state."""
    approve = ("approve",) if state is State.REJECTED else ()
    return (*approve, "abandon") if State.ABANDONED in TRANSITIONS[state] else ()


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

"""Batches, audits and partitions as the page shows them, from rows of the ledger and positions. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from itertools import pairwise
from typing import Any

from offset_ledger.model.balance_sheet import Dispositions
from offset_ledger.model.states import TRANSITIONS, State
from offset_ledger.operations.audit.finding import Severity, changes
from offset_ledger.operations.status.pipeline import Position

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
    "after",
)


def batch_view(row: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Return one batch at ``now``, from a row of ``page/batches.sql``.

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


_RUNNING = {
    State.PLANNED: "wait",
    State.STAGING: "stage",
    State.STAGED: "validate",
    State.REJECTED: "decision",
    State.VALIDATED: "commit",
}


def steps(row: Mapping[str, Any], now: datetime) -> tuple[BatchStep, ...]:
    """Return how long each step took; a running one lasts until ``now``. Clocks that differ give no negative duration.

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
    state = State(row["state"])
    running = "wait for the batch before" if row["after"] and state is State.STAGED else _RUNNING.get(state)
    if running:
        taken.append(BatchStep(running, _seconds(known[-1][1], now), running=True))
    return tuple(taken)


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
    """Return the decisions that a person may take about a batch in this state."""
    approve = ("approve",) if state is State.REJECTED else ()
    return (*approve, "abandon") if State.ABANDONED in TRANSITIONS[state] else ()


_WITHOUT_ROW = ("gap", "skipped", "quarantined")
_ROW_NOT_WRITTEN = ("duplicate", "superseded")
_WRITTEN = ("deleted", "updated", "inserted")


@dataclass(frozen=True, slots=True)
class Step:
    """One bar, from ``start`` to ``end`` offsets: with ``total`` all that is left, else a part of it."""

    name: str
    count: int
    start: int
    end: int
    total: bool = False


def waterfall(sheet: Mapping[str, int]) -> tuple[Step, ...]:
    """Return the bars: all offsets, those without a row, decoded rows, those the table did not need, written rows.

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


Severities = Mapping[str, Severity]
"""The severity of each rule that an audit checked."""


@dataclass(frozen=True, slots=True)
class RuleStatus:
    """The result of one rule, and how it changed since the previous audit.

    severity: None if only the previous audit checked the rule. since: the first of the consecutive audits in which
    the rule has failed, or passed, as in this one. change: ``new``, ``still``, ``worse``, ``better`` or ``gone``; None
    for a rule that passed both times, and in the first audit. was: the previous severity, None if not checked then.
    """

    rule: str
    severity: str | None
    found: str
    risk: str
    remedy: str | None
    since: datetime | None
    change: str | None
    was: str | None


def change_kinds(after: Severities, before: Severities | None) -> dict[str, str]:
    """Return the kind of change of each rule that failed in one of the two audits, in the order of ``after``."""
    return {each.rule: each.word for each in changes(before, after)}


def summary(row: Mapping[str, Any]) -> dict[str, Any]:
    """An audit in one line, of a row of ``page/audits.sql``: rules by kind of change; None for the first audit."""
    after, before = severities(row["severities"]), severities(row["before"])
    assert after is not None
    by_kind: dict[str, list[str]] = {}
    for rule, kind in change_kinds(after, before).items():
        by_kind.setdefault(kind, []).append(rule)
    return {
        **{name: row[name] for name in ("audit_id", "audited_at", "who", "dag_id", "run_id")},
        "counts": {severity.value: list(after.values()).count(severity) for severity in Severity},
        "changes": None if before is None else {kind: sorted(rules) for kind, rules in by_kind.items()},
    }


def rule_statuses(rows: Sequence[Mapping[str, Any]], before: Severities | None) -> tuple[RuleStatus, ...]:
    """Return the rows of ``page/audit_findings.sql``, then the rules that failed in the previous audit only."""
    kinds = change_kinds({row["rule"]: Severity(row["severity"]) for row in rows}, before)
    previous = before or {}
    checked = [RuleStatus(**row, change=kinds.get(row["rule"]), was=previous.get(row["rule"])) for row in rows]
    gone = [rule for rule in kinds if rule not in {each.rule for each in checked}]
    dropped = [
        RuleStatus(rule, None, "no longer checked", "", None, None, kinds[rule], previous[rule]) for rule in gone
    ]
    return (*checked, *dropped)


def severities(names: Mapping[str, str] | None) -> dict[str, Severity] | None:
    """Return severities from their names; None for no audit."""
    return None if names is None else {rule: Severity(severity) for rule, severity in names.items()}


_MIN_SHARE = 0.012  # the smallest share of a bar that can still be seen
STEPS = 5


def bar(each: Position) -> tuple[float, float, float, float]:
    """Return the shares lost, committed, pending and in open transactions of a partition's log.

    It goes from the lower of log start and cursor to the high watermark.
    """
    if each.log_start is None or each.last_stable is None or each.high_watermark is None:
        return (0.0, 0.0, 0.0, 0.0)
    start = each.log_start if each.cursor is None else each.cursor
    return shares(start, each.log_start, each.last_stable, each.high_watermark)


def shares(cursor: int, log_start: int, last_stable: int, high_watermark: int) -> tuple[float, float, float, float]:
    """Return the lengths of a bar's four parts: they sum to 1 (0 for an empty log), and each that exists is visible."""
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


def on_one_scale(positions: Sequence[Position]) -> tuple[dict[str, Any], ...]:
    """Return the largest lag first; a partition whose lag is not known, or says nothing, is before all others.

    ``length``: its log as a share of the longest one. ``lag_length``: its lag as a share of the largest one. ``step``:
    0 without lag, else 1 to 5 on a logarithmic scale; None if the lag is not known, or says nothing because the
    log is not that of the cursor.
    """
    longest = max(map(_length, positions), default=0)
    largest = max((each.lag or 0 for each in positions), default=0)
    ordered = sorted(
        positions, key=lambda each: (each.lag is not None and not each.cut_off, -(each.lag or 0), each.partition)
    )
    return tuple(
        {
            **asdict(each),
            "bar": bar(each),
            "length": _share(_length(each), longest),
            "lag_length": _share(each.lag or 0, largest),
            "step": None if each.cut_off and not each.lag else step_of(each.lag, largest),
        }
        for each in ordered
    )


def limits(largest: int) -> tuple[int, ...]:
    """Return the largest lag of each step of colour, from the first one on."""
    return tuple(round(largest ** (n / STEPS)) for n in range(1, STEPS + 1)) if largest else ()


def step_of(lag: int | None, largest: int) -> int | None:
    """Return the step of colour of this lag, where ``largest`` is the largest one."""
    if not lag:
        return lag
    return next(n for n, limit in enumerate(limits(largest), start=1) if lag <= limit)


def _length(each: Position) -> int:
    if each.high_watermark is None or each.log_start is None:
        return 0
    return each.high_watermark - min(each.log_start, each.log_start if each.cursor is None else each.cursor)


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0

"""Audits as the page shows them: findings by severity, and changes since the previous audit. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from offset_ledger.audit.finding import Severity, changes

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

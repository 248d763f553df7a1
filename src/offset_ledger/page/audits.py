"""Audits as the page shows them: counted by severity, and held against the audit before. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from offset_ledger.reliability.audit.changes import changes
from offset_ledger.reliability.audit.finding import Severity

Severities = Mapping[str, Severity]
"""What an audit said of each rule that it judged."""


@dataclass(frozen=True, slots=True)
class Line:
    """An audit in one line. ``changes`` has the rules by the word of their change; None where no audit came before."""

    audit_id: int
    audited_at: datetime
    who: str | None
    dag_id: str | None
    run_id: str | None
    counts: dict[str, int]
    changes: dict[str, list[str]] | None


@dataclass(frozen=True, slots=True)
class Judged:
    """What an audit said of one rule, and how that stands to the audit before.

    severity: None if only the audit before judged the rule. since: the first of the audits in a row that found the
    rule broken, or kept, as this one does. change: ``new``, ``still``, ``worse``, ``better`` or ``gone``; None for a
    rule that was ok and is, and where no audit came before. was: the severity then, None for a rule not judged then.
    """

    rule: str
    severity: str | None
    found: str
    risk: str
    remedy: str | None
    since: datetime | None
    change: str | None
    was: str | None


def words(after: Severities, before: Severities | None) -> dict[str, str]:
    """By rule, in the order of ``after``: the word of each that one of the two audits found broken."""
    return {each.rule: each.word for each in changes(before, after)}


def line(row: Mapping[str, Any]) -> Line:
    """A row of ``page/audits.sql``."""
    after, before = severities(row["severities"]), severities(row["before"])
    assert after is not None
    by_word: dict[str, list[str]] = {}
    for rule, word in words(after, before).items():
        by_word.setdefault(word, []).append(rule)
    return Line(
        **{name: row[name] for name in ("audit_id", "audited_at", "who", "dag_id", "run_id")},
        counts={severity.value: list(after.values()).count(severity) for severity in Severity},
        changes=None if before is None else {word: sorted(rules) for word, rules in by_word.items()},
    )


def judged(rows: Sequence[Mapping[str, Any]], before: Severities | None) -> tuple[Judged, ...]:
    """The rows of ``page/audit_findings.sql``, then the rules that only the audit before had found broken."""
    told = words({row["rule"]: Severity(row["severity"]) for row in rows}, before)
    then = before or {}
    here = [Judged(**row, change=told.get(row["rule"]), was=then.get(row["rule"])) for row in rows]
    return (*here, *_dropped(told, {each.rule for each in here}, then))


def severities(found: Mapping[str, str] | None) -> dict[str, Severity] | None:
    """Severities from their names; None for no audit."""
    return None if found is None else {rule: Severity(severity) for rule, severity in found.items()}


def _dropped(told: Mapping[str, str], here: set[str], then: Severities) -> Iterable[Judged]:
    gone = [rule for rule in told if rule not in here]
    return [Judged(rule, None, "no longer judged", "", None, None, told[rule], then[rule]) for rule in gone]

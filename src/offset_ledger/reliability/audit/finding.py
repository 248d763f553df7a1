"""What an audit reports: findings with their severity, and the rules that make them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from offset_ledger.reliability.audit.facts import TopicFacts


class Severity(StrEnum):
    """An error can lose or block records now; a warning can once something else fails; info is good to know."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    OK = "ok"

    @property
    def rank(self) -> int:
        """0 is the worst."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What one rule found, and the fix (``remedy``); ``risk`` only if it differs from the rule's own."""

    severity: Severity
    finding: str
    remedy: str | None = None
    risk: str | None = None


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One rule's result with its name, the risk in plain words, and the command that fixes it (None if it is ok)."""

    rule: str
    severity: Severity
    found: str
    risk: str
    remedy: str | None


Check = Callable[[TopicFacts], RuleResult]


@dataclass(frozen=True, slots=True)
class AuditRule:
    """A check with its name, and what can happen where it fails."""

    name: str
    risk: str
    check: Check

    def apply(self, facts: TopicFacts) -> AuditFinding:
        """Check this topic."""
        result = self.check(facts)
        return AuditFinding(self.name, result.severity, result.finding, result.risk or self.risk, result.remedy)


def ok(finding: str) -> RuleResult:
    """Nothing to fix."""
    return RuleResult(Severity.OK, finding)

"""What a rule says about a topic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from offset_ledger.reliability.audit.facts import TopicFacts


class Severity(StrEnum):
    """How bad: an error can lose or block records, a warning will when something else fails, info is good to know."""

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
    """What one rule found; ``risk`` where it is another than the rule's own."""

    severity: Severity
    found: str
    remedy: str | None = None
    risk: str | None = None


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One rule's verdict with its name, the risk in plain words, and the command that mends it (None if it is ok)."""

    rule: str
    severity: Severity
    found: str
    risk: str
    remedy: str | None


Check = Callable[[TopicFacts], RuleResult]


@dataclass(frozen=True, slots=True)
class AuditRule:
    """A named check."""

    name: str
    risk: str
    check: Check

    def judge(self, facts: TopicFacts) -> AuditFinding:
        """What it says about this topic."""
        found = self.check(facts)
        return AuditFinding(self.name, found.severity, found.found, found.risk or self.risk, found.remedy)


def ok(found: str) -> RuleResult:
    """Nothing to mend."""
    return RuleResult(Severity.OK, found)

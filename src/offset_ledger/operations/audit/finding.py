"""The report of an audit: findings with their severity, the rules that make them, and the changes since the last."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from offset_ledger.operations.audit.facts import TopicFacts


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
    """The finding of one rule, and the fix (``remedy``); ``risk`` only if it differs from the rule's own."""

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


@dataclass(frozen=True, slots=True)
class AuditRule:
    """A check with its name, and the risk if it fails."""

    name: str
    risk: str
    check: Callable[[TopicFacts], RuleResult]

    def apply(self, facts: TopicFacts) -> AuditFinding:
        """Check this topic."""
        result = self.check(facts)
        return AuditFinding(self.name, result.severity, result.finding, result.risk or self.risk, result.remedy)


def rule(name: str, risk: str) -> Callable[[Callable[[TopicFacts], RuleResult]], AuditRule]:
    """Make a rule of the check below."""
    return lambda check: AuditRule(name, risk, check)


def ok(finding: str) -> RuleResult:
    """Return a result with nothing to fix."""
    return RuleResult(Severity.OK, finding)


@dataclass(frozen=True, slots=True)
class Change:
    """A rule that was not ok at the last audit, or is not now."""

    rule: str
    before: Severity
    after: Severity

    @property
    def word(self) -> str:
        """``new``, ``still``, ``gone``, ``worse`` or ``better``."""
        if self.before is self.after:
            return "still"
        if Severity.OK in (self.before, self.after):
            return "gone" if self.after is Severity.OK else "new"
        return "worse" if self.after.rank < self.before.rank else "better"

    def __str__(self) -> str:
        severity = self.after if self.before is self.after else f"{self.before} -> {self.after}"
        return f"{self.word}: {self.rule} ({severity})"


def changes(before: Mapping[str, Severity] | None, after: Mapping[str, Severity]) -> tuple[Change, ...]:
    """Return each rule that is or was not ok (not checked: ok); nothing if there was no audit before. Not stored."""
    if before is None:
        return ()
    pairs = [Change(r, before.get(r, Severity.OK), after.get(r, Severity.OK)) for r in {**after, **before}]
    return tuple(change for change in pairs if {change.before, change.after} != {Severity.OK})


_SHOWN = 5


def listed(names: Iterable[object]) -> str:
    """``0, 1``; of a longer list the first five and how many more."""
    every = list(names)
    shown = ", ".join(map(str, every[:_SHOWN]))
    return shown if len(every) <= _SHOWN else f"{shown} and {len(every) - _SHOWN:,} more"


def numbered(noun: str, numbers: Iterable[int]) -> str:
    """``partition 0`` or ``partitions 0, 1``, in order."""
    every = sorted(numbers)
    return f"{noun} {listed(every)}" if len(every) == 1 else f"{noun}s {listed(every)}"

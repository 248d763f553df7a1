"""What changed since the last audit. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from offset_ledger.audit.finding import Finding, Severity


@dataclass(frozen=True, slots=True)
class Change:
    """A rule that found something last time, or does now."""

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


def changes(before: Mapping[str, Severity], findings: Sequence[Finding]) -> tuple[Change, ...]:
    """Each rule that is or was not ok; one not judged then counts as ok. Nothing if there was no audit before."""
    if not before:
        return ()
    pairs = [Change(f.rule, before.get(f.rule, Severity.OK), f.severity) for f in findings]
    return tuple(change for change in pairs if (change.before, change.after) != (Severity.OK, Severity.OK))

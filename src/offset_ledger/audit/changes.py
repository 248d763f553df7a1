"""What changed since the last audit. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from offset_ledger.audit.finding import Finding, Severity


@dataclass(frozen=True, slots=True)
class Change:
    """A rule whose severity is another one than last time."""

    rule: str
    before: Severity
    after: Severity

    @property
    def word(self) -> str:
        """``new``, ``gone``, ``worse`` or ``better``."""
        if Severity.OK in (self.before, self.after):
            return "gone" if self.after is Severity.OK else "new"
        return "worse" if self.after.rank < self.before.rank else "better"

    def __str__(self) -> str:
        return f"{self.word}: {self.rule} ({self.before} -> {self.after})"


def changes(before: Mapping[str, Severity], findings: Sequence[Finding]) -> tuple[Change, ...]:
    """Each rule whose severity changed; one not judged then counts as ok. Nothing if there was no audit before."""
    if not before:
        return ()
    pairs = [Change(f.rule, before.get(f.rule, Severity.OK), f.severity) for f in findings]
    return tuple(change for change in pairs if change.before is not change.after)

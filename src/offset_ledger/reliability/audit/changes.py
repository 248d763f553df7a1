"""What changed since the last audit. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from offset_ledger.reliability.audit.finding import Severity


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
    """Each rule that is or was not ok (not checked: ok); nothing where there was no audit before."""
    if before is None:
        return ()
    pairs = [Change(r, before.get(r, Severity.OK), after.get(r, Severity.OK)) for r in {**after, **before}]
    return tuple(change for change in pairs if {change.before, change.after} != {Severity.OK})

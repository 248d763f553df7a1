"""Whether what was measured over a run has grown: a rule for each kind of measurement, and a line for what did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

ENOUGH = 12  # samples; with fewer the medians of thirds say little


@dataclass(frozen=True, slots=True)
class Rule:
    """How much more the median of the last third may be than that of the middle third: a factor, and then an amount.

    The first third warms up: caches fill, the table gets its rows, nothing is old enough to be pruned. Medians leave
    out what a fault does for a moment. What grows evenly from nothing has medians of 3 to 5 in these thirds; what
    doubles over the run, of 9 to 11.
    """

    factor: float
    amount: float
    unit: str


MEMORY = Rule(1.1, 8, "MB")
FILES = Rule(1.1, 6, "files")
SESSIONS = Rule(1.1, 2, "sessions")
DISK = Rule(1.1, 1, "MB")
TUPLES = Rule(1.3, 2_000, "tuples")
SECONDS = Rule(1.3, 0.05, "s")  # other processes of the machine are in it


@dataclass(frozen=True, slots=True)
class Judged:
    """A series with the medians of its thirds."""

    name: str
    rule: Rule
    samples: int
    thirds: tuple[float, float, float] | None

    @property
    def allowed(self) -> float:
        """The greatest median that the last third may have."""
        return self.thirds[1] * self.rule.factor + self.rule.amount if self.thirds else 0.0

    @property
    def grew(self) -> bool:
        """Whether it is more; what has too few samples was not looked at, and counts as grown."""
        return self.thirds is None or self.thirds[2] > self.allowed

    def __str__(self) -> str:
        if self.thirds is None:
            return f"{self.name}: {self.samples} samples are too few, {ENOUGH} are needed"
        _, middle, last = self.thirds
        unit = self.rule.unit
        return (
            f"{self.name} grew: its median is {last:,.3g} {unit} in the last third of the run, {middle:,.3g} {unit} in "
            f"the middle third, allowed are {self.allowed:,.3g} {unit}"
        )


def judge(name: str, rule: Rule, values: Sequence[float]) -> Judged:
    """The thirds of a series."""
    third = len(values) // 3
    parts = (values[:third], values[third:-third], values[-third:]) if len(values) >= ENOUGH else None
    thirds = (median(parts[0]), median(parts[1]), median(parts[2])) if parts else None
    return Judged(name, rule, len(values), thirds)


def judge_all(rules: Mapping[str, Rule], samples: Iterable[Mapping[str, float]]) -> list[Judged]:
    """Every series that has a rule; a sample may lack a value, such as of a process that is being restarted."""
    kept = list(samples)
    return [judge(name, rule, [each[name] for each in kept if name in each]) for name, rule in rules.items()]

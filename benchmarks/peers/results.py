"""The measurements, kept in a JSON file after each trial, so that a run can go on and its tables can be made again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.peers.workload import Target, Width, Workload


@dataclass(frozen=True, slots=True)
class Trial:
    """One contender on one workload, once. ``error`` says why there are no figures."""

    records: int
    width: str
    target: str
    contender: str
    turn: int
    at: str = ""
    error: str = ""
    session: float = 0.0
    seconds: float = 0.0
    process: float = 0.0
    """From the start of the process until every row was visible."""
    cpu: float = 0.0
    cpu_postgres: float = 0.0
    cpu_broker: float = 0.0
    load: float = 0.0
    missing: int = 0
    extra: int = 0
    wrong: int = 0
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def workload(self) -> Workload:
        """What it was about."""
        return Workload(self.records, Width(self.width), Target(self.target))

    @property
    def key(self) -> tuple[Workload, str, int]:
        """A run has one of each."""
        return self.workload, self.contender, self.turn

    @property
    def right(self) -> bool:
        """Whether the table has the right answer."""
        return not (self.missing or self.extra or self.wrong)

    @property
    def rate(self) -> float:
        """Records/s from reading to visible, the session being there."""
        return self.records / self.seconds

    @property
    def cold_rate(self) -> float:
        """Records/s from the start of the process."""
        return self.records / self.process


@dataclass
class Results:
    """All trials of the file."""

    path: Path
    trials: dict[tuple[Workload, str, int], Trial] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Results:
        """Those of the file; none if there is no file."""
        kept = json.loads(path.read_text())["trials"] if path.exists() else []
        return cls(path, {trial.key: trial for trial in (Trial(**each) for each in kept)})

    def add(self, trial: Trial) -> None:
        """Keep it, in the file too."""
        self.trials[trial.key] = trial
        self._save()

    def forget(self, workload: Workload, contenders: Iterable[str]) -> None:
        """Remove what an earlier run measured of these."""
        gone = set(contenders)
        self.trials = {k: t for k, t in self.trials.items() if not (k[0] == workload and k[1] in gone)}

    def workloads(self) -> list[Workload]:
        """What was measured, in order."""
        widths, targets = list(Width), list(Target)
        return sorted(
            {key[0] for key in self.trials}, key=lambda w: (w.records, widths.index(w.width), targets.index(w.target))
        )

    def of(self, workload: Workload, contender: str) -> list[Trial]:
        """The trials of one contender, in turns."""
        return [self.trials[key] for key in sorted(self.trials, key=lambda k: k[2]) if key[:2] == (workload, contender)]

    def _save(self) -> None:
        draft = self.path.with_suffix(".new")
        ordered = [asdict(t) for w in self.workloads() for t in self.trials.values() if t.workload == w]
        lines = ",\n".join(json.dumps(each) for each in ordered)
        draft.write_text(f'{{"trials": [\n{lines}\n]}}\n')
        draft.replace(self.path)


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of one contender on one workload; ``failed`` is the last error if no trial succeeded."""

    contender: str
    rates: tuple[float, ...]
    sessions: tuple[float, ...]
    cold_rates: tuple[float, ...]
    cpu: float
    cpu_postgres: float
    wrong: int
    missing: int
    failed: str

    @property
    def rate(self) -> float:
        """The median."""
        return median(self.rates)

    @property
    def right(self) -> bool:
        """Whether every trial had the right answer."""
        return not (self.wrong or self.missing)


def summarise(contender: str, trials: list[Trial]) -> Summary | None:
    """The figures; None if there are no trials."""
    if not trials:
        return None
    good = [trial for trial in trials if not trial.error]
    return Summary(
        contender,
        tuple(trial.rate for trial in good),
        tuple(trial.session for trial in good),
        tuple(trial.cold_rate for trial in good),
        median([trial.cpu for trial in good]) if good else 0.0,
        median([trial.cpu_postgres for trial in good]) if good else 0.0,
        max((trial.wrong for trial in good), default=0),
        max((trial.missing + trial.extra for trial in good), default=0),
        "" if good else trials[-1].error,
    )

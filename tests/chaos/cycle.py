"""One cycle: produce, break things while a batch runs, heal, run until nothing is new, ask the oracle."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random

from tests.chaos.bench import Bench
from tests.chaos.faults import choose, injected

# What an attempt may say under faults. Anything else is a finding, though it may have changed nothing.
EXPECTED = frozenset(
    {
        *(
            "Died",
            "Silent",
            "TransientError",
            "DatabaseUnavailable",
            "DatabaseFull",
            "BrokerUnavailable",
            "RegistryUnavailable",
            "UnknownOutcome",
        ),
        *("SparkFailed", "SparkUnavailable", "IncompleteStaging", "Fenced", "StateConflict"),
    }
)


@dataclass(slots=True)
class Outcome:
    """What one cycle did and found."""

    number: int
    faults: list[str]
    records: int = 0
    unanswered: int = 0
    copies: int = 0
    errors: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    seconds: float = 0.0
    order: str = ""

    def __str__(self) -> str:
        seen = f" ({', '.join(sorted(set(self.errors)))})" if self.errors else ""
        counts = {"unanswered": self.unanswered, "of them twice in the topic": self.copies}
        known = "".join(f" ({count} {what})" for what, count in counts.items() if count)
        told = [f"\n    odd: {line}" for line in self.odd] + [f"\n    VIOLATION: {line}" for line in self.violations]
        head = f"cycle {self.number} by {self.order}: {self.records} records{known}, {' + '.join(self.faults)}{seen}"
        return f"{head}, {self.seconds:.1f} s{''.join(told)}"


def run_cycle(bench: Bench, number: int, seed: int, records: int = 240, faults: list[str] | None = None) -> Outcome:
    """Run cycle ``number`` of a seed; equal numbers and seeds draw equal records and faults."""
    began = time.monotonic()
    random = Random(f"{seed}/{number}")
    by_clock = bool(bench.neighbour) and bench.order == "clock"
    chosen = faults or choose(random, bench.kafka.count, bench.schemas is not None, by_clock)
    outcome = Outcome(number, chosen, order=f"{bench.order} of two topics" if bench.neighbour else bench.order)
    before, asked = len(bench.journal.acknowledged), set(bench.journal.unknown)
    bench.without_spark = number % 4 in (1, 2)  # each order of records both ways
    bench.produce(random, records)
    answers = []
    with ExitStack() as broken:
        for name in outcome.faults:
            broken.enter_context(injected(bench, random, name))
        answers += bench.attempt()
    try:
        if "remerged" in outcome.faults:
            answers += bench.remerge()
        if "columns_changed" in outcome.faults:
            bench.publish([bench.record(random)])  # the next commit changes the table
        answers += bench.drain()
    except TimeoutError as late:
        outcome.violations.append(str(late))
    copies = bench.note_copies() if "broker_killed_while_producing" in outcome.faults else 0
    failed = [answer for answer in answers if answer.error]
    outcome.errors = [str(answer.error) for answer in failed]
    expected = EXPECTED | ({"TargetMismatch", "BatchInUse"} if "remerged" in outcome.faults else set())
    outcome.odd = [str(answer) for answer in failed if answer.error not in expected]
    outcome.violations += bench.check(drained=not outcome.violations)
    outcome.unanswered = len(bench.journal.unknown.keys() - asked)
    if bench.settle() and not outcome.violations:  # what was unknown is known now: the sheets must fit to the record
        outcome.violations += bench.check()
    outcome.violations += rerun(bench, random)
    outcome.records = len(bench.journal.acknowledged) - before - copies
    outcome.copies = copies
    outcome.seconds = time.monotonic() - began
    return outcome


def rerun(bench: Bench, random: Random) -> list[str]:
    """A replay of committed ranges changes no row, and is what the model allows."""
    before = bench.fingerprint()
    number = bench.any_topic(random)
    ends = sorted(bench.cursors(number).items())
    ranges = [[p, random.randrange(end), end] for p, end in ends if end > 0]
    if not ranges:
        return []
    planned = bench.ask(bench.lab.light, "replay", number=number, ranges=ranges)
    answers = [planned, *(bench.run(planned.found["batch"]) if not planned.error else ())]
    told = [f"a quiet replay failed: {answer}" for answer in answers if answer.error]
    if bench.fingerprint() != before:
        told.append("a replay of committed ranges changed rows")
    return [*told, *bench.replay()]

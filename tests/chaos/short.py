"""What the short tests have in common: producing, going to a step, waiting until something holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

from tests.chaos.bench import Bench
from tests.chaos.lab import Answer

TRANSIENT = frozenset({"BrokerUnavailable", "DatabaseUnavailable", "SparkFailed", "IncompleteStaging"})


def produced(bench: Bench, records: int = 90, seed: int = 1) -> None:
    """Plain, committed and aborted records."""
    bench.produce(Random(seed), records)


def to_step(bench: Bench, last: str) -> int:
    """Run a batch up to and with a step; its id."""
    planned = bench.ask(bench.lab.light, "plan")
    batch = planned.found["batch"]
    for step in ("stage", "validate")[: ("plan", "stage", "validate").index(last)]:
        answer = bench.ask(bench.lab.heavy if step == "stage" else bench.lab.light, step, batch=batch)
        assert not answer.error, answer
    return int(batch)


def errors(answers: list[Answer]) -> list[str | None]:
    """The errors among the answers."""
    return [answer.error for answer in answers if answer.error]


def until(holds: Callable[[], object], seconds: float = 60) -> None:
    """Return when it holds; fail if that is not so in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come so far"
        time.sleep(0.05)

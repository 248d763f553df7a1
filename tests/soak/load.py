"""The load of a soak: batches every few seconds, with faults, schemas, changed tables, dismissals and prunes."""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from offset_ledger.model.batch import Origin
from offset_ledger.operations.repair.prune import Pruned, prune_beyond
from offset_ledger.outside.connections import environment_name
from offset_ledger.postgres.ledger.redrive import Selection
from offset_ledger.steps.run.redrive import dismiss
from tests.chaos.bench import Bench
from tests.chaos.cycle import EXPECTED, rerun
from tests.chaos.faults import choose, injected
from tests.chaos.lab import Answer
from tests.fixtures.ages import same_age
from tests.soak.sampler import Sampler

ME = Origin("soak")
RECORDS = 120  # of a turn and pipeline
CADENCE = 2.0  # seconds
FAULTS_EVERY = 4  # turns
CHANGE_EVERY = 3  # so that some changes come with faults
PRUNE_SECONDS = 45.0
PRUNED_AGE = timedelta(seconds=40)
KEPT_BATCHES = 20
# A topic that grows is a load that grows; and a tablespace of another size is no work folder.
LEFT_OUT = frozenset({"partition_added", "disk_full"})


@dataclass
class Load:
    """What was done so far."""

    benches: list[Bench]
    random: Random
    sampler: Sampler
    turns: int = 0
    batches: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    pruned: Pruned = field(default_factory=Pruned)
    dismissed: int = 0
    changed: int = 0
    odd: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def run(self, seconds: float) -> None:
        """Turn after turn for so long."""
        began = next_prune = time.monotonic()
        while (now := time.monotonic()) < began + seconds and not self.violations:
            for bench in self.benches:
                self._turn(bench, faulty=self.turns % FAULTS_EVERY == FAULTS_EVERY - 1)
            if now >= next_prune:
                next_prune = now + PRUNE_SECONDS
                self.prune()
            self.turns += 1
            time.sleep(max(0.0, now + CADENCE - time.monotonic()))

    def _turn(self, bench: Bench, faulty: bool) -> None:
        use(bench)
        if self.turns % CHANGE_EVERY == CHANGE_EVERY - 1:
            self.changed += bench.added.change(self.random)
        bench.produce(self.random, RECORDS)
        names = choose(self.random, bench.kafka.count, bench.schemas is not None) if faulty else []
        began = time.monotonic()
        with ExitStack() as broken:
            for name in (each for each in names if each not in LEFT_OUT):
                self.faults[name] += 1
                broken.enter_context(injected(bench, self.random, name))
            answers = bench.attempt()
        if not names:
            self.sampler.note("batch", time.monotonic() - began)
        self._drain(bench, answers)
        began = time.monotonic()
        if not bench.ask(bench.lab.light, "plan").error:
            self.sampler.note("plan", time.monotonic() - began)

    def _drain(self, bench: Bench, answers: list[Answer]) -> None:
        try:
            answers += bench.drain()
        except TimeoutError as late:
            self.violations.append(str(late))
        failed = [answer for answer in answers if answer.error]
        self.odd += [str(answer) for answer in failed if answer.error not in EXPECTED]

    def prune(self) -> None:
        """Dismiss what is in quarantine, and prune what is old."""
        for bench in self.benches:
            use(bench)
            self._dismiss(bench)
            self.pruned += prune_beyond(bench.pipeline, same_age(PRUNED_AGE), KEPT_BATCHES, ME)

    def _dismiss(self, bench: Bench) -> None:
        """By offsets, so that the journal knows which records may leave quarantine."""
        unresolved: dict[int, list[int]] = defaultdict(list)
        for partition, offset in bench.query(
            'SELECT partition, "offset" FROM offset_ledger.quarantine'
            " WHERE dismissed_by IS NULL AND resolved_by IS NULL"
        ):
            unresolved[partition].append(offset)
        for partition, offsets in unresolved.items():
            done = dismiss(bench.pipeline, Selection(partition, tuple(offsets)), ME, "they are malformed on purpose")
            bench.journal.dismissed.update(done.records)
            self.dismissed += len(done.records)

    def check(self) -> None:
        """Let the oracle compare every record with table, quarantine and ledger."""
        for bench in self.benches:
            use(bench)
            self._drain(bench, [])
            bench.settle()
            bench.note_copies()
            self.violations += [*bench.check(), *rerun(bench, self.random)]
            self.batches += len(bench.states())
        self.batches += self.pruned.batches


def use(bench: Bench) -> None:
    """Let this process's connection be that of the bench."""
    os.environ[environment_name("postgres_default")] = bench.database.to_json()

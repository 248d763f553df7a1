"""``python -m tests.chaos --cycles N --seed S``: random faults on real servers; exits 1 on any violation."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import reduce
from pathlib import Path

from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.outside.schema_registry.client import connect_registry
from offset_ledger.postgres.ledger.database import connect, migrate
from offset_ledger_kit.sandbox import stack as local
from offset_ledger_kit.sandbox.layout import PortChoice
from tests.chaos.bench import ELSEWHERE, Bench
from tests.chaos.cycle import Outcome, run_cycle
from tests.chaos.lab import Lab
from tests.chaos.schemas import FORMAT, Schemas
from tests.fixtures.poolers import pgbouncer
from tests.paths import ROOT
from tests.witness.replay import Counts

# A table that has grown makes the oracle slow, not the faults better: begin a new pipeline after so many cycles.
CYCLES_A_BENCH = 25


SEVERAL = "several"
STARTS = ("timestamp", "clock", SEVERAL, "composite")


def new_bench(lab: Lab, start: str) -> Bench:
    """A migrated database, a topic and a folder, for a pipeline with this order of records.

    With SEVERAL, two topics by the producer's clock, until a fault remerges them.
    """
    name = f"chaos_{uuid.uuid4().hex[:8]}"
    order = "clock" if start == SEVERAL else start
    admin = lab.stack.postgres.connection()
    with connect(admin) as session:
        session.autocommit = True
        with session.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
            for setting in ELSEWHERE:
                cursor.execute(f"ALTER DATABASE {name} {setting}")
    database = replace(admin, schema=name)
    with connect(database) as session:
        migrate(session)
    kafka = Connection("kafka_default", "kafka", extra={"bootstrap.servers": lab.stack.kafka.bootstrap})
    os.environ[environment_name("kafka_default")] = kafka.to_json()
    folder = lab.folder / name
    folder.mkdir()
    bench = Bench(lab, database, folder, name.replace("_", "."), order=order)
    if start == SEVERAL:
        bench.neighbour = f"{bench.topic}.z"
    elif lab.registry:
        bench.schemas = Schemas(connect_registry(lab.registry.connection()), bench.topic)
        bench.settings["format"] = FORMAT
    bench.create()
    return bench


def summary(outcomes: list[Outcome], benches: list[Bench]) -> str:
    """The table at the end."""
    kinds = Counter(fault for outcome in outcomes for fault in outcome.faults)
    violations = [line for outcome in outcomes for line in outcome.violations]
    batches = sum(state == "committed" for bench in benches for _, state, _ in bench.states())
    epochs = sum(epoch for bench in benches for _, _, epoch in bench.states())
    lines = [f"  {number:5d}  {name}" for name, number in sorted(kinds.items())]
    found = {
        "cycles": len(outcomes),
        "faults injected": kinds.total(),
        "batches committed": batches,
        "attempts at staging": epochs,
        "records acknowledged": sum(len(bench.journal.acknowledged) for bench in benches),
        "records of unknown outcome": sum(outcome.unanswered for outcome in outcomes),
        "losses": sum(line.startswith("loss") for line in violations),
        "duplicates": sum(line.startswith("duplicate") for line in violations),
        "violations": len(violations),
        "errors outside the expected": sum(len(outcome.odd) for outcome in outcomes),
    }
    counts = [f"{name}: {value:,}" for name, value in found.items()]
    return "\n".join(["faults injected:", *lines, *counts, replayed(benches)])


def replayed(benches: Sequence[Bench]) -> str:
    """How much of their ledgers' history the model has allowed."""
    return f"replayed through the model: {reduce(Counts.plus, (bench.replayed for bench in benches), Counts())}"


def run(lab: Lab, first: int, cycles: int, seed: int) -> list[Outcome]:
    """All cycles; each is told when it ends."""
    outcomes: list[Outcome] = []
    benches: list[Bench] = []
    current: dict[str, Bench] = {}
    try:
        for number in range(first, first + cycles):
            start = STARTS[number % len(STARTS)]
            old = len(outcomes) % (CYCLES_A_BENCH * len(STARTS)) < len(STARTS)
            if old or current[start].order == "remerged":
                benches.append(new_bench(lab, start))
                current[start] = benches[-1]
            bench = current[start]
            os.environ[environment_name("postgres_default")] = bench.database.to_json()
            outcomes.append(run_cycle(bench, number, seed))
            print(outcomes[-1], flush=True)
    finally:
        print(summary(outcomes, benches), flush=True)
        lab.close()
    return outcomes


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--cycles", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=1, help="number of the first cycle, to see one again")
    parser.add_argument("--brokers", type=int, choices=[1, 3], default=1, help="three take part in more faults")
    parser.add_argument("--connect", action="store_true", help="stage by a Spark Connect server")
    parser.add_argument("--registry", action="store_true", help="records name schemas of a registry, which fails too")
    parser.add_argument("--pooler", action="store_true", help="reach Postgres through PgBouncer in session mode")
    asked = parser.parse_args()
    for end in (signal.SIGTERM, signal.SIGINT):
        signal.signal(end, lambda *_: sys.exit(130))  # through every finally: the servers are stopped too
    home = Path(tempfile.mkdtemp(prefix="offset-ledger-chaos-"))
    home.chmod(0o755)
    stack = local.up(brokers=asked.brokers, ports=PortChoice.any_free(), home=home / "stack", project=ROOT)
    outcomes: list[Outcome] = []
    pooled = pgbouncer(stack.postgres.connection(), "session") if asked.pooler else nullcontext()
    try:
        with pooled as pooler:
            lab = Lab(stack, home / "lab", asked.connect, asked.registry, pooler and pooler.port)
            outcomes = run(lab, asked.first, asked.cycles, asked.seed)
    finally:
        local.down(home / "stack")
    failed = len(outcomes) < asked.cycles or any(outcome.violations for outcome in outcomes)
    if failed:
        print(f"the logs of servers and workers are in {home}")
    else:
        shutil.rmtree(home)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

"""``python -m tests.machine``: walks on a Postgres of its own, until every action was taken so often."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from offset_ledger.outside.connections import Connection
from offset_ledger.postgres.ledger.database import connect, migrate
from offset_ledger_kit.sandbox.layout import free_ports
from offset_ledger_kit.sandbox.postgres import DATA_DATABASE, Postgres
from offset_ledger_kit.sandbox.process import Launch, silent
from tests.fixtures.servers import execute, for_tests
from tests.machine.bench import Divergence
from tests.machine.walk import COUNTED, Walker


class Walked(NamedTuple):
    """What one process has taken, and where code and model went different ways, if they did."""

    walks: int
    taken: Counter[str]
    reached: Counter[str]
    divergence: str | None = None


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.machine", description=__doc__)
    parser.add_argument("--times", type=int, default=2000, help="how often each action is taken at least")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2, help="walks at a time, each on a database of its own")
    asked = parser.parse_args()
    began = time.monotonic()
    numbers, share = range(asked.processes), -(-asked.times // asked.processes)
    with _databases(asked.processes) as databases, ProcessPoolExecutor(asked.processes) as pool:
        seeds = [asked.seed + n * 1000 for n in numbers]
        walked = list(pool.map(_walk, databases, seeds, [share] * asked.processes))
    taken, reached = (sum((each[place] for each in walked), Counter[str]()) for place in (1, 2))
    walks, seconds = sum(each.walks for each in walked), time.monotonic() - began
    print(f"{walks:,} walks, {taken.total():,} steps, {seconds:.0f} s")
    print("  " + ", ".join(f"{name} {taken[name]:,}" for name in COUNTED))
    print("  stops: " + ", ".join(f"{name} {count:,}" for name, count in sorted(reached.items())), flush=True)
    if rare := [name for name in COUNTED if taken[name] < asked.times]:
        print(f"  taken fewer than {asked.times:,} times: {', '.join(rare)}")
    return 1 if rare or any(each.divergence for each in walked) else 0


@contextmanager
def _databases(count: int) -> Iterator[list[Connection]]:
    with tempfile.TemporaryDirectory(prefix="offset-ledger-") as home:
        postgres = Postgres(Path(home), free_ports(1)[0])
        postgres.up(Launch(silent))
        try:
            for_tests(postgres)
            with connect(postgres.connection()) as session:
                migrate(session)
            names = [f"machine_{number}" for number in range(count)]
            for name in names:
                execute(postgres.superuser(), f"CREATE DATABASE {name} TEMPLATE {DATA_DATABASE}")
            yield [replace(postgres.superuser(name), conn_id="postgres_default") for name in names]
        finally:
            postgres.stop()


def _walk(postgres: Connection, seed: int, times: int) -> Walked:
    logging.disable(logging.CRITICAL)  # every fault is wanted
    walker, divergence = Walker(postgres, seed), None
    try:
        for each in sorted({*range(0, times, max(times // 50, 1)), times}):
            walker.walk_until(each)
            print(f"{postgres.schema}: each action {each:,} times, {walker.taken.total():,} steps", file=sys.stderr)
    except Divergence as found:
        divergence = str(found)
        print(divergence, file=sys.stderr)
    return Walked(walker.walks, walker.taken, walker.reached, divergence)


if __name__ == "__main__":
    sys.exit(main())

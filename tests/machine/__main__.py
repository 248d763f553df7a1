"""``python -m tests.machine``: walks on a Postgres of its own, until every action was taken so often."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from offset_ledger.ledger.database import connect, migrate
from offset_ledger.local.layout import free_ports
from offset_ledger.local.postgres import DATA_DATABASE, Postgres
from offset_ledger.local.process import Launch, silent
from tests.fixtures.servers import without_sync
from tests.machine.bench import Divergence
from tests.machine.walk import NAMES, Walker


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.machine", description=__doc__)
    parser.add_argument("--times", type=int, default=2000, help="how often each action is taken at least")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    logging.disable(logging.CRITICAL)  # every fault is wanted
    with tempfile.TemporaryDirectory(prefix="offset-ledger-") as home:
        postgres = Postgres(Path(home), free_ports(1)[0])
        postgres.up(Launch(silent))
        try:
            without_sync(postgres)
            with connect(postgres.connection()) as session:
                migrate(session)
            own = replace(postgres.superuser(DATA_DATABASE), conn_id="postgres_default")
            return _walk(Walker(own, asked.seed), asked.times)
        finally:
            postgres.stop()


def _walk(walker: Walker, times: int) -> int:
    began = time.monotonic()
    try:
        walker.walk_until(times)
    except Divergence as divergence:
        print(divergence)
        return 1
    finally:
        total = sum(walker.taken.values())
        print(f"{walker.walks:,} walks, {total:,} steps, {time.monotonic() - began:.0f} s")
        print("  " + ", ".join(f"{name} {walker.taken[name]:,}" for name in NAMES))
        print(
            "  stops: " + ", ".join(f"{name} {count:,}" for name, count in sorted(walker.reached.items())), flush=True
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

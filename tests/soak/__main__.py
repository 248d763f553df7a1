"""``python -m tests.soak --minutes N``: hours of ordinary running; exits 1 on a violation, and on what grew."""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from urllib.request import urlopen

from tabulate import tabulate

from offset_ledger.interfaces.page import answers
from offset_ledger.interfaces.page.answers import BatchFilter
from offset_ledger.operations.repair.verify import verify
from offset_ledger.operations.status.status import status
from offset_ledger.outside.connections import environment_name
from offset_ledger_kit.sandbox import stack as local
from offset_ledger_kit.sandbox.layout import PortChoice, free_ports
from tests.chaos.__main__ import new_bench, replayed
from tests.chaos.bench import Bench
from tests.chaos.lab import Lab, Worker
from tests.paths import ROOT
from tests.soak.load import Load, use
from tests.soak.sampler import Sampler
from tests.soak.series import Judged, judge_all

RECORDS_A_SCHEMA = 2_000


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--csv", type=Path, default=ROOT / ".local" / "soak.csv", help="where the samples go")
    asked = parser.parse_args()
    for end in (signal.SIGTERM, signal.SIGINT):
        signal.signal(end, lambda *_: sys.exit(130))  # through every finally: the servers are stopped too
    home = Path(tempfile.mkdtemp(prefix="offset-ledger-soak-"))
    home.chmod(0o755)
    try:
        stack = local.up(brokers=1, ports=PortChoice.any_free(), home=home / "stack", project=ROOT)
        load = soak(Lab(stack, home / "lab", registry=True), asked.minutes * 60, Random(asked.seed))
    finally:
        local.down(home / "stack")
    write_csv(asked.csv, load.sampler.samples)
    judged = judge_all(load.sampler.rules, load.sampler.samples)
    print(summary(load, judged), f"samples: {asked.csv}", sep="\n", flush=True)
    failed = [*load.violations, *(str(each) for each in judged if each.grew)]
    print(*failed, sep="\n", file=sys.stderr)
    if failed:
        print(f"the logs of servers and workers are in {home}")
    else:
        shutil.rmtree(home)
    return int(bool(failed))


def soak(lab: Lab, seconds: float, random: Random) -> Load:
    """Run the load for so long, and let the oracle judge it."""
    try:
        benches = [new_bench(lab, start) for start in ("timestamp", "clock")]
        for bench in benches:
            bench.without_spark = True
            assert bench.schemas is not None
            bench.schemas.records_a_schema = RECORDS_A_SCHEMA
            use(bench)
        with exporter(lab, benches[0]) as (process, url):
            load = Load(benches, random, sampler_of(lab, benches, process, url))
            load.sampler.start()
            try:
                load.run(seconds)
            finally:
                load.sampler.stop()
        load.check()
    finally:
        lab.close()
    return load


def sampler_of(lab: Lab, benches: Sequence[Bench], exporter: subprocess.Popen[bytes], url: str) -> Sampler:
    """What is measured."""
    assert lab.registry is not None
    pipeline = benches[0].pipeline
    servers = {"broker": lab.stack.kafka.broker(1).daemon, "Postgres": lab.stack.postgres.daemon}
    processes = {name: daemon.pid for name, daemon in (servers | {"registry": lab.registry.daemon}).items()}
    workers = {"worker of the stage": lab.heavy, "worker of the other steps": lab.light}

    def pid_of(worker: Worker) -> int | None:
        return worker.process.pid if worker.process else None

    processes |= {name: lambda worker=worker: pid_of(worker) for name, worker in workers.items()}
    looks = {
        "verify": lambda: verify(pipeline),
        "status": lambda: status(pipeline),
        "page of batches": lambda: answers.batches(pipeline, BatchFilter(), lab.folder / "reports"),
        "scrape": lambda: urlopen(url, timeout=30).read(),
    }

    def in_all(query: str) -> list[tuple[int, int, int]]:
        found = [bench.query(query)[0] for bench in benches]
        return [(sum(row[0] for row in found), sum(row[1] for row in found), sum(row[2] for row in found))]

    return Sampler({**processes, "exporter": lambda: exporter.pid}, in_all, lab.folder, looks)


@contextmanager
def exporter(lab: Lab, bench: Bench) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """``offset-ledger serve metrics``, with the address that Prometheus would scrape."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    assert lab.registry is not None
    environment = {
        **os.environ,
        **lab.stack.environment(),
        environment_name("postgres_default"): bench.database.to_json(),
        environment_name("registry_default"): lab.registry.connection().to_json(),
        "OFFSET_LEDGER_PIPELINES": str(bench.path.parent),
    }
    argv = [sys.executable, "-m", "offset_ledger_kit.cli", "serve", "metrics", "--listen", address]
    with (lab.folder / "exporter.log").open("wb") as log:
        process = subprocess.Popen(argv, env=environment, stdout=log, stderr=log, cwd=ROOT)
    try:
        yield process, f"http://{address}/metrics"
    finally:
        process.terminate()
        process.wait(30)


def write_csv(path: Path, samples: Sequence[dict[str, float]]) -> None:
    """A line for each sample."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(name for sample in samples for name in sample))
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, names)
        writer.writeheader()
        writer.writerows(samples)


def summary(load: Load, judged: Sequence[Judged]) -> str:
    """The tables at the end."""
    done = {
        "turns": load.turns,
        "batches": load.batches,
        "records acknowledged": sum(len(bench.journal.acknowledged) for bench in load.benches),
        "faults": load.faults.total(),
        "batches pruned": load.pruned.batches,
        "records dismissed": load.dismissed,
        "quarantined records pruned": load.pruned.records,
        "columns added or widened": load.changed,
        "schemas": sum(len(bench.schemas.ids) for bench in load.benches if bench.schemas),
        "errors outside the expected": len(load.odd),
        "violations": len(load.violations),
    }
    rows = [
        (each.name, each.samples, *(each.thirds or ("", "", "")), each.allowed, "grew" if each.grew else "")
        for each in judged
    ]
    heads = ("", "samples", "first third", "middle third", "last third", "allowed", "")
    counts = [f"{name}: {value:,}" for name, value in done.items()]
    return "\n".join([*counts, replayed(load.benches), *load.odd, tabulate(rows, heads, floatfmt=",.3g")])


if __name__ == "__main__":
    sys.exit(main())

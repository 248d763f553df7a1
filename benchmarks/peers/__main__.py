"""This project and its peers on the same work, in turns: ``make bench SIZE=N``, or

    python -m benchmarks.peers --size 500000 [--width narrow wide] [--target empty half stale] [--only NAME ...]
        [--rounds 3] [--timeout SECONDS] [--resume] [--home FOLDER]
    python -m benchmarks.peers --render

Each trial is kept in benchmarks/peers/results.json at once; in the end the tables of benchmarks/README.md and
their plots are made of that file. ``--resume`` measures only what the file lacks. ``--home`` keeps servers' data,
topics and answers for the next run; without it they are in a temporary folder and removed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from pathlib import Path

from benchmarks.peers.bench_servers import fill, jars, servers
from benchmarks.peers.contenders import CONTENDERS, Contender
from benchmarks.peers.render import write_page
from benchmarks.peers.results import Results, Trial
from benchmarks.peers.trial import PEERS_PYTHON, Bench, run
from benchmarks.peers.workload import Target, Width, Workload

FOLDER = Path("benchmarks/peers")
RESULTS = FOLDER / "results.json"
PAGE = Path("benchmarks/README.md")
PLOTS = Path("docs")


def say(line: str) -> None:
    """A line of progress."""
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def describe(trial: Trial) -> str:
    """A trial in one line."""
    if trial.error:
        return f"failed: {trial.error[-300:]}"
    answer = "" if trial.right else f", WRONG: {trial.wrong} wrong, {trial.missing} missing, {trial.extra} too many"
    return (
        f"{trial.seconds:.2f} s, {trial.rate:,.0f} records/s (session {trial.session:.1f} s, "
        f"CPU {trial.cpu:.1f} s + Postgres {trial.cpu_postgres:.1f} s, load {trial.load}){answer}"
    )


def in_turns(contenders: list[Contender], turn: int) -> list[Contender]:
    """Each round in another order."""
    first = turn % len(contenders)
    return contenders[first:] + contenders[:first]


def choose(only: Collection[str] | None, faucet: str, say: Callable[[str], None]) -> list[Contender]:
    """Who takes part: those that are asked for, and faucet-stream only with its program."""
    chosen = [each for each in CONTENDERS if not only or each.name in only]
    if faucet or not any(each.name == "faucet" for each in chosen):
        return chosen
    line = "faucet-stream does not take part: no program faucet is on the PATH (see benchmarks/README.md)"
    if chosen := [each for each in chosen if each.name != "faucet"]:
        say(line)
        return chosen
    sys.exit(line)


def measure(arguments: argparse.Namespace, home: Path, results: Results) -> None:
    """Every trial that is wanted, on servers of its own."""
    faucet = shutil.which("faucet") or arguments.faucet
    chosen = choose(arguments.only, faucet, say)
    workloads = [
        Workload(size, width, target)
        for size in arguments.size for width in arguments.width for target in arguments.target
    ]  # fmt: skip
    if not arguments.resume:
        for workload in workloads:
            results.forget(workload, (each.name for each in chosen))
    with servers(home, say) as stack:
        found = jars(stack, say)
        for workload in workloads:
            timeout = arguments.timeout or 600 + workload.records / (500 if workload.width is Width.WIDE else 2_000)
            bench = Bench.of(stack, found, timeout, faucet)
            last = fill(stack, workload, say)
            for turn in range(arguments.rounds):
                for contender in in_turns(chosen, turn):
                    kept = results.trials.get((workload, contender.name, turn))
                    if kept is not None and not kept.error:
                        continue
                    trial = run(bench, contender, workload, turn, last)
                    results.add(trial)
                    say(f"{workload}, round {turn + 1}/{arguments.rounds}, {contender.name}: {describe(trial)}")


def parse() -> argparse.Namespace:
    """The arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, nargs="+", default=[500_000], metavar="RECORDS")
    parser.add_argument("--width", type=Width, nargs="+", choices=list(Width), default=[Width.NARROW])
    parser.add_argument("--target", type=Target, nargs="+", choices=list(Target), default=[Target.EMPTY])
    parser.add_argument("--only", nargs="+", choices=[each.name for each in CONTENDERS], metavar="NAME")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--timeout", type=float, help="seconds of one trial (by the size)")
    parser.add_argument("--resume", action="store_true", help="measure only what the file of results lacks")
    parser.add_argument("--render", action="store_true", help="measure nothing, make the tables again")
    parser.add_argument("--home", type=Path, help="folder of the servers, kept")
    parser.add_argument("--faucet", default="", help="faucet's program, if it is not on PATH")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    return parser.parse_args()


def main() -> None:
    """Measure, and write the page."""
    arguments = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that the servers are stopped
    os.environ.setdefault("OFFSET_LEDGER_REPORTS", tempfile.gettempdir())
    results = Results.load(arguments.results)
    if not arguments.render:
        home = arguments.home or Path(tempfile.mkdtemp(prefix="offset-ledger-bench-"))
        try:
            measure(arguments, home, results)
        finally:
            if not arguments.home:
                shutil.rmtree(home, ignore_errors=True)
    write_page(results, arguments.page)
    plots = [str(PEERS_PYTHON), "-m", "benchmarks.peers.plots", str(arguments.results), str(PLOTS)]
    subprocess.run(plots, check=True, stdout=sys.stderr)


if __name__ == "__main__":
    main()

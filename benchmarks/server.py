"""The first batches of a Spark Connect server beside the next ones, and the memory of a server over many batches.

    python -m benchmarks.server [--size 20000] [--batches 5] [--servers 3]
    python -m benchmarks.server --size 2000 --batches 200 --servers 1

The events of benchmarks/ingest.py on servers of their own. The client has staged a batch without Spark before; each
batch has a session of its own, and its seconds are those of session and stage. Memory is PSS: a page that several
processes share counts once.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from benchmarks.bench_stack import bench_stack, temporary_folder
from benchmarks.ingest import PIPELINE, publish, timed
from benchmarks.readers import reader_of
from tabulate import tabulate

from offset_ledger.model.batch import current_origin
from offset_ledger.outside.spark.remote_session import remote_session
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.steps.commit.step import commit
from offset_ledger.steps.plan.step import plan
from offset_ledger.steps.stage.step import stage
from offset_ledger.steps.validate.step import validate
from offset_ledger_kit.sandbox.layout import free_ports
from offset_ledger_kit.sandbox.process import Launch
from offset_ledger_kit.sandbox.spark import SparkConnect

MARK = 20  # from this batch on memory is to stay the same


def measure(home: Path, size: int, batches: int, servers: int) -> list[dict[str, Any]]:
    """A row for each batch of each server."""
    with bench_stack(home, say=print) as stack:
        publish(stack, size * (servers * batches + 1))
        pipeline = _pipeline(home, size)
        one_batch(pipeline, None)
        found = []
        for number in range(servers):
            with fresh_server(home / f"spark{number}") as server:
                for batch in range(1, batches + 1):
                    found.append({"server": number + 1, "batch": batch, "seconds": one_batch(pipeline, server)})
                    if batch in (1, MARK, batches):
                        found[-1] |= memory(server)
                        print(found[-1], flush=True)
    return found


@contextmanager
def fresh_server(folder: Path) -> Iterator[SparkConnect]:
    """A server that has run its first small job and nothing else."""
    server = SparkConnect(folder, free_ports(1)[0])
    server.up(os.environ, Launch(print))
    Launch(print).wait(server.daemons, lambda: "server is ready" in server.daemon.log.read_text(), 60)
    try:
        yield server
    finally:
        server.stop()


def one_batch(pipeline: Pipeline, server: SparkConnect | None) -> float:
    """The seconds of its stage, by the server or by this process."""
    origin = current_origin()
    batch = plan(pipeline, origin).batch
    assert batch is not None

    def run() -> None:
        if server is None:
            stage(reader_of(None), pipeline, batch.batch_id, origin)
            return
        with remote_session(server.connection()) as spark:
            stage(reader_of(spark), pipeline, batch.batch_id, origin)

    seconds, _ = timed(run)
    validate(pipeline, batch.batch_id, origin)
    commit(pipeline, batch.batch_id, origin)
    return round(seconds, 2)


def memory(server: SparkConnect) -> dict[str, int]:
    """MB of the server by what its processes are, and how many workers there are."""
    found: Counter[str] = Counter()
    root = psutil.Process(server.daemon.pid())
    for each in [root, *root.children(recursive=True)]:
        try:
            forked = "offset_ledger.outside.spark.worker_daemon" in each.cmdline()
            name = "daemon and workers" if forked else "Java" if each.name() == "java" else "driver"
            found[f"{name}, MB"] += each.memory_full_info().pss >> 20
        except psutil.Error:
            continue
        found["processes"] += 1
    return dict(found)


def _pipeline(home: Path, size: int) -> Pipeline:
    (home / "bench.yaml").write_text(PIPELINE.replace("100000000", str(size)))
    return parse_pipeline(home / "bench.yaml")


def main() -> None:
    """Print a row for each batch whose memory was looked at, and the seconds of the others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=20_000)
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--servers", type=int, default=3)
    arguments = parser.parse_args()
    with temporary_folder() as home:
        found = measure(home, arguments.size, arguments.batches, arguments.servers)
    print(tabulate(found, headers="keys", tablefmt="pipe", intfmt=","))
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()

"""Peak memory of one batch, plan to commit, by its size: the process with Spark's driver and workers, and Postgres.

    python -m benchmarks.memory [--sizes 500000 2000000 10000000] [--engine spark process]

The events of benchmarks/ingest.py on servers of their own. Each batch has a process of its own. Memory is PSS: a page
that several processes share counts once.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
from benchmarks.bench_stack import bench_stack, temporary_folder
from benchmarks.ingest import PIPELINE, TOPIC, Peak, publish
from benchmarks.readers import reader_of
from tabulate import tabulate

from offset_ledger.model.batch import current_origin
from offset_ledger.outside.spark.session import local_session
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.steps.commit.step import commit
from offset_ledger.steps.plan.step import plan
from offset_ledger.steps.stage.step import stage
from offset_ledger.steps.validate.step import validate
from offset_ledger_kit.sandbox.stack import Stack

SIZES = [500_000, 2_000_000, 10_000_000]


def one_batch(size: int, engine: str, folder: Path, postgres: int) -> dict[str, Any]:
    """The peaks of a batch of so many records, in MB."""
    path = folder / f"{engine}_{size}.yaml"
    name = f"memory_{engine}_{size}"
    path.write_text(PIPELINE.replace("pipeline: bench", f"pipeline: {name}").replace("public.bench", f"public.{name}"))
    pipeline, origin = parse_pipeline(path), current_origin()
    with Peak(psutil.Process()) as own, Peak(psutil.Process(postgres)) as server:
        spark = local_session() if engine == "spark" else None
        batch = plan(pipeline, origin, size).batch
        assert batch is not None
        stage(reader_of(spark), pipeline, batch.batch_id, origin)
        validate(pipeline, batch.batch_id, origin)
        commit(pipeline, batch.batch_id, origin)
    return {"engine": engine, "records": size, "process MB": own.bytes >> 20, "Postgres MB": server.bytes >> 20}


def measure(stack: Stack, sizes: list[int], engines: list[str], folder: Path) -> list[dict[str, Any]]:
    """Every batch in a process of its own."""
    found = []
    for size in sizes:
        for engine in engines:
            command = [sys.executable, "-m", "benchmarks.memory", "--one", str(size), engine, str(folder)]
            done = subprocess.run(
                [*command, str(stack.postgres.daemon.pid())], check=True, capture_output=True, text=True
            )
            found.append(json.loads(done.stdout.splitlines()[-1]))
            print(found[-1], flush=True)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--engine", nargs="+", default=["spark", "process"], choices=["spark", "process"])
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        size, engine, folder, postgres = arguments.one
        print(json.dumps(one_batch(int(size), engine, Path(folder), int(postgres))))
        return
    with temporary_folder() as home, bench_stack(home, say=print) as stack:
        publish(stack, max(arguments.sizes))
        found = measure(stack, arguments.sizes, arguments.engine, home)
    print(tabulate(found, headers="keys", tablefmt="pipe", intfmt=","))
    print(f"topic {TOPIC}, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()

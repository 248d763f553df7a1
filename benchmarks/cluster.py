"""The stage of one batch on a standalone Spark cluster of this machine, by the number of executors.

    python -m benchmarks.cluster [--events 2000000] [--executors 1 2] [--rounds 1]

The events of benchmarks/ingest.py in 8 partitions, slices of 100,000 records, one core and 1 GB for each executor, on a
stack of its own in a temporary folder. Session and workers are warm before the clock; each run reads the same offsets.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
from benchmarks.bench_stack import bench_stack, temporary_folder
from benchmarks.ingest import PIPELINE, publish, timed
from benchmarks.readers import reader_of

from offset_ledger.model.batch import current_origin
from offset_ledger.model.states import State
from offset_ledger.outside.spark.session import end_session, session_ended, staging_session
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import connect, rows
from offset_ledger.postgres.ledger.decisions import decide
from offset_ledger.steps.plan.step import plan
from offset_ledger.steps.stage.step import stage
from offset_ledger_kit.sandbox.stack import SparkKind, Stack

SPARK = "\nstage: {{engine: spark}}\nspark: {{resources: {{executor_memory: 1g, total_executor_cores: {executors}}}}}\n"
SLICE = 100_000


def measure(count: int, executors: list[int], rounds: int, home: Path) -> list[dict[str, Any]]:
    """The seconds of each run, on one stack and one topic."""
    with bench_stack(home, say=print, spark=SparkKind.STANDALONE) as stack, session_ended():
        publish(stack, count)
        return [run(stack, number) for _ in range(rounds) for number in executors]


def run(stack: Stack, executors: int) -> dict[str, Any]:
    """Stage everything with that many executors, and give the batch up again."""
    pipeline = _pipeline(stack.home, executors)
    warm(pipeline, executors)
    batch = plan(pipeline, current_origin()).batch
    assert batch
    reader = reader_of(staging_session(pipeline.spark))
    seconds, staged = timed(lambda: stage(reader, pipeline, batch.batch_id, current_origin()))
    with connect(stack.postgres.connection()) as session:
        slices = rows(session, "SELECT count(*) FROM offset_ledger.slice WHERE batch_id = %s", [batch.batch_id])[0][0]
        decide(session, batch.batch_id, State.ABANDONED, current_origin(), "measured")
    end_session()
    records = staged.counts.total
    return {
        "executors": executors,
        "slices": slices,
        "seconds": round(seconds, 2),
        "records/s": round(records / seconds),
    }


def warm(pipeline: Pipeline, executors: int) -> None:
    """Let every executor start its Python worker and import what a slice needs."""

    def load(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import_module("offset_ledger.steps.stage.readers")
        time.sleep(2)
        yield from batches

    spark = staging_session(pipeline.spark)
    while spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() < executors + 1:  # and the driver
        time.sleep(0.1)
    spark.range(0, executors, 1, executors).mapInArrow(load, "id long").collect()


def _pipeline(home: Path, executors: int) -> Pipeline:
    path = home / f"bench{executors}.yaml"
    path.write_text(PIPELINE.replace("250000", str(SLICE)) + SPARK.format(executors=executors))
    return parse_pipeline(path)


def main() -> None:
    """Print the figures of each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--executors", type=int, nargs="+", choices=[1, 2], default=[1, 2])
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    with temporary_folder() as home:
        print(json.dumps(measure(arguments.events, arguments.executors, arguments.rounds, home), indent=2))


if __name__ == "__main__":
    main()

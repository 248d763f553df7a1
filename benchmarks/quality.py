"""What the quality gate costs: ``python benchmarks/quality.py --part speed`` or ``--part memory``.

Batches of flights are staged in Postgres directly, as Spark would have left them; then the real steps run.
speed: validate without and with the eleven expectations of the flights suite, and the commit of the same batch.
memory: peak memory of the process that validates, with ten bad rows and with a million.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import shutil
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from psycopg2 import sql

from offset_ledger.model.batch import Origin
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.snapshot import Boundary, PartitionSnapshot, TopicSnapshot
from offset_ledger.model.states import BatchKind
from offset_ledger.outside.connections import environment_name, get_connection
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import History, NullBand, Pipeline, Quality, VolumeBand
from offset_ledger.postgres.ledger import batches, pipelines
from offset_ledger.postgres.ledger.database import connect, migrate, transaction
from offset_ledger.postgres.table.change import ensure_target
from offset_ledger.steps.commit.step import commit
from offset_ledger.steps.stage.claim import Written, claim, seal
from offset_ledger.steps.validate.step import validate
from offset_ledger_kit.sandbox.layout import free_ports
from offset_ledger_kit.sandbox.postgres import Postgres
from offset_ledger_kit.sandbox.process import Launch

ME = Origin("benchmark")
FLIGHTS = Path("dags/pipelines/flights.yaml")
ROWS = """
INSERT INTO {} (event_id, publish_at, status, carrier, flight_number, tail_number, origin, destination, flight_date,
    scheduled_departure, scheduled_arrival, distance, dep_time, dep_delay, arr_time, arr_delay, air_time,
    _partition, _offset, _timestamp, _deleted, _value)
SELECT 'flight-' || n, '2013-01-01Z'::timestamptz + n * interval '10 ms', 'arrived', 'UA', n %% 9000, 'N' || n %% 4000,
    (ARRAY['EWR', 'JFK', 'LGA'])[1 + n %% 3], CASE WHEN n < %(bad)s THEN 'XX' ELSE 'LAX' END,
    '2013-01-01'::date + (n %% 365)::integer, '2013-01-01Z'::timestamptz + n * interval '10 ms', 1200, 100 + n %% 5000,
    900, n %% 60, 1200, n %% 60, 180, 0, n, '2013-01-01Z'::timestamptz + n * interval '10 ms', false,
    convert_to(repeat('x', 190), 'UTF8')
FROM generate_series(%(start)s::bigint, %(start)s + %(count)s - 1) AS n
"""


def flights(suite: bool) -> Pipeline:
    """The pipeline of the flights, with every gate or with none; its limit does not reject."""
    parsed = parse_pipeline(FLIGHTS.resolve())
    history = History(volume=VolumeBand(), null_share=NullBand())
    quality = Quality("flights", 1.0, history=history) if suite else Quality(None, 1.0)
    return replace(parsed, quality=quality, source=replace(parsed.source, transactional=False))


def stage_batch(pipeline: Pipeline, start: int, count: int, bad: int = 0) -> int:
    """Plan and stage a batch of so many rows, the first ``bad`` of them with a destination of two letters."""
    snapshot = TopicSnapshot("cluster", "flights", "topic", False, (PartitionSnapshot(0, 0, 10**9, 10**9, 1),))
    with connect(get_connection("postgres_default")) as session:
        with transaction(session) as cursor:
            pipelines.register(cursor, pipeline, snapshot)
            ensure_target(cursor, pipeline)
            known = pipelines.read_cursors(cursor, pipeline.name)
            if known is None or not known.next_offsets:
                pipelines.record_start_offsets(cursor, pipeline.name, "topic", [Boundary(0, 0)])
            ranges = [OffsetRange(0, start, start + count)]
            batch_id = batches.insert_batch(cursor, pipeline, BatchKind.HEAD, snapshot, ranges, ME)
        tables = claim(session, pipeline, batch_id, ME)
        with transaction(session) as cursor:
            statement = sql.SQL(ROWS).format(tables.identifier(tables.rows))
            cursor.execute(statement, {"start": start, "count": count, "bad": bad})
            cursor.execute(
                "INSERT INTO offset_ledger.slice (batch_id, epoch, slice_no, partition, rows, min_offset, max_offset,"
                " max_timestamp) VALUES (%s, %s, 0, 0, %s, %s, %s, now())",
                [batch_id, tables.attempt.epoch, count, start, start + count - 1],
            )
            batch = batches.read_batch(cursor, batch_id)
        seal(session, batch, tables, Written(1), ME)
    return batch_id


def judge(batch_id: int, suite: bool) -> dict[str, float]:
    """Seconds of validate and peak memory of this process, in MB."""
    pipeline = flights(suite)
    began = time.perf_counter()
    validate(pipeline, batch_id, ME)
    seconds = time.perf_counter() - began
    return {"seconds": round(seconds, 2), "MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)}


def in_a_process_of_its_own(batch_id: int, suite: bool) -> dict[str, float]:
    """The same as :func:`judge`, in a new process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(judge, batch_id, suite).result()


def speed(count: int) -> dict[str, Any]:
    """Two batches of the same size: one judged without a suite, one with it; the first one's commit for comparison."""
    from offset_ledger.steps.validate import expectations

    began = time.perf_counter()
    expectations.load()
    imported = time.perf_counter() - began
    first = stage_batch(flights(False), 0, count)
    without = judge(first, False)["seconds"]
    began = time.perf_counter()
    commit(flights(False), first, ME)
    committed = time.perf_counter() - began
    gated = judge(stage_batch(flights(True), count, count, bad=count + 10), True)["seconds"]
    return {
        "rows": count,
        "seconds": {
            "import of Great Expectations, once a process": round(imported, 2),
            "validate without a suite": without,
            "validate with the suite of flights and history": gated,
            "commit": round(committed, 2),
        },
        "added by the suite, as a share of the commit alone": round((gated - without) / committed, 3),
    }


def memory(count: int) -> dict[str, Any]:
    """Peak memory of the validating process with ten bad rows and with so many."""
    few = in_a_process_of_its_own(stage_batch(flights(True), 0, count + 200_000, bad=10), True)
    with connect(get_connection("postgres_default")) as session, transaction(session) as cursor:
        cursor.execute("UPDATE offset_ledger.batch SET state = 'abandoned', ended_at = now()")
    many = in_a_process_of_its_own(stage_batch(flights(True), 0, count + 200_000, bad=count), True)
    return {"10 bad rows": few, f"{count:,} bad rows": many}


def main() -> None:
    """Print the figures of one run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["speed", "memory"], default="speed")
    parser.add_argument("--rows", type=int, help="rows of a batch (2,000,000), or bad rows (1,000,000)")
    arguments = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="offset-ledger-bench-"))
    server = Postgres(home / "postgres", free_ports(1)[0])
    try:
        server.up(Launch(print))
        os.environ[environment_name("postgres_default")] = server.connection().to_json()
        with connect(server.connection()) as session:
            migrate(session)
        part, rows = (speed, 2_000_000) if arguments.part == "speed" else (memory, 1_000_000)
        print(json.dumps(part(arguments.rows or rows), indent=2))
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()

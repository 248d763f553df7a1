"""Plan to commit of JSON events, split by step, beside the raw pieces of the same work in the same run.

    python -m benchmarks.ingest [--events 2000000]

Events of about 190 bytes, one in ten an event id that was seen before, 8 partitions, one broker, Spark local[2], on a
stack of its own in a temporary folder. Spark's session is started before the clock.
"""

from __future__ import annotations

import argparse
import io
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import psutil
from benchmarks.bench_stack import bench_stack, temporary_folder
from benchmarks.readers import reader_of
from psycopg2 import sql

from offset_ledger.base.progress import progress
from offset_ledger.model.batch import Attempt, current_origin
from offset_ledger.model.ranges import OffsetRange, total_width
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.kafka.bulk_reader import bulk_reader
from offset_ledger.outside.producer.publisher import publish as publish_records
from offset_ledger.outside.producer.record import Record
from offset_ledger.outside.spark.session import local_session
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import connect, transaction
from offset_ledger.postgres.ledger.staging import StagingTables, create, row_columns
from offset_ledger.steps.commit.classes import statements
from offset_ledger.steps.commit.merge import work_memory
from offset_ledger.steps.commit.step import commit
from offset_ledger.steps.plan.step import plan
from offset_ledger.steps.stage.step import stage
from offset_ledger.steps.validate.step import validate
from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox.stack import Stack

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
TOPIC = "bench.events"
PARTITIONS = 8

PIPELINE = """
pipeline: bench
source: {connection: kafka_default, topic: bench.events, start: earliest}
record:
  event_id: $.event_id
  publish_at: $.publish_at
  columns:
    customer: text
    status: text
    quantity: integer
    account: bigint
    amount: numeric(12,2)
    paid: boolean
    city: {type: text, path: $.address.city}
target: {connection: postgres_default, table: public.bench}
limits: {records_per_batch: 100000000, records_per_slice: 250000}
"""


def events(count: int) -> Iterator[Record]:
    """``count`` events; each tenth repeats an earlier event id with a newer state."""
    encode = msgspec.json.encode
    for i in range(count):
        number = i - 7 if i % 10 == 9 else i
        yield Record(
            key=b"%d" % (number % 50_000),
            value=encode(
                {
                    "event_id": f"order-{number:012d}",
                    "publish_at": (EPOCH + timedelta(seconds=i)).strftime("%Y-%m-%dT%H:%M:%SZ"),
                    "customer": f"customer {number % 50_000}",
                    "status": ("new", "paid", "sent")[i % 3],
                    "quantity": i % 100,
                    "account": 10_000_000_000 + i,
                    "amount": i % 100_000 / 100,
                    "paid": i % 2 == 0,
                    "address": {"city": "Sankt Gallen"},
                }
            ),
        )


class Peak:
    """The highest memory of a process and all below it, in bytes; a page that several share counts once (PSS)."""

    def __init__(self, process: psutil.Process) -> None:
        self.bytes = 0
        self._process = process
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._stop.wait(0.5):
            self.bytes = max(self.bytes, sum(map(_share, [self._process, *self._process.children(recursive=True)])))

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def _share(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.Error:
        return 0


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result."""
    began = time.perf_counter()
    result = run()
    return time.perf_counter() - began, result


def publish(stack: Stack, count: int) -> None:
    """Publish the events."""
    extra = dict(stack.connections()[0].extra)
    create_topic(extra, TOPIC, PARTITIONS, 1, {})
    with progress(count, "published") as advance:
        publish_records(events(count), extra, TOPIC, on_progress=advance)


def steps(pipeline: Pipeline, spark: Any) -> tuple[dict[str, float], Any, Any]:
    """Seconds by step, the planned batch and what was committed; without a Spark session it is staged here."""
    seconds = {}
    seconds["plan"], planned = timed(lambda: plan(pipeline, current_origin()))
    batch_id = planned.batch.batch_id
    seconds["stage"], _ = timed(lambda: stage(reader_of(spark), pipeline, batch_id, current_origin()))
    seconds["validate"], _ = timed(lambda: validate(pipeline, batch_id, current_origin()))
    seconds["commit"], committed = timed(lambda: commit(pipeline, batch_id, current_origin()))
    return seconds, planned.batch, committed


def read_records(kafka: Connection, topic: str, ranges: Sequence[OffsetRange]) -> int:
    """How many records one consumer reads of the ranges, which decodes nothing."""
    with bulk_reader(kafka) as read:
        return sum(len(records) for each in ranges for records in read(topic, each))


def raw_pieces(stack: Stack, pipeline: Pipeline, batch: Any) -> dict[str, float]:
    """Seconds of one consumer reading the records, of COPY of the same rows, and of the statements of the commit."""
    kafka, postgres, _ = stack.connections()
    read, _ = timed(lambda: read_records(kafka, pipeline.source.topic, batch.ranges))
    tables, again = (StagingTables(Attempt(batch.batch_id, epoch)) for epoch in (1, 99))
    columns = sql.SQL(", ").join(sql.Identifier(name) for name, _ in [*row_columns(pipeline.record), ("_value", "")])
    with connect(postgres) as session:
        text = io.BytesIO()
        with transaction(session) as cursor:
            create(cursor, again, pipeline)
            cursor.copy_expert(
                sql.SQL("COPY {} ({}) TO STDOUT (FORMAT csv)").format(tables.identifier(tables.rows), columns), text
            )
        with transaction(session) as cursor:
            statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(again.identifier(again.rows), columns)
            text.seek(0)
            copy, _ = timed(lambda: cursor.copy_expert(statement, text, size=1 << 20))
        with transaction(session) as cursor:
            cursor.execute("CREATE TABLE bench_again (LIKE public.bench INCLUDING ALL)")
            cursor.execute("SELECT set_config('work_mem', %s, true)", [work_memory(total_width(batch.ranges))])
            into = replace(pipeline, target=replace(pipeline.target, table="bench_again"))
            todo = statements(into, tables, [], fill=False)
            each = [statement for statement in (todo.classify, *(w.statement for w in todo.writes)) if statement]
            merge, _ = timed(lambda: [cursor.execute(statement) for statement in each])
            cursor.execute("DROP TABLE bench_again")
    return {
        "one consumer reads the records": read,
        "COPY of the rows, one session": copy,
        "statements of the commit": merge,
    }


def measure(count: int, home: Path) -> dict[str, Any]:
    """Everything, on a stack of its own."""
    with bench_stack(home, say=print) as stack:
        publish(stack, count)
        (home / "bench.yaml").write_text(PIPELINE)
        pipeline = parse_pipeline(home / "bench.yaml")
        spark = local_session()
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        with Peak(psutil.Process(gateway.proc.pid)) as peak:
            seconds, batch, committed = steps(pipeline, spark)
        pieces = raw_pieces(stack, pipeline, batch)
        spark.stop()
    total = sum(seconds.values())
    return {
        "events": count,
        "seconds": {name: round(s, 2) for name, s in seconds.items()},
        "records a second, plan to commit": round(count / total),
        "raw pieces": {name: round(s, 2) for name, s in pieces.items()},
        "ratio to the raw pieces": round(total / sum(pieces.values()), 2),
        "peak memory of JVM and workers, MB": round(peak.bytes / 1e6),
        "inserted": committed.total.inserted,
    }


def main() -> None:
    """Print the figures of one run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=2_000_000)
    arguments = parser.parse_args()
    with temporary_folder() as home:
        print(json.dumps(measure(arguments.events, home), indent=2))


if __name__ == "__main__":
    main()

"""The raw pieces in sequence: librdkafka reads and discards, one COPY of the same rows, the merge. No decoding."""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable
from typing import Any

import psycopg2
from benchmarks.peers.task import Task, answer
from benchmarks.peers.workload import state
from confluent_kafka import Consumer, TopicPartition


def work(task: Task) -> Callable[[], dict[str, Any]]:
    """Connect, and write the rows as COPY takes them; the rest is timed."""
    session = psycopg2.connect(task.dsn)
    staging, names = f"{task.table}_staging", ", ".join(task.columns)
    consumer = Consumer({"bootstrap.servers": task.bootstrap, "group.id": uuid.uuid4().hex})
    consumer.assign([TopicPartition(task.topic, partition, 0) for partition in range(task.partitions)])
    lines = tempfile.TemporaryFile(dir=task.scratch)  # noqa: SIM115 - closed with the process
    for i in range(task.records):
        lines.write("\t".join(map(str, state(i, task.wide).values())).encode() + b"\n")
    with session, session.cursor() as cursor:
        cursor.execute(f"CREATE UNLOGGED TABLE {staging} (LIKE {task.table})")
    lines.seek(0)
    changed = ", ".join(f"{name} = s.{name}" for name in task.columns if name != "event_id")

    def read() -> None:
        done = 0
        while done < task.records:
            done += len(consumer.consume(100_000, 0.5))

    def copy() -> None:
        with session, session.cursor() as cursor:
            cursor.copy_expert(f"COPY {staging} ({names}) FROM STDIN", lines, 1 << 20)

    def merge() -> None:
        with session, session.cursor() as cursor:
            cursor.execute("SET LOCAL work_mem = '256MB'")
            cursor.execute(f"ANALYZE {staging}")
            cursor.execute(
                f"MERGE INTO {task.table} AS t USING (SELECT DISTINCT ON (event_id) {names} FROM {staging} "
                "ORDER BY event_id, publish_at DESC) AS s ON t.event_id = s.event_id "
                f"WHEN MATCHED AND s.publish_at > t.publish_at THEN UPDATE SET {changed} "
                f"WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({', '.join(f's.{name}' for name in task.columns)})"
            )
            cursor.execute(f"DROP TABLE {staging}")

    def run() -> dict[str, Any]:
        seconds = {}
        for piece in read, copy, merge:
            began = time.perf_counter()
            piece()
            seconds[piece.__name__] = round(time.perf_counter() - began, 2)
        return seconds

    return run


if __name__ == "__main__":
    answer(work)

"""dlt: a resource that reads the topic, merged by primary key; the newest of one load by dedup_sort."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.peers.task import Task, answer

BATCH = 10_000
TYPES: dict[str, dict[str, Any]] = {
    "text": {"data_type": "text"},
    "timestamptz": {"data_type": "timestamp"},
    "integer": {"data_type": "bigint", "precision": 32},
    "bigint": {"data_type": "bigint"},
    "numeric(12,2)": {"data_type": "decimal", "precision": 12, "scale": 2},
    "boolean": {"data_type": "bool"},
}


def _pipeline(task: Task) -> Any:
    os.environ.update(
        RUNTIME__DLTHUB_TELEMETRY="false", RUNTIME__LOG_LEVEL="ERROR", SCHEMA__NAMING="snake_case",
        NORMALIZE__WORKERS="2", LOAD__WORKERS="2", DATA_WRITER__BUFFER_MAX_ITEMS="50000",
        NORMALIZE__DATA_WRITER__FILE_MAX_ITEMS="250000",
    )  # fmt: skip
    import dlt

    return dlt.pipeline(
        pipeline_name=task.name,
        pipelines_dir=f"{task.scratch}/dlt",
        destination=dlt.destinations.postgres(f"postgresql://{task.server}"),
        dataset_name=task.table.split(".")[0],
    )


def _resource(task: Task, rows: Callable[[], Iterator[Any]]) -> Any:
    import dlt

    columns: dict[str, Any] = {name: {**TYPES[kind], "nullable": False} for name, kind in task.columns.items()}
    columns["event_id"]["primary_key"] = True
    columns["publish_at"]["dedup_sort"] = "desc"
    return dlt.resource(rows, name=task.name, write_disposition="merge", columns=columns)


def make_table(task: Task) -> None:
    """Let dlt make the table."""
    import dlt

    pipeline = _pipeline(task)
    pipeline.run(_resource(task, lambda: iter([dlt.mark.materialize_table_schema()])))


def work(task: Task) -> Callable[[], None]:
    """Import, and restore the pipeline's state; the rest is timed."""
    import msgspec
    from confluent_kafka import Consumer, TopicPartition

    pipeline = _pipeline(task)
    settings = {"bootstrap.servers": task.bootstrap, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(task.topic, partition, 0) for partition in range(task.partitions)])
    decode: Callable[[Any], Any] = msgspec.json.Decoder().decode

    def rows() -> Iterator[list[dict[str, Any]]]:
        done = 0
        while done < task.records:
            events = [decode(message.value()) for message in consumer.consume(BATCH, 0.5)]
            for event in events:
                event["city"] = event.pop("address")["city"]
            done += len(events)
            yield events

    return lambda: pipeline.run(_resource(task, rows)) and None


if __name__ == "__main__":
    if sys.argv[2:] == ["make-table"]:
        answer(lambda task: lambda: make_table(task))
    else:
        answer(work)

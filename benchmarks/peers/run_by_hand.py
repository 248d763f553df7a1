"""By hand: a consumer that upserts each batch in one transaction, and then commits its offsets."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import psycopg2
from benchmarks.peers.task import Task, answer
from psycopg2.extras import execute_values

BATCH = 10_000


class _Address(msgspec.Struct):
    city: str


class _Event(msgspec.Struct):
    event_id: str
    publish_at: str
    customer: str
    status: str
    quantity: int
    account: int
    amount: float
    paid: bool
    address: _Address
    pad: str | None = None


_decode = msgspec.json.Decoder(_Event).decode


def _row(event: _Event, wide: bool) -> tuple[Any, ...]:
    row = (
        *(event.event_id, event.publish_at, event.customer, event.status, event.quantity, event.account),
        *(event.amount, event.paid, event.address.city),
    )
    return (*row, event.pad) if wide else row


def _confluent(task: Task) -> tuple[Iterator[list[bytes]], Callable[[], Any]]:
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": task.bootstrap, "group.id": uuid.uuid4().hex, "enable.auto.commit": False}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "queued.max.messages.kbytes": 65_536})
    consumer.assign([TopicPartition(task.topic, partition, 0) for partition in range(task.partitions)])

    def batches() -> Iterator[list[bytes]]:
        while True:
            yield [message.value() for message in consumer.consume(BATCH, 0.5)]  # type: ignore[misc]  # none is null

    return batches(), lambda: consumer.commit(asynchronous=True)


def _kafka_python(task: Task) -> tuple[Iterator[list[bytes]], Callable[[], Any]]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=task.bootstrap.split(","), group_id=uuid.uuid4().hex, enable_auto_commit=False,
        auto_offset_reset="earliest", max_poll_records=BATCH, max_partition_fetch_bytes=4_194_304,
    )  # fmt: skip
    consumer.assign([TopicPartition(task.topic, partition) for partition in range(task.partitions)])

    def batches() -> Iterator[list[bytes]]:
        while True:
            waiting: list[bytes] = []
            while len(waiting) < BATCH and (polled := consumer.poll(200, max_records=BATCH - len(waiting))):
                waiting += [record.value for records in polled.values() for record in records]
            yield waiting

    return batches(), consumer.commit_async


def work(task: Task) -> Callable[[], None]:
    """Connect to both; the rest is timed."""
    session = psycopg2.connect(task.dsn)
    batches, commit_offsets = (_confluent if task.variant == "confluent-kafka" else _kafka_python)(task)
    names = list(task.columns)
    changed = ", ".join(f"{name} = EXCLUDED.{name}" for name in names if name != "event_id")
    statement = (
        f"INSERT INTO {task.table} AS t ({', '.join(names)}) VALUES %s "
        f"ON CONFLICT (event_id) DO UPDATE SET {changed} WHERE EXCLUDED.publish_at > t.publish_at"
    )

    def run() -> None:
        done = 0
        for batch in batches:
            newest: dict[str, _Event] = {}
            for value in batch:
                event = _decode(value)
                known = newest.get(event.event_id)
                if known is None or event.publish_at > known.publish_at:
                    newest[event.event_id] = event
            if newest:
                rows = [_row(event, task.wide) for event in newest.values()]
                with session, session.cursor() as cursor:
                    execute_values(cursor, statement, rows, page_size=1_000)
                commit_offsets()
            done += len(batch)
            if done >= task.records:
                return

    return run


if __name__ == "__main__":
    answer(work)

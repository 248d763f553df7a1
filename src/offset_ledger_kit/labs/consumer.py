"""A textbook consumer: one process, one row for each event, offsets committed before or after the rows.

Run as ``python -m offset_ledger_kit.labs.consumer``, its orders as JSON on standard input; it kills itself
where the orders say.
"""

import json
import os
import signal
import sys
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum

from kafka import KafkaConsumer, TopicPartition
from psycopg2 import sql

from offset_ledger.outside.connections import parse_connection
from offset_ledger.postgres.ledger.database import connect, named_sql


class Commit(StrEnum):
    """The moment at which offsets are committed: before the rows (at most once), or after them (at least once)."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Orders:
    """The orders for one life of a consumer; it ends with SIGKILL amid a poll's records, or at the ends."""

    bootstrap: str
    postgres: str
    topic: str
    partitions: int
    table: str
    commit: Commit
    dies_after: int | None


def consume(orders: Orders) -> None:
    """Read from the committed offsets to the ends, and write a row for each record."""
    consumer = KafkaConsumer(
        bootstrap_servers=orders.bootstrap.split(","),
        group_id=f"lab-{orders.table}",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_poll_records=50,
    )
    insert = sql.SQL(named_sql("offset_ledger_kit:labs/insert")).format(table=sql.Identifier(orders.table))
    partitions = [TopicPartition(orders.topic, partition) for partition in range(orders.partitions)]
    with closing(consumer), connect(parse_connection("postgres", orders.postgres)) as session:
        session.autocommit = True
        cursor = session.cursor()
        consumer.assign(partitions)
        ends, handled = consumer.end_offsets(partitions), 0
        while any(consumer.position(each) < ends[each] for each in partitions):
            records = [record for batch in consumer.poll(500).values() for record in batch]
            if records and orders.commit is Commit.BEFORE:
                consumer.commit()
            for left, record in zip(range(len(records) - 1, -1, -1), records, strict=True):
                cursor.execute(insert, [record.key.decode(), record.partition, record.offset])
                handled += 1
                if left and orders.dies_after is not None and handled >= orders.dies_after:
                    os.kill(os.getpid(), signal.SIGKILL)
            if records and orders.commit is Commit.AFTER:
                consumer.commit()


if __name__ == "__main__":
    document = json.load(sys.stdin)
    consume(Orders(**document | {"commit": Commit(document["commit"])}))

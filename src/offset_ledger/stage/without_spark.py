"""The read of a small batch: by the process of the task itself, one slice for each range."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from offset_ledger.connections import Connection
from offset_ledger.errors import BrokerUnavailable, LostRange
from offset_ledger.kafka.records import range_reader
from offset_ledger.model.batch import Batch
from offset_ledger.stage.timestamps import check_is_exact

if TYPE_CHECKING:
    from offset_ledger.stage.slices import SliceTask

MAX_RECORDS = 20_000
MAX_BYTES = 32 * 1024 * 1024


def read_slices(
    kafka: Connection, topic: str, batch: Batch, check_topic: Callable[[Batch], object], task: SliceTask
) -> int:
    """Stage every slice and return how many there were.

    Raises:
        LostRange: the topic does not have the ranges any more.
        UnreadableTimestamp: a record has one that Postgres cannot represent.
        UnreadableRecord: Spark may read it.
        BrokerUnavailable: worth another try.
    """
    from offset_ledger.stage.record_batches import kafka_batches
    from offset_ledger.stage.slices import write_slice

    with range_reader(kafka, "read_committed") as read:
        for slice_no, wanted in enumerate(batch.ranges):
            try:
                records = kafka_batches(_checked(read(topic, wanted)), MAX_RECORDS, MAX_BYTES)
                list(write_slice(task, slice_no, records))
            except LostRange as error:
                check_topic(batch)
                raise BrokerUnavailable(
                    f"{error}, though the topic has every planned range: a broker answered from an old log; stage the "
                    "batch again"
                ) from error
    return len(batch.ranges)


def _checked(records: Iterable[Any]) -> Iterator[Any]:
    for record in records:
        check_is_exact(record)
        yield record

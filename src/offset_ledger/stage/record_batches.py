"""Kafka records as Arrow batches of one column for each of their fields, in chunks of a limited number and size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

MAX_RECORDS = 20_000
MAX_BYTES = 32 * 1024 * 1024
T = TypeVar("T")


def chunks(records: Iterable[T], size_of: Callable[[T], int], max_records: int, max_bytes: int) -> Iterator[list[T]]:
    """The records in lists that end at ``max_records`` or as soon as they have more than ``max_bytes``."""
    chunk: list[T] = []
    size = 0
    for record in records:
        chunk.append(record)
        size += size_of(record)
        if len(chunk) == max_records or size > max_bytes:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def kafka_python_batch(records: Sequence[Any]) -> pa.RecordBatch:
    """Records of kafka-python, at least one and all of one partition."""
    return record_batch(
        records[0].partition,
        offsets=[record.offset for record in records],
        keys=[record.key for record in records],
        values=[record.value for record in records],
        timestamps=[_int64(record.timestamp) for record in records],
        headers=[record.headers or None for record in records],
    )


def _int64(timestamp: int | None) -> int | None:
    """The sum as Kafka has it: kafka-python adds to the first timestamp of a record batch without an overflow."""
    return None if timestamp is None else (timestamp + 2**63) % 2**64 - 2**63


def record_batch(
    partition: int,
    offsets: Sequence[int],
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    timestamps: Sequence[int | None],
    headers: Sequence[Sequence[tuple[str, bytes | None]] | None],
) -> pa.RecordBatch:
    """Records of one partition, one sequence for each of their fields; timestamps are in milliseconds since 1970."""
    import pyarrow as pa

    from offset_ledger.decoding.headers import HEADERS
    from offset_ledger.decoding.kafka_columns import TIMESTAMP

    pairs = pa.nulls(len(headers), HEADERS) if not any(headers) else pa.array(map(_pairs, headers), HEADERS)
    columns = {
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "partition": pa.array([partition] * len(offsets), pa.int32()),
        "offset": pa.array(offsets, pa.int64()),
        "timestamp": pa.array(timestamps, pa.int64()).cast(TIMESTAMP),
        "headers": pairs,
    }
    return pa.RecordBatch.from_pydict(columns)


def _pairs(headers: Sequence[tuple[str, bytes | None]] | None) -> list[dict[str, Any]] | None:
    return None if headers is None else [{"key": name.encode(), "value": value} for name, value in headers]

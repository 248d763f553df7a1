"""kafka-python's consumer, which gives a record whatever bytes the names of its headers have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafka import KafkaConsumer
from kafka.consumer.fetcher import Fetcher
from kafka.record.default_records import DefaultRecordBatch

from offset_ledger.connections import Connection
from offset_ledger.kafka.python_client import kafka_python_arguments
from offset_ledger.model.header_name import HeaderName
from offset_ledger.retry import retry_seconds


def connect_consumer(connection: Connection, **settings: object) -> KafkaConsumer:
    """A consumer without a group; a header name that is not UTF-8 is a :class:`HeaderName` in its records.

    kafka-python itself gives neither such a record nor those behind it. It raises kafka-python's errors.
    """
    ours = {"group_id": None, "enable_auto_commit": False, "bootstrap_timeout_ms": int(1000 * max(retry_seconds(), 4))}
    consumer = KafkaConsumer(**kafka_python_arguments(connection), **ours, **settings)
    consumer._fetcher.PartitionRecords = _Records
    return consumer


class _Records(Fetcher.PartitionRecords):  # type: ignore[misc]
    def _unpack_records(self, tp: Any, records: Any, *deserializers: Any) -> Iterator[Any]:
        return super()._unpack_records(tp, _Batches(records), *deserializers)  # type: ignore[no-any-return]


class _Batches:
    def __init__(self, records: Any) -> None:
        self._records = records

    def next_batch(self) -> Any:
        batch = self._records.next_batch()
        return _Batch(batch._buffer) if isinstance(batch, DefaultRecordBatch) else batch


class _Batch(DefaultRecordBatch):  # type: ignore[misc]
    """A batch that is read on from a buffer that decodes any bytes, from the first name on that is not UTF-8."""

    _buffer: bytearray

    def _read_msg(self) -> Any:
        try:
            return super()._read_msg()
        except UnicodeDecodeError:
            self._buffer = _Buffer(self._buffer)
            return super()._read_msg()


class _Buffer(bytearray):
    def __getitem__(self, place: Any) -> Any:
        part = super().__getitem__(place)
        return _Part(part) if isinstance(place, slice) else part


class _Part(bytes):
    def decode(self, *_: str) -> str:
        return HeaderName.of(self)

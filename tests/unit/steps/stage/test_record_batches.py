"""Records of kafka-python as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE, Message
from kafka.consumer.fetcher import ConsumerRecord

from offset_ledger.decoding.kafka_columns import timestamps
from offset_ledger.model.header_name import HeaderName
from offset_ledger.model.moments import moment
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.kafka import bulk_reader
from offset_ledger.steps.stage.record_batches import kafka_python_batch, slice_reader


@pytest.mark.parametrize(
    ("added", "kept"),
    [(None, None), (-1, None), (2**63 - 1, 2**63 - 1), (2**63, -(2**63)), (-(2**63) - 5, 2**63 - 5), (-(2**63),) * 2],
)
def test_a_timestamp_is_a_number_of_64_bits(added: int | None, kept: int | None) -> None:
    headers = [(HeaderName.of(b"\xff"), None)]
    record = ConsumerRecord("t", 3, 0, 7, added, 0, b"k", None, headers, None, 1, -1, 1)
    (row,) = kafka_python_batch([record]).set_column(4, "timestamp", milliseconds(record)).to_pylist()
    header = {"key": b"\xff", "value": None}
    expected = {"key": b"k", "value": None, "partition": 3, "offset": 7, "timestamp": kept, "headers": [header]}
    assert row == expected


def test_librdkafka_says_which_records_have_no_timestamp(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the oldest message format have 0 and the type "not available"."""
    given = {7: (TIMESTAMP_NOT_AVAILABLE, 0), 8: (TIMESTAMP_CREATE_TIME, 0), 9: (TIMESTAMP_CREATE_TIME, -1)}
    given |= {10: (TIMESTAMP_LOG_APPEND_TIME, 5)}
    messages = [Message("t", 0, offset, b"k", b"v", timestamp=each) for offset, each in given.items()]

    @contextmanager
    def reader(_: Connection) -> Iterator[Any]:
        yield lambda *_: [messages]

    monkeypatch.setattr(bulk_reader, "bulk_reader", reader)
    kafka = Connection("kafka_default", "kafka", extra={"bootstrap.servers": "nowhere:9092"})
    with ExitStack() as opened:
        (batch,) = slice_reader(kafka, "t", opened).read(OffsetRange(0, 7, 11), lambda: None)
    staged = timestamps(batch).to_pylist()
    assert staged == [None, moment(0), None, moment(5)]


def milliseconds(record: ConsumerRecord) -> pa.Int64Array:
    return kafka_python_batch([record]).column("timestamp").cast(pa.int64())

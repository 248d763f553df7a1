"""Records of kafka-python as Arrow batches."""

from __future__ import annotations

import pyarrow as pa
import pytest
from kafka.consumer.fetcher import ConsumerRecord

from offset_ledger.model.header_name import HeaderName
from offset_ledger.stage.record_batches import kafka_python_batch


@pytest.mark.parametrize(
    ("added", "kept"),
    [(None, None), (-1, -1), (2**63 - 1, 2**63 - 1), (2**63, -(2**63)), (-(2**63) - 5, 2**63 - 5), (-(2**63),) * 2],
)
def test_a_timestamp_is_a_number_of_64_bits(added: int | None, kept: int | None) -> None:
    headers = [(HeaderName.of(b"\xff"), None)]
    record = ConsumerRecord("t", 3, 0, 7, added, 0, b"k", None, headers, None, 1, -1, 1)
    (row,) = kafka_python_batch([record]).set_column(4, "timestamp", milliseconds(record)).to_pylist()
    header = {"key": b"\xff", "value": None}
    expected = {"key": b"k", "value": None, "partition": 3, "offset": 7, "timestamp": kept, "headers": [header]}
    assert row == expected


def milliseconds(record: ConsumerRecord) -> pa.Int64Array:
    return kafka_python_batch([record]).column("timestamp").cast(pa.int64())

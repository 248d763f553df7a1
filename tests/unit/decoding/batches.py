"""Batches as a reader gives them, and what a decoder makes of them, read as columns and one by one."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from offset_ledger.decoding.arrow import decode_batch, with_texts
from offset_ledger.decoding.decoder import Decoder
from offset_ledger.decoding.headers import HEADERS
from tests.unit.decoding.decoding_documents import KAFKA_TIME

HEAD = b"\0\0\0\0\1"


def batch_of(values: list[bytes | None], keys: list[bytes | None] | None = None, headers: Any = None) -> pa.RecordBatch:
    """The values as a reader gives them, at offsets 100, 101 and so on."""
    rows = len(values)
    columns = {
        "key": pa.array(keys or [None] * rows, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "partition": pa.array([3] * rows, pa.int32()),
        "offset": pa.array(range(100, 100 + rows), pa.int64()),
        "timestamp": pa.array([KAFKA_TIME] * rows, pa.timestamp("us", "UTC")),
        "headers": pa.array(headers or [None] * rows, HEADERS),
    }
    return pa.RecordBatch.from_pydict(columns)


def decoded(
    decoder: Decoder, values: list[bytes | None], keys: Any = None, headers: Any = None, proves: bool = True
) -> tuple[dict[int, dict[str, Any]], dict[int, list[dict[str, str]]]]:
    """Rows and reasons by place, which are the same where each record is read by itself."""
    made = decode_batch(decoder, batch := batch_of(values, keys, headers))
    rows = {row["_offset"] - 100: row for row in with_texts(made.rows).to_pylist()}
    reasons = {row["_offset"] - 100: json.loads(row["reasons"]) for row in made.refusals.to_pylist()}
    if proves:
        proven = decoder.prove(batch.column("value"))
        assert proven is not None
        assert set(proven.places.tolist()) >= rows.keys()
    again = decode_batch(decoder, batch, proves=False)
    assert (again.rows, again.refusals) == (made.rows, made.refusals)
    return rows, reasons

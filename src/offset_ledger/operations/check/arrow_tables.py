"""Arrow tables of the command line's results: sampled records, quarantined ones and batches."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from offset_ledger.decoding.arrow import in_one, refusal_schema, staging_schema
from offset_ledger.decoding.kinds import MOMENT
from offset_ledger.decoding.texts import with_uuid_texts
from offset_ledger.model.balance_sheet import Dispositions
from offset_ledger.operations.check.decode_sample import Choice, decode_columns
from offset_ledger.pipeline_file.pipeline import Pipeline


def _all(kind: pa.DataType, *names: str) -> Iterator[tuple[str, pa.DataType]]:
    return ((name, kind) for name in names)


_TEXT, _BIGINT, _BYTES = pa.string(), pa.int64(), pa.binary()
_REASONS = pa.list_(pa.struct(_all(_TEXT, "path", "code", "detail")))
_NAME, _PLACE = _all(_TEXT, "kind", "state"), [("partition", pa.int32()), ("offset", _BIGINT)]
_COUNTED = [("epoch", pa.int32()), ("engine", _TEXT), *_all(_BIGINT, "offsets", *Dispositions.__dataclass_fields__)]
BATCHES = pa.schema(
    [("batch_id", _BIGINT), *_NAME, *_COUNTED, *_all(MOMENT, "planned_at", "ended_at"), ("engine_reason", _TEXT)]
)
_RECORD = [("timestamp", pa.timestamp("ms", "UTC")), ("key", _BYTES), ("headers", _TEXT), ("value", _BYTES)]
_DECIDED = [("quarantined_at", MOMENT), *_all(_BIGINT, "resolved_by", "dismissed_by")]
QUARANTINED = pa.schema(
    [("topic_id", _TEXT), *_PLACE, *_RECORD, ("reasons", _REASONS), *_all(_BIGINT, "batch_id", "schema_id"), *_DECIDED]
)


@dataclass(frozen=True, slots=True)
class Preview:
    """Sampled records: ``rows`` with the table's columns, ``refused`` with bytes and ``reasons``."""

    rows: pa.Table
    refused: pa.Table
    skipped: int


def preview_tables(pipeline: Pipeline, choice: Choice, records: int) -> Preview:
    """Read and decode that many records, by partition and offset; raises as decode_columns()."""
    _, record, decoded = decode_columns(pipeline, choice, records)
    rows = in_one([staging_schema(record).empty_table(), *(each.rows for each in decoded)])
    refused = pa.concat_tables([refusal_schema(record).empty_table(), *(each.refusals for each in decoded)])
    texts = [with_uuid_texts(column.combine_chunks()) for column in rows.columns]
    rows = pa.Table.from_arrays(texts, names=rows.column_names)
    reasons = pa.array([json.loads(text) for text in refused["reasons"].to_pylist()], _REASONS)
    refused = refused.drop_columns("reasons").append_column("reasons", reasons)
    order = [("_partition", "ascending"), ("_offset", "ascending")]
    rows = rows.drop_columns("_value").sort_by(order)
    return Preview(rows, refused.sort_by(order), sum(each.skipped for each in decoded))

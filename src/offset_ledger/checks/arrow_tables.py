"""Arrow tables of what the command line shows: sampled records, quarantined ones and batches."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from offset_ledger.checks.decode_sample import Choice, decode_columns
from offset_ledger.config.model import Pipeline
from offset_ledger.decoding.arrow import refusal_schema, staging_schema
from offset_ledger.decoding.kinds import MOMENT
from offset_ledger.decoding.texts import uuid_texts
from offset_ledger.ledger.database import named_sql, open_ledger, rows
from offset_ledger.standing.status import recent_batches

_REASONS = pa.list_(pa.struct([("path", pa.string()), ("code", pa.string()), ("detail", pa.string())]))
_COUNTS = ("inserted", "updated", "superseded", "duplicate", "deleted", "quarantined", "skipped", "gap")
_BATCH = pa.schema(
    [
        ("batch_id", pa.int64()),
        ("kind", pa.string()),
        ("state", pa.string()),
        ("epoch", pa.int32()),
        ("engine", pa.string()),
        ("offsets", pa.int64()),
        *((name, pa.int64()) for name in _COUNTS),
        ("planned_at", MOMENT),
        ("ended_at", MOMENT),
        ("engine_reason", pa.string()),
    ]
)
_QUARANTINED = pa.schema(
    [
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("key", pa.binary()),
        ("headers", pa.string()),
        ("value", pa.binary()),
        ("reasons", _REASONS),
        ("batch_id", pa.int64()),
        ("schema_id", pa.int64()),
        ("quarantined_at", MOMENT),
        ("resolved_by", pa.int64()),
        ("dismissed_by", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Preview:
    """Sampled records: ``rows`` with the columns of the table, ``refused`` with their bytes and ``reasons``.

    No row comes of those ``skipped``.
    """

    rows: pa.Table
    refused: pa.Table
    skipped: int


def preview_tables(pipeline: Pipeline, choice: Choice, records: int) -> Preview:
    """Read and decode that many records, by partition and offset; raises as decode_sample()."""
    _, record, decoded = decode_columns(pipeline, choice, records)
    sampled = pa.concat_tables([staging_schema(record).empty_table(), *(each.rows for each in decoded)])
    refused = pa.concat_tables([refusal_schema(record).empty_table(), *(each.refusals for each in decoded)])
    columns = {name: _with_uuid_texts(sampled[name]) for name in sampled.column_names if name != "_value"}
    reasons = pa.array([json.loads(text) for text in refused["reasons"].to_pylist()], _REASONS)
    at_place = [("_partition", "ascending"), ("_offset", "ascending")]
    return Preview(
        pa.table(columns).sort_by(at_place),
        refused.drop_columns("reasons").append_column("reasons", reasons).sort_by(at_place),
        sum(each.skipped for each in decoded),
    )


def _with_uuid_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_fixed_size_binary(column.type):
        return column
    return pa.chunked_array([uuid_texts(chunk) for chunk in column.chunks], pa.string())


def quarantined_table(
    pipeline: Pipeline, reason: str | None, since: datetime | None, limit: int, resolved: bool, dismissed: bool
) -> pa.Table:
    """Return the newest quarantined records with their bytes, as today's reasons say."""
    wanted = {"reason": reason, "since": since, "limit": limit, "resolved": resolved, "dismissed": dismissed}
    with open_ledger(pipeline) as session:
        records = rows(session, named_sql("repair/quarantined_records"), {"pipeline": pipeline.name, **wanted})
    return _table(({**row, **_bytes_of(row)} for row in map(dict, records)), _QUARANTINED)


def batches_table(pipeline: Pipeline, limit: int) -> pa.Table:
    """Return the newest batches with their balance sheets."""
    return _table(recent_batches(pipeline, limit), _BATCH)


def _bytes_of(row: Mapping[str, Any]) -> dict[str, bytes | None]:
    return {name: None if row[name] is None else bytes(row[name]) for name in ("key", "value")}


def _table(records: Iterable[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(list(records), schema=schema)

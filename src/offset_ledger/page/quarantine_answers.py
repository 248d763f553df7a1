"""The answers of the API about quarantined records, and about those that a rejected batch refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from offset_ledger.config.model import Pipeline
from offset_ledger.decoding.headers import kafka_headers
from offset_ledger.page.quarantine import RecordFilter, RecordState, record, records
from offset_ledger.page.queries import reading
from offset_ledger.page.records import headers, reasons, show_bytes
from offset_ledger.page.rights import Rights

JsonObject = dict[str, Any]

_PLACE = ("partition", "offset", "timestamp")
_LISTED = (
    "quarantine_id",
    "batch_id",
    *_PLACE,
    "quarantined_at",
    "retried_by",
    "resolved_by",
    "key_bytes",
    "value_bytes",
)
_WHOLE = (*_LISTED, "topic_id", "schema_id", "dismissed_by", "dismissed_at", "dismissed_who", "dismissed_why")


def quarantine(pipeline: Pipeline, matching: RecordFilter, rights: Rights) -> JsonObject:
    """A page of records, and after which batch and record the next one starts."""
    readable = rights.reads_values(pipeline.name)
    with reading(pipeline.target.connection) as cursor:
        rows = records(cursor, pipeline.name, replace(matching, limit=matching.limit + 1))
    shown = rows[: matching.limit]
    more = len(rows) > len(shown)
    return {
        "records": [
            {**{name: row[name] for name in _LISTED}, "reasons": reasons(row["reasons"], readable)} for row in shown
        ],
        "before": f"{shown[-1]['batch_id']}:{shown[-1]['quarantine_id']}" if more else None,
        "masked": not readable,
    }


def quarantined_record(pipeline: Pipeline, quarantine_id: int, rights: Rights) -> JsonObject | None:
    """One record: its bytes, headers and reasons where the user may read them; None if the pipeline has no such one."""
    readable = rights.reads_values(pipeline.name)
    with reading(pipeline.target.connection) as cursor:
        row = record(cursor, pipeline.name, quarantine_id)
    if row is None:
        return None
    return {
        **{name: row[name] for name in _WHOLE},
        **_content(row, readable),
        "state": _state(row),
        "retried_reasons": reasons(row["retried_reasons"], readable),
        "headers": headers(kafka_headers(row["headers"]), readable),
        "header_count": len(row["headers"] or ()),
        "masked": not readable,
    }


def refused_record(row: Mapping[str, Any], readable: bool) -> JsonObject:
    """A record that an open batch refused."""
    return {**{name: row[name] for name in _PLACE}, **_content(row, readable)}


def _content(row: Mapping[str, Any], readable: bool) -> JsonObject:
    key, value = (show_bytes(row[name], row[f"{name}_bytes"], readable) for name in ("key", "value"))
    return {
        "key": key and asdict(key),
        "value": value and asdict(value),
        "reasons": reasons(row["reasons"], readable),
    }


def _state(row: Mapping[str, Any]) -> RecordState:
    if row["resolved_by"] is not None:
        return RecordState.RESOLVED
    return RecordState.DISMISSED if row["dismissed_by"] is not None else RecordState.UNRESOLVED

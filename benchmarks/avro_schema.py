"""Avro schemas of the events that are measured."""

from __future__ import annotations

from typing import Any

TIMESTAMP = {"type": "long", "logicalType": "timestamp-millis"}
AMOUNT = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}


def avro_record(name: str, **fields: Any) -> dict[str, Any]:
    """A record with these fields, each with its type."""
    return {"type": "record", "name": name, "fields": [{"name": each, "type": kind} for each, kind in fields.items()]}

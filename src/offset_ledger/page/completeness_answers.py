"""The answer of the API about which hours of a pipeline are in the table."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from offset_ledger.config.model import Pipeline
from offset_ledger.page import queries
from offset_ledger.page.completeness import anchor, lines
from offset_ledger.page.history import HistoryWindow
from offset_ledger.page.live import BrokerCache
from offset_ledger.page.positions import positions, recreated


def completeness(pipeline: Pipeline, window: HistoryWindow, brokers: BrokerCache) -> dict[str, Any]:
    """The times of the window, and a line for each partition."""
    topic, now = brokers.answers([pipeline])[pipeline.name], datetime.now(UTC)
    with queries.reading(pipeline.target.connection) as cursor:
        row = queries.pipelines(cursor, [pipeline.name]).get(pipeline.name)
        known = queries.partitions(cursor, [pipeline.name]).get(pipeline.name, [])
        end = anchor(window, known, now)
        rows = queries.completeness(cursor, pipeline.name, window, end)
    old = recreated(row["topic_id"] if row else None, topic.snapshot)
    shown = positions(() if old else known, topic.snapshot)
    return {
        "begin": window.begin(end),
        "step": window.step.total_seconds(),
        "steps": window.span // window.step,
        "now": now if end == now else None,
        "partitions": [asdict(line) for line in lines(() if old else rows, shown, window, end)],
    }

"""Figures as Airflow's own metrics: they go wherever Airflow's StatsD or OpenTelemetry settings send them."""

from __future__ import annotations

import logging
from datetime import timedelta

from airflow.sdk.observability import stats

from offset_ledger.config.model import Pipeline
from offset_ledger.errors import OffsetLedgerError
from offset_ledger.operations.metrics import BatchMetrics, batch_metrics

log = logging.getLogger(__name__)


def emit(pipeline: str, found: BatchMetrics) -> None:
    """Gauge ``offset_ledger.<pipeline>.lag``, counters ``.records``, ``.quarantined``, timers ``.seconds.<step>``."""
    prefix, tags = f"offset_ledger.{pipeline}", {"pipeline": pipeline}
    stats.gauge(f"{prefix}.lag", found.lag, tags=tags)
    stats.incr(f"{prefix}.records", found.records, tags=tags)
    stats.incr(f"{prefix}.quarantined", found.quarantined, tags=tags)
    for step, seconds in found.seconds.items():
        stats.timing(f"{prefix}.seconds.{step}", timedelta(seconds=seconds), tags=tags)


def measure(pipeline: Pipeline, batch_id: int) -> None:
    """Emit the figures of a committed batch; a failure is logged and harms nothing."""
    try:
        emit(pipeline.name, batch_metrics(pipeline, batch_id))
    except OffsetLedgerError as error:
        log.warning("the metrics of batch %d were not sent: %s", batch_id, error)

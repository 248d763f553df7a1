"""Metrics of a committed batch, sent as Airflow's own: to StatsD or OpenTelemetry, as Airflow is configured."""

import logging
from datetime import timedelta

from airflow.configuration import conf
from airflow.sdk.observability import stats

from offset_ledger.errors import OffsetLedgerError
from offset_ledger.operations.status.status import BatchMetrics, batch_metrics
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Session

log = logging.getLogger(__name__)


def emit(pipeline: str, metrics: BatchMetrics) -> None:
    """Send gauge ``offset_ledger.lag``, counters ``.records`` and ``.quarantined``, timer ``.seconds``, with tags.

    The earlier names, which have the pipeline and the step in them, are sent too, unless Airflow's ``[metrics]
    legacy_names_on`` says no.
    """
    tags = {"pipeline": pipeline}
    _send("offset_ledger", metrics, tags)
    for step, seconds in metrics.seconds.items():
        stats.timing("offset_ledger.seconds", timedelta(seconds=seconds), tags={**tags, "step": step})
    if conf.getboolean("metrics", "legacy_names_on", fallback=True):
        prefix = f"offset_ledger.{pipeline.replace('@', '.')}"
        _send(prefix, metrics, tags)
        for step, seconds in metrics.seconds.items():
            stats.timing(f"{prefix}.seconds.{step}", timedelta(seconds=seconds), tags=tags)


def _send(prefix: str, metrics: BatchMetrics, tags: dict[str, str]) -> None:
    if metrics.lag is not None:
        stats.gauge(f"{prefix}.lag", metrics.lag, tags=tags)
    stats.incr(f"{prefix}.records", metrics.records, tags=tags)
    stats.incr(f"{prefix}.quarantined", metrics.quarantined, tags=tags)


def measure(pipeline: Pipeline, batch_id: int, session: Session | None = None) -> None:
    """Send the metrics of a committed batch; a failure is only logged."""
    try:
        emit(pipeline.name, batch_metrics(pipeline, batch_id, session))
    except OffsetLedgerError as error:
        log.warning("the metrics of batch %d were not sent: %s", batch_id, error)

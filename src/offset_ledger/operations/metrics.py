"""Metrics of a committed batch and of its pipeline's lag, for monitoring."""

from __future__ import annotations

from dataclasses import dataclass

from offset_ledger.config.model import Pipeline
from offset_ledger.ledger.database import named_sql, open_ledger, rows
from offset_ledger.operations.status import status

_STEPS = ("stage", "validate", "commit")


@dataclass(frozen=True, slots=True)
class BatchMetrics:
    """``lag`` is in offsets; ``seconds`` are by step, without steps that did not run, as for a skipped loss."""

    lag: int
    records: int
    quarantined: int
    seconds: dict[str, float]


def batch_metrics(pipeline: Pipeline, batch_id: int) -> BatchMetrics:
    """The metrics of the batch from the ledger, and the remaining lag from the broker."""
    with open_ledger(pipeline) as session:
        (metrics,) = rows(session, named_sql("operations/metrics"), [batch_id])
    lag = sum(max(p.lag, 0) for p in status(pipeline).partitions)
    seconds = {step: metrics[step] for step in _STEPS if metrics[step] is not None}
    return BatchMetrics(lag, metrics["records"] or 0, metrics["quarantined"] or 0, seconds)

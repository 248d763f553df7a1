"""Figures of a committed batch and of its pipeline's lag, for whoever watches."""

from __future__ import annotations

from dataclasses import dataclass

from offset_ledger.config.model import Pipeline
from offset_ledger.ledger.database import named_sql, rows
from offset_ledger.ledger.open import open_ledger
from offset_ledger.operations.status import status

_STEPS = ("stage", "validate", "commit")


@dataclass(frozen=True, slots=True)
class BatchMetrics:
    """``lag`` is in offsets, ``seconds`` by step; a step that did not run, such as of a skipped loss, is absent."""

    lag: int
    records: int
    quarantined: int
    seconds: dict[str, float]


def batch_metrics(pipeline: Pipeline, batch_id: int) -> BatchMetrics:
    """What the ledger says of the batch, and the broker of the lag that is left."""
    with open_ledger(pipeline) as session:
        (found,) = rows(session, named_sql("operations/metrics"), [batch_id])
    lag = sum(max(p.lag, 0) for p in status(pipeline).partitions)
    seconds = {step: found[step] for step in _STEPS if found[step] is not None}
    return BatchMetrics(lag, found["records"] or 0, found["quarantined"] or 0, seconds)

"""Metrics of a committed batch and of its pipeline's lag, for monitoring."""

import logging
from dataclasses import dataclass

from offset_ledger.config.model import Pipeline
from offset_ledger.errors import OffsetLedgerError
from offset_ledger.ledger.database import Session, named_sql, open_ledger, rows
from offset_ledger.standing.status import status

log = logging.getLogger(__name__)

_STEPS = ("stage", "validate", "commit")


@dataclass(frozen=True, slots=True)
class BatchMetrics:
    """``lag`` is in offsets, None if the broker does not say; ``seconds`` are by step, without steps that did not run,
    as for a skipped loss.
    """

    lag: int | None
    records: int
    quarantined: int
    seconds: dict[str, float]


def batch_metrics(pipeline: Pipeline, batch_id: int, session: Session | None = None) -> BatchMetrics:
    """Return the metrics of the batch from the ledger, and the remaining lag from the broker."""
    with open_ledger(pipeline, session) as session:
        (metrics,) = rows(session, named_sql("standing/metrics"), [batch_id])
        try:
            lag = sum(each.lag for each in status(pipeline, session).partitions)
        except OffsetLedgerError as error:
            log.warning("the lag of pipeline %s is not known: %s", pipeline.name, error)
            lag = None
    seconds = {step: metrics[step] for step in _STEPS if metrics[step] is not None}
    return BatchMetrics(lag, metrics["records"] or 0, metrics["quarantined"] or 0, seconds)

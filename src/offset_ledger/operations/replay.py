"""Replay: offset ranges, or a window of record timestamps, read again in one batch of their own."""

from __future__ import annotations

from collections.abc import Callable

from offset_ledger.config.model import Pipeline
from offset_ledger.errors import ConfigurationError
from offset_ledger.model.batch import Origin
from offset_ledger.model.request import Request
from offset_ledger.operations.ingest import Ingested, run_batch
from offset_ledger.operations.requests import wanted_ranges
from offset_ledger.plan.step import plan_replay


def replay(pipeline: Pipeline, request: Request, origin: Origin, say: Callable[[str], None]) -> Ingested:
    """Plan what the request names and take it through every step.

    Raises:
        ConfigurationError: there is nothing to read in it.
        OffsetExpired, BatchRejected, TransientError: as the steps.
    """
    ranges, notes = wanted_ranges(pipeline, request)
    if not ranges:
        raise ConfigurationError(notes)
    why = "; ".join(filter(None, [request.why, notes])) or None
    planned = plan_replay(pipeline, ranges, origin, request.kind, why, request.key)
    say("; ".join(filter(None, [planned.message, notes])))
    return run_batch(pipeline, planned, origin, say)

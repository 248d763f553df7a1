"""The deadline alert: a run that has not ended within the pipeline's ``freshness``."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from offset_ledger.config.model import Pipeline

log = logging.getLogger(__name__)


def freshness_alert(pipeline: Pipeline) -> DeadlineAlert | None:
    """The alert of the pipeline; None if its file sets no ``freshness``."""
    if pipeline.freshness is None:
        return None
    arguments: dict[str, Any] = {"pipeline": pipeline.name, "seconds": int(pipeline.freshness.total_seconds())}
    if pipeline.notify:
        arguments["file"] = str(pipeline.path)
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=pipeline.freshness,
        callback=AsyncCallback(late, kwargs=arguments),
        name=f"freshness of {pipeline.name}",
    )


async def late(pipeline: str, seconds: int, context: Any = None, file: str | None = None, **_: Any) -> None:
    """Say in one line, in the triggerer's log, which run is late, and notify where the file asks for it."""
    run = (context or {}).get("dag_run") or {}
    run_id = run.get("dag_run_id") or run.get("run_id") if isinstance(run, dict) else run
    log.warning("pipeline %s is not fresh: run %s has not ended %d s after it was queued", pipeline, run_id, seconds)
    if file:
        from offset_ledger.airflow.occasions import not_fresh

        await asyncio.to_thread(not_fresh, file, str(run_id))  # what it asks blocks

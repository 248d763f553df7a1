"""The deadline alert: a run that has not ended within the pipeline's ``freshness``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from offset_ledger.config.model import Pipeline
from offset_ledger.config.outline import outline

log = logging.getLogger(__name__)


def freshness_alert(pipeline: Pipeline) -> DeadlineAlert | None:
    """The alert of the pipeline; None if its file sets no ``freshness``."""
    if pipeline.freshness is None:
        return None
    arguments: dict[str, Any] = {"pipeline": pipeline.name, "seconds": int(pipeline.freshness.total_seconds())}
    if pipeline.notify:
        arguments["known"] = outline(pipeline)
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=pipeline.freshness,
        callback=AsyncCallback(late, kwargs=arguments),
        name=f"freshness of {pipeline.name}",
    )


async def late(
    pipeline: str, seconds: int, context: Any = None, known: Mapping[str, Any] | None = None, **_: Any
) -> None:
    """Say in one line, in the triggerer's log, which run is late, and notify where the pipeline file asks for it."""
    run = (context or {}).get("dag_run") or {}
    run_id = run.get("dag_run_id") or run.get("run_id") if isinstance(run, dict) else run
    log.warning("pipeline %s is not fresh: run %s has not ended %d s after it was queued", pipeline, run_id, seconds)
    if known:
        from offset_ledger.airflow.occasions import not_fresh

        await asyncio.to_thread(not_fresh, known, str(run_id), seconds)  # what it asks blocks

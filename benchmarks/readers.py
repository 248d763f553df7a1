"""The engine that a benchmark stages with."""

from __future__ import annotations

from typing import Any

from offset_ledger.model.batch import Engine, EngineChoice
from offset_ledger.steps.stage.readers import ProcessReader, SparkReader
from offset_ledger.steps.stage.step import Reader


def reader_of(spark: Any) -> Reader:
    """By this Spark session; without one, by this process."""
    reason = "a benchmark"
    if spark is None:
        return ProcessReader(EngineChoice(Engine.PROCESS, reason))
    return SparkReader(spark, EngineChoice(Engine.SPARK, reason))

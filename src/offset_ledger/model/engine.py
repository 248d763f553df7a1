"""The engine that stages a batch: tasks of Spark, or the process of the step itself. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from offset_ledger.base.units import counted
from offset_ledger.pipeline_file.pipeline import StageEngine


class Engine(StrEnum):
    """The process that reads the slices of a batch and copies them into staging; both run the same code for a slice."""

    SPARK = "spark"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """An engine, and why it was chosen, as a person reads it."""

    engine: Engine
    reason: str

    def __str__(self) -> str:
        return f"by {'Spark' if self.engine is Engine.SPARK else 'this process'} ({self.reason})"


FROM_QUARANTINE = EngineChoice(Engine.PROCESS, "a redrive reads quarantine, not Kafka")


def choose(asked: StageEngine, offsets: int, can: bool, below: int) -> EngineChoice:
    """Return the engine for a batch of ``offsets``, given what the pipeline file asks for.

    ``can``: whether Spark is installed. Where the file asks for Spark, it is chosen even if not, so that its absence is
    an error and not a surprise. ``below``: a batch of fewer offsets is not worth a Spark job.
    """
    if asked is not StageEngine.AUTO:
        return EngineChoice(Engine(asked.value), f"stage.engine: {asked}")
    size, limit = counted(offsets, "offset"), f"stage.process_below: {below:,}"
    if offsets < below:
        return EngineChoice(Engine.PROCESS, f"{size}, fewer than {limit}")
    if not can:
        return EngineChoice(Engine.PROCESS, "Spark is not installed: pip install 'offset-ledger[spark]'")
    return EngineChoice(Engine.SPARK, f"{size}, at least {limit}")

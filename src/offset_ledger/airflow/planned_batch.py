"""The subject of the tasks of a DAG run: the pipeline of their file and topic, and the batch that was planned."""

from pathlib import Path
from typing import Any

from offset_ledger.config.model import Pipeline
from offset_ledger.config.parse import parse_pipeline
from offset_ledger.ids import APPROVE_LOSS, PLAN


def read_pipeline(file: Path | str, topic: str | None) -> Pipeline:
    """The pipeline as its file is now; of one topic, where the file reads several.

    Raises:
        PipelineFileError: the file has mistakes.
    """
    pipeline = parse_pipeline(Path(file))
    return pipeline.of_topic(topic) if topic else pipeline


def batch_id_of(ti: Any) -> int | None:
    """The batch that this run, or its group of tasks of one topic, is about: planned at once or after an approved loss.

    In this order: a run that is cleared may still have what its question once led to.
    """
    return planned_at_once(ti) or _pull(ti, APPROVE_LOSS)


def planned_at_once(ti: Any) -> int | None:
    """The batch that was planned without a question about a loss."""
    return _pull(ti, PLAN)


def _pull(ti: Any, task_id: str) -> int | None:
    """The batch id that a task of the same group has returned for the same topic."""
    group, dot, _ = ti.task_id.rpartition(".")
    batch_id = ti.xcom_pull(task_ids=f"{group}{dot}{task_id}", map_indexes=ti.map_index)
    return int(batch_id) if batch_id else None

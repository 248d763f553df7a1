"""The frame of every task: the pipeline of its file and topic, its batch, and errors translated to Airflow's."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from offset_ledger.base.ids import APPROVE_LOSS, PLAN
from offset_ledger.errors import ContradictoryRequest, IncompleteStaging, OffsetLedgerError, TerminalError
from offset_ledger.model.batch import current_origin
from offset_ledger.outside.connections import get_connection
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Pipeline


def read_pipeline(file: Path | str, topic: str | None) -> Pipeline:
    """The pipeline as its file is now; of one topic, where the file reads several.

    Raises:
        PipelineFileError: the file has mistakes.
    """
    pipeline = parse_pipeline(Path(file))
    return pipeline.of_topic(topic) if topic else pipeline


def batch_id_of(ti: Any) -> int | None:
    """Return the batch of this run, or of its topic's group of tasks: planned at once or after an approved loss.

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


def as_airflow(error: OffsetLedgerError) -> AirflowException:
    """AirflowFailException (no retry) for a terminal error, AirflowException (retried) for a transient one."""
    kind = AirflowFailException if isinstance(error, TerminalError) else AirflowException
    return kind(error.named)


@contextmanager
def airflow_failures() -> Iterator[None]:
    """Raise the package's errors from the block as Airflow's.

    A retry of a step after stage cannot fix incomplete staging: the task fails at once, and the next run, or clearing
    stage, stages the open batch again.
    """
    try:
        yield
    except IncompleteStaging as error:
        raise AirflowFailException(f"{error.named}; clear the task stage with what follows it") from error
    except ContradictoryRequest as error:
        raise as_airflow(error) from None  # a mistake in the form: the log shows one line, not two tracebacks
    except OffsetLedgerError as error:
        raise as_airflow(error) from error


@contextmanager
def at_batch(file: Path | str, topic: str | None, batch_id: int) -> Iterator[Pipeline]:
    """Yield the pipeline for a step at this batch; errors as Airflow's, also if a run outside of it has the batch."""
    from offset_ledger.postgres.ledger import fencing

    with airflow_failures():
        pipeline = read_pipeline(file, topic)
        with fencing.alone_at(get_connection(pipeline.target.connection), batch_id, current_origin()):
            yield pipeline

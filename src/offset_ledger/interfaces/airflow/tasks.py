"""The tasks that every kind of batch ends with: validate, the question about a rejected one, commit, report."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import TriggerRule, get_current_context, task, task_group
from airflow.sdk.exceptions import AirflowSkipException

from offset_ledger.base import ids
from offset_ledger.interfaces.airflow.assets import table_asset, topic_assets
from offset_ledger.interfaces.airflow.callbacks import callbacks
from offset_ledger.interfaces.airflow.gates import BatchGate
from offset_ledger.interfaces.airflow.operators import CommitOperator, ValidateOperator
from offset_ledger.interfaces.airflow.steps import airflow_failures, batch_id_of, read_pipeline
from offset_ledger.model.questions import QuestionAnswer
from offset_ledger.pipeline_file.pipeline import Pipeline


def default_args(pipeline: Pipeline) -> dict[str, Any]:
    """Return owner and retries of a pipeline's tasks; a terminal error is not tried again."""
    return {
        "owner": pipeline.owner,
        "retries": 3,
        "retry_delay": timedelta(seconds=30),
        "retry_exponential_backoff": True,
        "max_retry_delay": timedelta(minutes=10),
        **callbacks(pipeline),
    }


def for_each_topic(pipeline: Pipeline, tasks: Callable[[Any], object], topics: Callable[[], Any]) -> None:
    """The tasks; of a pipeline file with several topics a group of them for each that the task ``topics`` returns."""
    if not pipeline.source.several:
        tasks(None)
        return

    @task_group(group_id=ids.TOPIC)
    def of_topic(topic: str) -> None:
        tasks(topic)

    of_topic.expand(topic=topics())


def after_a_question(topic: Any) -> TriggerRule:
    """Return the trigger rule of a task that a question may precede.

    In a mapped group Airflow would wait with the usual rule until the questions of all topics have been answered. With
    this one the task skips itself if there is nothing to do.
    """
    return TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS if topic is None else TriggerRule.NONE_FAILED


def about(pipeline: Pipeline, topic: Any) -> dict[str, Any]:
    """Return an operator's arguments about its pipeline; Airflow shows the tasks of a topic's group by the topic."""
    shown = None if topic is None else "{{ task.topic }}"
    return {"pipeline_file": str(pipeline.path), "topic": topic, "map_index_template": shown}


def shown_by(topic: Any) -> str | None:
    """The ``map_index_template`` of a task that is a function with the keyword ``topic``."""
    return None if topic is None else "{{ task.op_kwargs['topic'] }}"


def after_staging(pipeline: Pipeline, topic: Any) -> ValidateOperator:
    """Add everything from the quality gate on, in order; return the first task."""
    path = pipeline.path
    file = about(pipeline, topic)
    validate = ValidateOperator(task_id=ids.VALIDATE, question=ids.APPROVE_BATCH, **file)
    verdict = BatchGate(
        task_id=ids.APPROVE_BATCH,
        answers=(QuestionAnswer.APPROVE, QuestionAnswer.ABANDON, QuestionAnswer.REJECT),
        answer_within=pipeline.answer_within,
        approvers=pipeline.approvers,
        **file,
    )
    commit = CommitOperator(
        task_id=ids.COMMIT,
        inlets=topic_assets(pipeline),
        outlets=[table_asset(pipeline)],
        trigger_rule=after_a_question(topic),
        **file,
    )
    validate >> [verdict, commit]
    verdict >> commit >> _report(path, topic)
    if pipeline.quality.dead_letter_topic:
        commit >> _dead_letters(path, topic)
    return validate


def _report(path: Path, of: Any) -> Any:
    @task(task_id=ids.REPORT, map_index_template=shown_by(of))
    def report_batch(topic: str | None) -> str:
        from offset_ledger.interfaces.airflow.metrics import measure
        from offset_ledger.steps.run.ingest import finish

        batch_id = batch_id_of(get_current_context()["ti"])
        assert batch_id is not None
        with airflow_failures():
            page = finish(read_pipeline(path, topic), batch_id, measure=measure)
        if page is None:  # the batch is committed: a page that could not be written does not fail its run
            raise AirflowSkipException(f"no page of batch {batch_id} was written; the log above says why")
        return str(page)

    return report_batch(topic=of)


def _dead_letters(path: Path, of: Any) -> Any:
    @task(task_id=ids.DEAD_LETTERS, map_index_template=shown_by(of))
    def deliver_dead_letters(topic: str | None) -> None:
        from offset_ledger.steps.report.dead_letters import deliver

        with airflow_failures():
            print(deliver(read_pipeline(path, topic)))

    return deliver_dead_letters(topic=of)

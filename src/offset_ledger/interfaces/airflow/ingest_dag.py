"""The ingest DAG of a pipeline: the steps, and two questions in Required Actions."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow.sdk import (
    DAG,
    Asset,
    AssetOrTimeSchedule,
    AssetWatcher,
    CronDataIntervalTimetable,
    get_current_context,
    task,
)

from offset_ledger.base import ids
from offset_ledger.interfaces.airflow.callbacks import freshness_alert
from offset_ledger.interfaces.airflow.form import form, request_of
from offset_ledger.interfaces.airflow.gates import LossGate
from offset_ledger.interfaces.airflow.operators import PlanOperator, StageAheadOperator, StageOperator
from offset_ledger.interfaces.airflow.steps import airflow_failures
from offset_ledger.interfaces.airflow.tasks import about, after_a_question, after_staging, default_args, for_each_topic
from offset_ledger.model.questions import QuestionAnswer
from offset_ledger.pipeline_file.outline import outline
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Pipeline

DOC = """
### {name}

{description}

`{topic}` into table `{table}`, exactly once. Each run commits one batch:

1. **plan** snapshots the topic up to its last stable offset and writes the batch's offset ranges into the ledger; an
   open batch is resumed. It skips the run, with the reason, when nothing is new. The trigger form asks for something
   else: a time window or offset ranges again, a dry run, or a decision. A backfill run reads its data interval.
2. **approve_loss** asks in Required Actions what to do if offsets were lost, the topic was recreated, one of several
   topics was deleted, or a new schema does not fit the columns.
3. **stage** reads exactly these ranges, by tasks of Spark unless the batch is small, decodes every record strictly
   and copies it into staging.
4. **validate** validates the staged rows with the suite `{suite}`; a failed gate rejects the batch.
5. **approve_batch** asks in Required Actions about a rejected batch.
6. **commit** merges rows, quarantine, balance sheet and cursors in one Postgres transaction.
7. **report** renders the quality page, sets the consumer group `offset-ledger.{name}` to the cursors and sends metrics.

{more}Clearing and rerunning any task is safe: the ledger decides what is left to do.
"""

AHEAD = """Of a backlog, **stage_ahead** stages the next batch while this one is validated and committed; the next run
commits it.

"""
SEVERAL = """Each topic has these tasks, and a batch, of its own: one that waits for a person does not keep the others
from it.

"""


def build_ingest_dag(pipeline: Pipeline) -> DAG:
    """The DAG of one pipeline."""
    cron = CronDataIntervalTimetable(pipeline.schedule, timezone="UTC") if pipeline.schedule else None
    schedule: Any = cron
    if pipeline.wake_on_data:
        from offset_ledger.interfaces.airflow.triggers import NewRecords

        name = f"new_records_{pipeline.name}"
        watcher = AssetWatcher(name=name, trigger=NewRecords(outline(pipeline)))
        news = [Asset(name=name, uri=f"offset-ledger://{pipeline.name}/new", watchers=[watcher])]
        schedule = AssetOrTimeSchedule(timetable=cron, assets=news) if cron else news
    with DAG(
        dag_id=ids.ingest_dag(pipeline.name),
        schedule=schedule,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        # While a run waits for an approval, other runs must be able to decide and to read windows again. Only one run
        # works on the head batch: plan skips while another one does.
        max_active_runs=4,
        params=form(pipeline.source.several),
        description=pipeline.description,
        doc_md=DOC.format(
            name=pipeline.name,
            description=pipeline.description,
            topic=pipeline.source.topic_names,
            more=SEVERAL if pipeline.source.several else AHEAD,
            table=pipeline.target.name,
            suite=pipeline.quality.suite,
        ),
        tags=["offset-ledger", *pipeline.tags],
        deadline=freshness_alert(pipeline),
        default_args=default_args(pipeline),
    ) as dag:
        for_each_topic(pipeline, lambda topic: _tasks(pipeline, topic), lambda: _topics(pipeline.path))
    return dag


def _topics(path: Path) -> Any:
    @task(task_id=ids.TOPICS)
    def find_topics() -> list[str]:
        from offset_ledger.steps.run.requests import requested_topics

        with airflow_failures():
            pipelines = requested_topics(parse_pipeline(path), request_of(get_current_context()))
        return [each.source.topic for each in pipelines]

    return find_topics()


def _tasks(pipeline: Pipeline, topic: Any) -> None:
    file = about(pipeline, topic)
    plan = PlanOperator(task_id=ids.PLAN, question=ids.APPROVE_LOSS, **file)
    loss = LossGate(
        task_id=ids.APPROVE_LOSS,
        answers=(QuestionAnswer.APPROVE, QuestionAnswer.REJECT),
        answer_within=pipeline.answer_within,
        approvers=pipeline.approvers,
        **file,
    )
    spark = {"spark": pipeline.spark, "name": f"stage_{pipeline.name}", **file}
    stage = StageOperator(task_id=ids.STAGE, trigger_rule=after_a_question(topic), **spark)
    plan >> [loss, stage]
    loss >> stage >> after_staging(pipeline, topic)
    if topic is None:  # of several topics the others are staged meanwhile
        [plan, stage] >> StageAheadOperator(task_id=ids.STAGE_AHEAD, **spark)

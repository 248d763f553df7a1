"""One ingest DAG for each pipeline file in dags/pipelines/: plan, stage, validate, commit, report."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, CronDataIntervalTimetable, get_current_context, task
from airflow.sdk.exceptions import AirflowSkipException

from offset_ledger.airflow.failures import airflow_failures
from offset_ledger.airflow.operators import StageOperator
from offset_ledger.airflow.tasks import dead_letters_task
from offset_ledger.pipeline.parse import parse_pipeline

PIPELINES = Path(__file__).parent / "pipelines"

DOC = """
### {name}

{description}

Topic `{topic}` into table `{table}`, exactly once. Each run commits one batch:

1. **plan** snapshots the topic up to its last stable offset and writes the batch's offset ranges into the ledger; an
   open batch is resumed. It skips the run, with the reason, when nothing is new.
2. **stage** reads exactly these ranges with Spark, decodes every record strictly and copies it into staging.
3. **validate** judges the staged rows with the suite `{suite}`; a failed gate rejects the batch.
4. **commit** merges rows, quarantine, balance sheet and cursors in one Postgres transaction.
5. **report** renders the quality page.

Clearing and rerunning any task is safe: the ledger decides what is left to do.
"""


def build(path: Path) -> DAG:
    """The DAG of one pipeline file."""
    pipeline = parse_pipeline(path)
    table = f"{pipeline.target.schema}.{pipeline.target.table}"
    asset = Asset(name=f"{pipeline.name}:{table}", uri=f"offset-ledger://{pipeline.name}/{table}")
    with DAG(
        dag_id=f"ingest_{pipeline.name}",
        schedule=CronDataIntervalTimetable(pipeline.schedule, timezone="UTC") if pipeline.schedule else None,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        description=pipeline.description,
        doc_md=DOC.format(
            name=pipeline.name,
            description=pipeline.description,
            topic=pipeline.source.topic,
            table=table,
            suite=pipeline.quality.suite,
        ),
        tags=["offset-ledger", *pipeline.tags],
        default_args={
            "owner": pipeline.owner,
            "retries": 3,
            "retry_delay": timedelta(seconds=30),
            "retry_exponential_backoff": True,
            "max_retry_delay": timedelta(minutes=10),
        },
    ) as dag:
        batch_id = _plan(path)
        stage = StageOperator(
            task_id="stage",
            pipeline_file=str(path),
            connections=[pipeline.source.connection, pipeline.target.connection],
            conn_id="spark_default",
            name=f"stage_{pipeline.name}",
        )
        batch_id >> stage >> _validate(path, batch_id) >> _commit(path, batch_id, asset) >> _report(path, batch_id)
        if pipeline.quality.dead_letter_topic:
            dag.get_task("report") >> dead_letters_task(path)
    return dag


def _plan(path: Path) -> Any:
    @task(task_id="plan")
    def plan_batch() -> int:
        from offset_ledger.ledger.batches import here
        from offset_ledger.steps.plan import plan

        with airflow_failures():
            planned = plan(parse_pipeline(path), here())
        if planned.batch is None:
            raise AirflowSkipException(planned.message)
        print(planned.message)
        return planned.batch.batch_id

    return plan_batch()


def _validate(path: Path, batch_id: Any) -> Any:
    @task(task_id="validate")
    def validate_batch(batch_id: int) -> None:
        from offset_ledger.ledger.batches import here
        from offset_ledger.steps.validate import pass_gate

        with airflow_failures():
            batch = pass_gate(parse_pipeline(path), batch_id, here())
        print(f"{batch} passed")

    return validate_batch(batch_id)


def _commit(path: Path, batch_id: Any, asset: Asset) -> Any:
    @task(task_id="commit", outlets=[asset])
    def commit_batch(batch_id: int) -> None:
        from offset_ledger.ledger.batches import here
        from offset_ledger.steps.commit import commit

        with airflow_failures():
            committed = commit(parse_pipeline(path), batch_id, here())
        get_current_context()["outlet_events"][asset].extra = {
            "batch_id": batch_id,
            "kind": committed.batch.kind.value,
            "ranges": {str(r.partition): [r.from_offset, r.until_offset] for r in committed.batch.ranges},
            "counts": asdict(committed.total),
        }
        print(f"committed batch {batch_id}: {committed.total}")

    return commit_batch(batch_id)


def _report(path: Path, batch_id: Any) -> Any:
    @task(task_id="report")
    def report_batch(batch_id: int) -> str:
        from offset_ledger.steps.report import report

        with airflow_failures():
            page = report(parse_pipeline(path), batch_id)
        if page is None:  # the batch is committed: a page that could not be written does not fail its run
            raise AirflowSkipException(f"no page of batch {batch_id} was written; the log above says why")
        return str(page)

    return report_batch(batch_id)


globals().update({dag.dag_id: dag for dag in map(build, sorted(PIPELINES.glob("*.yaml")))})

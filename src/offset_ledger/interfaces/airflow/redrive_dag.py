"""The redrive DAG of a pipeline: tries quarantined records again, or dismisses them, by hand, with a form."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param, get_current_context, task
from airflow.sdk.exceptions import AirflowSkipException

from offset_ledger.base import ids
from offset_ledger.errors import ContradictoryRequest
from offset_ledger.interfaces.airflow.form import TOPIC, by_person, optional
from offset_ledger.interfaces.airflow.steps import airflow_failures, at_batch, read_pipeline
from offset_ledger.interfaces.airflow.tasks import after_staging, default_args, for_each_topic, shown_by
from offset_ledger.model.batch import current_origin
from offset_ledger.model.request import QuarantineAction, parse_quarantine_request
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Pipeline

DOC = """
### Redrive {name}

Tries records in the quarantine of `{name}` again. Trigger it after the decoder, the pipeline file or the suite
`{suite}` was corrected.

1. **plan** freezes the chosen records as a batch of kind `redrive`; the open batch of the same choice is resumed. It
   skips the run when no unresolved record is chosen.
2. **stage** decodes the bytes that quarantine kept, as today's pipeline file says.
3. **validate** validates the rows with today's suite.
4. **approve_batch** asks in Required Actions about a rejected batch.
5. **commit** merges what passes into `{table}`, where a newer row stays, and marks it as resolved. What fails again
   stays in quarantine, with its new reasons beside the old ones.
6. **report** renders the quality page.

Cursors do not move, and neither Kafka nor Spark is needed.

With the action `dismiss` the run instead marks records as never to be loaded, with a reason, and with
`undo_dismissal` it takes that back; **plan** does it, and the other tasks are skipped.
"""

CHOICE = "Which records"
RECORDS = "Records to dismiss (actions dismiss, undo_dismissal)"

# Dismissing is an action of this DAG: a route of the ledger page would need rights, CSRF tokens and an audit log of its
# own, and users of the page have no shell.
PARAMS = {
    "action": Param(
        QuarantineAction.REDRIVE.value,
        type="string",
        enum=[str(action) for action in QuarantineAction],
        title="Action",
        description="redrive: try the records again. dismiss: they will never be loaded. undo_dismissal: take that "
        "back.",
        values_display={"redrive": "redrive", "dismiss": "dismiss", "undo_dismissal": "undo a dismissal"},
    ),
    "reason": optional(
        "string",
        "Reason",
        "Only records refused for this reason code, such as precision or expect_column_values_to_be_in_set; "
        "`offset-ledger quarantine list PIPELINE` lists them.",
        section=CHOICE,
    ),
    "since": optional(
        "string",
        "Quarantined since",
        "Only records that were quarantined at or after this moment.",
        format="date-time",
        section=CHOICE,
    ),
    "limit": optional(
        "integer",
        "Limit",
        "Maximum number of records, up to limits.records_per_batch. Records not tried yet come first.",
        minimum=1,
        section=CHOICE,
    ),
    "partition": optional("integer", "Partition", "Of these offsets.", minimum=0, section=RECORDS),
    "offsets": optional(
        "string",
        "Offsets",
        "One or more, with spaces between, such as 17 18. Without them the reason chooses the records.",
        section=RECORDS,
    ),
    "why": optional(
        "string", "Why", "Recorded in the ledger; required for dismiss and undo_dismissal.", section="For the record"
    ),
}


def build_redrive_dag(pipeline: Pipeline) -> DAG:
    """The redrive DAG of one pipeline."""
    path, table = pipeline.path, pipeline.target.name
    with DAG(
        dag_id=ids.redrive_dag(pipeline.name),
        schedule=None,
        is_paused_upon_creation=False,  # it has no schedule: a run is what a person asks for
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        description=f"Try quarantined records of {pipeline.name} again, or dismiss them",
        doc_md=DOC.format(name=pipeline.name, table=table, suite=pipeline.quality.suite),
        params={**PARAMS, **(TOPIC if pipeline.source.several else {})},
        tags=["offset-ledger", *pipeline.tags],
        default_args=default_args(pipeline),
    ) as dag:
        for_each_topic(
            pipeline,
            lambda topic: _stage(path, topic, _plan(path, topic)) >> after_staging(pipeline, topic),
            lambda: _topics(path),
        )
    return dag


def _topics(path: Path) -> Any:
    @task(task_id=ids.TOPICS)
    def find_topics() -> list[str]:
        from offset_ledger.steps.plan.topics import known_pipelines

        params = get_current_context()["params"]
        wanted = params["topic"]
        with airflow_failures():
            if not wanted and parse_quarantine_request(params).action is not QuarantineAction.REDRIVE:
                raise ContradictoryRequest("records are dismissed in one topic; name it in the field topic")
            topics = [each.source.topic for each in known_pipelines(parse_pipeline(path))]
            if wanted and wanted not in topics:
                raise ContradictoryRequest(f"topic {wanted} is not one of {', '.join(topics)}; name one of these")
        return [wanted] if wanted else topics

    return find_topics()


def _plan(path: Path, of: Any) -> Any:
    @task(task_id=ids.PLAN, map_index_template=shown_by(of))
    def plan_batch(topic: str | None) -> int:
        from offset_ledger.model.moments import parse_since
        from offset_ledger.postgres.ledger.redrive import Selection
        from offset_ledger.steps.run.redrive import dismiss, parse_choice, plan_redrive

        context = get_current_context()
        with airflow_failures():
            asked = parse_quarantine_request(context["params"])
            pipeline, person = read_pipeline(path, topic), by_person(context)
            if asked.action is not QuarantineAction.REDRIVE:
                selection = Selection(asked.partition, asked.offsets, asked.reason, parse_since(asked.since))
                undo = asked.action is QuarantineAction.UNDO
                raise AirflowSkipException(dismiss(pipeline, selection, person, asked.why, undo).message)
            choice = parse_choice(asked.reason, asked.since, asked.limit)
            planned = plan_redrive(pipeline, choice, person, asked.why or None)
        if planned.batch is None:
            raise AirflowSkipException(planned.message)
        print(planned.message)
        return planned.batch.batch_id

    return plan_batch(topic=of)


def _stage(path: Path, of: Any, batch_id: Any) -> Any:
    @task(task_id=ids.STAGE, map_index_template=shown_by(of))
    def stage_batch(topic: str | None, batch_id: int) -> None:
        from offset_ledger.steps.run.redrive import stage_redrive

        with at_batch(path, topic, batch_id) as pipeline:
            print(stage_redrive(pipeline, batch_id, current_origin()))

    return stage_batch(topic=of, batch_id=batch_id)

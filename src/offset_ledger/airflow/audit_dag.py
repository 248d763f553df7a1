"""The DAG that audits the topic of every pipeline once a day."""

import logging
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

from offset_ledger import ids
from offset_ledger.airflow.callbacks import audited
from offset_ledger.airflow.failures import airflow_failures
from offset_ledger.config.model import Pipeline
from offset_ledger.config.parse import parse_pipeline

DOC = """
### audit_topics

Checks the topic of each pipeline against the rules of `docs/audit.md`: copies, leaders, retention, sizes, timestamps,
transactions, groups. A task fails, without a retry, when a rule finds an **error**; warnings and what changed since the
last audit stand in its log. Every result is kept in `offset_ledger.topic_audit`.

Each finding names the command that fixes it. The same by hand: `offset-ledger audit PIPELINE`.
"""


def build_audit_dag(pipelines: Iterable[Pipeline]) -> DAG:
    """The DAG that audits the topics of these pipelines, a task for each."""
    with DAG(
        dag_id=ids.AUDIT_DAG,
        schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        description="Checks every pipeline's topic against the rules of reliability",
        doc_md=DOC,
        tags=["offset-ledger", "kafka"],
        default_args={"owner": "offset-ledger", "retries": 3, "retry_delay": timedelta(minutes=1)},
    ) as dag:
        for pipeline in pipelines:
            _audit(pipeline)
    return dag


def _audit(pipeline: Pipeline) -> Any:
    """The task of one pipeline."""
    path = pipeline.path

    @task(task_id=ids.audit_task(pipeline.name), owner=pipeline.owner)
    def audit_one() -> dict[str, int]:
        from offset_ledger.audit.finding import Severity
        from offset_ledger.audit.run import audit_pipeline
        from offset_ledger.plan.topics import find_pipelines

        with airflow_failures():
            file = parse_pipeline(path)
            audits = [audit_pipeline(each) for each in find_pipelines(file, record=False)]
        for audit in audits if file.notify else ():
            audited(file, audit, get_current_context())
        log = logging.getLogger("offset_ledger.audit")
        problems = []
        for audit in audits:
            for finding in audit.failing(Severity.INFO):
                level = logging.INFO if finding.severity is Severity.INFO else logging.WARNING
                log.log(level, "%s %s: %s\n%s", finding.severity, finding.rule, finding.found, finding.remedy)
            for change in audit.changes:
                log.info("since the last audit, %s", change)
            if errors := [f"{finding.rule}: {finding.found}" for finding in audit.failing(Severity.ERROR)]:
                problems.append(f"topic {audit.topic}: {'; '.join(errors)}")
        if problems:
            raise AirflowFailException(f"{'; '.join(problems)}; the log has the remedies")
        severities = [finding.severity for audit in audits for finding in audit.findings]
        return {severity.value: severities.count(severity) for severity in Severity}

    return audit_one()

"""One DAG that audits the topic of every pipeline once a day."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable, task
from airflow.sdk.exceptions import AirflowFailException

from offset_ledger.airflow.failures import airflow_failures
from offset_ledger.config.model import Pipeline
from offset_ledger.config.parse import parse_good, parse_pipeline

PIPELINES = Path(__file__).parent / "pipelines"

DOC = """
### audit_topics

Holds the topic of each pipeline against the rules of `docs/audit.md`: copies, leaders, retention, sizes, timestamps,
transactions, groups. A task fails, without a retry, when a rule finds an **error**; warnings and what changed since the
last audit stand in its log. Every result is kept in `offset_ledger.topic_audit`.

Each finding names the command that mends it. The same by hand: `offset-ledger audit PIPELINE`.
"""


def audit(pipeline: Pipeline) -> Any:
    """The task of one pipeline."""
    path = pipeline.path

    @task(task_id=f"audit_{pipeline.name}", owner=pipeline.owner)
    def audit_one() -> dict[str, int]:
        from offset_ledger.reliability.audit.finding import Severity
        from offset_ledger.reliability.audit.run import audit_pipeline

        log = logging.getLogger("offset_ledger.audit")
        with airflow_failures():
            done = audit_pipeline(parse_pipeline(path))
        for finding in done.failing(Severity.INFO):
            level = logging.INFO if finding.severity is Severity.INFO else logging.WARNING
            log.log(level, "%s %s: %s\n%s", finding.severity, finding.rule, finding.found, finding.remedy)
        for change in done.changes:
            log.info("since the last audit, %s", change)
        if errors := done.failing(Severity.ERROR):
            told = "; ".join(f"{finding.rule}: {finding.found}" for finding in errors)
            raise AirflowFailException(f"topic {done.topic}: {told}; the log has the remedies")
        return {severity.value: sum(f.severity is severity for f in done.findings) for severity in Severity}

    return audit_one()


with DAG(
    dag_id="audit_topics",
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    description="Holds every pipeline's topic against the rules of reliability",
    doc_md=DOC,
    tags=["offset-ledger", "kafka"],
    default_args={"owner": "offset-ledger", "retries": 3, "retry_delay": timedelta(minutes=1)},
) as dag:
    for each in parse_good(PIPELINES):
        audit(each)

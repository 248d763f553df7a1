"""The DAGs of a folder of pipeline files, by id, for the ``globals()`` of a file in Airflow's DAGs folder.

Two of them are about all pipelines, and run once a day: the audit of their topics, and the daily quality report, one
page with their metrics in an asset event.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from airflow.sdk import (
    DAG,
    Asset,
    Context,
    CronDataIntervalTimetable,
    Param,
    get_current_context,
    get_parsing_context,
    task,
)
from airflow.sdk.exceptions import AirflowFailException

from offset_ledger.base import ids
from offset_ledger.interfaces.airflow.callbacks import audited
from offset_ledger.interfaces.airflow.ingest_dag import build_ingest_dag
from offset_ledger.interfaces.airflow.redrive_dag import build_redrive_dag
from offset_ledger.interfaces.airflow.steps import airflow_failures
from offset_ledger.pipeline_file.parse import parse_good, parse_pipeline
from offset_ledger.pipeline_file.pipeline import Pipeline

AUDIT_DOC = """
### audit_topics

Checks the topic of each pipeline against the rules of `docs/audit.md`: copies, leaders, retention, sizes, timestamps,
transactions, groups. A task fails, without a retry, when a rule finds an **error**; warnings and what changed since the
last audit stand in its log. Every result is kept in `offset_ledger.topic_audit`.

Each finding names the command that fixes it. The same by hand: `offset-ledger kafka audit PIPELINE`.
"""

REPORT = Asset(name=ids.DAILY_REPORT_DAG, uri=f"offset-ledger://{ids.DAILY_REPORT_DAG}")

REPORT_DOC = """
### The daily quality report

Each night, for the day before (UTC): what became of the batches of every pipeline in `dags/pipelines/`, what went into
quarantine and why, which rules failed, and up to which record timestamp each pipeline is complete. One page a day,
`<reports>/_daily/<date>.html`; the metrics are in the `extra` of the asset event `daily_quality_report`.

It only reads the ledger: clearing and rerunning it, or a backfill over past days, changes no data.
"""


class _Dags(dict[str, DAG]):
    """DAGs by id. A task builds its own, and another only if it is looked up."""

    def __init__(self, builders: Mapping[str, Callable[[], DAG]]) -> None:
        self._builders = builders
        of_task = get_parsing_context().dag_id
        super().__init__({each: build() for each, build in builders.items() if of_task in (None, each)})

    def __missing__(self, dag_id: str) -> DAG:
        self[dag_id] = self._builders[dag_id]()
        return self[dag_id]


def _for_each(
    pipelines: Iterable[Pipeline], dag_id: Callable[[str], str], build: Callable[[Pipeline], DAG]
) -> dict[str, Callable[[], DAG]]:
    return {dag_id(each.name): partial(build, each) for each in pipelines}


def all_dags(folder: Path) -> dict[str, DAG]:
    """Return every DAG for the pipeline files of a folder: ingest and redrive of each, the audit, the daily report.

    A file with mistakes has none, and does not affect the others (see ``parse_all``).
    """
    pipelines = parse_good(folder)
    return _Dags(
        {
            **_for_each(pipelines, ids.ingest_dag, build_ingest_dag),
            **_for_each(pipelines, ids.redrive_dag, build_redrive_dag),
            ids.AUDIT_DAG: partial(build_audit_dag, pipelines),
            ids.DAILY_REPORT_DAG: partial(build_daily_report_dag, folder),
        }
    )


def ingest_dags(folder: Path) -> dict[str, DAG]:
    """An ingest DAG for each pipeline file in the folder; a file with mistakes has none (see ``parse_all``)."""
    return _Dags(_for_each(parse_good(folder), ids.ingest_dag, build_ingest_dag))


def redrive_dags(folder: Path) -> dict[str, DAG]:
    """A redrive DAG for each pipeline file in the folder; a file with mistakes has none (see ``parse_all``)."""
    return _Dags(_for_each(parse_good(folder), ids.redrive_dag, build_redrive_dag))


def audit_dags(folder: Path) -> dict[str, DAG]:
    """The DAG that audits the topic of each pipeline in the folder."""
    return _Dags({ids.AUDIT_DAG: partial(build_audit_dag, parse_good(folder))})


def daily_report_dags(folder: Path) -> dict[str, DAG]:
    """The DAG of the daily quality report over the pipelines in the folder."""
    return _Dags({ids.DAILY_REPORT_DAG: partial(build_daily_report_dag, folder)})


def build_audit_dag(pipelines: Iterable[Pipeline]) -> DAG:
    """The DAG that audits the topics of these pipelines, a task for each."""
    with DAG(
        dag_id=ids.AUDIT_DAG,
        schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        description="Checks every pipeline's topic against the rules of reliability",
        doc_md=AUDIT_DOC,
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
        from offset_ledger.operations.audit.finding import Severity
        from offset_ledger.operations.audit.run import audit_pipeline
        from offset_ledger.steps.plan.topics import find_pipelines

        with airflow_failures():
            file = parse_pipeline(path)
            audits = [audit_pipeline(each) for each in find_pipelines(file, record=False)]
        for audit in audits if file.notify else ():
            audited(file, audit, get_current_context())
        log = logging.getLogger("offset_ledger.operations.audit")
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


def day_of(context: Context) -> date:
    """The day of the form, else that of the data interval; a run by hand may have none: then yesterday."""
    if asked := (context.get("params") or {}).get("date"):
        return date.fromisoformat(str(asked))
    start = context.get("data_interval_start")
    return start.date() if start else (datetime.now(UTC) - timedelta(days=1)).date()


def build_daily_report_dag(folder: Path) -> DAG:
    """The DAG that reports each day on the pipelines whose files are in ``folder`` on that day."""
    with DAG(
        dag_id=ids.DAILY_REPORT_DAG,
        schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        description="What became of every pipeline's batches on one day",
        doc_md=REPORT_DOC,
        tags=["offset-ledger", "quality"],
        params={
            "date": Param(
                None,
                type=["null", "string"],
                format="date",
                title="Day",
                description="In UTC; the day before, if empty",
            )
        },
        default_args={"owner": "offset-ledger", "retries": 3, "retry_delay": timedelta(minutes=5)},
    ) as dag:

        @task(task_id=ids.REPORT, outlets=[REPORT])
        def report_day() -> str:
            from offset_ledger.steps.report.step import daily_report

            context = get_current_context()
            with airflow_failures():
                made = daily_report(parse_good(folder), day_of(context))
            context["outlet_events"][REPORT].extra = {"date": made.day.isoformat(), "pipelines": made.metrics}
            return str(made.page)

        report_day()
    return dag

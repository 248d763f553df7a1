"""The DAG of the daily quality report: one page a day over all pipelines, and their metrics in an asset event."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, Asset, Context, CronDataIntervalTimetable, Param, get_current_context, task

from offset_ledger import ids
from offset_ledger.airflow.failures import airflow_failures

REPORT = Asset(name=ids.DAILY_REPORT_DAG, uri=f"offset-ledger://{ids.DAILY_REPORT_DAG}")

DOC = """
### The daily quality report

Each night, for the day before (UTC): what became of the batches of every pipeline in `dags/pipelines/`, what went into
quarantine and why, which rules failed, and up to which record timestamp each pipeline is complete. One page a day,
`<reports>/_daily/<date>.html`; the metrics are in the `extra` of the asset event `daily_quality_report`.

It only reads the ledger: clearing and rerunning it, or a backfill over past days, changes no data.
"""


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
        doc_md=DOC,
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
            from offset_ledger.config.parse import parse_good
            from offset_ledger.report.step import daily_report

            context = get_current_context()
            with airflow_failures():
                made = daily_report(parse_good(folder), day_of(context))
            context["outlet_events"][REPORT].extra = {"date": made.day.isoformat(), "pipelines": made.metrics}
            return str(made.page)

        report_day()
    return dag

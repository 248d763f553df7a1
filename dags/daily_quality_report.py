"""The Airflow DAG of the daily quality report: one page a day over all pipelines."""

from pathlib import Path

from offset_ledger import daily_report_dags

globals().update(daily_report_dags(Path(__file__).parent / "pipelines"))

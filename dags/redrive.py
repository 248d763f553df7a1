"""An Airflow redrive DAG for each pipeline file in dags/pipelines/."""

from pathlib import Path

from offset_ledger import redrive_dags

globals().update(redrive_dags(Path(__file__).parent / "pipelines"))

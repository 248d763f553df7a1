"""An Airflow ingest DAG for each pipeline file in dags/pipelines/."""

from pathlib import Path

from offset_ledger import ingest_dags

globals().update(ingest_dags(Path(__file__).parent / "pipelines"))

"""One Airflow DAG that audits the topic of every pipeline once a day."""

from pathlib import Path

from offset_ledger import audit_dags

globals().update(audit_dags(Path(__file__).parent / "pipelines"))

"""The DAGs of a folder of pipeline files, by id: what a file in Airflow's DAGs folder puts into its ``globals()``."""

from pathlib import Path

from airflow.sdk import DAG

from offset_ledger.airflow.audit_dag import build_audit_dag
from offset_ledger.airflow.daily_report_dag import build_daily_report_dag
from offset_ledger.airflow.ingest_dag import build_ingest_dag
from offset_ledger.airflow.redrive_dag import build_redrive_dag
from offset_ledger.config.parse import parse_good


def ingest_dags(folder: Path) -> dict[str, DAG]:
    """An ingest DAG for each pipeline file in the folder; a file with mistakes has none (see ``parse_all``)."""
    return {dag.dag_id: dag for dag in map(build_ingest_dag, parse_good(folder))}


def redrive_dags(folder: Path) -> dict[str, DAG]:
    """A redrive DAG for each pipeline file in the folder; a file with mistakes has none (see ``parse_all``)."""
    return {dag.dag_id: dag for dag in map(build_redrive_dag, parse_good(folder))}


def audit_dags(folder: Path) -> dict[str, DAG]:
    """The DAG that audits the topic of each pipeline in the folder."""
    dag = build_audit_dag(parse_good(folder))
    return {dag.dag_id: dag}


def daily_report_dags(folder: Path) -> dict[str, DAG]:
    """The DAG of the daily quality report over the pipelines in the folder."""
    dag = build_daily_report_dag(folder)
    return {dag.dag_id: dag}

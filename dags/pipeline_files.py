"""No DAG: Airflow shows here, as an import error, what is wrong in pipeline files; the other pipelines keep theirs."""

from pathlib import Path

from offset_ledger import parse_all

parse_all(Path(__file__).parent / "pipelines")

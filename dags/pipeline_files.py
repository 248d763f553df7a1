"""No DAG: Airflow shows here, as an import error, what is wrong in pipeline files; the other pipelines keep theirs."""

from __future__ import annotations

from pathlib import Path

from offset_ledger.config.parse import parse_all

parse_all(Path(__file__).parent / "pipelines")

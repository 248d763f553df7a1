"""The settings of the local stack's Airflow."""

from __future__ import annotations

from pathlib import Path

from offset_ledger_kit.sandbox.airflow import Airflow
from offset_ledger_kit.sandbox.postgres import Postgres
from tests.paths import ROOT


def plugins_folder(project: Path, home: Path) -> str | None:
    airflow = Airflow(home / "airflow", project, 18080, Postgres(home / "postgres", 15432))
    return airflow.environment().get("AIRFLOW__CORE__PLUGINS_FOLDER")


def test_the_plugins_folder_is_that_of_the_project_if_it_has_one(tmp_path: Path) -> None:
    assert plugins_folder(ROOT, tmp_path) == str(ROOT / "plugins")
    (tmp_path / "project").mkdir()
    assert plugins_folder(tmp_path / "project", tmp_path) is None

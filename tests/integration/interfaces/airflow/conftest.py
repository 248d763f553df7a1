"""The database of an Airflow, migrated once for all that are started here."""

from __future__ import annotations

import shutil

import pytest

from offset_ledger_kit.sandbox.airflow import Airflow
from offset_ledger_kit.sandbox.process import Launch
from offset_ledger_kit.sandbox.stack import Stack
from tests.fixtures.servers import execute


@pytest.fixture(scope="session")
def template_airflow(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Airflow:
    """An Airflow that has a database and never runs."""
    home = tmp_path_factory.mktemp("airflow")
    execute(stack.postgres.connection("postgres"), "CREATE DATABASE airflow_template")
    made = Airflow(home, home, 0, stack.postgres, "airflow_template")
    made.migrate({}, Launch(print))
    return made


def copy_database(template: Airflow, airflow: Airflow) -> None:
    """Let another one find its database as the migration of the template has left it."""
    names = f"{airflow.database} TEMPLATE {template.database} STRATEGY FILE_COPY"
    execute(template.postgres.connection("postgres"), f"CREATE DATABASE {names}")
    airflow.directory.mkdir(parents=True, exist_ok=True)
    shutil.copy(template.directory / "migrated", airflow.directory)

